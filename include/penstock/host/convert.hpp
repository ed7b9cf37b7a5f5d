// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/host/device.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

// Work on a host stream, with the signatures that cuda/convert.cuh has for a cudaStream_t. What
// host/algorithm.hpp says of its algorithms holds for these too.
namespace penstock {

/// Sets out[i] = op(in[i]) for each i from 0 to n - 1, in no order to rely on; both are device
/// memory. `out` may be `in` if T and R have the same size; else they must not overlap. `op` is
/// copied, and must not throw.
template <class T, class R, class Op>
void transform(HostStream& stream, const T* in, std::size_t n, R* out, Op op) {
  if (n == 0) {
    return;
  }
  stream.enqueue([in, n, out, op = std::move(op)]() mutable {
    for (std::size_t i = 0; i < n; ++i) {
      out[i] = op(in[i]);
    }
  });
}

namespace detail {

/// The range of an integer R, and as floats the first number above it and the lowest in it.
template <class R> struct IntegerRange {
  using Limits = std::numeric_limits<R>;
  static constexpr R most = Limits::max();
  static constexpr R least = Limits::min();
  static constexpr float beyond = 2.0F * static_cast<float>(R{1} << (Limits::digits - 1));
  static constexpr float lowest = Limits::is_signed ? -beyond : 0.0F;
};

/// Returns the nearest R, ties to even. An integer saturates, and is 0 for a NaN.
template <class R> PENSTOCK_HD R nearest(float value) {
  static_assert(!std::is_same_v<R, bool>, "penstock: a bool has no scale: take std::uint8_t.");
  if constexpr (std::is_integral_v<R>) {
    const float whole = std::rint(value);
    if (whole >= IntegerRange<R>::beyond) {
      return IntegerRange<R>::most;
    }
    if (whole > IntegerRange<R>::lowest) {
      return static_cast<R>(whole);
    }
    return whole <= IntegerRange<R>::lowest ? IntegerRange<R>::least : R{0};
  } else {
    return static_cast<R>(value);
  }
}

template <class T, class R> struct Rescale {
  float scale;
  float bias;
  // Fused, with one rounding: else each compiler would choose between one and two.
  PENSTOCK_HD R operator()(const T& value) const {
    return nearest<R>(std::fma(static_cast<float>(value), scale, bias));
  }
};

} // namespace detail

/// Sets out[i] = in[i] * scale + bias for each i from 0 to n - 1; both are device memory. `out` may
/// be `in` if T and R have the same size; else they must not overlap.
///
/// T and R are any arithmetic types, Half, BFloat16, and others that convert to a float and from
/// one, as CUDA's __half does. Whatever they are, in[i] becomes a float, product and sum are
/// rounded once, as std::fma does, and the result is rounded to R: to the nearest, ties to even;
/// integers saturate, and are 0 for a NaN.
///
/// The default bias changes no number; a bias of 0 would make 0 of -0.
template <class T, class R>
void convert(HostStream& stream, const T* in, std::size_t n, R* out, float scale = 1.0F,
             float bias = -0.0F) {
  transform(stream, in, n, out, detail::Rescale<T, R>{scale, bias});
}

} // namespace penstock
