// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/detail/crop_box.hpp>
#include <penstock/formats/detail/fast_rows.hpp>
#include <penstock/formats/detail/resize_rows.hpp>
#include <penstock/formats/detail/resize_weights.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::detail {

/// Pixels in memory, row by row, of 1 byte (grey) or 4 (red, green, blue, and one that does not
/// count). row_slack bytes behind the last may be read.
struct Pixels {
  const std::uint8_t* data;
  std::size_t width, height;
};

/// What is wanted of a picture: its size, and whether its decoder may shrink it.
struct Wanted {
  std::size_t width, height;
  bool scaled;
};
/// A picture, and the part of it that is taken.
struct DecodedPicture {
  Pixels pixels;
  CropBox box;
};

/// Resizes parts of pictures, of 1 or 4 bytes a pixel, to one size, into planes: 1 or 3. It
/// keeps what it has worked out and its memory, so each thread has one. Rows = PlainRows is for
/// tests.
template <std::size_t stride, class Rows = FastRows> class Resizer {
  static_assert(stride == 1 || stride == 4);

 public:
  /// Will make pictures of this size, at least 1 each.
  Resizer(std::size_t width, std::size_t height) : width_{width}, height_{height} {}

  /// Writes planes of width x height bytes to `out`. The part must lie in the picture.
  void operator()(const Pixels& from, const CropBox& box, bool flip, std::uint8_t* out) {
    const ResizeWeights& across = of(across_, box.width, width_);
    const ResizeWeights& down = of(down_, box.height, height_);
    const std::size_t values = box.width * stride;
    row_.resize(std::max(row_.size(), values + across.taps() * stride + row_slack));
    rows_.resize(down.taps());
    loops_.template begin<stride>(across, flip);
    for (std::size_t y = 0; y != height_; ++y) {
      for (std::size_t tap = 0; tap != rows_.size(); ++tap) {
        const std::size_t row = std::min(down.first(y) + tap, box.height - 1); // behind: weighs 0
        rows_[tap] = from.data + ((box.top + row) * from.width + box.left) * stride;
      }
      loops_.down(rows_.data(), down, y, values, row_.data());
      const std::size_t plane = width_ * height_;
      std::uint8_t* const at = out + y * width_;
      const std::array<std::uint8_t*, 3> planes{at, at + plane, at + 2 * plane};
      loops_.template across<stride>(row_.data(), planes.data());
    }
  }

 private:
  // Of the lengths that crops have, some come again, as do those of whole pictures.
  using Known = std::array<ResizeWeights, 64>;

  static const ResizeWeights& of(Known& known, std::size_t in, std::size_t out) {
    ResizeWeights& here = known[in % known.size()];
    if (here.in() != in) {
      here = ResizeWeights{in, out};
    }
    return here;
  }

  std::size_t width_;
  std::size_t height_;
  Known across_;
  Known down_;
  Rows loops_;
  std::vector<const std::uint8_t*> rows_;
  std::vector<std::uint16_t> row_;
};

} // namespace penstock::detail
