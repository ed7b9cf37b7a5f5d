// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/opening.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/folder.hpp>
#include <penstock/prepare_options.hpp>
#include <penstock/sources/detail/opened_files.hpp>
#include <penstock/sources/detail/safetensors_header.hpp>
#include <penstock/sources/detail/safetensors_parser.hpp>
#include <penstock/sources/tensor_info.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// The files of a Safetensors, and all that their headers say.
template <class Io> struct OpenedSafetensors {
  /// A file's tensors as a whole.
  struct Part {
    std::uint64_t data;  // where they begin in the file
    std::uint64_t first; // and in the source
    std::uint64_t end;
    std::map<std::string, std::string> metadata;
  };

  OpenedFiles<Io> files;
  std::vector<Part> parts; // at least one
  std::vector<TensorInfo> tensors;
  std::vector<std::size_t> by_name; // numbers of tensors

  [[gnu::cold]] OpenedSafetensors(const Io& io, const std::vector<std::string>& paths,
                                  DirectReads reads, const PrepareOptions& preparing)
      : OpenedSafetensors{io, paths, reads, OpeningProgress{preparing}} {}

 private:
  OpenedSafetensors(const Io& io, const std::vector<std::string>& paths, DirectReads reads,
                    OpeningProgress&& progress)
      : files{io, find(io, paths, progress), reads, progress} {
    Vector<SafetensorsHeader> headers(files.size());
    Vector<std::uint64_t> begins(files.size());
    const FirstFailure failure =
        for_all(files.size(), [&](std::size_t i) { headers[i] = header(i, begins[i]); }, [] {});
    std::uint64_t before = 0;
    for (std::size_t i = 0; i != files.size(); ++i) {
      failure.rethrow_at(i);
      const std::uint64_t end = before + (files.bytes(i) - begins[i]);
      parts.push_back({begins[i], before, end, std::move(headers[i].metadata)});
      for (TensorInfo& tensor : headers[i].tensors) {
        tensor.file = i;
        tensor.at = before + (tensor.offset - begins[i]);
        tensors.push_back(std::move(tensor));
      }
      before = end;
    }
    sort_names();
  }

  // A directory stands for its safetensors files alone: models lie beside their configuration.
  static Vector<FoundFile> find(const Io& io, const std::vector<std::string>& paths,
                                OpeningProgress& progress) {
    Vector<FoundFile> taken;
    for (FoundFile& file : found_files("safetensors", io, paths, progress)) {
      const bool is_named = std::find(paths.begin(), paths.end(), file.path) != paths.end();
      if (is_named || file.path.ends_with(".safetensors")) {
        taken.push_back(std::move(file));
      }
    }
    if (taken.empty()) {
      throw_source_error({"penstock: safetensors: no file in the directory ", paths.front(),
                          " has a name that ends in .safetensors: name the files."},
                         paths.front(), 0);
    }
    return taken;
  }

  SafetensorsHeader header(std::size_t file, std::uint64_t& begin) const {
    const std::uint64_t size = files.bytes(file);
    std::vector<std::byte> bytes(std::min(size, safetensors_length_bytes));
    files.read(file, 0, bytes);
    const std::uint64_t length = safetensors_header_bytes(bytes, size, files.path(file));
    begin = safetensors_length_bytes + length;
    bytes.resize(length);
    files.read(file, safetensors_length_bytes, bytes);
    return SafetensorsParser{bytes, size, files.path(file)}.parse();
  }

  void sort_names() {
    for (std::size_t i = 0; i != tensors.size(); ++i) {
      by_name.push_back(i);
    }
    const auto less = [this](std::size_t a, std::size_t b) {
      return tensors[a].name != tensors[b].name ? tensors[a].name < tensors[b].name : a < b;
    };
    const auto same = [this](std::size_t a, std::size_t b) {
      return tensors[a].name == tensors[b].name;
    };
    std::sort(by_name.begin(), by_name.end(), less);
    const auto twice = std::adjacent_find(by_name.begin(), by_name.end(), same);
    if (twice != by_name.end()) {
      const TensorInfo& first = tensors[twice[0]];
      const TensorInfo& second = tensors[twice[1]];
      throw_source_error({"penstock: safetensors: two files have a tensor \"", first.name,
                          "\": ", files.path(first.file), " and ", files.path(second.file),
                          ". The shards of a model have each name once: give those of one model."},
                         files.path(second.file), second.offset);
    }
  }
};

} // namespace penstock::detail
