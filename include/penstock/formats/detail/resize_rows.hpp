// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/detail/resize_weights.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

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
    return static_cast<Sum>((Sum{1} << after >> 1) + (cut == 0 ? 0 : taps / 2));
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
