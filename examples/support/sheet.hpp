// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <png.h>

/// Up to 64 pictures side by side, to look at.
class Sheet {
 public:
  /// For square pictures of `size` pixels a side, three channels.
  explicit Sheet(std::size_t size)
      : size_{size}, pixels_(columns * columns * 3 * size * size, std::uint8_t{255}) {}

  bool full() const noexcept { return count_ == columns * columns; }
  /// Adds a picture, channel by channel.
  void add(const std::uint8_t* planes) {
    const std::size_t left = count_ % columns * size_;
    const std::size_t top = count_ / columns * size_;
    for (std::size_t channel = 0; channel != 3; ++channel) {
      for (std::size_t y = 0; y != size_; ++y) {
        for (std::size_t x = 0; x != size_; ++x) {
          pixels_[((top + y) * columns * size_ + left + x) * 3 + channel] =
              planes[(channel * size_ + y) * size_ + x];
        }
      }
    }
    ++count_;
  }
  /// Writes as many rows as have pictures into a PNG file.
  void write(const std::string& path) const {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.format = PNG_FORMAT_RGB;
    image.width = static_cast<png_uint_32>(columns * size_);
    image.height = static_cast<png_uint_32>((count_ + columns - 1) / columns * size_);
    if (png_image_write_to_file(&image, path.c_str(), 0, pixels_.data(), 0, nullptr) == 0) {
      throw std::runtime_error{"cannot write " + path + ": " + image.message};
    }
  }

 private:
  static constexpr std::size_t columns = 8;

  std::size_t size_;
  std::size_t count_ = 0;
  std::vector<std::uint8_t> pixels_;
};
