// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/decoders/detail/crop_box.hpp>
#include <penstock/decoders/detail/resize_rows.hpp>
#include <penstock/decoders/detail/resize_weights.hpp>

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
  Resizer(std::size_t width, std::size_t height)
      : width_{width}, height_{height}, made_(width * stride + row_slack) {}

  /// Writes planes of width x height bytes to `out`. The part must lie in the picture.
  void operator()(const Pixels& from, const CropBox& box, bool flip, std::uint8_t* out) {
    const ResizeWeights& across = of(across_, box.width, width_);
    const ResizeWeights& down = of(down_, box.height, height_);
    const std::size_t row_bytes = width_ * stride;
    // A row that was squeezed across is needed for the next few rows down, and never again.
    const std::size_t held = down.taps();
    rows_.resize(std::max(rows_.size(), held * row_bytes));
    pointers_.resize(held);
    std::size_t done = 0;
    for (std::size_t y = 0; y != height_; ++y) {
      const std::size_t first = down.first(y);
      const std::size_t end = std::min(first + held, box.height);
      for (done = std::max(done, first); done != end; ++done) {
        Rows::template across<stride>(from.data +
                                          ((box.top + done) * from.width + box.left) * stride,
                                      rows_.data() + done % held * row_bytes, across, flip);
      }
      for (std::size_t tap = 0; tap != held; ++tap) {
        const std::size_t row = std::min(first + tap, box.height - 1); // behind the end: weighs 0
        pointers_[tap] = rows_.data() + row % held * row_bytes;
      }
      std::uint8_t* const at = out + y * width_;
      std::uint8_t* const made = stride == 1 ? at : made_.data();
      Rows::down(pointers_.data(), down.weights(y), held, down.shift(), row_bytes, made);
      if constexpr (stride == 4) {
        const std::size_t plane = width_ * height_;
        const std::array<std::uint8_t*, 3> planes{at, at + plane, at + 2 * plane};
        Rows::split(made, width_, planes.data());
      }
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
  std::vector<std::uint8_t> rows_;
  std::vector<std::uint8_t> made_;
  std::vector<const std::uint8_t*> pointers_;
};

} // namespace penstock::detail
