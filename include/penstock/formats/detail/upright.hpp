// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/detail/crop_box.hpp>
#include <penstock/formats/detail/pixel_buffer.hpp>
#include <penstock/formats/detail/resizer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// How a picture becomes upright that is stored in an orientation of EXIF's: its rows and columns
/// change places, it is mirrored, or both.
class Upright {
 public:
  /// From 1, which is upright, to 8.
  explicit Upright(unsigned orientation) noexcept
      : turns_{orientation >= 5},
        from_right_{orientation == 2 || orientation == 3 || orientation >= 7},
        from_below_{orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7} {}

  bool as_stored() const noexcept { return !turns_ && !from_right_ && !from_below_; }
  /// Whether the upright width is the stored height.
  bool turns() const noexcept { return turns_; }

  /// Returns where a part of the upright picture lies in the stored one, which has this size.
  CropBox stored(const CropBox& upright, std::size_t width, std::size_t height) const noexcept {
    CropBox box = upright;
    if (turns_) {
      box = {box.top, box.left, box.height, box.width};
    }
    if (from_right_) {
      box.left = width - box.left - box.width;
    }
    if (from_below_) {
      box.top = height - box.top - box.height;
    }
    return box;
  }

  /// Returns the part of a stored picture, upright and by itself, in `memory`.
  template <std::size_t stride> DecodedPicture part_of(const DecodedPicture& stored,
                                                       PixelBuffer& memory) const {
    const CropBox& box = stored.box;
    const std::size_t width = turns_ ? box.height : box.width;
    const std::size_t height = turns_ ? box.width : box.height;
    std::uint8_t* const to = memory.room(width * height * stride);
    const auto row = static_cast<std::ptrdiff_t>(stored.pixels.width * stride);
    const std::ptrdiff_t across = from_right_ ? -std::ptrdiff_t{stride} : std::ptrdiff_t{stride};
    const std::ptrdiff_t down = from_below_ ? -row : row;
    const std::uint8_t* const first =
        stored.pixels.data + ((box.top + (from_below_ ? box.height - 1 : 0)) * stored.pixels.width +
                              box.left + (from_right_ ? box.width - 1 : 0)) *
                                 stride;
    const std::ptrdiff_t right = turns_ ? down : across; // of the upright picture
    const std::ptrdiff_t below = turns_ ? across : down;
    constexpr std::size_t rows = 16; // of a turned picture, which are neighbours in the stored one
    for (std::size_t begin = 0; begin < height; begin += rows) {
      const std::size_t end = std::min(begin + rows, height);
      for (std::size_t x = 0; x != width; ++x) {
        const std::uint8_t* const from = first + static_cast<std::ptrdiff_t>(x) * right;
        for (std::size_t y = begin; y != end; ++y) {
          std::memcpy(to + (y * width + x) * stride, from + static_cast<std::ptrdiff_t>(y) * below,
                      stride);
        }
      }
    }
    return {{to, width, height}, {0, 0, width, height}};
  }

 private:
  bool turns_;
  bool from_right_; // of the stored picture
  bool from_below_;
};

} // namespace penstock::detail
