// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The recipe of docs/cookbook.md on packed text.

#include "cookbook/packed_lines.hpp"
#include "support/catch.hpp"
#include "support/packed_files.hpp"
#include "support/temp_dir.hpp"

#include <penstock/penstock.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ps = penstock;
using namespace ps::tests;

TEST_CASE("lines of packed files become tokens") {
  const TempDir dir;
  const std::vector<std::string> paths{dir.write("a", zstd_frame("ab\ncd\n")),
                                       dir.write("b", zstd_frame("x\n\ny"))};
  std::string tokens;
  auto pipeline = tokens_of(paths,
                            [](std::string_view line, auto add) {
                              for (const char c : line) {
                                add(static_cast<std::uint32_t>(c));
                              }
                            }) |
                  ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Pageable> batch) {
                    for (const std::uint32_t token : std::span{batch.data(), batch.size()}) {
                      tokens += static_cast<char>(token);
                    }
                  }};
  pipeline.run();
  CHECK(tokens == "abcdxy");
}
