// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 22_branches: thumbnails of pictures are written while a model trains on the pictures. Both take
// the same batches on the device, which are read and copied once: a tee() hands each on to a branch
// that makes thumbnails, copies them back and writes them, and to the loop.
//
//   22_branches
//
// It makes 20,000 pictures of 32 x 32 grey pixels, and "trains" by adding up all pixels of two
// epochs. It fails if a thumbnail in the file is not the mean of its 4 x 4 pixels.

#include "support/temporary_file.hpp"

#include <penstock/penstock.hpp>
#include <penstock/pipeline/tee.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <vector>

namespace ps = penstock;

struct Picture {
  std::uint8_t pixels[32][32];
};
struct Thumbnail {
  std::uint8_t pixels[8][8];
};

Thumbnail shrink(const Picture& picture) {
  Thumbnail small{};
  for (std::size_t y = 0; y != 8; ++y) {
    for (std::size_t x = 0; x != 8; ++x) {
      unsigned sum = 0;
      for (std::size_t i = 0; i != 16; ++i) {
        sum += picture.pixels[4 * y + i / 4][4 * x + i % 4];
      }
      small.pixels[y][x] = static_cast<std::uint8_t>(sum / 16);
    }
  }
  return small;
}

int main() {
  std::vector<Picture> pictures(20'000);
  std::uint32_t noise = 1;
  for (Picture& picture : pictures) {
    for (auto& row : picture.pixels) {
      for (std::uint8_t& pixel : row) {
        noise = noise * 1664525 + 1013904223;
        pixel = static_cast<std::uint8_t>(noise >> 24);
      }
    }
  }
  const TemporaryFile thumbnails{""};
  ps::HostDevice gpu;
  auto stream = gpu.stream();

  auto data = ps::Reader{ps::memory(pictures), ps::to_pinned, {.epochs = 2}} |
              ps::AsyncCopier{gpu, {.batch = 256}} |
              ps::tee(ps::Kernel{[](ps::Batch<const Picture, ps::Device> in,
                                    ps::Batch<Thumbnail, ps::Device> out, ps::HostStream& on) {
                        on.enqueue([in, out] { // a launch, on a GPU
                          for (std::size_t i = 0; i != in.size(); ++i) {
                            out.data()[i] = shrink(in.data()[i]);
                          }
                        });
                      }} | ps::AsyncCopier{ps::to_host} |
                          ps::Writer{thumbnails.path()},
                      ps::to_loop);
  std::uint64_t sum = 0;
  for (auto batch : data.on(stream)) {
    stream.enqueue([&sum, all = batch.data(), count = batch.size()] { // a step of training
      for (std::size_t i = 0; i != count; ++i) {
        for (const auto& row : all[i].pixels) {
          for (const std::uint8_t pixel : row) {
            sum += pixel;
          }
        }
      }
    });
  }

  std::ifstream file{thumbnails.path(), std::ios::binary};
  std::size_t right = 0;
  Thumbnail read{};
  while (file.read(reinterpret_cast<char*>(&read), sizeof read)) {
    const Thumbnail made = shrink(pictures[right % pictures.size()]);
    right += std::memcmp(&made, &read, sizeof made) == 0 ? 1 : 0;
  }
  std::cout << data.report() << right << " thumbnails are right, and the pixels' sum is " << sum
            << '\n';
  return right == 2 * pictures.size() ? 0 : 1;
}

// prints:
//   40000 records, … on host
//   …
//   40000 thumbnails are right, and the pixels' sum is …
