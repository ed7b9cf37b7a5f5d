// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 16_images: labelled JPEG files, shuffled, decoded, cropped, resized, and normalised on a device.
//
//   16_images FOLDER [--size N] [--epochs E] [--seed S] [--augment] [--device auto|cuda|host]
//             [--sheet FILE.png] [--json]
//
// The label of a file is its folder's. Files that cannot be decoded are left out and listed; it
// goes on. --augment crops and mirrors at random; else the middle is taken. --sheet draws the first
// 64 pictures as a batch has them. nvcc compiles this source for both devices, any other compiler
// for the host device alone.

#include "support/json.hpp"
#include "support/sheet.hpp"

#include <penstock/decoders/jpeg.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/files.hpp>
#include <penstock/with_device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/normalize.cuh>
#else
#include <penstock/host/normalize.hpp>
#endif

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
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
      } else if (arg.empty() || arg.front() == '-' || !folder.empty()) {
        throw std::invalid_argument{"what is \"" + arg + "\"? The file's beginning has the usage."};
      } else {
        folder = arg;
      }
    }
    if (folder.empty()) {
      throw std::invalid_argument{"which folder? Say 16_images FOLDER."};
    }
  }

  std::string folder;
  std::string sheet;
  std::string device = "auto";
  std::size_t size = 224;
  std::size_t epochs = 1;
  std::size_t seed = 0;
  bool augment = false;
  bool json = false;

 private:
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

constexpr ps::ChannelScale<3> of_imagenet{.mean = {0.485F, 0.456F, 0.406F},
                                          .deviation = {0.229F, 0.224F, 0.225F}};

template <class Where> auto pictures(const Options& options) {
  const auto crop = options.augment ? ps::Crop::random : ps::Crop::centre;
  return ps::Reader{ps::files(options.folder, {.endings = {".jpg", ".jpeg"}}),
                    {.epochs = options.epochs, .order = {.shuffle = options.seed}}} |
         ps::jpeg<ps::LabelledFile, Picture, Where>({.size = {options.size, options.size},
                                                     .crop = crop,
                                                     .flip = options.augment,
                                                     .seed = options.seed,
                                                     .on_error = {.skips = ~std::uint64_t{0}}});
}

template <ps::AnyDevice D> int run(D& device, const Options& options) {
  constexpr std::size_t batch_size = 256;
  auto data = pictures<ps::Pinned>(options) | ps::AsyncCopier{device, {.batch = batch_size}};
  const std::size_t pixels = options.size * options.size;
  ps::DeviceArray<float, D> input{device, batch_size * 3 * pixels};
  auto stream = device.stream();
  std::size_t images = 0;
  for (auto batch : data.on(stream)) {
    ps::normalize(stream, ps::get<"image">(batch), input.data(), of_imagenet);
    images += batch.size(); // here your model takes `input` and ps::get<"label">(batch)
  }

  const ps::Report& report = data.report();
  auto source = ps::files(options.folder, {.endings = {".jpg", ".jpeg"}});
  source.open(); // for the files' names
  std::vector<Json> skipped;
  for (const ps::SkippedItem& item : report.skips) {
    skipped.push_back(Json::object(
        {{"file", source.path(item.record % source.size())}, {"reason", item.reason}}));
  }
  const double per_s = static_cast<double>(images) / report.seconds;
  if (options.json) {
    const std::vector<Json> classes(source.classes().begin(), source.classes().end());
    std::cout << Json::object({{"images", images},
                               {"seconds", report.seconds},
                               {"images_per_s", per_s},
                               {"classes", Json::array(classes)},
                               {"skipped", Json::array(skipped)}})
                     .text()
              << '\n';
  } else {
    std::cout << report << images << " images of " << source.classes().size() << " classes, "
              << per_s << " a second\n";
    for (const Json& item : skipped) {
      std::cout << "left out: " << item.text() << '\n';
    }
  }
  return 0;
}

/// Draws the first pictures that a batch has.
void draw_sheet(const Options& options) {
  Sheet sheet{options.size};
  auto data = pictures<ps::Pageable>(options);
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

int main(int argc, char** argv) try {
  const Options options{argc, argv};
  if (!options.sheet.empty()) {
    draw_sheet(options);
  }
  return ps::with_device(options.device, [&](auto& device) { return run(device, options); });
} catch (const std::exception& error) {
  std::cerr << "16_images: " << error.what() << '\n';
  return 1;
}
