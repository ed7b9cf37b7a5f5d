// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a frozen batch has no index\(\) and no source_index\(\): its work is captured once
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Sum {
  const int* in;
  int* out;
  void operator()(std::size_t i) const { *out += in[i]; }
};

int main() {
  ps::HostDevice device;
  int sum = 0;
  auto pipeline = ps::Reader{ps::records<int>("numbers")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} |
                  ps::Consumer{ps::replayed([&](ps::FrozenBatch<const int> in, ps::HostStream& s) {
#ifdef PENSTOCK_REFUSED
                    ps::for_each(s, in.index() + in.size(), Sum{in.data(), &sum});
#else
                    ps::for_each(s, in.size(), Sum{in.data(), &sum});
#endif
                  })};
  pipeline.run();
}
