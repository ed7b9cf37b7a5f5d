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

namespace penstock::detail {

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
