// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: one of From gives fewer for now: read it by a Reader of its own
#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

#include <cstddef>
#include <cstdint>

namespace ps = penstock;

struct Pair : ps::Columns<ps::Field<"left", char>, ps::Field<"right", char>> {};

struct Letters {
  using schema = char;
  std::uint64_t size() const { return 1000; }
#ifdef PENSTOCK_REFUSED
  template <ps::HostSpace W> ps::Filled read(ps::Batch<char, W> into, const ps::Patience&) const {
    into.data()[0] = 'a';
    return ps::for_now(1);
  }
#else
  template <ps::HostSpace W>
  std::size_t read(ps::Batch<char, W> into, const ps::Patience&) const {
    into.data()[0] = 'a';
    return into.size();
  }
#endif
};

int main() {
  auto pipeline = ps::Reader{ps::zip<Pair>(Letters{}, Letters{})} |
                  ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}
