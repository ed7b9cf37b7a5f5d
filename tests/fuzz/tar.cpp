// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Finds the members of any bytes taken for a tar archive, and of those with right checksums, which
// a fuzzer seldom finds; groups them into samples; and reads the bytes as a kept index.

#include "fuzz/target.hpp"

#include <penstock/formats/detail/tar_header.hpp>
#include <penstock/formats/detail/tar_index.hpp>
#include <penstock/formats/detail/tar_samples.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/io/posix.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace {

// Rights the checksum of each block that looks like a header.
std::string with_sums(std::string_view text) {
  std::string right{text};
  for (std::size_t at = 0; at + 512 <= right.size(); at += 512) {
    if (right[at] == '\0' || (right[at + 148] == '\0' && right[at + 257] != 'u')) {
      continue;
    }
    right.replace(at + 148, 8, 8, ' ');
    unsigned sum = 0;
    for (std::size_t i = 0; i != 512; ++i) {
      sum += static_cast<unsigned char>(right[at + i]);
    }
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    right.replace(at + 148, 7, std::string{digits, 7});
  }
  return right;
}

} // namespace

PENSTOCK_FUZZ_TARGET(fuzz_tar) {
  using namespace penstock::detail;
  const std::string text{reinterpret_cast<const char*>(input.data()), input.size()};
  const penstock::FileStatus status{.size = input.size(), .modified = 5};
  for (const std::string& archive : {text, with_sums(text)}) {
    const auto bytes = std::as_bytes(std::span{archive});
    as_file(bytes, bytes.size(), [&](const HeaderFile& file) {
      const TarIndex index{file};
      const std::array<std::string_view, 2> columns{"jpg;png", "cls"};
      TarSamples samples{columns};
      std::uint64_t end = 0;
      index.each([&](std::string_view name, std::uint64_t data, std::uint64_t count, char type) {
        must(name.find('\0') == std::string_view::npos);
        must(data % tar_block == 0 && data >= end + tar_block);
        must(data <= bytes.size() && count <= bytes.size() - data);
        end = data + count;
        if (type == '0') {
          samples.add(name, data, count);
        } else {
          must(type != '5' && !tar_kind(type).is.empty());
          must(!samples.column_of(name) || !TarName{name}.key.empty());
        }
      });
      samples.end();
      for (std::uint64_t i = 0; i != samples.size(); ++i) {
        must(!samples.key(i).empty() && samples[i].size() == 2);
      }
      const std::string kept = index.kept(status);
      const std::optional<TarIndex> again = TarIndex::from_kept(kept, status);
      must(again && again->kept(status) == kept);
      const penstock::FileStatus later{.size = status.size, .modified = 6};
      must(!TarIndex::from_kept(kept, later));
    });
  }
  // Any bytes as an index of this archive, with the right beginning and end.
  std::string kept{"penstock tar 2\n"};
  kept.append(reinterpret_cast<const char*>(&status.size), 8);
  kept.append(reinterpret_cast<const char*>(&status.modified), 8);
  kept += text;
  const std::uint64_t crc = penstock::crc32c(std::as_bytes(std::span{kept}));
  kept.append(reinterpret_cast<const char*>(&crc), 8);
  if (const std::optional<TarIndex> index = TarIndex::from_kept(kept, status)) {
    must(index->kept(status) == kept);
    index->each([&](std::string_view, std::uint64_t data, std::uint64_t count, char) {
      must(data <= status.size && count <= status.size - data);
    });
  }
}
