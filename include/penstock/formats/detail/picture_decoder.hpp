// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/each_worker.hpp>
#include <penstock/data/column.hpp>
#include <penstock/data/row.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/data/visit.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/chain/misspelt.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/workers/warned.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/crop_box.hpp>
#include <penstock/formats/detail/pixel_buffer.hpp>
#include <penstock/formats/detail/resizer.hpp>
#include <penstock/formats/detail/upright.hpp>
#include <penstock/formats/image.hpp>
#include <penstock/formats/image_notes.hpp>
#include <penstock/formats/image_options.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/stages/decoder.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What a column is to a decoder of pictures: a file's bytes, a picture, or neither.
template <class F> struct picture_column {
  static constexpr bool file = false;
  static constexpr bool picture = false;
  static constexpr std::size_t channels = 0, height = 0, width = 0;
};
template <class N> struct picture_column<NamedColumn<N, Ragged<std::uint8_t>>>
    : picture_column<void> {
  static constexpr bool file = true;
};
template <class N, std::size_t C, std::size_t H, std::size_t W>
struct picture_column<NamedColumn<N, std::uint8_t, C, H, W>> {
  static constexpr bool file = false;
  static constexpr bool picture = true;
  static constexpr std::size_t channels = C, height = H, width = W;
};

template <class F, class From> inline constexpr bool is_among = false;
template <class F, class... From>
inline constexpr bool is_among<F, Columns<From...>> =
    (column_traits<F>::ragged || column_traits<F>::sizes == 0) && (std::is_same_v<F, From> || ...);

/// What two schemas are to a decoder of pictures.
template <class From, class To> struct picture_columns;
template <class... F, class... T> struct picture_columns<Columns<F...>, Columns<T...>> {
  static constexpr std::size_t files = (std::size_t{0} + ... + picture_column<F>::file);
  static constexpr std::size_t pictures = (std::size_t{0} + ... + picture_column<T>::picture);
  // Of the one picture.
  static constexpr std::size_t channels = (std::size_t{0} + ... + picture_column<T>::channels);
  static constexpr std::size_t height = (std::size_t{0} + ... + picture_column<T>::height);
  static constexpr std::size_t width = (std::size_t{0} + ... + picture_column<T>::width);
  static constexpr bool all_there =
      ((picture_column<T>::picture || is_among<T, Columns<F...>>) && ...);
};

/// The view of a row's column by its name's type.
template <class Spelled, class S> auto column_at(const Row<S>& row) {
  return lookup<Spelled, std::remove_const_t<S>, std::is_const_v<S>>::view::make(row.view());
}

/// Returns the file's bytes.
template <class S, class... F> Column<const std::uint8_t> file_of(const Row<const S>& row,
                                                                  const Columns<F...>*) {
  Column<const std::uint8_t> bytes;
  const auto look = [&]<class N, class T, std::size_t... E>(const NamedColumn<N, T, E...>*) {
    if constexpr (picture_column<NamedColumn<N, T, E...>>::file) {
      bytes = column_at<N>(row)[row.at()];
    }
  };
  (look(static_cast<const F*>(nullptr)), ...);
  return bytes;
}

/// Returns where the picture's pixels go.
template <class S, class... T> std::uint8_t* picture_of(const Row<S>& row, const Columns<T...>*) {
  std::uint8_t* pixels = nullptr;
  const auto look = [&]<class N, class V, std::size_t... E>(const NamedColumn<N, V, E...>*) {
    if constexpr (picture_column<NamedColumn<N, V, E...>>::picture) {
      const auto column = column_at<N>(row);
      pixels = column.data() + row.at() * column.elements();
    }
  };
  (look(static_cast<const T*>(nullptr)), ...);
  return pixels;
}

/// Copies all columns but the picture.
template <class From, class To, class... T>
void copy_others(const Row<const From>& in, const Row<To>& out, const Columns<T...>*) {
  const auto copy = [&]<class N, class V, std::size_t... E>(const NamedColumn<N, V, E...>*) {
    using Field = NamedColumn<N, V, E...>;
    if constexpr (!picture_column<Field>::picture) {
      const auto from = column_at<N>(in);
      const auto to = column_at<N>(out);
      if constexpr (column_traits<Field>::ragged) {
        const auto values = from[in.at()];
        std::copy_n(values.data(), values.size(), to.put(out.at(), values.size()));
      } else {
        const std::size_t count = from.elements();
        std::copy_n(from.data() + in.at() * count, count, to.data() + out.at() * count);
      }
    }
  };
  (copy(static_cast<const T*>(nullptr)), ...);
}

/// Throws what is wrong with a file, and what one can do.
[[noreturn, gnu::cold]] inline void refuse_picture(std::string_view what,
                                                   std::string_view library_says) {
  throw_error<Error>({"penstock: ", what, library_says.empty() ? "" : " (", library_says,
                      library_says.empty() ? "" : ")",
                      ". Mend the file, or leave such records out by .on_error."});
}
/// Throws that a file is none of a Codec's `name`, and of which kind it is, if it has a reader of
/// its own; else `what` is wrong with it.
[[noreturn, gnu::cold]] inline void refuse_other_kind(const char* name, FileBytes file,
                                                      std::string_view what,
                                                      std::string_view library_says) {
  const auto first = std::as_bytes(file.first(std::min(file.size(), foreign_bytes)));
  const std::string kind = foreign_kind(first, file.size());
  const bool own = kind.find(joined({"ps::", name, "."})) != std::string::npos;
  if (!kind.empty() && !own) {
    throw_error<Error>(
        {"penstock: ", name, ": a file that ", kind, " Leave such records out by .on_error."});
  }
  refuse_picture(what, library_says);
}
[[gnu::cold]] inline void check_pixels(const char* name, std::size_t width, std::size_t height,
                                       std::uint64_t most) {
  if (width == 0 || height == 0 || width > most / height) {
    const std::string what = joined(
        {name, ": a picture of ", width, " x ", height, " pixels, and .most_pixels is ", most});
    throw_error<Error>({"penstock: ", what,
                        ". If the file is sound, give a higher .most_pixels; else leave such "
                        "records out by .on_error."});
  }
}

/// One worker's decoder of pictures, of one format. Its Codec has the function's `name`, whether it
/// `scales`, `exif(file)`, which is empty if it has none, and `decode<stride>(file, wanted, choose,
/// warning)`, which calls choose(width, height) before it takes memory, and sets `warning` if there
/// is one; what it returns is valid until release().
template <class Codec, class From, class To> class PictureDecoder {
  using In = typename columns_of<From>::type;
  using Out = typename columns_of<To>::type;
  using Found = picture_columns<In, Out>;
  static constexpr std::size_t stride = Found::channels == 3 ? 4 : 1;

 public:
  PictureDecoder(const ImageOptions& options, std::size_t height, std::size_t width)
      : options_{options}, width_{width}, height_{height}, resize_{width, height} {}

  void operator()(Row<const From> in, Row<To> out, Visit visit) {
    const Column<const std::uint8_t> file = file_of(in, static_cast<const In*>(nullptr));
    const std::span bytes{file.data(), file.size()};
    const Upright upright{options_.orient ? exif_orientation(Codec::exif(bytes)) : 1};
    VisitRandom random{options_.seed.value(), visit};
    const double ratio = static_cast<double>(width_) / static_cast<double>(height_);
    const auto choose = [&](std::size_t width, std::size_t height) {
      check_pixels(Codec::name, width, height, options_.most_pixels);
      const CropBox box = upright.turns() ? crop_box(height, width, ratio, options_, random)
                                          : crop_box(width, height, ratio, options_, random);
      return upright.stored(box, width, height);
    };
    const Wanted wanted = upright.turns() ? Wanted{height_, width_, options_.scaled}
                                          : Wanted{width_, height_, options_.scaled};
    warning_.clear();
    DecodedPicture decoded = codec_.template decode<stride>(bytes, wanted, choose, warning_);
    if (!warning_.empty() && options_.strict) {
      refuse_picture(joined({Codec::name, ": a picture with a warning, where .strict = true"}),
                     warning_);
    }
    if (!upright.as_stored()) {
      decoded = upright.template part_of<stride>(decoded, turned_);
    }
    const bool flip = options_.flip && random.next() < 0.5;
    resize_(decoded.pixels, decoded.box, flip, picture_of(out, static_cast<const Out*>(nullptr)));
    codec_.release();
    turned_.trim();
    copy_others(in, out, static_cast<const Out*>(nullptr));
    if (!warning_.empty()) {
      note(visit);
    }
  }
  /// For the stage, once: where to count pictures with a warning.
  void tell_of_warnings(Warned<>& warned) noexcept { warned_ = &warned; }

 private:
  [[gnu::cold]] void note(const Visit& visit) {
    warned_->add(visit.record);
    if (options_.notes) {
      options_.notes->add(visit, warning_);
    }
  }

  ImageOptions options_;
  std::size_t width_;
  std::size_t height_;
  Resizer<stride> resize_;
  Codec codec_;
  PixelBuffer turned_;
  std::string warning_;
  Warned<>* warned_{};
};
template <class Codec, class From, class To> struct MakePictureDecoder {
  ImageOptions options;
  std::size_t height, width;
  auto operator()() const { return PictureDecoder<Codec, From, To>{options, height, width}; }
};
// Beside a decoder of pictures a pipeline's other threads only wait.
template <class Codec, class From, class To> inline constexpr ProcessorShare
    decoder_share<EachWorker<MakePictureDecoder<Codec, From, To>>>{8, 32};

/// Throws OptionError if the options cannot work.
[[gnu::cold]] inline void check_picture_options(const char* name, bool scales,
                                                const ImageOptions& options) {
  const auto in_order = [](const std::array<double, 2>& range, double most) {
    return range[0] > 0 && range[0] <= range[1] && range[1] <= most;
  };
  if (options.scaled && !scales) {
    throw_error<OptionError>({"penstock: ", name, ": .scaled is for JPEG files: leave it out."});
  }
  if (!in_order(options.area, 1)) {
    throw_error<OptionError>({"penstock: ", name,
                              ": .area is the least and the most of a picture that is taken: "
                              "above 0, at most 1, the lesser first, such as {0.08, 1}."});
  }
  if (!in_order(options.ratio, 1e6)) {
    throw_error<OptionError>({"penstock: ", name,
                              ": .ratio is the least and the most width over height: above 0, the "
                              "lesser first, such as {3.0 / 4, 4.0 / 3}."});
  }
}

/// Returns one extent: the schema's, or the option's.
[[gnu::cold]] inline std::size_t picture_extent(const char* name, const char* which,
                                                std::size_t fixed, std::size_t given) {
  constexpr std::size_t most = 65'535;
  const std::size_t extent = fixed == dynamic ? given : fixed;
  if (extent == 0 || extent > most || (given != 0 && given != extent)) {
    throw_error<OptionError>(
        {"penstock: ", name, ": the ", which, " of .size is ", given,
         fixed == dynamic ? ", and the schema has ps::dynamic there: give .size = {height, width}, "
                            "each from 1 to 65535."
                          : ", and the schema has a fixed extent, of at most 65535: leave .size "
                            "out."});
  }
  return extent;
}

/// Makes the stage that jpeg() and png() return.
template <class Codec, class From, class To, class Where> auto
picture_stage(const ImageOptions& options) {
  using In = typename columns_of<From>::type;
  using Out = typename columns_of<To>::type;
  using Found = picture_columns<In, Out>;
  constexpr bool one_file = Found::files == 1;
  constexpr bool one_picture = Found::pictures == 1;
  constexpr bool grey_or_colour = !one_picture || Found::channels == 1 || Found::channels == 3;
  constexpr bool others_there = !one_picture || Found::all_there;
  constexpr bool on_the_host = HostSpace<Where>;
  static_assert(on_the_host, "penstock: pictures are decoded into host memory, ps::Pinned or "
                             "ps::Pageable: an AsyncCopier brings them to a device.");
  static_assert(one_file, "penstock: what is to be decoded lies in the one column of bytes of the "
                          "schema From, which is ps::Field<\"jpg\", ps::Ragged<std::uint8_t>>.");
  static_assert(one_picture,
                "penstock: a decoded picture goes to the one column of the schema To that has "
                "three extents, ps::Field<\"image\", std::uint8_t, 3, 224, 224>.");
  static_assert(grey_or_colour, "penstock: a decoded picture has its channels first, 3 (red, "
                                "green, blue) or 1 (grey): ps::Field<\"image\", std::uint8_t, 3, "
                                "224, 224>.");
  static_assert(others_there, "penstock: each column of the schema To, but for the picture, goes "
                              "along from one in From, of the same name, type and fixed extents.");
  if constexpr (on_the_host && one_file && one_picture && grey_or_colour && others_there) {
    check_picture_options(Codec::name, Codec::scales, options);
    const auto [given_height, given_width] = options.size;
    const std::size_t height = picture_extent(Codec::name, "height", Found::height, given_height);
    const std::size_t width = picture_extent(Codec::name, "width", Found::width, given_width);
    std::vector<std::size_t> extents;
    if (Found::height == dynamic) {
      extents.push_back(height);
    }
    if (Found::width == dynamic) {
      extents.push_back(width);
    }
    auto make = each_worker(MakePictureDecoder<Codec, From, To>{options, height, width});
    DecoderOptions how{.workers = options.workers,
                       .depth = options.depth,
                       .extents = std::move(extents),
                       .value_bytes = options.value_bytes,
                       .on_error = options.on_error};
    if constexpr (std::is_same_v<Where, Pinned>) {
      return Decoder{std::move(make), to_pinned, std::move(how)};
    } else {
      return Decoder{std::move(make), std::move(how)};
    }
  } else {
    return RefusedStage{};
  }
}

} // namespace penstock::detail
