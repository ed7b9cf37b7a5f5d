// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Finds the lines of any text, and compares each with what a plain loop finds.

#include "fuzz/target.hpp"

#include <penstock/detail/base/vector.hpp>
#include <penstock/formats/detail/text_files.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace ps = penstock;

PENSTOCK_FUZZ_TARGET(fuzz_lines) {
  constexpr std::size_t piece = ps::detail::LineEnds::piece_bytes;
  constexpr std::size_t block = std::size_t{1} << 15;
  // Every fourth byte says how far a stretch without line ends goes on before what follows, so that
  // few bytes reach over the borders of blocks and pieces.
  std::string text;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const auto byte = std::to_integer<unsigned>(input[i]);
    if (i % 4 == 3 && byte > 200) {
      text.append(byte % 2 == 0 ? block - 1 - text.size() % block : piece - 1, 'x');
    } else {
      text += "\n\rx\0"[byte % 4];
    }
    if (text.size() > 4 * piece) {
      break;
    }
  }
  const auto bytes = std::as_bytes(std::span{text});
  std::uint64_t longest = 0;
  std::uint64_t told = 0; // lines
  const auto length = [&](std::uint64_t line) {
    longest = std::max(longest, line);
    ++told;
  };
  ps::detail::Vector<ps::detail::LineEnds> pieces;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const std::byte before = at == 0 ? std::byte{} : bytes[at - 1];
    pieces.push_back(ps::detail::LineEnds{bytes.subspan(at, std::min(piece, bytes.size() - at)),
                                          before, length});
  }
  const ps::detail::LineIndex index{std::move(pieces), text.size(), length};
  std::uint64_t number = 0;
  std::uint64_t found_longest = 0;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t found = std::min(text.find('\n', begin), text.size());
    const bool two = found != text.size() && found != begin && text[found - 1] == '\r';
    must(number < index.size());
    const auto line = index[number];
    must(line.begin == begin && line.end == found - (two ? 1 : 0));
    found_longest = std::max<std::uint64_t>(found_longest, line.end - line.begin);
    begin = found + 1;
  }
  // Behind the last end stands a line that may be empty, and is none then.
  must(number == index.size() && longest == found_longest);
  must(told == number || told == number + 1);
}
