// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>
#include <cstring>

// 16-bit numbers for records and columns, in code for both devices: to store and convert, not to
// compute with. Their bits are those of CUDA's __half and __nv_bfloat16: cast the pointer for
// kernels and libraries that take those.
namespace penstock {

namespace detail {

PENSTOCK_HD inline std::uint32_t float_bits(float value) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
PENSTOCK_HD inline float bits_float(std::uint32_t bits) noexcept {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline constexpr std::uint32_t float_infinity_bits = 0x7F80'0000;
/// The bits that a GPU gives each NaN, in either 16-bit type.
inline constexpr std::uint16_t nan16 = 0x7FFF;

/// Cuts off the low `cut` bits, rounding to the nearest, ties to even.
PENSTOCK_HD inline std::uint32_t round_off(std::uint32_t bits, unsigned cut) noexcept {
  const std::uint32_t odd = (bits >> cut) & 1;
  return (bits + (std::uint32_t{1} << (cut - 1)) - 1 + odd) >> cut;
}

} // namespace detail

/// A binary16 of IEEE 754: 11 significant bits, up to 65504.
struct Half {
  Half() = default;
  /// Rounds to the nearest, ties to even; from 65520 on, to infinity. Host and GPU.
  PENSTOCK_HD explicit Half(float value) noexcept : bits{rounded(value)} {}
  /// Converts exactly. Host and GPU.
  PENSTOCK_HD explicit operator float() const noexcept;

  std::uint16_t bits; ///< Sign, 5 of exponent, 10 of significand.

 private:
  PENSTOCK_HD static std::uint16_t rounded(float value) noexcept;
};

/// The upper half of a float: 8 significant bits, and a float's range.
struct BFloat16 {
  BFloat16() = default;
  /// Rounds to the nearest, ties to even. Host and GPU.
  PENSTOCK_HD explicit BFloat16(float value) noexcept : bits{rounded(value)} {}
  /// Converts exactly. Host and GPU.
  PENSTOCK_HD explicit operator float() const noexcept {
    return detail::bits_float(std::uint32_t{bits} << 16);
  }

  std::uint16_t bits; ///< Sign, 8 of exponent, 7 of significand.

 private:
  PENSTOCK_HD static std::uint16_t rounded(float value) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    std::uint16_t narrow; // by one instruction, as Half
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow) : "f"(value));
    return narrow;
#else
    const std::uint32_t wide = detail::float_bits(value);
    const bool is_nan = (wide & 0x7FFF'FFFF) > detail::float_infinity_bits;
    return is_nan ? detail::nan16 : static_cast<std::uint16_t>(detail::round_off(wide, 16));
#endif
  }
};

PENSTOCK_HD inline std::uint16_t Half::rounded(float value) noexcept {
#if defined(__CUDA_ARCH__)
  // One instruction. The twenty below would hold up a conversion that only memory should limit.
  std::uint16_t narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow) : "f"(value));
  return narrow;
#else
  constexpr std::uint32_t least_normal = (127 - 14) << 23;
  constexpr std::uint32_t beyond = (127 + 16) << 23;
  constexpr std::uint32_t other_exponents = (127 - 15) << 23;
  const std::uint32_t wide = detail::float_bits(value);
  const std::uint32_t size = wide & 0x7FFF'FFFF;
  if (size > detail::float_infinity_bits) {
    return detail::nan16;
  }
  std::uint32_t narrow = 0x7C00;
  if (size < least_normal) {
    // The last bit of 0.5 is worth 2^-24, as is that of the smallest binary16: the sum rounds to
    // it.
    narrow = detail::float_bits(detail::bits_float(size) + 0.5F) - detail::float_bits(0.5F);
  } else if (size < beyond) {
    narrow = detail::round_off(size - other_exponents, 13);
  }
  return static_cast<std::uint16_t>((wide >> 16 & 0x8000) | narrow);
#endif
}

PENSTOCK_HD inline Half::operator float() const noexcept {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  const std::uint32_t sign = std::uint32_t{bits} << 16 & 0x8000'0000;
  const std::uint32_t exponent = bits >> 10 & 0x1F;
  const std::uint32_t significand = bits & 0x3FF;
  if (exponent == 0) {
    const float size = static_cast<float>(significand) * 0x1p-24F;
    return detail::bits_float(sign | detail::float_bits(size));
  }
  const std::uint32_t wide =
      exponent == 0x1F ? detail::float_infinity_bits : (exponent + 127 - 15) << 23;
  return detail::bits_float(sign | wide | significand << 13);
#endif
}

} // namespace penstock
