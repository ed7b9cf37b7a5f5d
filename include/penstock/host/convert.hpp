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

// Work on a host stream, with the signatures that cuda/convert.cuh has for a cudaStream_t: what
// algorithm.hpp says of its algorithms holds for these.
namespace penstock {

/// out[i] = op(in[i]) for each i of 0 to n - 1, in no order to rely on; both are device memory.
/// `out` may be `in` if T and R have the same size; else they must not overlap. `op` is copied, and
/// must not throw.
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

/// What an integer R can be, and as floats the first number above it and the lowest in it.
template <class R> struct IntegerRange {
  using Limits = std::numeric_limits<R>;
  static constexpr R most = Limits::max();
  static constexpr R least = Limits::min();
  static constexpr float beyond = 2.0F * static_cast<float>(R{1} << (Limits::digits - 1));
  static constexpr float lowest = Limits::is_signed ? -beyond : 0.0F;
};

/// The nearest R: of two the even one, the last of an integer's range if it is beyond, 0 for a NaN.
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
  // Fused, with one rounding: else whether there are two would be up to each compiler.
  PENSTOCK_HD R operator()(const T& value) const {
    return nearest<R>(std::fma(static_cast<float>(value), scale, bias));
  }
};

} // namespace detail

/// out[i] = in[i] * scale + bias for each i of 0 to n - 1; both are device memory. `out` may be
/// `in` if T and R have the same size; else they must not overlap.
///
/// T and R are any arithmetic types, Half, BFloat16, and what else casts to a float, and is made of
/// one, as CUDA's __half is. Whatever they are, in[i] becomes a float, product and sum are rounded
/// once, as std::fma does, and that is rounded to R: to the nearest, of two the even one; integers
/// saturate, and a NaN gives 0.
///
/// The default bias changes no number; 0 would make 0 of -0.
template <class T, class R>
void convert(HostStream& stream, const T* in, std::size_t n, R* out, float scale = 1.0F,
             float bias = -0.0F) {
  transform(stream, in, n, out, detail::Rescale<T, R>{scale, bias});
}

} // namespace penstock
