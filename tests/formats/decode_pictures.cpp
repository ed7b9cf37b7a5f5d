// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// decode_pictures CHANNELS HEIGHT WIDTH CROP WORKERS FILE…: decodes JPEG and PNG files by the
// stages that users have, and writes for each, in order, its number and the pixels, to stdout; then
// -1, and a line for each that was left out or noted. For compare_pictures.py.

#include "support/temp_dir.hpp"

#include <penstock/formats/jpeg.hpp>
#include <penstock/formats/png.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <string>
#include <vector>

namespace ps = penstock;

namespace {

struct Files {
  using schema = ps::LabelledFile;
  std::vector<std::string> paths;

  std::uint64_t size() const { return paths.size(); }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<schema, Where> into) const {
    for (std::size_t i = 0; i != into.size(); ++i) {
      const std::string bytes = penstock::tests::content_of(paths[into.index() + i]);
      std::copy(bytes.begin(), bytes.end(), ps::get<"bytes">(into).put(i, bytes.size()));
      ps::get<"label">(into)[i] = static_cast<std::int32_t>(into.index() + i);
    }
    return into.size();
  }
};

void put(std::int32_t number) {
  std::fwrite(&number, sizeof number, 1, stdout);
}

template <std::size_t channels> void decode(const Files& files, bool of_png,
                                            ps::ImageOptions options) {
  using Picture = ps::Image<channels, ps::dynamic, ps::dynamic>;
  ps::ImageNotes notes;
  options.notes = &notes;
  options.on_error.skips = files.size();
  const auto show = [](ps::Batch<const Picture, ps::Pageable> batch) {
    for (std::size_t i = 0; i != batch.size(); ++i) {
      put(ps::get<"label">(batch)[i]);
      const auto pixels = ps::get<"image">(batch)[i];
      std::fwrite(pixels.data(), 1, pixels.size(), stdout);
    }
  };
  const auto run = [&](auto stage) {
    auto pipeline = ps::Reader{files, {.value_bytes = 4 << 20}} | stage | ps::Consumer{show};
    const ps::Report& report = pipeline.run();
    put(-1);
    for (const auto& note : notes.first()) {
      std::printf("noted %d %s\n", static_cast<int>(note.record), note.text.c_str());
    }
    for (const auto& skipped : report.skips) {
      std::printf("left out %d %s\n", static_cast<int>(skipped.record), skipped.reason.c_str());
    }
  };
  if (of_png) {
    run(ps::png<channels, ps::dynamic, ps::dynamic, ps::Pageable>(options));
  } else {
    run(ps::jpeg<channels, ps::dynamic, ps::dynamic, ps::Pageable>(options));
  }
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fputs("decode_pictures CHANNELS HEIGHT WIDTH CROP WORKERS FILE...\n", stderr);
    return 2;
  }
  try {
    const auto number = [&](int at) { return std::strtoull(argv[at], nullptr, 10); };
    const std::string crop = argv[4];
    const Files files{{argv + 6, argv + argc}};
    const ps::ImageOptions options{.workers = static_cast<unsigned>(number(5)),
                                   .size = {number(2), number(3)},
                                   .crop = crop.starts_with("none")     ? ps::Crop::none
                                           : crop.starts_with("centre") ? ps::Crop::centre
                                                                        : ps::Crop::random,
                                   .orient = crop.ends_with(" upright")};
    const bool of_png = files.paths[0].ends_with(".png");
    number(1) == 1 ? decode<1>(files, of_png, options) : decode<3>(files, of_png, options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
