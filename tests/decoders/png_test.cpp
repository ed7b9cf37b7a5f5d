// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// PNG files through a pipeline. compare_pictures.py compares pixels with Pillow's.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/file_records.hpp"

#include <penstock/decoders/png.hpp>
#include <penstock/penstock.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <png.h>
#include <zlib.h>

namespace ps = penstock;
using ps::tests::FileRecords;
using ps::tests::some_picture;

namespace {

void add(std::string& file, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    file += static_cast<char>(number >> shift);
  }
}
std::string chunk(const std::string& type, const std::string& data) {
  std::string made;
  add(made, static_cast<std::uint32_t>(data.size()));
  const std::string both = type + data;
  made += both;
  add(made, static_cast<std::uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(both.data()),
                                               static_cast<uInt>(both.size()))));
  return made;
}
// A file with one filter byte, 0, before each row that `rows` holds.
std::string png_of(std::uint32_t width, std::uint32_t height, int bits, int type,
                   const std::string& rows, const std::string& more = {}) {
  std::string header;
  add(header, width);
  add(header, height);
  header += {static_cast<char>(bits), static_cast<char>(type), 0, 0, 0};
  const std::size_t row = rows.size() / height;
  std::string filtered;
  for (std::size_t y = 0; y != height; ++y) {
    filtered += '\0' + rows.substr(y * row, row);
  }
  uLongf size = ::compressBound(filtered.size());
  std::string packed(size, '\0');
  REQUIRE(::compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(filtered.data()), filtered.size()) == Z_OK);
  packed.resize(size);
  return "\x89PNG\r\n\x1A\n" + chunk("IHDR", header) + more + chunk("IDAT", packed) +
         chunk("IEND", "");
}
std::string some_png(std::uint32_t width, std::uint32_t height, unsigned seed = 1) {
  const auto pixels = some_picture(width, height, 3, seed);
  return png_of(width, height, 8, 2, {pixels.begin(), pixels.end()});
}

struct Outcome {
  std::map<int, std::string> pictures;
  ps::Report report;
};
template <std::size_t channels> Outcome decoded(std::vector<std::string> files,
                                                const ps::ImageOptions& options) {
  Outcome outcome;
  const auto keep =
      [&](ps::Batch<const ps::Image<channels, ps::dynamic, ps::dynamic>, ps::Pageable> batch) {
        for (std::size_t i = 0; i != batch.size(); ++i) {
          const auto pixels = ps::get<"image">(batch)[i];
          outcome.pictures[ps::get<"label">(batch)[i]] =
              std::string{reinterpret_cast<const char*>(pixels.data()), pixels.size()};
        }
      };
  auto pipeline = ps::Reader{FileRecords{std::move(files)}} |
                  ps::png<channels, ps::dynamic, ps::dynamic, ps::Pageable>(options) |
                  ps::Consumer{std::ref(keep)};
  outcome.report = pipeline.run();
  return outcome;
}
template <std::size_t channels> std::string pixels_of(const std::string& file, std::size_t height,
                                                      std::size_t width) {
  return decoded<channels>({file}, {.size = {height, width}, .strict = true}).pictures.at(0);
}

} // namespace

TEST_CASE("colour comes out plane by plane, and grey as three equal ones") {
  CHECK(pixels_of<3>(png_of(2, 1, 8, 2, "rgbRGB"), 1, 2) == "rRgGbB");
  CHECK(pixels_of<3>(png_of(2, 2, 8, 0, "abcd"), 2, 2) == "abcdabcdabcd");
  CHECK(pixels_of<1>(png_of(2, 2, 8, 0, "abcd"), 2, 2) == "abcd");
  CHECK(pixels_of<1>(png_of(1, 1, 8, 2, "\xFF\x01\x02"), 1, 1) == "\x4D"); // 0.299 of red
}

TEST_CASE("palettes, few bits and sixteen become eight bits a channel") {
  const std::string palette = chunk("PLTE", "abcABCxyz");
  CHECK(pixels_of<3>(png_of(4, 1, 2, 3, "\x18", palette), 1, 4) == "aAxabBybcCzc");
  CHECK(pixels_of<1>(png_of(8, 1, 1, 0, "\xA0"), 1, 8) == std::string("\xFF\0\xFF\0\0\0\0\0", 8));
  CHECK(pixels_of<1>(png_of(2, 1, 4, 0, "\x1F"), 1, 2) == "\x11\xFF");
  CHECK(pixels_of<1>(png_of(2, 1, 16, 0, {"a\xFFz\x00", 4}), 1, 2) == "az");
  CHECK(pixels_of<3>(png_of(1, 1, 16, 2,
                            "a\xFF"
                            "b\xFF"
                            "c\xFF"),
                     1, 1) == "abc");
}

TEST_CASE("alpha and transparent colours are dropped, and gamma changes nothing") {
  CHECK(pixels_of<3>(png_of(1, 1, 8, 6, {"rgb\0", 4}), 1, 1) == "rgb");
  CHECK(pixels_of<3>(png_of(1, 1, 8, 4, "g\x07"), 1, 1) == "ggg");
  CHECK(pixels_of<3>(png_of(1, 1, 16, 6, "rxgxbxax"), 1, 1) == "rgb");
  const std::string key = chunk("PLTE", "abcABC") + chunk("tRNS", {"\0\1", 2});
  CHECK(pixels_of<3>(png_of(2, 1, 1, 3, "\x40", key), 1, 2) == "aAbBcC");
  const std::string grey_key = chunk("tRNS", {"\0g", 2});
  CHECK(pixels_of<3>(png_of(2, 1, 8, 0, "gh", grey_key), 1, 2) == "ghghgh");
  const std::string gamma = chunk("gAMA", {"\0\1\x86\xA0", 4});
  CHECK(pixels_of<3>(png_of(1, 1, 8, 2, "rgb", gamma), 1, 1) == "rgb");
}

TEST_CASE("files that cannot be decoded are left out and listed") {
  std::vector<std::string> files(9, some_png(64, 64));
  files[1] = "no picture";
  files[2] = "";
  files[3].resize(20);
  files[4].resize(files[4].size() / 2);
  files[5][files[5].size() - 30] ^= 1; // in the data, whose sum is then wrong
  files[6] = png_of(0xFFFF, 0xFFFF, 8, 2, std::string(0xFFFF, 'x'));
  files[7] = png_of(0x7FFFFFFF, 1, 8, 2, "x");
  ps::ImageNotes notes;
  const Outcome outcome =
      decoded<3>(files, {.size = {24, 24}, .notes = &notes, .on_error = {.skips = 20}});
  CHECK(outcome.pictures.size() == 2);
  CHECK(notes.count() == 0);
  REQUIRE(outcome.report.skips.size() == 7);
  for (const ps::SkippedItem& skip : outcome.report.skips) {
    CHECK(skip.reason.find("penstock: png: ") != std::string::npos);
    CHECK(skip.reason.find("leave such records out by .on_error") != std::string::npos);
  }
  // Newer versions of libpng refuse so many pixels themselves.
  const std::string& huge = outcome.report.skips[5].reason;
  INFO(huge);
  CHECK((huge.find("65535 x 65535 pixels") != std::string::npos ||
         huge.find("no PNG file") != std::string::npos || huge.find("limit") != std::string::npos));
}

TEST_CASE("a file without its end is kept and noted; with strict it is left out") {
  std::string without = some_png(64, 64);
  without.resize(without.size() - 12);
  ps::ImageNotes notes;
  CHECK(decoded<3>({without}, {.size = {24, 24}, .notes = &notes}).pictures.size() == 1);
  CHECK(notes.count() == 1);
  CHECK(decoded<3>({without}, {.size = {24, 24}, .strict = true, .on_error = {.skips = 1}})
            .pictures.empty());
}

TEST_CASE("random parts and mirroring do not depend on the workers") {
  std::vector<std::string> files;
  for (unsigned i = 0; i != 40; ++i) {
    files.push_back(some_png(40 + i % 20, 50 + i % 13, i));
  }
  const auto run = [&](unsigned workers) {
    return decoded<3>(files, {.workers = workers,
                              .size = {24, 24},
                              .crop = ps::Crop::random,
                              .flip = true,
                              .seed = 7})
        .pictures;
  };
  CHECK(run(1) == run(4));
}

TEST_CASE("an option of JPEG alone is refused") {
  CHECK(ps::tests::has(
      ps::tests::caught<ps::OptionError>([] { ps::png<3, 5, 5>({.scaled = true}); }), ".scaled"));
  CHECK(ps::tests::has(ps::tests::caught<ps::OptionError>([] { ps::png<3, ps::dynamic, 5>(); }),
                       ".size"));
}
