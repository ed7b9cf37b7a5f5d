// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with zip(), and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

#include <cstddef>
#include <cstdint>

namespace ps = penstock;

// refused zip_of_no_source: zip<Schema>\(sources\.\.\.\) reads each column from a source, such as
// ps::records<T>\(path\)
struct Pair : ps::Columns<ps::Field<"left", char>, ps::Field<"right", char>> {};

int main() {
  auto pipeline =
      ps::Reader{
#ifdef PENSTOCK_REFUSED
          ps::zip<Pair>(ps::records<char>("left"), "right")
#else
          ps::zip<Pair>(ps::records<char>("left"), ps::records<char>("right"))
#endif
      } |
      ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}

// refused zip_of_one_source_for_two_columns: takes one source for each column of the schema
struct Pair : ps::Columns<ps::Field<"left", char>, ps::Field<"right", char>> {};

int main() {
  auto pipeline =
      ps::Reader{
#ifdef PENSTOCK_REFUSED
          ps::zip<Pair>(ps::records<char>("left"))
#else
          ps::zip<Pair>(ps::records<char>("left"), ps::records<char>("right"))
#endif
      } |
      ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}

// refused zip_of_a_live_source: one of From gives fewer for now: read it by a Reader of its own
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

// refused zip_into_whole_records: zip<Schema> fills the columns of a schema: derive it from
// ps::Columns
#ifdef PENSTOCK_REFUSED
struct Pair {
  char left, right;
};
#else
struct Pair : ps::Columns<ps::Field<"left", char>, ps::Field<"right", char>> {};
#endif
int main() {
  auto pipeline = ps::Reader{ps::zip<Pair>(ps::records<char>("left"), ps::records<char>("right"))} |
                  ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}

// refused zip_into_a_ragged_column: zip\(\) cannot fill a Ragged column: write a source
struct Pair : ps::Columns<ps::Field<"left", char>,
#ifdef PENSTOCK_REFUSED
                          ps::Field<"right", ps::Ragged<char>>
#else
                          ps::Field<"right", char>
#endif
                          > {
};

int main() {
  auto pipeline = ps::Reader{ps::zip<Pair>(ps::records<char>("left"), ps::records<char>("right"))} |
                  ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}

// refused zip_into_two_dynamic_extents: a column may have one at most
struct Pair : ps::Columns<ps::Field<"left", char>,
#ifdef PENSTOCK_REFUSED
                          ps::Field<"right", char, ps::dynamic, ps::dynamic>
#else
                          ps::Field<"right", char, ps::dynamic>
#endif
                          > {
};

int main() {
  auto pipeline = ps::Reader{ps::zip<Pair>(ps::records<char>("left"), ps::records<char>("right"))} |
                  ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}
