// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/memory.hpp>
#include <penstock/formats/detail/picture_decoder.hpp>
#include <penstock/formats/image.hpp>
#include <penstock/formats/image_notes.hpp>
#include <penstock/formats/image_options.hpp>
#include <penstock/formats/labelled_file.hpp>
#include <penstock/formats/turbo_jpeg.hpp>

#include <cstddef>

// Needs TurboJPEG, of libjpeg-turbo (Debian: libturbojpeg0-dev), which the program must link:
// -lturbojpeg.
namespace penstock {

/// Returns a Decoder of JPEG files: each record's file is decoded, a part of it taken and resized,
/// and the columns beside it go along. `From` has one column of bytes, Ragged<std::uint8_t>, `To`
/// one of a picture, `std::uint8_t` with three extents, channels (3: red, green, blue; 1: grey),
/// height and width; all others of `To` are in `From` too, by name and type. It gives pinned
/// memory; where no device is named, take `Where` = Pageable.
///
/// All JPEGs that libjpeg-turbo reads are taken: grey, YCbCr, RGB, CMYK and YCCK, of any
/// subsampling, progressive. Pixels stay as they are stored, whatever EXIF says of the picture's
/// orientation, as in Pillow and torchvision's ImageFolder, unless ImageOptions::orient is set.
/// Resizing is antialiased, bilinear, as
/// Pillow's. A file that is damaged or ends early, but of which all rows come out, is kept, with a
/// warning: see ImageOptions::strict and notes. The Report's StageReport::note counts them. Others,
/// no JPEG files and those of more than most_pixels throw, which is the record's failure: see
/// on_error.
///
/// Throws OptionError for options that cannot work.
template <class From, class To, class Where = Pinned> auto jpeg(const ImageOptions& options = {}) {
  return detail::picture_stage<detail::TurboJpeg, From, To, Where>(options);
}
/// Returns the same from a LabelledFile to an Image: `ps::jpeg<3, 224, 224>({.workers = 12})`.
/// `ps::jpeg<3, ps::dynamic, ps::dynamic>({.size = {h, w}})` takes the size at run time.
template <std::size_t Channels, std::size_t Height, std::size_t Width, class Where = Pinned>
auto jpeg(const ImageOptions& options = {}) {
  using Picture = Image<Channels, Height, Width>;
  return detail::picture_stage<detail::TurboJpeg, LabelledFile, Picture, Where>(options);
}

} // namespace penstock
