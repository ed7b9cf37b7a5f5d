// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace ps = penstock;

struct Picture {
  std::uint8_t pixels[28][28];
  std::int32_t label;
};

struct LabelledFile {
  std::string path;
  std::int32_t label;
};

/// The files of `folder`/0, `folder`/1 and so on: each is labelled by its folder's name.
inline std::vector<LabelledFile> files_of(const std::string& folder) {
  std::vector<LabelledFile> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{folder}) {
    if (!entry.is_directory()) {
      files.push_back({entry.path(), std::stoi(entry.path().parent_path().filename())});
    }
  }
  std::ranges::sort(files, {}, &LabelledFile::path);
  return files;
}

/// Opens the file of a number, and reads its picture.
struct OpenFile {
  void operator()(const std::uint32_t& number, Picture& picture) const {
    const LabelledFile& file = files[number];
    std::ifstream in{file.path, std::ios::binary};
    in.read(reinterpret_cast<char*>(picture.pixels), sizeof picture.pixels);
    if (!in || in.peek() != std::ifstream::traits_type::eof()) {
      throw std::runtime_error{file.path + " is no picture of 28 x 28 bytes"};
    }
    picture.label = file.label;
  }

  std::span<const LabelledFile> files;
};

/// Hands all pictures to `use`, batch by batch, and says in `log` which files were left out.
template <class F> void for_each_batch(const std::string& folder, std::ostream& log, F use) {
  const std::vector<LabelledFile> files = files_of(folder);
  const auto number = [](std::span<std::uint32_t> numbers, std::uint64_t first) {
    std::iota(numbers.begin(), numbers.end(), static_cast<std::uint32_t>(first));
  };
  auto pipeline = ps::Reader{ps::generate<std::uint32_t>(files.size(), number)} |
                  ps::Decoder{OpenFile{files}, {.workers = 8, .on_error = {.skips = files.size()}}};
  for (auto batch : pipeline.batches()) {
    use(std::span{batch.data(), batch.size()});
  }
  for (const ps::SkippedItem& item : pipeline.report().skips) {
    log << item.reason << '\n';
  }
}
