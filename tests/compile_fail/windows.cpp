// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with windows(), and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>
#include <penstock/sources/fifo.hpp>
#include <penstock/sources/windows.hpp>
#include <penstock/sources/zip.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ps = penstock;

// refused windows_of_no_source: takes tokens that lie in memory, such as a std::vector, or a source
// of them
int main() {
  const std::vector<std::string> paths{"/dev/null"};
#ifdef PENSTOCK_REFUSED
  const auto reader = ps::Reader{ps::records<std::uint16_t>(paths)};
  auto pipeline = ps::Reader{ps::windows(reader, {.length = 10})} |
#else
  auto pipeline = ps::Reader{ps::windows(ps::records<std::uint16_t>(paths), {.length = 10})} |
#endif
                  ps::Consumer{[](ps::Batch<const ps::Window<std::uint16_t>, ps::Pageable>) {}};
  pipeline.run();
}

// refused windows_of_columns: takes a source of plain tokens, such as std::uint16_t, and From's
// records have columns
struct Text : ps::Columns<ps::Field<"token", std::uint16_t>> {};

int main() {
  const std::vector<std::uint16_t> tokens(1000);
#ifdef PENSTOCK_REFUSED
  auto pipeline = ps::Reader{ps::windows(ps::zip<Text>(ps::memory(tokens)), {.length = 10})} |
                  ps::Consumer{[](ps::Batch<const ps::Window<Text>, ps::Pageable>) {}};
#else
  auto pipeline = ps::Reader{ps::windows(ps::memory(tokens), {.length = 10})} |
                  ps::Consumer{[](ps::Batch<const ps::Window<std::uint16_t>, ps::Pageable>) {}};
#endif
  pipeline.run();
}

// refused windows_of_a_live_source: reads whole windows, and From gives fewer tokens for now: write
// them into a file first
int main() {
  const std::string path = "letters";
#ifdef PENSTOCK_REFUSED
  const auto letters = ps::fifo<char>(path);
#else
  const auto letters = ps::records<char>(path);
#endif
  auto pipeline = ps::Reader{ps::windows(letters, {.length = 10})} |
                  ps::Consumer{[](ps::Batch<const ps::Window<char>, ps::Pageable>) {}};
  pipeline.run();
}
