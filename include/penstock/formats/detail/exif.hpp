// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::detail {

using FileBytes = std::span<const std::uint8_t>;

inline bool begins_with(FileBytes bytes, std::string_view text) noexcept {
  return bytes.size() >= text.size() &&
         std::equal(text.begin(), text.end(), bytes.begin(),
                    [](char c, std::uint8_t byte) { return static_cast<std::uint8_t>(c) == byte; });
}
/// Returns the number of up to four bytes.
inline std::uint32_t number_of(FileBytes bytes, bool big_endian = true) noexcept {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i != bytes.size(); ++i) {
    number = number << 8 | bytes[big_endian ? i : bytes.size() - 1 - i];
  }
  return number;
}

inline constexpr std::string_view exif_mark{"Exif\0\0", 6};

/// Returns the EXIF data of a JPEG file: the first such segment before its first scan. Empty if
/// there is none.
inline FileBytes exif_of_jpeg(FileBytes file) noexcept {
  std::size_t at = 0;
  while (at + 4 <= file.size()) {
    const std::uint8_t kind = file[at + 1];
    if (file[at] != 0xFF || kind == 0xFF || kind == 0) { // what decoders pass over
      ++at;
      continue;
    }
    if (kind == 0xDA) { // the first scan
      break;
    }
    at += 2;
    if (kind == 0x01 || (kind >= 0xD0 && kind <= 0xD9)) { // without a length
      continue;
    }
    const std::size_t length = std::max<std::size_t>(number_of(file.subspan(at, 2)), 2);
    const FileBytes segment = file.subspan(at, std::min(length, file.size() - at)).subspan(2);
    if (kind == 0xE1 && begins_with(segment, exif_mark)) {
      return segment;
    }
    at += length;
  }
  return {};
}

/// Returns the EXIF data of a PNG file: its first eXIf chunk. Empty if there is none.
inline FileBytes exif_of_png(FileBytes file) noexcept {
  std::size_t at = 8; // behind the signature
  while (at + 12 <= file.size()) {
    const FileBytes chunk = file.subspan(at);
    const std::size_t length = number_of(chunk.first(4));
    if (length > chunk.size() - 12 || begins_with(chunk.subspan(4), "IEND")) {
      break;
    }
    if (begins_with(chunk.subspan(4), "eXIf")) {
      return chunk.subspan(8, length);
    }
    at += length + 12;
  }
  return {};
}

/// Returns the orientation that EXIF data says, from 1 to 8; 1, as it is stored, where it says
/// nothing, or nothing that can be read.
inline unsigned exif_orientation(FileBytes exif) noexcept {
  while (begins_with(exif, exif_mark)) {
    exif = exif.subspan(exif_mark.size());
  }
  const bool big_endian = begins_with(exif, "MM");
  if (exif.size() < 8 || !(big_endian || begins_with(exif, "II"))) {
    return 1;
  }
  const auto number = [&](FileBytes bytes) { return number_of(bytes, big_endian); };
  const std::size_t directory = number(exif.subspan(4, 4));
  if (number(exif.subspan(2, 2)) != 42 || directory > exif.size() || exif.size() - directory < 2) {
    return 1;
  }
  constexpr std::size_t entry_bytes = 12;
  constexpr std::uint32_t tag = 0x0112, of_16_bits = 3, of_32_bits = 4;
  const FileBytes entries = exif.subspan(directory + 2);
  const std::size_t count =
      std::min<std::size_t>(number(exif.subspan(directory, 2)), entries.size() / entry_bytes);
  unsigned orientation = 1;
  for (std::size_t i = 0; i != count; ++i) {
    const FileBytes entry = entries.subspan(i * entry_bytes, entry_bytes);
    const std::uint32_t type = number(entry.subspan(2, 2));
    if (number(entry.first(2)) == tag && number(entry.subspan(4, 4)) == 1 &&
        (type == of_16_bits || type == of_32_bits)) {
      orientation = number(entry.subspan(8, type == of_16_bits ? 2 : 4)); // the last one counts
    }
  }
  return orientation >= 1 && orientation <= 8 ? orientation : 1;
}

} // namespace penstock::detail
