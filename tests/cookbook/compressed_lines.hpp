// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/interleaved.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ps = penstock;

/// Makes a chain that gives the tokens of `.jsonl.zst` files, one by one. `tokenize(line, add)`
/// calls add(token) for each token of a document.
template <class Tokenize>
auto tokens_of(std::vector<std::string> paths, Tokenize tokenize) {
  constexpr std::size_t room = std::size_t{64} << 20; // for the lines of a slot
  return ps::Reader{ps::interleaved<ps::Line>(std::move(paths), ps::Zstd{}),
                    {.batch = 256, .value_bytes = room}} |
         ps::Decoder{
             [tokenize](ps::Row<const ps::Line> document, ps::Output<std::uint32_t>& tokens) {
               const auto text = ps::get<"text">(document);
               tokenize(std::string_view{text.data(), text.size()},
                        [&](std::uint32_t token) { tokens.push(token); });
             }};
}
