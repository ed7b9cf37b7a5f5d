// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/column.hpp>
#include <penstock/host/convert.hpp>
#include <penstock/host/device.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// Work on a host stream, with the signatures that cuda/normalize.cuh has for a cudaStream_t. What
// host/algorithm.hpp says of its algorithms holds for these too.
namespace penstock {

/// What normalize() does with each channel's bytes, taken as 0 to 1: (value - mean) / deviation. As
/// torchvision's Normalize has them: ImageNet's are {.mean = {0.485F, 0.456F, 0.406F}, .deviation =
/// {0.229F, 0.224F, 0.225F}}.
template <std::size_t Channels> struct ChannelScale {
  float mean[Channels];      ///< From 0 to 1, as a rule.
  float deviation[Channels]; ///< Not 0.
};

namespace detail {

/// What becomes of a channel's bytes: byte * factor + bias, rounded once.
template <class R> struct Normalized {
  float factor;
  float bias;
  PENSTOCK_HD R operator()(std::uint8_t byte) const {
    return nearest<R>(std::fma(static_cast<float>(byte), factor, bias));
  }
};
/// All channels, in a type that goes to a kernel.
template <class R, std::size_t Channels> struct NormalizedChannels {
  explicit NormalizedChannels(const ChannelScale<Channels>& by) {
    for (std::size_t c = 0; c != Channels; ++c) {
      const double deviation = by.deviation[c];
      of[c] = {static_cast<float>(1 / (255 * deviation)),
               static_cast<float>(-by.mean[c] / deviation)};
    }
  }
  Normalized<R> of[Channels];
};

} // namespace detail

/// Sets each value of `out` to (in / 255 - mean) / deviation of its channel, for `images` pictures
/// of Channels planes of `pixels` bytes each; both are device memory, and must not overlap. R is
/// float, BFloat16, Half or what else convert() takes; the value is worked out as a float, within
/// three of its roundings, and rounded to R.
template <std::size_t Channels, class R>
void normalize(HostStream& stream, const std::uint8_t* in, std::size_t images, std::size_t pixels,
               R* out, const ChannelScale<Channels>& by) {
  if (images == 0 || pixels == 0) {
    return;
  }
  const detail::NormalizedChannels<R, Channels> channels{by};
  stream.enqueue([in, images, pixels, out, channels] {
    for (std::size_t plane = 0; plane != images * Channels; ++plane) {
      const detail::Normalized<R> op = channels.of[plane % Channels];
      for (std::size_t i = plane * pixels; i != (plane + 1) * pixels; ++i) {
        out[i] = op(in[i]);
      }
    }
  });
}
/// Does so to a batch's column of pictures: `ps::normalize(stream, ps::get<"image">(batch), out,
/// {.mean = {0.5F, 0.5F, 0.5F}, .deviation = {0.25F, 0.25F, 0.25F}})`.
template <class T, std::size_t Channels, std::size_t Height, std::size_t Width, class R>
  requires(std::is_same_v<std::remove_const_t<T>, std::uint8_t> && Channels != dynamic)
void normalize(HostStream& stream, const Column<T, Channels, Height, Width>& images, R* out,
               const std::type_identity_t<ChannelScale<Channels>>& by) {
  normalize(stream, static_cast<const std::uint8_t*>(images.data()), images.size(),
            images.elements() / Channels, out, by);
}

} // namespace penstock
