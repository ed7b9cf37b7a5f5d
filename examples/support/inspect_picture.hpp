// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "input_file.hpp"
#include "inspected.hpp"
#include "whole_text.hpp"

#if defined(EXAMPLES_HAVE_TURBOJPEG)
#include <penstock/formats/jpeg.hpp>

#include <turbojpeg.h>
#endif
#if defined(EXAMPLES_HAVE_LIBPNG)
#include <penstock/formats/png.hpp>
#endif
#include <penstock/formats/files.hpp>
#include <penstock/formats/image_options.hpp>
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

// A JPEG or PNG file is a record of one column, its pixels as they are stored, channel by channel.

/// What a picture's header says.
struct PictureHeader {
  std::size_t width = 1;
  std::size_t height = 1;
  bool grey = false;
};

#if defined(EXAMPLES_HAVE_TURBOJPEG)
/// A file whose header cannot be read gets any size: the decoder says what is wrong with it.
inline PictureHeader jpeg_header(const std::string& path) {
  InputFile in{path};
  const std::string file = whole_text(in);
  int width = 0;
  int height = 0;
  int samples = 0;
  int space = 0;
  const tjhandle handle = ::tjInitDecompress();
  const int failed =
      ::tjDecompressHeader3(handle, reinterpret_cast<const unsigned char*>(file.data()),
                            file.size(), &width, &height, &samples, &space);
  ::tjDestroy(handle);
  return failed != 0 || width <= 0 || height <= 0
             ? PictureHeader{}
             : PictureHeader{static_cast<std::size_t>(width), static_cast<std::size_t>(height),
                             space == TJCS_GRAY};
}
#endif
/// Reads a PNG's first chunk. What is not one the decoder refuses.
inline PictureHeader png_header(const std::string& head) {
  const auto number = [&](std::size_t at) {
    std::size_t value = 0;
    for (std::size_t i = at; i != at + 4; ++i) {
      value = value << 8U | static_cast<unsigned char>(head[i]);
    }
    return value;
  };
  if (head.size() < 29 || head.substr(12, 4) != "IHDR" || number(16) == 0 || number(20) == 0) {
    return {};
  }
  constexpr int colour = 2; // a bit of the type
  return {number(16), number(20), (head[25] & colour) == 0};
}

template <std::size_t N> using Extent = std::integral_constant<std::size_t, N>;

/// decode(Extent<Channels>{}, options) returns the Decoder.
template <class Decode>
void read_picture(const std::string& path, const PictureHeader& header, Inspected& all,
                  Decode decode) {
  const auto read = [&]<std::size_t Channels>(Extent<Channels> channels) {
    Column& column =
        all.columns.emplace_back(Column{"image", "uint8", {Channels, header.height, header.width}});
    auto pictures =
        ps::Reader{ps::files(std::vector{path}, {}, {.largest = ~std::uint64_t{0}}, input_io())} |
        decode(channels, {.workers = 1,
                          .size = {header.height, header.width},
                          .crop = ps::Crop::none,
                          .strict = true});
    for (auto batch : pictures.batches()) {
      const auto pixels = ps::get<"image">(batch)[0];
      column.add({reinterpret_cast<const std::byte*>(pixels.data()), pixels.size()});
    }
    all.records = 1;
  };
  header.grey ? read(Extent<1>{}) : read(Extent<3>{});
}
