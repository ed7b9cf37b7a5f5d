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

/// How many values behind a row's last may be read, and written where down() makes rows.
inline constexpr std::size_t row_slack = 64;

/// The loops of a resize, in plain C++, which say what comes out: down makes one row of 256ths of
/// rows of bytes, and across makes a row of each plane of it. Down comes first, since it takes
/// values as they lie, and across, which gathers them, then has fewer rows.
///
/// Where weights are few, each product is cut, so that 16 bits hold all sums: half of what that
/// loses at most is put in before. See ResizeWeights::most_narrow.
class PlainRows {
 public:
  /// From here on, rows become by.out() long, mirrored if `flip`. `by` must stay.
  template <std::size_t stride> void begin(const ResizeWeights& by, bool flip) {
    by_ = &by;
    flip_ = flip;
  }

  /// Makes row y, of so many values, of by.taps() rows.
  static void down(const std::uint8_t* const* rows, const ResizeWeights& by, std::size_t y,
                   std::size_t values, std::uint16_t* out) noexcept {
    by.wide() ? sum_down<std::uint32_t, 0>(rows, by, y, by.shift() - 8, values, out)
              : sum_down<std::uint16_t, 8>(rows, by, y, 0, values, out);
  }

  /// Makes a row of each plane of one of pixels of `stride` values. A fourth channel is left out.
  template <std::size_t stride>
  void across(const std::uint16_t* row, std::uint8_t* const* planes) const noexcept {
    by_->wide() ? sum_across<std::uint64_t, 0, stride>(row, by_->shift() + 8, planes)
                : sum_across<std::uint32_t, 16, stride>(row, 8, planes);
  }

 private:
  // What sums of products that lose `cut` bits, and then `after` in all, begin with.
  template <class Sum, unsigned cut> static Sum before(std::size_t taps, unsigned after) noexcept {
    const std::size_t half = (std::size_t{1} << after) >> 1;
    return static_cast<Sum>(half + (cut == 0 ? 0 : taps / 2));
  }

  template <class Sum, unsigned cut>
  static void sum_down(const std::uint8_t* const* rows, const ResizeWeights& by, std::size_t y,
                       unsigned after, std::size_t values, std::uint16_t* out) noexcept {
    constexpr std::size_t at_once = 32; // a number that compilers know, so that they use vectors
    const std::uint16_t* const weights = by.weights(y);
    for (std::size_t x = 0; x < values; x += at_once) {
      Sum sums[at_once];
      for (Sum& sum : sums) {
        sum = before<Sum, cut>(by.taps(), after);
      }
      for (std::size_t tap = 0; tap != by.taps(); ++tap) {
        const std::uint8_t* const from = rows[tap] + x;
        const std::uint32_t weight = weights[tap];
        for (std::size_t i = 0; i != at_once; ++i) {
          sums[i] = static_cast<Sum>(sums[i] + (from[i] * weight >> cut));
        }
      }
      for (std::size_t i = 0; i != at_once; ++i) {
        out[x + i] = static_cast<std::uint16_t>(sums[i] >> after);
      }
    }
  }

  template <class Sum, unsigned cut, std::size_t stride>
  void sum_across(const std::uint16_t* row, unsigned after,
                  std::uint8_t* const* planes) const noexcept {
    constexpr std::size_t channels = stride == 4 ? 3 : 1;
    const std::size_t taps = by_->taps();
    const Sum begin = before<Sum, cut>(taps, after);
    for (std::size_t x = 0; x != by_->out(); ++x) {
      const std::uint16_t* const from = row + by_->first(x) * stride;
      const std::uint16_t* const weights = by_->weights(x);
      Sum sums[channels];
      for (Sum& sum : sums) {
        sum = begin;
      }
      for (std::size_t tap = 0; tap != taps; ++tap) {
        const Sum weight = weights[tap];
        for (std::size_t channel = 0; channel != channels; ++channel) {
          sums[channel] += from[tap * stride + channel] * weight >> cut;
        }
      }
      for (std::size_t channel = 0; channel != channels; ++channel) {
        planes[channel][flip_ ? by_->out() - 1 - x : x] =
            static_cast<std::uint8_t>(sums[channel] >> after);
      }
    }
  }

  const ResizeWeights* by_{};
  bool flip_{};
};

} // namespace penstock::detail
