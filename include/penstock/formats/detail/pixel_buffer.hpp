// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/detail/resize_rows.hpp>
#include <penstock/formats/detail/resizer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace penstock::detail {

/// A worker's memory for one picture as it was decoded. It grows to the largest, but for what only
/// few can need.
class PixelBuffer {
 public:
  /// Returns room for so many bytes and what may be read behind them, which is 0. What it held is
  /// lost.
  std::uint8_t* room(std::size_t bytes) {
    if (bytes > room_) {
      memory_.reset();
      room_ = 0;
      memory_.reset(new std::uint8_t[bytes + row_slack]); // not written twice
      room_ = bytes;
    }
    for (std::size_t i = 0; i != row_slack; ++i) {
      memory_[bytes + i] = 0;
    }
    return memory_.get();
  }
  /// Gives memory back that a picture of a usual size does not need.
  void trim() noexcept {
    if (room_ > usual) {
      memory_.reset();
      room_ = 0;
    }
  }

 private:
  static constexpr std::size_t usual = std::size_t{64} << 20;

  std::unique_ptr<std::uint8_t[]> memory_;
  std::size_t room_{};
};

/// Makes grey of four bytes a pixel, in place, weighted as ITU-R 601 does: as Pillow's
/// convert("L").
inline void to_grey(std::uint8_t* pixels, std::size_t count) noexcept {
  for (std::size_t i = 0; i != count; ++i) {
    const std::uint8_t* const p = pixels + 4 * i;
    pixels[i] =
        static_cast<std::uint8_t>((p[0] * 19595U + p[1] * 38470U + p[2] * 7471U + 0x8000U) >> 16);
  }
}

/// Makes red, green, blue of cyan, magenta, yellow, black, in place, all four inverted as Adobe
/// writes them: as Pillow's convert("RGB") does.
inline void from_inverted_cmyk(std::uint8_t* pixels, std::size_t count) noexcept {
  for (std::size_t i = 0; i != count; ++i) {
    std::uint8_t* const p = pixels + 4 * i;
    const unsigned white = p[3];
    for (int c = 0; c != 3; ++c) {
      const unsigned dark = (255U - p[c]) * white + 128;
      p[c] = static_cast<std::uint8_t>(white - (((dark >> 8) + dark) >> 8));
    }
  }
}

} // namespace penstock::detail
