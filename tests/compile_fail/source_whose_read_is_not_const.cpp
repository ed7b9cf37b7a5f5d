// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: many threads call a source's read\(\) at once, and From's is not const: make it const
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>

namespace ps = penstock;

struct Ones {
  using schema = int;
  std::uint64_t size() const { return 1000; }
  template <ps::HostSpace Where>
  std::size_t read(ps::Batch<int, Where> into)
#ifndef PENSTOCK_REFUSED
      const
#endif
  {
    into.data()[0] = 1;
    return into.size();
  }
};

int main() {
  auto pipeline = ps::Reader{Ones{}} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
