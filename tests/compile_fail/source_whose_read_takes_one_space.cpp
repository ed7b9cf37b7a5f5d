// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: takes batches in ps::Pageable and in ps::Pinned, and From's those .* <ps::HostSpace W>
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>

namespace ps = penstock;

struct Ones {
  using schema = int;
  std::uint64_t size() const { return 1000; }
#ifdef PENSTOCK_REFUSED
  using Into = ps::Batch<int, ps::Pageable>;
  std::size_t read(Into into) const {
#else
  template <ps::HostSpace Where> std::size_t read(ps::Batch<int, Where> into) const {
#endif
      into.data()[0] = 1;
  return into.size();
}
}
;

int main() {
  auto pipeline = ps::Reader{Ones{}} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
