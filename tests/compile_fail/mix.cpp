// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with a mix, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>
#include <penstock/sources/concat.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/slice.hpp>
#include <penstock/sources/where.hpp>
#include <penstock/sources/windows.hpp>
#include <penstock/sources/zip.hpp>

#include <vector>

namespace ps = penstock;

// refused mix_of_a_path: an AnySource, also in a Share of a mix, holds a source, such
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::mix<int>({{ps::records<int>("ints"), 7}, {"more", 3}});
#else
      ps::mix<int>({{ps::records<int>("ints"), 7}, {ps::records<int>("more"), 3}});
#endif
  source.open();
}

// refused mix_of_other_records: an AnySource, also in a Share of a mix, holds a source of its
// Schema
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::mix<int>({{ps::records<int>("ints"), 7}, {ps::records<float>("floats"), 3}});
#else
      ps::mix<int>({{ps::records<int>("ints"), 7}, {ps::records<int>("ints"), 3}});
#endif
  source.open();
}

// refused mix_of_an_unnamed_schema: mix\(\{\{a, 7\}, \{b, 3\}\}\) does not know what the records
// are
int main() {
  const std::vector<int> more(9);
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::mix({{ps::records<int>("ints"), 7}, {ps::memory(more), 3}});
#else
      ps::mix<int>({{ps::records<int>("ints"), 7}, {ps::memory(more), 3}});
#endif
  source.open();
}

// refused concat_of_a_mix: a mix has no first or last records: call concat\(\) of its parts
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::concat(ps::records<int>("ints"), ps::mix<int>({{ps::records<int>("ints"), 1}}));
#else
      ps::concat(ps::records<int>("ints"), ps::records<int>("ints"));
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}

// refused drop_of_a_mix: a mix has no first or last records: take or drop of its parts
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::drop(ps::mix<int>({{ps::records<int>("ints"), 1}}), 100);
#else
      ps::drop(ps::records<int>("ints"), 100);
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}

// refused where_of_a_mix: the records of a mix come in an order of its own: call where\(\) of its
// parts
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::where(ps::mix<int>({{ps::records<int>("ints"), 1}}), {1, 2});
#else
      ps::where(ps::records<int>("ints"), {1, 2});
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}

// refused windows_of_a_mix: a mix has an order of its own, which windows\(\) would lose
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::windows(ps::mix<int>({{ps::records<int>("ints"), 1}}), {.length = 10});
#else
      ps::windows(ps::records<int>("ints"), {.length = 10});
#endif
  auto pipeline =
      ps::Reader{source} | ps::Consumer{[](ps::Batch<const ps::Window<int>, ps::Pageable>) {}};
  pipeline.run();
}

// refused zip_of_a_mix: a mix has an order of its own, which zip\(\) would lose
struct Pair : ps::Columns<ps::Field<"left", int>, ps::Field<"right", int>> {};

int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::zip<Pair>(ps::records<int>("ints"), ps::mix<int>({{ps::records<int>("ints"), 1}}));
#else
      ps::zip<Pair>(ps::records<int>("ints"), ps::records<int>("ints"));
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}
