// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// JPEG files through a pipeline. compare_pictures.py compares pixels with Pillow's.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/file_records.hpp"

#include <penstock/formats/jpeg.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <turbojpeg.h>

namespace ps = penstock;
using ps::tests::FileRecords;
using ps::tests::some_picture;

namespace {

std::string jpeg_of(const std::vector<std::uint8_t>& pixels, int width, int height,
                    int format = TJPF_RGB, int subsampling = TJSAMP_420, int flags = 0) {
  unsigned char* made = nullptr;
  unsigned long size = 0;
  const tjhandle handle = ::tjInitCompress();
  REQUIRE(::tjCompress2(handle, pixels.data(), width, 0, height, format, &made, &size, subsampling,
                        90, flags) == 0);
  std::string file{reinterpret_cast<const char*>(made), size};
  ::tjFree(made);
  ::tjDestroy(handle);
  return file;
}
std::string some_jpeg(int width, int height, unsigned seed = 1, int flags = 0) {
  const auto w = static_cast<std::size_t>(width);
  const auto h = static_cast<std::size_t>(height);
  return jpeg_of(some_picture(w, h, 3, seed), width, height, TJPF_RGB, TJSAMP_420, flags);
}
std::vector<std::string> some_jpegs(std::size_t count) {
  std::vector<std::string> files;
  for (std::size_t i = 0; i != count; ++i) {
    files.push_back(some_jpeg(60 + static_cast<int>(i * 7 % 50), 50 + static_cast<int>(i * 11 % 40),
                              static_cast<unsigned>(i)));
  }
  return files;
}
// Where the n-th marker of a kind begins.
std::size_t marker(const std::string& file, char kind, int n = 1) {
  std::size_t at = std::string::npos;
  for (; n != 0; --n) {
    at = file.find(std::string{'\xFF', kind}, at + 1);
    REQUIRE(at != std::string::npos);
  }
  return at;
}

// The file with a segment before all others.
std::string with(const std::string& file, char kind, const std::string& data) {
  const std::size_t length = data.size() + 2;
  return file.substr(0, 2) + '\xFF' + kind + static_cast<char>(length >> 8) +
         static_cast<char>(length) + data + file.substr(2);
}
std::string with_orientation(const std::string& file, int orientation) {
  const std::string exif{"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0", 24};
  return with(file, '\xE1', exif + static_cast<char>(orientation) + std::string(7, '\0'));
}

/// What came of each record, by label and epoch, and what the run said.
struct Outcome {
  std::map<std::pair<int, int>, std::string> pictures;
  ps::Report report;
};

template <std::size_t channels> Outcome
decoded(std::vector<std::string> files, ps::ImageOptions options, std::uint64_t epochs = 1) {
  Outcome outcome;
  std::map<int, int> epoch;
  const auto keep =
      [&](ps::Batch<const ps::Image<channels, ps::dynamic, ps::dynamic>, ps::Pageable> batch) {
        for (std::size_t i = 0; i != batch.size(); ++i) {
          const auto pixels = ps::get<"image">(batch)[i];
          const int label = ps::get<"label">(batch)[i];
          outcome.pictures[{label, epoch[label]++}] =
              std::string{reinterpret_cast<const char*>(pixels.data()), pixels.size()};
        }
      };
  auto pipeline = ps::Reader{FileRecords{std::move(files)}, {.epochs = epochs}} |
                  ps::jpeg<channels, ps::dynamic, ps::dynamic, ps::Pageable>(options) |
                  ps::Consumer{std::ref(keep)};
  outcome.report = pipeline.run();
  return outcome;
}

// The largest difference of two pictures, and the mean one.
std::pair<int, double> apart(const std::string& a, const std::string& b) {
  REQUIRE(a.size() == b.size());
  int most = 0;
  double sum = 0;
  for (std::size_t i = 0; i != a.size(); ++i) {
    const int away = std::abs(static_cast<unsigned char>(a[i]) - static_cast<unsigned char>(b[i]));
    most = std::max(most, away);
    sum += away;
  }
  return {most, sum / static_cast<double>(a.size())};
}

struct Encoded
    : ps::Columns<ps::Field<"key", ps::Ragged<char>>, ps::Field<"jpg", ps::Ragged<std::uint8_t>>,
                  ps::Field<"cls", std::int64_t>, ps::Field<"unused", float>,
                  ps::Field<"box", float, 2, 2>> {};
struct Picture
    : ps::Columns<ps::Field<"box", float, 2, 2>, ps::Field<"pixels", std::uint8_t, 1, 20, 30>,
                  ps::Field<"key", ps::Ragged<char>>, ps::Field<"cls", std::int64_t>> {};

struct Samples {
  using schema = Encoded;
  std::string file;
  std::uint64_t size() const { return 5; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Encoded, Where> into) const {
    for (std::size_t i = 0; i != into.size(); ++i) {
      const std::uint64_t number = into.index() + i;
      const std::string key(number, 'k');
      std::copy(key.begin(), key.end(), ps::get<"key">(into).put(i, key.size()));
      std::copy(file.begin(), file.end(), ps::get<"jpg">(into).put(i, file.size()));
      ps::get<"cls">(into)[i] = static_cast<std::int64_t>(number);
      ps::get<"unused">(into)[i] = 0;
      ps::get<"box">(into)[i][1][0] = static_cast<float>(number) / 2;
    }
    return into.size();
  }
};

} // namespace

TEST_CASE("a picture of the wanted size has the pixels that TurboJPEG gives, plane by plane") {
  const std::string file = some_jpeg(40, 30);
  std::vector<std::uint8_t> expected(40 * 30 * 3);
  const tjhandle handle = ::tjInitDecompress();
  REQUIRE(::tjDecompress2(handle, reinterpret_cast<const unsigned char*>(file.data()), file.size(),
                          expected.data(), 40, 0, 30, TJPF_RGB, 0) == 0);
  ::tjDestroy(handle);
  const Outcome outcome = decoded<3>({file}, {.size = {30, 40}});
  const std::string& got = outcome.pictures.at({0, 0});
  int wrong = 0;
  for (std::size_t i = 0; i != expected.size(); ++i) {
    wrong += static_cast<std::uint8_t>(got[i % 3 * 1200 + i / 3]) != expected[i];
  }
  CHECK(wrong == 0);
}

TEST_CASE("a stage of fixed extents gives pinned batches, and labels go along") {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = ps::Reader{FileRecords{some_jpegs(20)}} |
                  ps::jpeg<3, 32, 48>({.workers = 2, .crop = ps::Crop::none}) |
                  ps::AsyncCopier{device, {.batch = 7}};
  std::int32_t label = 0;
  for (auto batch : pipeline.on(stream)) {
    stream.sync();
    static_assert(
        std::is_same_v<decltype(ps::get<"image">(batch)[0]), const std::uint8_t(&)[3][32][48]>);
    for (std::size_t i = 0; i != batch.size(); ++i) {
      CHECK(ps::get<"label">(batch)[i] == label++);
    }
  }
  CHECK(label == 20);
}

TEST_CASE("by default one worker decodes for each processor, and the ranks of a host share them") {
  const auto workers_of = [](unsigned local_world) {
    auto pipeline =
        ps::Reader{FileRecords{some_jpegs(64)},
                   {.order = {.ranks = {.world = local_world, .local_world = local_world}}}} |
        ps::jpeg<3, 32, 48, ps::Pageable>() |
        ps::Consumer{[](ps::Batch<const ps::Image<3, 32, 48>, ps::Pageable>) {}};
    pipeline.prepare();
    return pipeline.report().stages[1].workers;
  };
  CHECK(workers_of(1) == std::min(ps::usable_processors(), 32U));
  CHECK(workers_of(64) == std::max(ps::usable_processors() / 64, 1U));
}

TEST_CASE("schemas of one's own: the picture takes the bytes' place, the others go along") {
  int came = 0;
  auto pipeline = ps::Reader{Samples{some_jpeg(100, 100)}} |
                  ps::jpeg<Encoded, Picture, ps::Pageable>({.workers = 2}) |
                  ps::Consumer{[&](ps::Batch<const Picture, ps::Pageable> batch) {
                    for (std::size_t i = 0; i != batch.size(); ++i, ++came) {
                      CHECK(ps::get<"key">(batch)[i].size() == static_cast<std::size_t>(came));
                      CHECK(ps::get<"cls">(batch)[i] == came);
                      CHECK(ps::get<"box">(batch)[i][1][0] == static_cast<float>(came) / 2);
                      CHECK(ps::get<"pixels">(batch)[i][0][19][29] != 0);
                    }
                  }};
  pipeline.run();
  CHECK(came == 5);
}

TEST_CASE("grey and inverted CMYK come out as colour, and colour as grey") {
  const std::vector<std::uint8_t> grey = some_picture(40, 30, 1);
  const std::string of_grey = jpeg_of(grey, 40, 30, TJPF_GRAY, TJSAMP_GRAY);
  const Outcome colour = decoded<3>({of_grey}, {.size = {30, 40}});
  const Outcome still_grey = decoded<1>({of_grey}, {.size = {30, 40}});
  const std::string& plane = still_grey.pictures.at({0, 0});
  CHECK(colour.pictures.at({0, 0}) == plane + plane + plane);

  std::vector<std::uint8_t> ink = some_picture(40, 30, 4); // inverted: 255 is none of it
  std::vector<std::uint8_t> expected(3 * 1200);
  for (std::size_t i = 0; i != 1200; ++i) {
    for (std::size_t c = 0; c != 3; ++c) {
      expected[c * 1200 + i] = static_cast<std::uint8_t>(ink[4 * i + c] * ink[4 * i + 3] / 255);
    }
  }
  const std::string of_ink = jpeg_of(ink, 40, 30, TJPF_CMYK, TJSAMP_444);
  const Outcome printed = decoded<3>({of_ink}, {.size = {30, 40}});
  const std::string wanted{reinterpret_cast<const char*>(expected.data()), expected.size()};
  CHECK(apart(printed.pictures.at({0, 0}), wanted).second < 4);
  const Outcome printed_grey = decoded<1>({of_ink}, {.size = {30, 40}});
  CHECK(printed_grey.pictures.at({0, 0}).size() == 1200);
}

TEST_CASE("random parts and mirroring depend on seed, record and epoch, not on the workers") {
  const auto run = [](unsigned workers, ps::Seed seed) {
    return decoded<3>(some_jpegs(60),
                      {.workers = workers,
                       .size = {24, 24},
                       .crop = ps::Crop::random,
                       .flip = true,
                       .seed = seed},
                      2)
        .pictures;
  };
  const auto one = run(1, 7);
  CHECK(one.size() == 120);
  CHECK(one == run(4, 7));
  const auto other = run(4, 8);
  int same = 0;
  int same_again = 0;
  for (int i = 0; i != 60; ++i) {
    same += one.at({i, 0}) == other.at({i, 0});
    same_again += one.at({i, 0}) == one.at({i, 1});
  }
  CHECK(same < 3);
  CHECK(same_again < 3);
}

TEST_CASE("a file that ends early is kept and noted; with strict it is left out") {
  std::vector<std::string> files = some_jpegs(3);
  files[1].resize(files[1].size() / 2);
  ps::ImageNotes notes;
  CHECK(decoded<3>(files, {.size = {24, 24}, .notes = &notes}).pictures.size() == 3);
  REQUIRE(notes.count() == 1);
  CHECK(notes.first()[0].record == 1);
  CHECK(notes.first()[0].text.find("Premature end") != std::string::npos);
  const Outcome strict = decoded<3>(
      files, {.size = {24, 24}, .strict = true, .notes = &notes, .on_error = {.skips = 1}});
  CHECK(strict.pictures.size() == 2);
  REQUIRE(strict.report.skips.size() == 1);
  CHECK(strict.report.skips[0].record == 1);
  CHECK(strict.report.skips[0].reason.find(".strict = true (Premature end") != std::string::npos);
  CHECK(notes.count() == 1);
}

TEST_CASE("the Report tells how many files were kept though damaged, and the first of them") {
  const std::string sound = some_jpeg(64, 64);
  const std::string progressive = some_jpeg(64, 64, 1, TJFLAG_PROGRESSIVE);
  const std::string larger = some_jpeg(640, 480);
  std::string corrupt = sound;
  corrupt[marker(sound, '\xDA') + 100] = '\xFF';
  corrupt[marker(sound, '\xDA') + 101] = '\x01';
  std::string garbage = sound;
  garbage.insert(marker(sound, '\xDA'), "garbage");
  const std::string kept = " whose file is damaged or incomplete, the first at record ";
  const std::string strict = ": .notes has the warnings, .strict refuses such files";
  struct Case {
    const char* name;
    std::vector<std::string> files;
    std::uint64_t epochs;
    std::string note;
  };
  const std::vector<Case> cases{
      {"sound ones", {sound, progressive}, 2, ""},
      {"cut to a third",
       {sound, sound, larger.substr(0, larger.size() / 3)},
       1,
       "kept 1 record" + kept + "2" + strict},
      {"a progressive one, cut",
       {progressive.substr(0, progressive.size() / 2), sound},
       1,
       "kept 1 record" + kept + "0" + strict},
      {"without an end",
       {sound, sound.substr(0, sound.size() - 2)},
       1,
       "kept 1 record" + kept + "1" + strict},
      {"corrupt data", {sound, corrupt}, 1, "kept 1 record" + kept + "1" + strict},
      {"corrupt segments", {sound, garbage}, 1, "kept 1 record" + kept + "1" + strict},
      {"one that is left out", {sound, "no picture"}, 1, ""},
      {"many, in each epoch",
       {sound, garbage, sound, corrupt, "", corrupt},
       3,
       "kept 9 records" + kept + "1" + strict}};
  for (const auto& [name, files, epochs, note] : cases) {
    for (const unsigned workers : {1U, 4U}) {
      INFO(name << ", workers: " << workers);
      const Outcome outcome =
          decoded<3>(files, {.workers = workers, .size = {8, 8}, .on_error = {.skips = 9}}, epochs);
      CHECK(outcome.report.stages[1].note == note);
      CHECK(outcome.report.stages[0].note.empty());
    }
  }
}

TEST_CASE("files that cannot be decoded are left out and listed, or end the run") {
  std::vector<std::string> files = some_jpegs(6);
  files[1] = "no picture";
  files[2] = "";
  files[3].resize(100);
  files[4] = files[5].substr(0, 2);
  const Outcome outcome = decoded<3>(files, {.size = {24, 24}, .on_error = {.skips = 10}});
  CHECK(outcome.pictures.size() == 2);
  REQUIRE(outcome.report.skips.size() == 4);
  for (const ps::SkippedItem& skip : outcome.report.skips) {
    CHECK(skip.reason.find("penstock: jpeg: ") != std::string::npos);
    CHECK(skip.reason.find("leave such records out by .on_error") != std::string::npos);
    CHECK(skip.reason.find("0 x 0 pixels") == std::string::npos);
  }
  CHECK_THROWS_AS(decoded<3>(files, {.size = {24, 24}}), ps::StageError);
  // Of another kind, whatever its name says.
  using namespace std::string_literals;
  const auto reason = [](const std::string& file) {
    return decoded<3>({file}, {.size = {24, 24}, .on_error = {.skips = 1}})
        .report.skips.at(0)
        .reason;
  };
  CHECK(reason("\x1f\x8b\b\0\0\0\0\0\0\3"s).find("jpeg: a file that is compressed by gzip") !=
        std::string::npos);
  CHECK(reason("\x89PNG\r\n\x1a\n\0\0"s).find("jpeg: a file that is a PNG picture") !=
        std::string::npos);
}

TEST_CASE("a header that promises too much is refused before memory is taken") {
  std::string huge = some_jpeg(64, 64);
  const std::size_t sizes = marker(huge, '\xC0') + 5;
  huge.replace(sizes, 4, "\xFF\xDC\xFF\xDC"); // 65500, the most that libjpeg-turbo takes
  const Outcome outcome =
      decoded<3>({huge, some_jpeg(64, 64)}, {.size = {24, 24}, .on_error = {.skips = 9}});
  REQUIRE(outcome.report.skips.size() == 1);
  CHECK(outcome.report.skips[0].reason.find("65500 x 65500 pixels") != std::string::npos);
  const Outcome capped =
      decoded<3>({some_jpeg(64, 64), some_jpeg(64, 65)},
                 {.size = {24, 24}, .most_pixels = 4096, .on_error = {.skips = 9}});
  CHECK(capped.pictures.size() == 1);
  REQUIRE(capped.report.skips.size() == 1);
  CHECK(capped.report.skips[0].record == 1);
}

TEST_CASE("a file without its tables does not take those of the file before") {
  std::string without = some_jpeg(64, 64);
  const std::size_t at = marker(without, '\xDB');
  const std::size_t length = static_cast<unsigned char>(without[at + 2]) * 256U +
                             static_cast<unsigned char>(without[at + 3]);
  without.erase(at, length + 2);
  while (static_cast<unsigned char>(without[at + 1]) == 0xDB) {
    without.erase(at, length + 2);
  }
  const Outcome outcome = decoded<3>({some_jpeg(64, 64), without},
                                     {.workers = 1, .size = {24, 24}, .on_error = {.skips = 9}});
  CHECK(outcome.pictures.size() == 1);
  REQUIRE(outcome.report.skips.size() == 1);
  CHECK(outcome.report.skips[0].reason.find("was not defined") != std::string::npos);
}

TEST_CASE("after a damaged header the next file is read from its beginning") {
  std::string damaged = some_jpeg(64, 64);
  damaged[marker(damaged, '\xC0') + 4] = 12; // bits
  const Outcome outcome = decoded<3>({damaged, some_jpeg(64, 64)},
                                     {.workers = 1, .size = {24, 24}, .on_error = {.skips = 9}});
  CHECK(outcome.report.skips.size() == 1);
  CHECK(outcome.pictures.count({1, 0}) == 1);
}

TEST_CASE("an error that comes after a warning is an error, and shows no rows of the file before") {
  std::string damaged = some_jpeg(64, 64, 1, TJFLAG_PROGRESSIVE);
  const std::size_t second = marker(damaged, '\xDA', 2);
  damaged[second + 4] = 9;            // as many components
  damaged.insert(second, "\x11\x22"); // which libjpeg warns of
  const Outcome outcome = decoded<3>({some_jpeg(64, 64), damaged},
                                     {.workers = 1, .size = {24, 24}, .on_error = {.skips = 9}});
  CHECK(outcome.pictures.size() == 1);
  REQUIRE(outcome.report.skips.size() == 1);
  CHECK(outcome.report.skips[0].reason.find("no whole picture") != std::string::npos);
}

TEST_CASE("a file of 500 scans is kept, and one of more is refused before it takes hours") {
  const std::string file =
      jpeg_of(some_picture(64, 48, 1), 64, 48, TJPF_GRAY, TJSAMP_GRAY, TJFLAG_PROGRESSIVE);
  int scans = 0;
  std::size_t begin = 0; // of the scan that has the averages' last bit: again, it changes nothing
  for (std::size_t at = 0; (at = file.find("\xFF\xDA", at)) != std::string::npos; at += 2) {
    ++scans;
    begin = file[at + 7] == 0 && file[at + 9] == 0x10 ? at : begin;
  }
  REQUIRE(begin != 0);
  std::size_t end = begin + 2;
  while (file[end] != '\xFF' || file[end + 1] == 0) {
    ++end;
  }
  const auto of_scans = [&](int count) {
    std::string more;
    for (int n = scans; n != count; ++n) {
      more += file.substr(begin, end - begin);
    }
    return file.substr(0, end) + more + file.substr(end);
  };
  ps::ImageNotes notes;
  const Outcome outcome = decoded<1>({file, of_scans(500), of_scans(501), of_scans(5000)},
                                     {.size = {48, 64}, .notes = &notes, .on_error = {.skips = 9}});
  CHECK(outcome.pictures.size() == 2);
  CHECK(outcome.pictures.at({1, 0}) == outcome.pictures.at({0, 0}));
  CHECK(notes.count() == 1); // libjpeg warns of a scan that comes again
  REQUIRE(outcome.report.skips.size() == 2);
  for (const auto& skip : outcome.report.skips) {
    CHECK(skip.reason.find("500 scans") != std::string::npos);
  }
}

TEST_CASE("scaled decoding gives nearly the same picture, also of a part") {
  const std::vector<std::string> files{some_jpeg(800, 600), some_jpeg(101, 333), some_jpeg(16, 16)};
  for (const ps::Crop crop : {ps::Crop::centre, ps::Crop::random, ps::Crop::none}) {
    const auto run = [&](bool scaled) {
      return decoded<3>(files, {.size = {32, 32}, .crop = crop, .scaled = scaled}, 3).pictures;
    };
    const auto whole = run(false);
    const auto scaled = run(true);
    CHECK(whole != scaled);
    for (const auto& [which, picture] : whole) {
      CAPTURE(which.first, which.second);
      CHECK(apart(picture, scaled.at(which)).second < 8);
    }
    CHECK(whole.at({2, 0}) == scaled.at({2, 0})); // too small to shrink
  }
}

TEST_CASE("with .orient a JPEG is turned as EXIF says, before anything else is done with it") {
  for (const int flags : {0, TJFLAG_PROGRESSIVE}) {
    const std::string file = some_jpeg(40, 30, 1, flags);
    const std::string stored = decoded<3>({file}, {.size = {30, 40}}).pictures.at({0, 0});
    const auto at = [&](std::size_t channel, std::size_t x, std::size_t y) {
      return stored[(channel * 30 + y) * 40 + x];
    };
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const std::size_t width = orientation >= 5 ? 30 : 40;
      const std::size_t height = 70 - width;
      std::string upright;
      for (std::size_t channel = 0; channel != 3; ++channel) {
        for (std::size_t y = 0; y != height; ++y) {
          for (std::size_t x = 0; x != width; ++x) {
            const char of[]{at(channel, x % 40, y % 30),      at(channel, 39 - x, y % 30),
                            at(channel, 39 - x, 29 - y % 30), at(channel, x, 29 - y % 30),
                            at(channel, y, x % 30),           at(channel, y, 29 - x % 30),
                            at(channel, 39 - y, 29 - x % 30), at(channel, 39 - y, x % 30)};
            upright += of[orientation - 1];
          }
        }
      }
      const std::string turned = with_orientation(file, orientation);
      const std::string xmp = "http://ns.adobe.com/xap/1.0/" + std::string(1, '\0') + "<x/>";
      const std::vector<std::string> files{
          turned,
          with(turned, '\xE1', xmp),
          with(with(turned, '\xE2', "ICC_PROFILE"), '\xFE', std::string(30'000, 'c')),
          with_orientation(with_orientation(file, 9 - orientation), orientation), // the first
          turned.substr(0, 2) + "\xFF\xFF" + turned.substr(2),
      };
      const auto pictures =
          decoded<3>(files, {.size = {height, width}, .crop = ps::Crop::none, .orient = true})
              .pictures;
      for (int i = 0; i != 5; ++i) {
        INFO("orientation " << orientation << ", file " << i);
        CHECK(pictures.at({i, 0}) == upright);
      }
      CHECK(decoded<3>(files, {.size = {30, 40}}).pictures.at({0, 0}) == stored);
      // Behind the first scan it says nothing.
      const std::size_t scan = marker(file, '\xDA');
      const std::string late = turned.substr(2, turned.size() - file.size());
      const std::string behind =
          file.substr(0, file.size() - 2) + late + file.substr(file.size() - 2);
      CHECK(decoded<3>({behind}, {.size = {30, 40}, .orient = true}).pictures.at({0, 0}) == stored);
      const std::string just_before = file.substr(0, scan) + late + file.substr(scan);
      CHECK(decoded<3>({just_before},
                       {.size = {height, width}, .crop = ps::Crop::none, .orient = true})
                .pictures.at({0, 0}) == upright);
    }
  }
}

TEST_CASE("scaled decoding shrinks a picture that is turned as far as its upright part allows") {
  const std::string file = some_jpeg(800, 600);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::vector<std::string> files(3, with_orientation(file, orientation));
    for (const ps::Crop crop : {ps::Crop::centre, ps::Crop::random, ps::Crop::none}) {
      const auto run = [&](bool scaled) {
        return decoded<3>(files, {.size = {20, 90}, .crop = crop, .orient = true, .scaled = scaled})
            .pictures;
      };
      const auto whole = run(false);
      const auto scaled = run(true);
      for (const auto& [which, picture] : whole) {
        INFO("orientation " << orientation << ", record " << which.first);
        CHECK(apart(picture, scaled.at(which)).second < 8);
      }
    }
    const auto wide = [&](bool scaled) { // a half of 800 is enough, and one of 600 is not
      return decoded<3>(
                 files,
                 {.size = {20, 400}, .crop = ps::Crop::none, .orient = true, .scaled = scaled})
          .pictures;
    };
    CHECK((wide(true) == wide(false)) == (orientation >= 5));
  }
}

TEST_CASE("options that cannot work are refused") {
  using ps::OptionError;
  const auto refused = [](auto call, const char* said) {
    return ps::tests::has(ps::tests::caught<ps::OptionError>([&] { call(); }), said);
  };
  using namespace ps;
  CHECK(refused([] { return jpeg<3, dynamic, dynamic>(); }, ".size = {height, width}"));
  CHECK(refused([] { return jpeg<3, dynamic, 5>({.size = {0, 5}}); }, "height"));
  CHECK(refused([] { return jpeg<3, 5, 5>({.size = {5, 6}}); }, "width"));
  CHECK(refused([] { return jpeg<3, dynamic, dynamic>({.size = {5, 65536}}); }, "65535"));
  CHECK(refused([] { return jpeg<3, 5, 5>({.area = {0, 1}}); }, ".area"));
  CHECK(refused([] { return jpeg<3, 5, 5>({.area = {0.5, 1.5}}); }, ".area"));
  CHECK(refused([] { return jpeg<3, 5, 5>({.ratio = {2, 1}}); }, ".ratio"));
  CHECK_NOTHROW(jpeg<3, 5, 5>({.size = {5, 5}}));
  CHECK_NOTHROW(jpeg<1, dynamic, 5>({.size = {7, 5}}));
}
