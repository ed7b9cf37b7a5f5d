// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: out of a noexcept callable that ends the process: take the noexcept away
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Text : ps::Columns<ps::Field<"text", ps::Ragged<char>>, ps::Field<"label", int>> {};

struct Decode {
  void operator()(const Frame& /*frame*/, ps::Row<Text> out) const
#ifdef PENSTOCK_REFUSED
      noexcept
#endif
  {
    ps::put<"text">(out, 0);
  }
};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{ps::each_worker([] { return Decode{}; })} |
                  ps::Consumer{[](ps::Batch<const Text, ps::Pageable>) {}};
  pipeline.run();
}
