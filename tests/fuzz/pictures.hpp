// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuzz/target.hpp"

#include <penstock/error.hpp>
#include <penstock/formats/detail/crop_box.hpp>
#include <penstock/formats/detail/picture_decoder.hpp>
#include <penstock/formats/detail/pixel_buffer.hpp>
#include <penstock/formats/detail/resizer.hpp>
#include <penstock/formats/detail/upright.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace penstock::tests {

/// Decodes the input and takes a part of it, upright, twice: what comes out must not depend on what
/// the codec did before. Errors must begin with `said`.
template <class Codec> void decode_any(std::span<const std::byte> input, const char* said) {
  using namespace penstock::detail;
  static Codec used;
  const std::span bytes{reinterpret_cast<const std::uint8_t*>(input.data()), input.size()};
  const bool scaled = !input.empty() && input.back() == std::byte{1};
  const auto decode = [&](Codec& codec) {
    std::optional<std::vector<std::uint8_t>> made;
    std::string warning;
    try {
      const auto choose = [](std::size_t width, std::size_t height) {
        check_pixels(Codec::name, width, height, 1 << 16);
        VisitRandom random{1, {width, height, 0}};
        return crop_box(width, height, 1.5, {.crop = Crop::random}, random);
      };
      // Not in a picture's own size, but with all its bytes in the sums.
      const DecodedPicture decoded =
          codec.template decode<4>(bytes, {9, 6, scaled}, choose, warning);
      must(decoded.box.left + decoded.box.width <= decoded.pixels.width);
      must(decoded.box.top + decoded.box.height <= decoded.pixels.height);
      made.emplace(3 * 9 * 6);
      PixelBuffer memory;
      const Upright upright{exif_orientation(Codec::exif(bytes))};
      const DecodedPicture part = upright.part_of<4>(decoded, memory);
      must(part.pixels.width * part.pixels.height == decoded.box.width * decoded.box.height);
      Resizer<4>{9, 6}(part.pixels, part.box, scaled, made->data());
    } catch (const Error& e) {
      must(std::string{e.what()}.starts_with(said) && std::string{e.what()}.size() < 1000);
    }
    return made;
  };
  const auto first = decode(used);
  Codec fresh;
  must(first == decode(fresh));
}

} // namespace penstock::tests
