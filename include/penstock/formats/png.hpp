// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/memory.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/picture_decoder.hpp>
#include <penstock/formats/image.hpp>
#include <penstock/formats/image_notes.hpp>
#include <penstock/formats/image_options.hpp>
#include <penstock/formats/labelled_file.hpp>
#include <penstock/formats/libpng.hpp>

#include <cstddef>

// Needs libpng 1.6 (Debian: libpng-dev), which the program must link: -lpng.
namespace penstock {

/// Returns a Decoder of PNG files. What jpeg() says of schemas, memory, crops and resizing holds
/// for it too.
///
/// All PNGs that libpng reads are taken: grey, colour and palettes, of 1 to 16 bits, interlaced. Of
/// 16 bits the upper eight count, as in Pillow's 16-bit colour. Alpha is dropped, as Pillow's
/// convert("RGB") drops it: what is transparent shows the colour that it has. Gamma and profiles
/// change nothing. One channel of a picture in colour is its luma, as Pillow's convert("L"). A file
/// of which all pixels are there is kept, with a warning if what follows them is damaged or
/// missing: the end of the compressed data, or that of the file. Damaged or missing pixels throw.
///
/// Throws OptionError for options that cannot work.
template <class From, class To, class Where = Pinned> auto png(const ImageOptions& options = {}) {
  return detail::picture_stage<detail::LibPng, From, To, Where>(options);
}
/// Returns the same from a LabelledFile to an Image: `ps::png<3, 224, 224>({.workers = 12})`.
template <std::size_t Channels, std::size_t Height, std::size_t Width, class Where = Pinned>
auto png(const ImageOptions& options = {}) {
  using Picture = Image<Channels, Height, Width>;
  return detail::picture_stage<detail::LibPng, LabelledFile, Picture, Where>(options);
}

} // namespace penstock
