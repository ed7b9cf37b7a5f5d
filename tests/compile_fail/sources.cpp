// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with sources of memory, files and functions, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>
#include <penstock/sources/any_source.hpp>
#include <penstock/sources/channel.hpp>
#include <penstock/sources/zip.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ps = penstock;

struct Sample : ps::Columns<ps::Field<"label", char>, ps::Field<"value", float>> {};

// refused records_that_own_memory: what a Reader reads must be trivially copyable: no std::string
int main() {
  auto pipeline =
#ifdef PENSTOCK_REFUSED
      ps::Reader{ps::records<std::string>("names")} |
      ps::Consumer{[](ps::Batch<const std::string, ps::Pageable>) {}};
#else
      ps::Reader{ps::records<char>("names")} |
      ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
#endif
  pipeline.run();
}

// refused records_with_columns: reads T's as they lie in the files, and T has columns
int main() {
#ifdef PENSTOCK_REFUSED
  auto source = ps::records<Sample>("samples");
#else
  auto source = ps::zip<Sample>(ps::records<char>("labels"), ps::records<float>("values"));
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}

// refused memory_that_owns_memory: what a Reader reads must be trivially copyable: no std::string
int main() {
#ifdef PENSTOCK_REFUSED
  const std::vector<std::string> names(10);
#else
  const std::vector<char> names(10);
#endif
  auto pipeline = ps::Reader{ps::memory(names)} | ps::PinnedStager{};
  static_cast<void>(pipeline);
}

// refused memory_with_columns: reads T's as they lie, and T has columns
int main() {
  const std::vector<char> labels(8);
  const std::vector<float> values(8);
#ifdef PENSTOCK_REFUSED
  const std::vector<Sample> samples(8);
  auto source = ps::memory(samples);
#else
  auto source = ps::zip<Sample>(ps::memory(labels), ps::memory(values));
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}

// refused memory_of_a_temporary: this is a temporary: give it a name that outlives the pipeline
std::vector<char> load() {
  return std::vector<char>(10);
}

int main() {
#ifdef PENSTOCK_REFUSED
  auto pipeline = ps::Reader{ps::memory(load())} |
#else
  const std::vector<char> names = load();
  auto pipeline = ps::Reader{ps::memory(names)} |
#endif
                  ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  pipeline.run();
}

// refused generate_by_other_parameters: generate<T> calls f\(std::span<T> out, std::uint64_t
// first\)
int main() {
  auto pipeline = ps::Reader{ps::generate<char>(10,
#ifdef PENSTOCK_REFUSED
                                                [](char& out) { out = 0; }
#else
[](std::span<char>, std::uint64_t) {}
#endif
                                                )} |
                  ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  pipeline.run();
}

// refused generate_by_a_mutable_lambda: no mutable lambda
int main() {
  std::uint64_t calls = 0;
  auto pipeline =
      ps::Reader{ps::generate<char>(10,
#ifdef PENSTOCK_REFUSED
                                    [calls](std::span<char>, std::uint64_t) mutable { ++calls; }
#else
[calls](std::span<char>, std::uint64_t) { static_cast<void>(calls); }
#endif
                                    )} |
      ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  pipeline.run();
}

// refused generate_without_an_end: in generate<T>\(f\) it returns a std::size_t
int main() {
  auto pipeline = ps::Reader{ps::generate<char>(
#ifdef PENSTOCK_REFUSED
                      [](std::span<char>, std::uint64_t) {}
#else
                      [](std::span<char>, std::uint64_t) -> std::size_t { return 0; }
#endif
                      )} |
                  ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  pipeline.run();
}

// refused generated_records_that_own_memory: what a Reader reads must be trivially copyable: no
// std::string
int main() {
#ifdef PENSTOCK_REFUSED
  using T = std::string;
#else
  using T = char;
#endif
  auto pipeline =
      ps::Reader{ps::generate<T>(10, [](std::span<T>, std::uint64_t) {})} | ps::PinnedStager{};
  static_cast<void>(pipeline);
}

// refused any_source_of_other_records: an AnySource, also in a Share of a mix, holds a source of
// its Schema
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::AnySource<int>{ps::records<float>("floats")};
#else
      ps::AnySource<int>{ps::records<int>("ints")};
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}

// refused channel_of_columns: takes a plain record, which is trivially copyable: push a struct
int main() {
#ifdef PENSTOCK_REFUSED
  ps::Channel<Sample> box;
#else
  ps::Channel<float> box;
#endif
  box.close();
}
