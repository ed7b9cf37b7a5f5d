// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace penstock::detail {

/// How `in` values in a row become `out`: each is a sum of neighbours, weighted by a triangle that
/// is two values wide, or two of the wider steps when it shrinks. That is what Pillow's
/// Image.BILINEAR does. Weights are whole numbers of 16 bits that add up to 2^shift for each value,
/// or to one less.
class ResizeWeights {
 public:
  /// Where each value has at most so many weights, shift is 16, and products are cut to 16 bits
  /// before they are added: all that is lost stays below half of 1 / 255, so that a resize is never
  /// more than 1 from Pillow's, which rounds in between.
  static constexpr std::size_t most_narrow = 64;

  ResizeWeights() = default;
  /// Both are at least 1, and below 2^30.
  ResizeWeights(std::size_t in, std::size_t out) : in_{in}, out_{out}, first_(out) {
    // In units of 1 / (2 out) of a step, everything is whole, and the same on every machine: value
    // x of `out` has its centre at (2 x + 1) in, value i of `in` at (2 i + 1) out.
    const auto step = static_cast<std::int64_t>(2 * out);
    const auto support = static_cast<std::int64_t>(2 * std::max(in, out));
    const auto centre = [&](std::size_t x) { return static_cast<std::int64_t>((2 * x + 1) * in); };
    const auto offset = static_cast<std::int64_t>(out);
    for (std::size_t x = 0; x != out; ++x) {
      const std::int64_t before = centre(x) - support - offset;
      const std::int64_t behind = centre(x) + support - offset;
      first_[x] = before < 0 ? 0 : static_cast<std::uint32_t>(before / step + 1);
      const auto end = static_cast<std::size_t>((behind + step - 1) / step);
      taps_ = std::max(taps_, std::min(end, in) - first_[x]);
    }
    // No weight is more than 4 / 3 of what the triangle's tip would be without an edge near it.
    while (wide() && shift_ != most_shift &&
           (std::uint64_t{4} << shift_) * out < most_weight * in) {
      ++shift_;
    }
    const double whole = std::ldexp(1.0, static_cast<int>(shift_));
    weights_.assign(out * taps_, 0);
    std::vector<std::int64_t> sums(taps_);
    for (std::size_t x = 0; x != out; ++x) {
      std::int64_t sum = 0;
      for (std::size_t tap = 0; tap != taps_; ++tap) {
        const auto i = static_cast<std::int64_t>(first_[x] + tap);
        const std::int64_t height = support - std::abs(i * step + offset - centre(x));
        sums[tap] = sum += first_[x] + tap < in ? std::max<std::int64_t>(height, 0) : 0;
      }
      // It is sums that are rounded, so that smooth neighbours come out smooth even where many
      // weights are small.
      std::uint64_t done = 0;
      for (std::size_t tap = 0; tap != taps_; ++tap) {
        const auto until = static_cast<std::uint64_t>(
            static_cast<double>(sums[tap]) / static_cast<double>(sum) * whole + 0.5);
        weights_[x * taps_ + tap] = static_cast<std::uint16_t>(std::min(until - done, most_weight));
        done = until;
      }
    }
  }

  std::size_t in() const noexcept { return in_; }
  std::size_t out() const noexcept { return out_; }
  /// How many weights each value has. The last may stand behind the end, and are 0.
  std::size_t taps() const noexcept { return taps_; }
  unsigned shift() const noexcept { return shift_; }
  bool wide() const noexcept { return taps_ > most_narrow; }
  /// The first value that counts for value `x`, and the weights from there on.
  /// @{
  std::size_t first(std::size_t x) const noexcept { return first_[x]; }
  const std::uint16_t* weights(std::size_t x) const noexcept { return weights_.data() + x * taps_; }
  /// @}

 private:
  static constexpr unsigned most_shift = 22; // sums of 8-bit values then fit 32 bits
  static constexpr std::uint64_t most_weight = 65535;

  std::size_t in_{};
  std::size_t out_{};
  std::size_t taps_{};
  unsigned shift_{16};
  std::vector<std::uint32_t> first_;
  std::vector<std::uint16_t> weights_;
};

} // namespace penstock::detail
