// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/throwing.hpp>
#include <penstock/formats/detail/safetensors_header.hpp>
#include <penstock/formats/detail/safetensors_parser.hpp>
#include <penstock/formats/tensor_info.hpp>
#include <penstock/io/file.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Reads the header of an open file. Throws SourceError.
template <class Io> SafetensorsHeader read_safetensors_header(const File<Io>& file) {
  if (file.path().ends_with(".json")) {
    throw_source_error({"penstock: ", file.path(),
                        " is no safetensors file by its name, but may be "
                        "an index of some: give the directory that they "
                        "lie in."},
                       file.path(), 0);
  }
  std::vector<std::byte> bytes(std::min<std::uint64_t>(file.size(), foreign_bytes));
  read_full(file, 0, bytes);
  const std::string_view first{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  if (!is_safetensors(first, file.size())) {
    if (const std::string kind = foreign_kind(bytes, file.size()); !kind.empty()) {
      throw_source_error({"penstock: ", file.path(), " at byte 0 ", kind}, file.path(), 0);
    }
  }
  const std::uint64_t length = safetensors_header_bytes(bytes, file.size(), file.path());
  bytes.resize(length);
  read_full(file, safetensors_length_bytes, bytes);
  return SafetensorsParser{bytes, file.size(), file.path()}.parse();
}

/// All that the headers of safetensors files say, file after file.
class TensorList {
 public:
  /// Takes a file's tensors, whose bytes are those from byte `at` of the source on; returns where
  /// in the file they lie.
  RecordsAt add(SafetensorsHeader header, const std::string& path, std::uint64_t size,
                std::uint64_t at) {
    for (TensorInfo& tensor : header.tensors) {
      tensor.file = files_.size();
      tensor.at = at + (tensor.offset - header.data);
      tensors_.push_back(std::move(tensor));
    }
    files_.push_back(path);
    metadata_.push_back(std::move(header.metadata));
    return {header.data, size - header.data};
  }
  /// To be called once, behind all. Throws SourceError for a name that two files have.
  void sort() {
    for (std::size_t i = 0; i != tensors_.size(); ++i) {
      by_name_.push_back(i);
    }
    const auto less = [this](std::size_t a, std::size_t b) {
      return tensors_[a].name != tensors_[b].name ? tensors_[a].name < tensors_[b].name : a < b;
    };
    const auto same = [this](std::size_t a, std::size_t b) {
      return tensors_[a].name == tensors_[b].name;
    };
    std::sort(by_name_.begin(), by_name_.end(), less);
    const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(), same);
    if (twice != by_name_.end()) {
      const TensorInfo& first = tensors_[twice[0]];
      const TensorInfo& second = tensors_[twice[1]];
      throw_source_error({"penstock: safetensors: two files have a tensor \"", shown(first.name),
                          "\": ", files_[first.file], " and ", files_[second.file],
                          ". The shards of a model have each name once: give those of one model."},
                         files_[second.file], second.offset);
    }
  }

  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }
  const std::vector<std::string>& files() const noexcept { return files_; }
  /// What each file says besides its tensors.
  const std::vector<std::map<std::string, std::string>>& metadata() const noexcept {
    return metadata_;
  }
  /// Returns the tensor of this name; null if there is none.
  const TensorInfo* look_up(std::string_view name) const {
    const auto at = place_of(name);
    return at == by_name_.end() || tensors_[*at].name != name ? nullptr : &tensors_[*at];
  }
  /// Returns the tensor of this name. Throws OptionError if there is none.
  const TensorInfo& find(std::string_view name) const {
    const auto at = place_of(name);
    if (at == by_name_.end() || tensors_[*at].name != name) {
      const bool last = at == by_name_.end();
      throw_error<OptionError>(
          {"penstock: safetensors: there is no tensor \"", shown(name), "\" among the ",
           tensors_.size(), last ? "" : ", and the next in the order of names is \"",
           last ? std::string{} : shown(tensors_[*at].name),
           last ? ": give a name that tensors() lists." : "\": give a name that tensors() lists."});
    }
    return tensors_[*at];
  }

 private:
  std::vector<std::size_t>::const_iterator place_of(std::string_view name) const {
    return std::lower_bound(
        by_name_.begin(), by_name_.end(), name,
        [this](std::size_t i, std::string_view than) { return tensors_[i].name < than; });
  }

  std::vector<TensorInfo> tensors_;
  std::vector<std::size_t> by_name_; // their numbers
  std::vector<std::string> files_;
  std::vector<std::map<std::string, std::string>> metadata_;
};

} // namespace penstock::detail
