// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <turbojpeg.h>

namespace penstock_bench {

/// A temporary folder of JPEG files of 500 x 375 pixels and some 80 KB, as ImageNet's are: smooth,
/// with edges and noise. It goes with its object.
class MadePictures {
 public:
  explicit MadePictures(std::size_t count) {
    std::string path = (std::filesystem::temp_directory_path() / "penstock-bench-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) {
      throw std::runtime_error{"cannot make the folder " + path};
    }
    path_ = path;
    constexpr std::size_t different = 64;
    std::vector<std::vector<char>> files;
    for (std::size_t i = 0; i != different; ++i) {
      files.push_back(made(static_cast<std::uint32_t>(i + 1)));
    }
    for (std::size_t i = 0; i != count; ++i) {
      const std::vector<char>& file = files[i % different];
      std::ofstream out{path_ + "/" + std::to_string(i) + ".jpg", std::ios::binary};
      out.write(file.data(), static_cast<std::streamsize>(file.size()));
      if (!out.flush()) {
        throw std::runtime_error{"cannot write to " + path_};
      }
    }
  }
  MadePictures(const MadePictures&) = delete;
  MadePictures& operator=(const MadePictures&) = delete;
  ~MadePictures() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }

  const std::string& path() const { return path_; }

 private:
  static std::vector<char> made(std::uint32_t seed) {
    constexpr std::size_t width = 500;
    constexpr std::size_t height = 375;
    std::vector<std::uint8_t> pixels(3 * width * height);
    std::uint32_t noise = seed;
    for (std::size_t i = 0; i != pixels.size(); ++i) {
      const std::size_t x = i / 3 % width;
      const std::size_t y = i / 3 / width;
      noise = noise * 1664525 + 1013904223;
      const std::size_t edges = (x / 50 + y / 40 + seed) % 2 * 70;
      const std::size_t slope = (i % 3 + 1) * x * 20 / width + y * 40 / height;
      pixels[i] = static_cast<std::uint8_t>(edges + slope + noise % 64);
    }
    unsigned char* file = nullptr;
    unsigned long size = 0;
    const tjhandle handle = ::tjInitCompress();
    const int failed = ::tjCompress2(handle, pixels.data(), width, 0, height, TJPF_RGB, &file,
                                     &size, TJSAMP_420, 90, 0);
    ::tjDestroy(handle);
    const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owned{file, ::tjFree};
    if (failed != 0) {
      throw std::runtime_error{"TurboJPEG cannot compress"};
    }
    return {file, file + size};
  }

  std::string path_;
};

} // namespace penstock_bench
