// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::detail {

/// How `in` values in a row become `out`: each is a sum of neighbours, weighted by a triangle that
/// is two values wide, or two of the wider steps when it shrinks. That is what Pillow's
/// Image.BILINEAR does. Weights are whole numbers that add up to 2^shift for each value, and have
/// 14 significant bits or more at the triangle's tip, so that they fit 16 bits.
class ResizeWeights {
 public:
  ResizeWeights() = default;
  /// Both are at least 1, and below 2^31.
  ResizeWeights(std::size_t in, std::size_t out) : in_{in}, out_{out}, first_(out) {
    const double scale = static_cast<double>(in) / static_cast<double>(out);
    const double support = std::max(scale, 1.0);
    const auto from = [&](std::size_t x) {
      const double centre = (static_cast<double>(x) + 0.5) * scale;
      return static_cast<std::size_t>(std::max(centre - support + 0.5, 0.0));
    };
    const auto to = [&](std::size_t x) {
      const double centre = (static_cast<double>(x) + 0.5) * scale;
      return std::min(static_cast<std::size_t>(centre + support + 0.5), in);
    };
    for (std::size_t x = 0; x != out; ++x) {
      taps_ = std::max(taps_, to(x) - from(x));
    }
    taps_ += taps_ % 2; // taken in pairs
    weights_.assign(out * taps_, 0);
    std::vector<double> exact(out * taps_);
    double largest = 0;
    for (std::size_t x = 0; x != out; ++x) {
      const double centre = (static_cast<double>(x) + 0.5) * scale;
      // As many weights as the others have must end with the row, or one value behind it.
      const std::size_t begin = std::min(from(x), in > taps_ ? in - taps_ : 0);
      first_[x] = static_cast<std::uint32_t>(begin);
      double* const row = exact.data() + x * taps_;
      double sum = 0;
      for (std::size_t i = from(x); i != to(x); ++i) {
        const double away = std::abs((static_cast<double>(i) - centre + 0.5) / support);
        sum += row[i - begin] = std::max(1 - away, 0.0);
      }
      for (std::size_t tap = 0; tap != taps_; ++tap) {
        largest = std::max(largest, row[tap] /= sum);
      }
    }
    while (shift_ != most_shift && std::ldexp(largest, static_cast<int>(shift_) + 1) < 32766) {
      ++shift_;
    }
    for (std::size_t x = 0; x != out; ++x) {
      // What rounding leaves over goes to the next weight, so that the sum is exact, and smooth
      // neighbours come out smooth even where many weights are small.
      double over = 0;
      for (std::size_t tap = 0; tap != taps_; ++tap) {
        const double wanted = std::ldexp(exact[x * taps_ + tap], static_cast<int>(shift_));
        if (wanted > 0) {
          const double whole = std::max(std::nearbyint(wanted + over), 0.0);
          over += wanted - whole;
          weights_[x * taps_ + tap] = static_cast<std::int16_t>(whole);
        }
      }
    }
  }

  std::size_t in() const noexcept { return in_; }
  std::size_t out() const noexcept { return out_; }
  /// How many weights each value has, an even number. Of an odd row one may stand behind
  /// the end, and is 0.
  std::size_t taps() const noexcept { return taps_; }
  unsigned shift() const noexcept { return shift_; }
  /// The first value that counts for value `x`, and the weights from there on.
  /// @{
  std::size_t first(std::size_t x) const noexcept { return first_[x]; }
  const std::int16_t* weights(std::size_t x) const noexcept { return weights_.data() + x * taps_; }
  /// @}

 private:
  static constexpr unsigned most_shift = 22; // sums of 8-bit values then fit 32 bits

  std::size_t in_{};
  std::size_t out_{};
  std::size_t taps_{};
  unsigned shift_{};
  std::vector<std::uint32_t> first_;
  std::vector<std::int16_t> weights_;
};

} // namespace penstock::detail
