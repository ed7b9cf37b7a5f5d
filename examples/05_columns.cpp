// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 05_columns: images and labels from two files, as columns of one record. On the device each
// batch's pixels become floats of 16 bits from 0 to 1, as a network would take them, and kernels
// sum up how bright the images of each label are.
//
//   05_columns [--device auto|cuda|host] [IMAGES LABELS]
//
// The files are laid out as MNIST's (train-images-idx3-ubyte and train-labels-idx1-ubyte,
// unpacked): a header of 16 and of 8 bytes, then images of 28 x 28 bytes and labels 0 to 9, of one
// byte. Without files it makes some. It prints for each label how many images have it and their
// mean brightness, and the Report. It fails if a plain loop over the files finds something else.

#include "support/arguments.hpp"
#include "support/temporary_file.hpp"

#include <penstock/data/float16.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>
#include <penstock/with_device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#include <penstock/cuda/convert.cuh>
#else
#include <penstock/host/convert.hpp>
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace ps = penstock;

constexpr std::size_t side = 28;
constexpr std::size_t pixels = side * side;
constexpr std::size_t labels = 10;
constexpr float scale = 1 / 255.0F;

struct Sample : ps::Columns<ps::Field<"image", std::uint8_t, side, side>, //
                            ps::Field<"label", std::uint8_t>> {};

/// The brightness of the images of one label.
struct Brightness {
  unsigned long long images;
  double sum; // of all their pixels
};

/// Several threads of a GPU may add to one number; on the host for_each has only one.
template <class T> PENSTOCK_HD void add(T& to, T value) {
#if defined(__CUDA_ARCH__)
  atomicAdd(&to, value);
#else
  to += value;
#endif
}

/// For ps::for_each: adds image i to the sums of its label.
struct AddImage {
  const ps::Half* images; // a kernel that takes CUDA's __half casts the pointer
  const std::uint8_t* of_image;
  Brightness* of_label;

  PENSTOCK_HD void operator()(std::size_t i) const {
    double sum = 0;
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      sum += static_cast<float>(images[i * pixels + pixel]);
    }
    if (of_image[i] < labels) {
      add(of_label[of_image[i]].images, 1ULL);
      add(of_label[of_image[i]].sum, sum);
    }
  }
};

struct Result {
  std::vector<Brightness> of_label;
  ps::Report report;
};

template <ps::AnyDevice D>
Result measure(D& device, const std::string& image_file, const std::string& label_file) {
  constexpr std::size_t batch_size = 4096;
  auto sums = ps::device_array<Brightness>(device, labels);
  auto floats = ps::device_array<ps::Half>(device, batch_size * pixels);
  auto samples =
      ps::zip<Sample>(ps::records<std::uint8_t>(image_file, {.offset = 16, .record_bytes = pixels}),
                      ps::records<std::uint8_t>(label_file, {.offset = 8}));
  auto pipeline =
      ps::Reader{samples, ps::to_pinned} | ps::AsyncCopier{device, {.batch = batch_size}} |
      ps::Consumer{[&](ps::Batch<const Sample, ps::Device> batch, ps::Stream<D> stream) {
        const auto images = ps::get<"image">(batch); // images[i] is a const std::uint8_t[28][28]
        ps::convert(stream, images.data(), batch.size() * pixels, floats.data(), scale);
        ps::for_each(stream, batch.size(),
                     AddImage{floats.data(), ps::get<"label">(batch).data(), sums.data()});
      }};
  const ps::Report& report = pipeline.run();
  auto stream = device.stream();
  return {sums.read(stream), report};
}

std::vector<Brightness> plain_loop(const std::string& image_file, const std::string& label_file) {
  std::vector<Brightness> of_label(labels);
  std::ifstream images{image_file, std::ios::binary};
  std::ifstream label_bytes{label_file, std::ios::binary};
  images.seekg(16);
  label_bytes.seekg(8);
  std::vector<char> image(pixels);
  for (char label = 0; label_bytes.get(label) && images.read(image.data(), pixels);) {
    if (static_cast<unsigned char>(label) < labels) {
      Brightness& brightness = of_label[static_cast<unsigned char>(label)];
      ++brightness.images;
      double sum = 0;
      for (const char pixel : image) {
        const float value = static_cast<float>(static_cast<unsigned char>(pixel)) * scale;
        sum += static_cast<float>(ps::Half{value});
      }
      brightness.sum += sum;
    }
  }
  return of_label;
}

/// Returns whether both are alike: threads of a GPU add in no order, so sums differ in their last
/// digits.
bool are_alike(const std::vector<Brightness>& a, const std::vector<Brightness>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Brightness& x, const Brightness& y) {
                      return x.images == y.images && std::abs(x.sum - y.sum) <= 1e-9 * y.sum;
                    });
}

/// Returns the header of an idx file of bytes: its type, how many dimensions, and each as 32 bits,
/// the highest byte first.
std::string idx_header(const std::vector<std::uint32_t>& dimensions) {
  std::string header{'\0', '\0', '\x08', static_cast<char>(dimensions.size())};
  for (const std::uint32_t dimension : dimensions) {
    for (const int shift : {24, 16, 8, 0}) {
      header += static_cast<char>(dimension >> shift & 0xff);
    }
  }
  return header;
}

/// Files of images that are brighter the greater their label.
struct MadeFiles {
  static constexpr std::uint32_t count = 10'001;

  static std::string image_bytes() {
    std::string bytes = idx_header({count, side, side});
    for (std::uint32_t i = 0; i < count; ++i) {
      for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
        bytes += static_cast<char>((i * 7 + pixel * 3) % 50 + 20 * (i % labels));
      }
    }
    return bytes;
  }
  static std::string label_bytes() {
    std::string bytes = idx_header({count});
    for (std::uint32_t i = 0; i < count; ++i) {
      bytes += static_cast<char>(i % labels);
    }
    return bytes;
  }

  TemporaryFile images{image_bytes()};
  TemporaryFile labels_of_them{label_bytes()};
};

int main(int argc, char** argv) try {
  const Arguments args{argc, argv, 2, "IMAGES LABELS"};
  std::optional<MadeFiles> made;
  if (args.files.empty()) {
    made.emplace();
  }
  const std::string& image_file = made ? made->images.path() : args.files[0];
  const std::string& label_file = made ? made->labels_of_them.path() : args.files[1];
  return ps::with_device(args.device, [&](auto& device) {
    const auto attached = device.attach();
    const Result result = measure(device, image_file, label_file);
    if (!are_alike(result.of_label, plain_loop(image_file, label_file))) {
      throw std::runtime_error{"a plain loop finds another brightness"};
    }
    std::cout << "label   images  brightness\n";
    for (std::size_t label = 0; label < labels; ++label) {
      const auto [images, sum] = result.of_label[label];
      const double mean = images != 0 ? sum / pixels / static_cast<double>(images) : 0;
      std::cout << label << '\t' << images << '\t' << mean << '\n';
    }
    std::cout << result.report;
    return 0;
  });
} catch (const std::exception& error) {
  std::cerr << "05_columns: " << error.what() << '\n';
  return 1;
}

// prints with --device host:
//   label   images  brightness
//   0…1001…0.096…
//   1…1000…0.174…
//   2…1000…0.252…
//   3…1000…0.331…
//   4…1000…0.409…
//   5…1000…0.488…
//   6…1000…0.566…
//   7…1000…0.645…
//   8…1000…0.723…
//   9…1000…0.801…
//   10001 records, … on host
//   …
