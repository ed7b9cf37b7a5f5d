// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with concat(), take(), drop() and where(), and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>
#include <penstock/sources/concat.hpp>
#include <penstock/sources/slice.hpp>
#include <penstock/sources/where.hpp>

namespace ps = penstock;

// refused concat_of_a_path: concat\(a, b, \.\.\.\) joins sources, such as
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::concat(ps::records<int>("ints"), "more");
#else
      ps::concat(ps::records<int>("ints"), ps::records<int>("more"));
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}

// refused concat_of_other_records: concat\(a, b, \.\.\.\) joins sources of one schema
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::concat(ps::records<int>("ints"), ps::records<float>("floats"));
#else
      ps::concat(ps::records<int>("ints"), ps::records<int>("more"));
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}

// refused take_of_a_path: take\(source, n\) and drop\(source, n\) are of a source
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::take("ints", 100);
#else
      ps::take(ps::records<int>("ints"), 100);
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}

// refused where_of_a_path: where\(source, numbers\) is of a source
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::where("ints", {1, 2});
#else
      ps::where(ps::records<int>("ints"), {1, 2});
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}

// refused where_by_a_predicate: where\(source, numbers\) takes the numbers of the records
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::where(ps::records<int>("ints"), [](int i) { return i > 3; });
#else
      ps::where(ps::records<int>("ints"), {4, 5});
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
