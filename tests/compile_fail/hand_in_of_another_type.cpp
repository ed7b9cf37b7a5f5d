// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: hand_in is called with what make\(\) returned, see Made, by reference
#include <penstock/penstock.hpp>

#include <cstddef>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Count {
  void operator()(ps::Batch<const Frame, ps::Pageable> batch) { frames += batch.size(); }
  std::size_t frames{};
};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      ps::each_worker([] { return Count{}; }, [](std::size_t&) {})
#else
                      ps::each_worker([] { return Count{}; }, [](Count&) {})
#endif
                  };
  pipeline.run();
}
