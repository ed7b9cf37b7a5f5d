// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 16_images: labelled JPEG files of a folder or of tar archives, shuffled, decoded, cropped,
// resized, and normalised on a device.
//
//   16_images FOLDER_OR_TARS... [--size N] [--epochs E] [--seed S] [--augment] [--device
//   auto|cuda|host]
//             [--sheet FILE.png] [--json]
//
// The label of a file is its folder's. Archives are named, or lie in FOLDER, and have samples such
// as 0017.jpg and 0017.cls. Files that cannot be decoded, and
// samples without a label, are left out and listed; it goes on. --augment crops and mirrors at
// random; else the middle is taken. --sheet draws the first 64 pictures as a batch has them. nvcc
// compiles this source for both devices, any other compiler for the host device alone.

#include "support/sheet.hpp"

#include <penstock/formats/files.hpp>
#include <penstock/formats/jpeg.hpp>
#include <penstock/formats/tar.hpp>
#include <penstock/penstock.hpp>
#include <penstock/run/json.hpp>
#include <penstock/run/report_json.hpp>
#include <penstock/with_device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/normalize.cuh>
#else
#include <penstock/host/normalize.hpp>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace ps = penstock;

struct Options {
  Options(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string arg = argv[i];
      const bool has_value = i + 1 < argc;
      if (arg == "--json") {
        json = true;
      } else if (arg == "--augment") {
        augment = true;
      } else if (arg == "--device" && has_value) {
        device = argv[++i];
      } else if (arg == "--sheet" && has_value) {
        sheet = argv[++i];
      } else if (arg == "--size" && has_value) {
        size = number(arg, argv[++i]);
      } else if (arg == "--epochs" && has_value) {
        epochs = number(arg, argv[++i]);
      } else if (arg == "--seed" && has_value) {
        seed = number(arg, argv[++i]);
      } else if (arg.empty() || arg.front() == '-') {
        throw std::invalid_argument{"what is \"" + arg + "\"? The file's beginning has the usage."};
      } else {
        paths.push_back(arg);
      }
    }
    if (paths.empty()) {
      throw std::invalid_argument{"which folder? Say 16_images FOLDER."};
    }
    for (const std::string& path : paths) {
      archives = archives || path.ends_with(".tar") || has_archive(path);
    }
    if (!archives && paths.size() != 1) {
      throw std::invalid_argument{"give one folder, or archives that end in .tar."};
    }
  }

  std::vector<std::string> paths;
  bool archives = false;
  std::string sheet;
  std::string device = "auto";
  std::size_t size = 224;
  std::size_t epochs = 1;
  std::size_t seed = 0;
  bool augment = false;
  bool json = false;

 private:
  static bool has_archive(const std::string& folder) {
    std::error_code none;
    const std::filesystem::directory_iterator files{folder, none};
    return std::any_of(begin(files), end(files),
                       [](const auto& file) { return file.path().extension() == ".tar"; });
  }
  static std::size_t number(const std::string& name, const std::string& text) {
    if (text.empty() || text.size() > 9 ||
        text.find_first_not_of("0123456789") != std::string::npos) {
      throw std::invalid_argument{name + " takes a number, and \"" + text + "\" is none."};
    }
    return std::stoul(text);
  }
};

// The work, from a folder to a batch that a model takes.

using Picture = ps::Image<3, ps::dynamic, ps::dynamic>;

struct Sample
    : ps::Columns<ps::Field<"jpg;jpeg", ps::Ragged<std::uint8_t>>, ps::Field<"cls", std::int32_t>> {
};
struct SamplePicture : ps::Columns<ps::Field<"image", std::uint8_t, 3, ps::dynamic, ps::dynamic>,
                                   ps::Field<"cls", std::int32_t>> {};

constexpr ps::ChannelScale<3> of_imagenet{.mean = {0.485F, 0.456F, 0.406F},
                                          .deviation = {0.229F, 0.224F, 0.225F}};

template <class Picture, class Where, class Source>
auto pictures(const Options& options, const Source& source) {
  return ps::Reader{source,
                    {.epochs = options.epochs,
                     .order = {.shuffle = options.seed},
                     .on_error = {.skips = 1'000'000'000}}} |
         ps::jpeg<typename Source::schema, Picture, Where>(
             {.size = {options.size, options.size},
              .crop = options.augment ? ps::Crop::random : ps::Crop::centre,
              .flip = options.augment,
              .seed = options.seed,
              .on_error = {.skips = 1'000'000'000}});
}

using FolderSource = ps::Files<>;
using TarSource = ps::Tar<Sample>;

std::string name_of(const FolderSource& source, std::uint64_t record) {
  return source.path(record);
}
std::string name_of(const TarSource& source, std::uint64_t record) {
  return source.key(record);
}
std::vector<std::string> classes(const FolderSource& source) {
  return source.classes();
}
std::vector<std::string> classes(const TarSource&) {
  return {};
}

template <class Picture, ps::AnyDevice D, class Source>
int run(D& device, const Options& options, Source source) {
  constexpr std::size_t batch_size = 256;
  auto data = pictures<Picture, ps::Pinned>(options, source) |
              ps::AsyncCopier{device, {.batch = batch_size}};
  const auto input = ps::device_array<float>(device, batch_size * 3 * options.size * options.size);
  auto stream = device.stream();
  std::size_t images = 0;
  for (auto batch : data.on(stream)) {
    ps::normalize(stream, ps::get<"image">(batch), input.data(), of_imagenet);
    images += batch.size(); // here your model takes `input` and the batch's labels
  }

  const ps::Report& report = data.report();
  source.open(); // for the names
  std::vector<ps::Json> skipped;
  for (const ps::SkippedItem& item : report.skips) {
    skipped.push_back(
        ps::Json::object({{"file", name_of(source, item.record)}, {"reason", item.reason}}));
  }
  const double per_s = static_cast<double>(images) / report.seconds;
  if (options.json) {
    const std::vector<std::string> names = classes(source);
    std::cout << ps::Json::object({{"images", images},
                                   {"seconds", report.seconds},
                                   {"images_per_s", per_s},
                                   {"classes", ps::Json::array({names.begin(), names.end()})},
                                   {"skipped", ps::Json::array(skipped)},
                                   {"report", ps::to_json(report)}})
                     .text()
              << '\n';
  } else {
    const std::size_t of = classes(source).size(); // labels in archives have no names
    std::cout << report << images << " images"
              << (of == 0 ? "" : " of " + std::to_string(of) + " classes") << ", " << per_s
              << " a second\n";
    for (const ps::Json& item : skipped) {
      std::cout << "left out: " << item.text() << '\n';
    }
  }
  return 0;
}

/// Draws the first pictures that a batch has.
template <class Picture, class Source>
void draw_sheet(const Options& options, const Source& source) {
  Sheet sheet{options.size};
  auto data = pictures<Picture, ps::Pageable>(options, source);
  for (auto batch : data.batches()) {
    const auto image = ps::get<"image">(batch);
    for (std::size_t i = 0; i != batch.size() && !sheet.full(); ++i) {
      sheet.add(image[i].data());
    }
    if (sheet.full()) {
      break;
    }
  }
  sheet.write(options.sheet);
}

template <class Picture, class Source>
int run_anywhere(const Options& options, const Source& source) {
  if (!options.sheet.empty()) {
    draw_sheet<Picture>(options, source);
  }
  return ps::with_device(options.device,
                         [&](auto& device) { return run<Picture>(device, options, source); });
}

int main(int argc, char** argv) try {
  const Options options{argc, argv};
  if (options.archives) {
    return run_anywhere<SamplePicture>(options, ps::tar<Sample>(options.paths));
  }
  const auto folder = ps::files(options.paths.front(), {.endings = {".jpg", ".jpeg"}});
  return run_anywhere<Picture>(options, folder);
} catch (const std::exception& error) {
  std::cerr << "16_images: " << error.what() << '\n';
  return 1;
}
