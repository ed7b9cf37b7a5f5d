// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/visit.hpp>
#include <penstock/detail/base/splitmix.hpp>
#include <penstock/formats/image_options.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// A part of a picture, in pixels, with at least one.
struct CropBox {
  std::size_t left, top, width, height;
  bool operator==(const CropBox&) const = default;
};

/// Numbers of one visit's own, which depend on nothing else.
class VisitRandom {
 public:
  VisitRandom(std::uint64_t seed, const Visit& visit) noexcept
      : key_{splitmix(splitmix(seed, visit.record + 1), visit.epoch + 1)} {}

  /// Returns the next number, at least 0, less than 1.
  double next() noexcept { return static_cast<double>(splitmix(key_, ++at_) >> 11) * 0x1p-53; }
  double between(double low, double high) noexcept { return low + (high - low) * next(); }
  /// Returns a whole number from 0 to `most`.
  std::size_t up_to(std::size_t most) noexcept {
    return std::min(most, static_cast<std::size_t>(next() * (static_cast<double>(most) + 1)));
  }

 private:
  std::uint64_t key_;
  std::uint64_t at_{};
};

inline CropBox middle_of(std::size_t width, std::size_t height, double part_width,
                         double part_height) noexcept {
  const auto whole = [](double part, std::size_t of) {
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::nearbyint(part)), 1, of);
  };
  const std::size_t w = whole(part_width, width);
  const std::size_t h = whole(part_height, height);
  return {(width - w) / 2, (height - h) / 2, w, h};
}

/// Returns the largest part of width / height `ratio`, from the middle.
inline CropBox centred_box(std::size_t width, std::size_t height, double ratio) noexcept {
  const auto w = static_cast<double>(width);
  const auto h = static_cast<double>(height);
  return w > h * ratio ? middle_of(width, height, h * ratio, h)
                       : middle_of(width, height, w, w / ratio);
}

/// Returns a part as torchvision's RandomResizedCrop draws it: ten tries, and then from the middle
/// what has the ratio nearest to the picture's.
inline CropBox random_box(std::size_t width, std::size_t height, const ImageOptions& options,
                          VisitRandom& random) noexcept {
  const double in_all = static_cast<double>(width) * static_cast<double>(height);
  const double narrowest = std::log(options.ratio[0]);
  const double widest = std::log(options.ratio[1]);
  for (int tried = 0; tried != 10; ++tried) {
    const double area = in_all * random.between(options.area[0], options.area[1]);
    const double ratio = std::exp(random.between(narrowest, widest));
    const double w = std::nearbyint(std::sqrt(area * ratio));
    const double h = std::nearbyint(std::sqrt(area / ratio));
    if (w >= 1 && h >= 1 && w <= static_cast<double>(width) && h <= static_cast<double>(height)) {
      const auto part_width = static_cast<std::size_t>(w);
      const auto part_height = static_cast<std::size_t>(h);
      const std::size_t top = random.up_to(height - part_height);
      const std::size_t left = random.up_to(width - part_width);
      return {left, top, part_width, part_height};
    }
  }
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  return centred_box(width, height, std::clamp(ratio, options.ratio[0], options.ratio[1]));
}

/// Returns the part of a width x height picture, where width / height is to become `ratio`.
inline CropBox crop_box(std::size_t width, std::size_t height, double ratio,
                        const ImageOptions& options, VisitRandom& random) noexcept {
  switch (options.crop) {
  case Crop::centre:
    return centred_box(width, height, ratio);
  case Crop::random:
    return random_box(width, height, options, random);
  case Crop::none:
    break;
  }
  return {0, 0, width, height};
}

/// Returns the part of the picture when it is shrunk to 1 / `by`: it then has as many pixels as
/// `width` and `height` say.
inline CropBox shrunk(const CropBox& box, std::size_t by, std::size_t width,
                      std::size_t height) noexcept {
  const std::size_t left = box.left / by;
  const std::size_t top = box.top / by;
  const std::size_t right = std::min((box.left + box.width + by - 1) / by, width);
  const std::size_t bottom = std::min((box.top + box.height + by - 1) / by, height);
  return {left, top, right - left, bottom - top};
}

} // namespace penstock::detail
