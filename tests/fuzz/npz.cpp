// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Reads any bytes as an archive with an array a, and as deflated data by itself, since a fuzzer
// seldom finds a CRC-32 that fits.

#include "fuzz/target.hpp"

#include <penstock/detail/base/owners.hpp>
#include <penstock/formats/npz.hpp>
#include <penstock/formats/zlib_inflate.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

PENSTOCK_FUZZ_TARGET(fuzz_npz) {
  using namespace penstock::detail;
  constexpr std::uint64_t most = std::uint64_t{1} << 20;
  const auto left = new_shared<BytesLeft>(most);
  as_file(input, input.size(), [&](const HeaderFile& file) {
    const NpzFormat format{"a", penstock::zlib_inflate, left};
    const CheckedArray array = format.array(file, {{'V', 1}, true, {}});
    const std::uint64_t size = array.in_memory ? array.in_memory->bytes().size() : file.size();
    must(array.record_bytes != 0 && array.offset <= size && size <= most);
    must(array.records <= (size - array.offset) / array.record_bytes);
  });
  must(left->now() == most);

  std::array<std::byte, 5000> into;
  const std::size_t room = input.empty() ? 0 : std::to_integer<std::size_t>(input[0]) * 19;
  std::span<const std::byte> rest = input;
  const auto next = [&] {
    const auto piece = rest.first(std::min<std::size_t>(rest.size(), 1 + room % 7));
    rest = rest.subspan(piece.size());
    return piece;
  };
  const penstock::Inflated done = penstock::zlib_inflate(next, std::span{into}.first(room));
  must(done.bytes <= room && done.unused <= 7);
}
