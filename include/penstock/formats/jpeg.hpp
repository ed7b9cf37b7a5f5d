// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/memory.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/crop_box.hpp>
#include <penstock/formats/detail/picture_decoder.hpp>
#include <penstock/formats/detail/pixel_buffer.hpp>
#include <penstock/formats/detail/resizer.hpp>
#include <penstock/formats/detail/upright.hpp>
#include <penstock/formats/image.hpp>
#include <penstock/formats/image_notes.hpp>
#include <penstock/formats/image_options.hpp>
#include <penstock/formats/labelled_file.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>

#include <turbojpeg.h>

namespace penstock::detail {

/// A decoder of TurboJPEG's, with memory for a picture. Each file gets a handle of its own, which
/// takes a few microseconds: a handle keeps the tables of the file before for one that lacks them,
/// and after a damaged header goes on in it, so that pixels would depend on what came before.
class TurboJpeg {
 public:
  static constexpr const char* name = "jpeg";
  static constexpr bool scales = true;

  /// See PictureDecoder.
  static FileBytes exif(FileBytes file) noexcept { return exif_of_jpeg(file); }
  template <std::size_t stride, class Choose>
  DecodedPicture decode(std::span<const std::uint8_t> file, const Wanted& wanted, Choose&& choose,
                        std::string& warning) {
    handle_.reset(::tjInitDecompress());
    if (!handle_) {
      throw std::bad_alloc{};
    }
    Header header = read_header(file);
    CropBox box = choose(header.width, header.height);
    if (wanted.scaled) {
      shrink(header, box, wanted);
    }
    const std::size_t count = header.width * header.height;
    std::uint8_t* const pixels = buffer_.room(count * (header.cmyk ? 4 : stride));
    const int format = header.cmyk ? TJPF_CMYK : stride == 1 ? TJPF_GRAY : TJPF_RGBX;
    read_pixels(file, header, format, pixels, warning);
    if (header.cmyk) {
      from_inverted_cmyk(pixels, count);
      if (stride == 1) {
        to_grey(pixels, count);
      }
    }
    return {{pixels, header.width, header.height}, box};
  }
  void release() noexcept { buffer_.trim(); }

 private:
  struct Header {
    std::size_t width, height;
    bool cmyk;
  };
  // A file of very many scans takes hours to decode: 500 are the most.
  static constexpr int flags = TJFLAG_LIMITSCANS;

  Header read_header(std::span<const std::uint8_t> file) {
    if (file.empty()) {
      refuse_picture("jpeg: an empty file", {});
    }
    int width = 0;
    int height = 0;
    int subsampling = -1;
    int colours = -1;
    const bool failed = ::tjDecompressHeader3(handle_.get(), file.data(), file.size(), &width,
                                              &height, &subsampling, &colours) != 0;
    // It also fails for a sampling that it has no name for, and then has read the header.
    if (width <= 0 || height <= 0) { // without a failure: there are tables alone
      refuse_other_kind(name, file, "jpeg: no JPEG file, or one with a damaged header",
                        failed ? said() : "it ends before a picture begins");
    }
    return {static_cast<std::size_t>(width), static_cast<std::size_t>(height),
            colours == TJCS_CMYK || colours == TJCS_YCCK};
  }

  /// Halves the picture as long as its part stays as large as what is wanted.
  static void shrink(Header& header, CropBox& box, const Wanted& wanted) noexcept {
    std::size_t by = 8;
    while (by != 1 && (box.width / by < wanted.width || box.height / by < wanted.height)) {
      by /= 2;
    }
    header.width = (header.width + by - 1) / by;
    header.height = (header.height + by - 1) / by;
    box = shrunk(box, by, header.width, header.height);
  }

  void read_pixels(std::span<const std::uint8_t> file, const Header& header, int format,
                   std::uint8_t* pixels, std::string& warning) {
    const auto read = [&] {
      return ::tjDecompress2(handle_.get(), file.data(), file.size(), pixels,
                             static_cast<int>(header.width), 0, static_cast<int>(header.height),
                             format, flags) == 0;
    };
    if (read()) {
      return;
    }
    warning = said();
    // TurboJPEG says "warning" also of an error that comes after one, and the last rows are then
    // not written. Written, they come out the same again.
    const std::size_t row = header.width * static_cast<std::size_t>(tjPixelSize[format]);
    const std::span last{pixels + row * (header.height - 1), row};
    const auto invert = [&] {
      for (std::uint8_t& byte : last) {
        byte = static_cast<std::uint8_t>(~byte);
      }
    };
    bool whole = ::tjGetErrorCode(handle_.get()) == TJERR_WARNING;
    if (whole) {
      const std::string before{reinterpret_cast<const char*>(last.data()), last.size()};
      invert();
      static_cast<void>(read());
      whole = before == std::string_view{reinterpret_cast<const char*>(last.data()), last.size()};
    }
    if (!whole) {
      refuse_picture("jpeg: a JPEG file that is damaged, so that no whole picture comes out",
                     said());
    }
  }

  std::string said() const { return ::tjGetErrorStr2(handle_.get()); }

  struct Destroy {
    void operator()(void* handle) const noexcept { ::tjDestroy(handle); }
  };
  std::unique_ptr<void, Destroy> handle_;
  PixelBuffer buffer_;
};

} // namespace penstock::detail

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
