// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// PNG files through a pipeline. compare_pictures.py compares pixels with Pillow's.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/file_records.hpp"

#include <penstock/formats/png.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
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
std::string packed(const std::string& data, int level = Z_DEFAULT_COMPRESSION) {
  uLongf size = ::compressBound(data.size());
  std::string made(size, '\0');
  REQUIRE(::compress2(reinterpret_cast<Bytef*>(made.data()), &size,
                      reinterpret_cast<const Bytef*>(data.data()), data.size(), level) == Z_OK);
  made.resize(size);
  return made;
}
// One filter byte, 0, before each row.
std::string filtered(const std::string& rows, std::size_t height) {
  const std::size_t row = rows.size() / height;
  std::string made;
  for (std::size_t y = 0; y != height; ++y) {
    made += '\0' + rows.substr(y * row, row);
  }
  return made;
}
// A file whose compressed data comes in chunks of so many bytes.
std::string file_of(const std::string& header, const std::string& more, const std::string& data,
                    std::size_t piece = ~std::size_t{0}) {
  std::string file = "\x89PNG\r\n\x1A\n" + chunk("IHDR", header) + more;
  for (std::size_t at = 0; at < data.size(); at += std::min(piece, data.size() - at)) {
    file += chunk("IDAT", data.substr(at, piece));
  }
  return file + chunk("IEND", "");
}
std::string header_of(std::uint32_t width, std::uint32_t height, int bits, int type,
                      bool interlaced = false) {
  std::string header;
  add(header, width);
  add(header, height);
  header += {static_cast<char>(bits), static_cast<char>(type), 0, 0, static_cast<char>(interlaced)};
  return header;
}
std::string png_of(std::uint32_t width, std::uint32_t height, int bits, int type,
                   const std::string& rows, const std::string& more = {}) {
  return file_of(header_of(width, height, bits, type), more, packed(filtered(rows, height)));
}
std::string some_png(std::uint32_t width, std::uint32_t height, unsigned seed = 1) {
  const auto pixels = some_picture(width, height, 3, seed);
  return png_of(width, height, 8, 2, {pixels.begin(), pixels.end()});
}

// EXIF data of one entry, or of several: their tags are orientations, unless `tag` says otherwise.
std::string exif_of(const std::vector<std::uint16_t>& orientations, bool big_endian,
                    std::uint16_t tag = 0x0112) {
  std::string data;
  const auto put = [&](std::uint32_t number, int bytes) {
    for (int i = 0; i != bytes; ++i) {
      data += static_cast<char>(number >> 8 * (big_endian ? bytes - 1 - i : i));
    }
  };
  data += big_endian ? "MM" : "II";
  put(42, 2);
  put(8, 4);
  put(static_cast<std::uint32_t>(orientations.size()), 2);
  for (const std::uint16_t orientation : orientations) {
    put(tag, 2);
    put(3, 2);
    put(1, 4);
    put(orientation, 2);
    put(0, 2);
  }
  put(0, 4);
  return data;
}
// The pixels, three bytes each, that an upright picture is stored as.
std::string stored_as(int orientation, std::size_t width, std::size_t height,
                      const std::string& upright) {
  std::string made(upright.size(), '\0');
  const std::size_t across = orientation >= 5 ? height : width; // of the stored picture
  const std::size_t down = orientation >= 5 ? width : height;
  for (std::size_t y = 0; y != height; ++y) {
    for (std::size_t x = 0; x != width; ++x) {
      // Where EXIF says that the upright pixel lies: column, row.
      const std::pair<std::size_t, std::size_t> places[]{
          {x, y}, {across - 1 - x, y}, {across - 1 - x, down - 1 - y}, {x, down - 1 - y},
          {y, x}, {y, down - 1 - x},   {across - 1 - y, down - 1 - x}, {across - 1 - y, x},
      };
      const auto [column, row] = places[orientation - 1];
      made.replace((row * across + column) * 3, 3, upright, (y * width + x) * 3, 3);
    }
  }
  return made;
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
  const Outcome kept = decoded<3>({without}, {.size = {24, 24}, .notes = &notes});
  CHECK(kept.pictures.size() == 1);
  CHECK(kept.report.stages[1].note.find("kept 1 record whose file") == 0);
  CHECK(notes.count() == 1);
  CHECK(decoded<3>({without}, {.size = {24, 24}, .strict = true, .on_error = {.skips = 1}})
            .pictures.empty());
}

namespace {

// The rows of an interlaced picture, pass by pass, of so many bytes a pixel.
std::string interlaced(const std::string& rows, std::size_t width, std::size_t height,
                       std::size_t each) {
  struct Pass {
    std::size_t x, y, right, down;
  };
  std::string made;
  for (const Pass& pass : {Pass{0, 0, 8, 8}, Pass{4, 0, 8, 8}, Pass{0, 4, 4, 8}, Pass{2, 0, 4, 4},
                           Pass{0, 2, 2, 4}, Pass{1, 0, 2, 2}, Pass{0, 1, 1, 2}}) {
    for (std::size_t y = pass.y; y < height && pass.x < width; y += pass.down) {
      made += '\0';
      for (std::size_t x = pass.x; x < width; x += pass.right) {
        made += rows.substr((y * width + x) * each, each);
      }
    }
  }
  return made;
}

struct Drawn {
  const char* name;
  std::size_t width, height;
  std::string header, more, data; // the data is filtered, and not compressed
};
std::vector<Drawn> all_kinds() {
  const auto some = [](std::size_t width, std::size_t height, std::size_t each) {
    const auto pixels = some_picture(width, height, each);
    return std::string{pixels.begin(), pixels.end()};
  };
  std::vector<Drawn> all{
      {"colour", 4, 4, header_of(4, 4, 8, 2), "", filtered(some(4, 4, 3), 4)},
      {"16 bits", 5, 3, header_of(5, 3, 16, 6), "", filtered(some(5, 3, 8), 3)},
      {"a palette", 8, 3, header_of(8, 3, 2, 3), chunk("PLTE", "abcABCxyzXYZ"),
       filtered(some(2, 3, 1), 3)},
      {"one bit", 9, 9, header_of(9, 9, 1, 0), "", filtered(some(2, 9, 1), 9)},
      {"larger", 90, 70, header_of(90, 70, 8, 2), "", filtered(some(90, 70, 3), 70)}};
  for (const std::uint32_t height : {1U, 2U, 8U, 9U}) {
    all.push_back({"interlaced", 7, height, header_of(7, height, 8, 2, true), "",
                   interlaced(some(7, height, 3), 7, height, 3)});
  }
  all.push_back({"interlaced, 16 bits", 5, 5, header_of(5, 5, 16, 0, true), "",
                 interlaced(some(5, 5, 2), 5, 5, 2)});
  return all;
}

// The deflate stream in stored blocks: all but the last one say that another follows.
std::string stored(const std::string& data, bool last) {
  const auto size = static_cast<char>(data.size() & 0xFF);
  const auto more = static_cast<char>(data.size() >> 8);
  return std::string{last ? '\1' : '\0', size, more, static_cast<char>(~size),
                     static_cast<char>(~more)} +
         data;
}
std::string sync_flushed(const std::string& data) {
  return "\x78\x01" + stored(data, false) + stored("", false);
}

struct Stream {
  const char* name;
  std::string (*of)(const std::string& data);
};
std::string cut(std::string text, std::size_t bytes) {
  text.resize(text.size() - bytes);
  return text;
}
std::string changed(std::string text) {
  text.back() = static_cast<char>(text.back() ^ 1);
  return text;
}
using Text = const std::string&;
const Stream with_all_pixels[] = {
    {"no checksum", [](Text data) { return cut(packed(data), 4); }},
    {"half a checksum", [](Text data) { return cut(packed(data), 2); }},
    {"stored, no checksum", [](Text data) { return cut(packed(data, 0), 4); }},
    {"a wrong checksum", [](Text data) { return changed(packed(data)); }},
    {"stored, a wrong checksum", [](Text data) { return changed(packed(data, 0)); }},
    {"a sync flush", sync_flushed},
    {"a sync flush and a wrong block", [](Text data) { return sync_flushed(data) + "\x07"; }},
    {"a block that goes on", [](Text data) { return cut(packed(data + "four", 0), 5); }},
    {"more rows", [](Text data) { return packed(data + std::string(500, 'x')); }},
    {"more rows without an end", [](Text data) { return cut(packed(data + "more", 0), 4); }},
    {"bytes behind it", [](Text data) { return packed(data) + "behind"; }},
    {"another stream behind it", [](Text data) { return packed(data) + packed("behind"); }},
};
const Stream lacking_pixels[] = {
    {"one byte too few", [](Text data) { return packed(cut(data, 1)); }},
    {"one byte too few, no checksum", [](Text data) { return cut(packed(data, 0), 5); }},
    {"one byte too few, sync flush", [](Text data) { return sync_flushed(cut(data, 1)); }},
    {"one byte too few, a wrong one behind",
     [](Text data) { return sync_flushed(cut(data, 1)) + "\x07"; }},
    {"no stream", [](Text data) { return data; }},
};

} // namespace

TEST_CASE("a picture is kept, with a note, if its compressed data lacks no more than its end") {
  for (const Drawn& drawn : all_kinds()) {
    const ps::ImageOptions options{.size = {drawn.height, drawn.width}};
    const auto sound =
        decoded<3>({file_of(drawn.header, drawn.more, packed(drawn.data))}, options).pictures.at(0);
    for (const std::size_t piece : {~std::size_t{0}, std::size_t{1}, std::size_t{7}}) {
      for (const auto& [name, stream] : with_all_pixels) {
        INFO(drawn.name << " of " << drawn.width << " x " << drawn.height << ", " << name
                        << ", in pieces of " << piece);
        ps::ImageNotes notes;
        ps::ImageOptions noted = options;
        noted.notes = &notes;
        noted.on_error = {.skips = 1};
        const std::string file = file_of(drawn.header, drawn.more, stream(drawn.data), piece);
        const Outcome outcome = decoded<3>({file}, noted);
        CHECK(outcome.report.skips.empty());
        CHECK((outcome.pictures == std::map<int, std::string>{{0, sound}}));
        if (piece == ~std::size_t{0}) { // with small pieces libpng does not look behind the pixels
          CHECK(notes.count() == 1);
          noted.strict = true;
          CHECK(decoded<3>({file}, noted).report.skips.size() == 1);
        }
      }
      for (const auto& [name, stream] : lacking_pixels) {
        INFO(drawn.name << " of " << drawn.width << " x " << drawn.height << ", " << name
                        << ", in pieces of " << piece);
        ps::ImageOptions skips = options;
        skips.on_error = {.skips = 1};
        const Outcome outcome =
            decoded<3>({file_of(drawn.header, drawn.more, stream(drawn.data), piece)}, skips);
        REQUIRE(outcome.report.skips.size() == 1);
        CHECK(outcome.report.skips[0].reason.find("whose pixels are damaged or not all there") !=
              std::string::npos);
      }
    }
  }
}

TEST_CASE("a file may end anywhere behind its last pixel, and a wrong sum of a chunk is refused") {
  const std::string rows = "abcdefghijkl";
  const std::string whole =
      file_of(header_of(2, 2, 8, 2), "", packed(filtered(rows, 2), 0)); // the sums and the end
  const std::size_t behind = 4 + 4 + 12;
  for (std::size_t bytes = 1; bytes != behind + 4; ++bytes) {
    INFO(bytes << " bytes cut off");
    ps::ImageNotes notes;
    const Outcome outcome = decoded<3>({cut(whole, bytes)},
                                       {.size = {2, 2}, .notes = &notes, .on_error = {.skips = 1}});
    CHECK(outcome.pictures.size() == (bytes <= behind ? 1 : 0));
    CHECK(notes.count() == (bytes <= behind ? 1 : 0));
    if (bytes <= behind) {
      CHECK(outcome.pictures.at(0) == "adgjbehkcfil");
    }
  }
  for (const std::size_t at : {whole.size() - 13, whole.size() - 17, whole.size() - 22}) {
    std::string wrong = whole;
    wrong[at] = static_cast<char>(wrong[at] ^ 1); // the sum, the checksum, a pixel
    const Outcome outcome = decoded<3>({wrong}, {.size = {2, 2}, .on_error = {.skips = 1}});
    REQUIRE(outcome.report.skips.size() == 1);
    CHECK(outcome.report.skips[0].reason.find("CRC") != std::string::npos);
  }
}

TEST_CASE("chunks that are wrong, missing or unknown: what pixels need is refused, else noted") {
  const std::string colour = header_of(2, 1, 8, 2);
  const std::string indexed = header_of(2, 1, 8, 3);
  const std::string data = packed(filtered("rgbRGB", 1));
  const std::string indices = packed(filtered({"\0\1", 2}, 1));
  const std::string palette = chunk("PLTE", "rgbRGB");
  const auto wrong = [](const char* type, const std::string& of) {
    return changed(chunk(type, of));
  };
  const auto file = [](const std::vector<std::string>& chunks) {
    std::string made = "\x89PNG\r\n\x1A\n";
    for (const std::string& one : chunks) {
      made += one;
    }
    return made + chunk("IEND", "");
  };
  const std::string head = chunk("IHDR", colour);
  const std::string pixels = chunk("IDAT", data);
  const std::string head_of_indexed = chunk("IHDR", indexed);
  const std::string indexed_pixels = chunk("IDAT", indices);
  const std::string text = {"a\0b", 3};
  struct Case {
    const char* name;
    std::string file;
    const char* said; // in the error, or in the note behind "note: ", or nothing
  };
  const std::vector<Case> cases{
      {"sound", file({head, pixels}), ""},
      {"sound, with a palette", file({head_of_indexed, palette, indexed_pixels}), ""},
      {"a wrong sum of the header", file({wrong("IHDR", colour), pixels}), "IHDR"},
      {"a wrong sum of the pixels", file({head, wrong("IDAT", data)}), "IDAT"},
      {"a wrong sum of the palette",
       file({head_of_indexed, wrong("PLTE", "rgbRGB"), indexed_pixels}), "PLTE"},
      {"a wrong sum of a text", file({head, wrong("tEXt", text), pixels}), "note: tEXt"},
      {"a wrong sum of a text behind", file({head, pixels, wrong("tEXt", text)}), "note: tEXt"},
      {"a wrong sum of the gamma", file({head, wrong("gAMA", "\1\1\1\1"), pixels}), "note: gAMA"},
      {"a wrong sum of a key", file({head, wrong("tRNS", "\1\1\1\1\1\1"), pixels}), "note: tRNS"},
      {"a wrong sum of an unknown one", file({head, wrong("abCd", text), pixels}), "note: abCd"},
      {"a short chunk", file({head, chunk("pHYs", "x"), pixels}), ""},
      {"an unknown critical chunk", file({head, chunk("ABCD", "x"), pixels}), "ABCD"},
      {"one of Apple's", file({chunk("CgBI", "four"), head, pixels}), "CgBI"},
      {"no palette", file({head_of_indexed, indexed_pixels}), "PLTE"},
      {"a palette behind", file({head_of_indexed, indexed_pixels, palette}), "PLTE"},
      {"an empty palette", file({head_of_indexed, chunk("PLTE", ""), indexed_pixels}), "palette"},
      {"two palettes", file({head_of_indexed, palette, palette, indexed_pixels}), "PLTE"},
      {"a palette of no whole colours",
       file({head_of_indexed, chunk("PLTE", "rgbRGBx"), indexed_pixels}), "PLTE"},
      {"two headers", file({head, head, pixels}), "IHDR"},
      {"a longer header", file({chunk("IHDR", colour + "x"), pixels}), "IHDR"},
      {"another compression",
       file({chunk("IHDR", colour.substr(0, 10) + "\1" + std::string(2, 0)), pixels}), "IHDR"},
      {"no pixels", file({head}), "IEND"}};
  for (const auto& [name, bytes, said] : cases) {
    INFO(name);
    const std::string wanted = said;
    const bool noted = wanted.find("note: ") == 0;
    ps::ImageNotes notes;
    const Outcome outcome =
        decoded<3>({bytes}, {.size = {1, 2}, .notes = &notes, .on_error = {.skips = 1}});
    CHECK(notes.count() == (noted ? 1 : 0));
    CHECK(outcome.report.skips.size() == (noted || wanted.empty() ? 0 : 1));
    if (noted) {
      CHECK(notes.first().at(0).text.find(wanted.substr(6)) == 0);
    }
    if (noted || wanted.empty()) {
      CHECK(outcome.pictures.at(0) == "rRgGbB");
    } else {
      CHECK(outcome.report.skips.at(0).reason.find(said) != std::string::npos);
    }
  }
}

TEST_CASE("with .orient a picture is as if it were stored upright, whatever else is asked for") {
  constexpr std::uint32_t width = 37, height = 22;
  const auto made = some_picture(width, height, 3);
  const std::string upright{made.begin(), made.end()};
  const std::vector<std::string> expected(6, png_of(width, height, 8, 2, upright));
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const bool turned = orientation >= 5;
    const std::string stored = stored_as(orientation, width, height, upright);
    const std::uint32_t across = turned ? height : width;
    const std::uint32_t down = turned ? width : height;
    std::vector<std::string> files;
    for (const bool big_endian : {false, true}) {
      const std::string exif =
          chunk("eXIf", exif_of({static_cast<std::uint16_t>(orientation)}, big_endian));
      const std::string plain = png_of(across, down, 8, 2, stored);
      files.push_back(png_of(across, down, 8, 2, stored, exif));
      files.push_back(png_of(across, down, 8, 2, stored, chunk("tEXt", "a") + exif));
      files.push_back(plain.substr(0, plain.size() - 12) + exif + chunk("IEND", ""));
    }
    INFO("orientation " << orientation);
    const auto same = [&](ps::ImageOptions options) {
      const auto wanted = decoded<3>(expected, options).pictures;
      const auto grey = decoded<1>(expected, options).pictures;
      options.orient = true;
      CHECK(decoded<3>(files, options).pictures == wanted);
      CHECK(decoded<1>(files, options).pictures == grey);
    };
    same({.size = {height, width}, .crop = ps::Crop::none});
    same({.size = {50, 11}, .crop = ps::Crop::none});
    same({.size = {16, 16}});
    same({.size = {13, 19}, .crop = ps::Crop::random, .flip = true, .seed = 3});
    const auto as_stored = decoded<3>(files, {.size = {down, across}}).pictures;
    CHECK(as_stored.at(0) == pixels_of<3>(png_of(across, down, 8, 2, stored), down, across));
  }
}

TEST_CASE("odd EXIF data turn nothing, and are no error") {
  const std::string pixels = "abcdefghijklmnopqr"; // 3 x 2
  const auto decode = [&](const std::string& exif) {
    return decoded<3>({png_of(3, 2, 8, 2, pixels, chunk("eXIf", exif))},
                      {.size = {2, 3}, .crop = ps::Crop::none, .orient = true})
        .pictures.at(0);
  };
  const std::string stored = decode("");
  const std::string half_turned = decode(exif_of({3}, true));
  CHECK(half_turned == std::string{stored.rbegin() + 12, stored.rend()} +
                           std::string{stored.rbegin() + 6, stored.rbegin() + 12} +
                           std::string{stored.rbegin(), stored.rbegin() + 6});
  const std::string good = exif_of({3}, true);
  const auto with = [&](std::size_t at, const std::string& bytes) {
    return std::string{good}.replace(at, bytes.size(), bytes);
  };
  for (std::size_t bytes = 0; bytes < 22; ++bytes) { // its one entry ends there
    INFO(bytes);
    CHECK(decode(good.substr(0, bytes)) == stored);
  }
  for (const std::string& exif :
       {exif_of({0}, false), exif_of({9}, false), exif_of({0xFFFF}, true), exif_of({}, true),
        exif_of({3}, true, 0x0113), with(0, "IM"), with(0, "II"), with(3, "+"),
        with(4, "\xFF\xFF\xFF\xFF"), with(4, std::string{"\0\0\0\x22", 4}),
        with(4, std::string{"\0\0\0\x19", 4}), with(8, std::string{"\0\0", 2}), with(13, "\1"),
        with(13, "\2"), with(17, std::string(1, '\0')), with(17, "\2"), with(14, "\1"),
        exif_of({3, 9}, true), std::string(70'000, 'M')}) {
    CHECK(decode(exif) == stored);
  }
  // The last one counts; a count that promises more entries than there are is no reason to pass
  // over those that are there.
  for (const std::string& exif : {exif_of({1, 6, 3}, true), with(8, "\xFF\xFF"), good.substr(0, 22),
                                  good + "more", "Exif" + std::string(2, '\0') + good}) {
    CHECK(decode(exif) == half_turned);
  }
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
