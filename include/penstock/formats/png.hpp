// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/memory.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/picture_decoder.hpp>
#include <penstock/formats/detail/pixel_buffer.hpp>
#include <penstock/formats/detail/resizer.hpp>
#include <penstock/formats/detail/upright.hpp>
#include <penstock/formats/image.hpp>
#include <penstock/formats/image_notes.hpp>
#include <penstock/formats/image_options.hpp>
#include <penstock/formats/labelled_file.hpp>

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>

#include <png.h>

namespace penstock::detail {

/// One file that libpng reads from memory. It jumps out of its errors, past no object with a
/// destructor: what is called in guarded() has none.
class PngFile {
 public:
  explicit PngFile(std::span<const std::uint8_t> file) : left_{file} {
    png_ = ::png_create_read_struct(PNG_LIBPNG_VER_STRING, this, failed, warned);
    info_ = png_ ? ::png_create_info_struct(png_) : nullptr;
    if (!info_) {
      ::png_destroy_read_struct(&png_, &info_, nullptr);
      throw std::bad_alloc{};
    }
  }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;
  ~PngFile() { ::png_destroy_read_struct(&png_, &info_, nullptr); }

  /// Reads up to the pixels, and returns whether that worked; as do the others.
  bool read_header() {
    return guarded([&] {
      ::png_set_read_fn(png_, this, read);
#if defined(PNG_SET_UNKNOWN_CHUNKS_SUPPORTED)
      // Nothing that changes no pixel here: texts, profiles, gamma.
      ::png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
#endif
      ::png_read_info(png_, info_);
    });
  }
  std::size_t width() const noexcept { return ::png_get_image_width(png_, info_); }
  std::size_t height() const noexcept { return ::png_get_image_height(png_, info_); }

  /// Has libpng look no byte further than the pixels need: far slower.
  bool read_slowly() {
    return guarded([&] { ::png_set_compression_buffer_size(png_, 1); });
  }
  /// Reads all pixels, as four bytes each: red, green, blue, and one that does not count. Returns
  /// true also if an error came behind them.
  bool read_pixels(std::uint8_t* pixels) {
    const bool sound = guarded([&] {
      const int type = ::png_get_color_type(png_, info_);
      ::png_set_strip_16(png_);
      ::png_set_packing(png_);
      if (type == PNG_COLOR_TYPE_PALETTE) {
        ::png_set_palette_to_rgb(png_);
      } else if ((type & PNG_COLOR_MASK_COLOR) == 0) {
        ::png_set_expand_gray_1_2_4_to_8(png_);
        ::png_set_gray_to_rgb(png_);
      }
      // Alpha is no part of the colour, and transparency of a palette neither.
      ::png_set_strip_alpha(png_);
      ::png_set_filler(png_, 0xFF, PNG_FILLER_AFTER);
      const int passes = ::png_set_interlace_handling(png_);
      ::png_read_update_info(png_, info_);
      const std::size_t row = ::png_get_rowbytes(png_, info_);
      if (row != 4 * width()) {
        ::png_error(png_, "its rows have another length than its header says");
      }
      const auto rows = static_cast<std::size_t>(::png_get_image_height(png_, info_));
      for (int pass = 0; pass != passes; ++pass) {
        for (std::size_t y = 0; y != rows; ++y) {
          ::png_read_row(png_, pixels + y * row, nullptr);
        }
      }
    });
    return sound || (has_all_rows() && !has_wrong_sum());
  }
  /// Reads what follows the pixels.
  bool read_end() {
    return guarded([&] { ::png_read_end(png_, nullptr); });
  }

  /// What libpng said, empty if nothing: of the last error, and the first warning.
  /// @{
  const char* error() const noexcept { return error_; }
  const char* warning() const noexcept { return warning_; }
  /// @}

 private:
  // A function of its own, so that a jump back changes no variable of its caller.
  template <class F> [[gnu::noinline]] bool guarded(const F& f) {
    if (setjmp(png_jmpbuf(png_))) {
      return false;
    }
    f();
    return true;
  }

  // libpng looks for the end of the compressed data only when it has given out the last row.
  bool has_all_rows() const noexcept {
    return ::png_get_interlace_type(png_, info_) == PNG_INTERLACE_NONE
               ? ::png_get_current_row_number(png_) == height()
               : ::png_get_current_pass_number(png_) == PNG_INTERLACE_ADAM7_PASSES;
  }
  // Of an error behind the last row: an end that is missed is missed at another chunk, or where the
  // file ends.
  bool has_wrong_sum() const noexcept {
    constexpr std::uint32_t pixels = 0x49444154; // "IDAT"
    return !ends_early_ && ::png_get_io_chunk_type(png_) == pixels;
  }

  static void keep(char (&text)[128], const char* said) noexcept {
    std::strncpy(text, said, sizeof text - 1);
  }
  [[noreturn]] static void failed(png_structp png, const char* said) {
    keep(static_cast<PngFile*>(::png_get_error_ptr(png))->error_, said);
    ::png_longjmp(png, 1);
  }
  static void warned(png_structp png, const char* said) {
    PngFile& file = *static_cast<PngFile*>(::png_get_error_ptr(png));
    if (file.warning_[0] == 0) {
      keep(file.warning_, said);
    }
  }
  static void read(png_structp png, png_bytep into, std::size_t count) {
    PngFile& file = *static_cast<PngFile*>(::png_get_io_ptr(png));
    if (count > file.left_.size()) {
      file.ends_early_ = true;
      ::png_error(png, "the data ends early");
    }
    std::memcpy(into, file.left_.data(), count);
    file.left_ = file.left_.subspan(count);
  }

  std::span<const std::uint8_t> left_;
  png_structp png_{};
  png_infop info_{};
  bool ends_early_{};
  char error_[128]{};
  char warning_[128]{};
};

/// Memory for a picture that was a PNG file.
class LibPng {
 public:
  static constexpr const char* name = "png";
  static constexpr bool scales = false;

  /// See PictureDecoder.
  static FileBytes exif(FileBytes file) noexcept { return exif_of_png(file); }
  template <std::size_t stride, class Choose>
  DecodedPicture decode(std::span<const std::uint8_t> bytes, const Wanted&, Choose&& choose,
                        std::string& warning) {
    if (bytes.empty()) {
      refuse_picture("png: an empty file", {});
    }
    PngFile file{bytes};
    read_header(file, bytes);
    const std::size_t width = file.width();
    const std::size_t height = file.height();
    const CropBox box = choose(width, height);
    std::uint8_t* const pixels = buffer_.room(width * height * 4);
    if (!file.read_pixels(pixels)) {
      // What comes just behind the last pixel may be damaged, and has hidden the last row.
      PngFile again{bytes};
      read_header(again, bytes);
      if (!again.read_slowly() || !again.read_pixels(pixels)) {
        refuse_picture("png: a PNG file whose pixels are damaged or not all there", again.error());
      }
    }
    if (*file.error() != 0) {
      warning = joined({"all pixels are there, and what follows them is damaged or missing (",
                        file.error(), ")"});
    } else {
      warning = file.read_end() ? file.warning() : file.error();
    }
    if (stride == 1) {
      to_grey(pixels, width * height);
    }
    return {{pixels, width, height}, box};
  }
  void release() noexcept { buffer_.trim(); }

 private:
  static void read_header(PngFile& file, FileBytes bytes) {
    if (!file.read_header()) {
      refuse_other_kind(name, bytes, "png: no PNG file, or one with a damaged header",
                        file.error());
    }
  }
  PixelBuffer buffer_;
};

} // namespace penstock::detail

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
