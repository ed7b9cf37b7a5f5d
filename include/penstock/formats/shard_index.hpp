// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/throwing.hpp>
#include <penstock/formats/detail/json_text.hpp>
#include <penstock/formats/detail/json_values.hpp>
#include <penstock/formats/detail/tensor_list.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/new_file.hpp>
#include <penstock/sources/detail/utf8.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What the files of a directory that end in .safetensors.index.json, or have a word before .json,
/// say of its shards: which tensor is in which. Nothing is opened by a name in them.
class ShardIndexes {
 public:
  /// Reads the file, if it is such an index. Throws SourceError.
  template <class Io> [[gnu::cold]] void take(const Io& io, const std::string& path) {
    if (!path.ends_with(".json") || path.find(".safetensors.index.") == std::string::npos) {
      return;
    }
    const File<Io> file{io, path};
    if (file.size() > most_bytes) {
      throw_source_error({"penstock: ", path, " has ", file.size(),
                          " bytes, and an index of shards has at most ", most_bytes,
                          ": write or fetch it again."},
                         path, 0);
    }
    std::string text(std::size_t{file.size()}, '\0');
    read_full(file, 0, std::as_writable_bytes(std::span{text}));
    read(text, path);
  }

  /// Takes the text of the index `path`. Throws SourceError.
  [[gnu::cold]] void read(std::string_view text, const std::string& path) {
    const std::string folder = folder_of(path);
    indexes_.emplace(folder, path);
    JsonText json{text, path, 0, "its index of shards",
                  "it was cut, or is damaged. Write or fetch it again."};
    bool mapped = false;
    each_json_member(json, [&](const std::string& member, std::size_t at) {
      if (member != "weight_map") {
        return skip_json(json);
      }
      if (std::exchange(mapped, true)) {
        json.fail(at, {"a second weight_map"});
      }
      each_json_member(json, [&](const std::string& tensor, std::size_t) {
        std::string name = json.string();
        name.erase(0, name.starts_with("./") ? 2 : 0);
        const auto shard = shards_.emplace(joined({folder, name}), path).first;
        tensors_.push_back({tensor, shard});
      });
    });
    json.expect_end();
    if (!mapped) {
      json.fail(0, {"no weight_map"});
    }
  }
  /// Throws SourceError unless `files` has each shard that an index names, and no other file of
  /// such a directory.
  [[gnu::cold]] void check_files(const std::vector<std::string>& files) const {
    for (const auto& [shard, index] : shards_) {
      if (std::find(files.begin(), files.end(), shard) == files.end()) {
        const std::string folder = folder_of(index);
        throw_source_error({"penstock: safetensors: ", index, " names ", folder,
                            shown(std::string_view{shard}.substr(folder.size())),
                            ", which is not there: fetch it, or name the files that you mean in a "
                            "list."},
                           index, 0);
      }
    }
    for (const std::string& file : files) {
      const auto index = indexes_.find(folder_of(file));
      if (index == indexes_.end()) {
        check_siblings(file, files);
      } else if (!shards_.contains(file)) {
        throw_source_error({"penstock: safetensors: ", file, " lies beside ", index->second,
                            ", which does not name it: name the files that you mean in a list."},
                           file, 0);
      }
    }
  }
  /// Throws SourceError if a file's name says that it is one of several shards, as
  /// model-00001-of-00002.safetensors does, and others are missing.
  [[gnu::cold]] static void check_siblings(const std::string& file,
                                           const std::vector<std::string>& files) {
    constexpr std::string_view of{"-of-"};
    const std::size_t at = file.rfind(of);
    const std::size_t number = at == std::string::npos ? at : file.rfind('-', at - 1);
    if (number == std::string::npos || number < file.rfind('/') + 1) {
      return;
    }
    std::uint64_t all = 0;
    const char* const digits = file.data() + at + of.size();
    const auto [end, error] = std::from_chars(digits, file.data() + file.size(), all);
    const auto is_sibling = [&](std::string_view other) {
      return other.size() == file.size() &&
             other.starts_with(std::string_view{file}.substr(0, number + 1)) &&
             other.ends_with(std::string_view{file}.substr(at));
    };
    const auto here =
        static_cast<std::uint64_t>(std::count_if(files.begin(), files.end(), is_sibling));
    if (error == std::errc{} && std::string_view{end}.starts_with(".safetensors") && here < all) {
      throw_source_error(
          {"penstock: safetensors: by its name ", file, " is one of ", all, " shards, and ", here,
           " are there: fetch the others, or name the files that you mean in a list."},
          file, 0);
    }
  }
  /// Throws SourceError unless each tensor is in the shard that an index names.
  [[gnu::cold]] void check_tensors(const TensorList& list) const {
    for (const auto& [name, shard] : tensors_) {
      const TensorInfo* const tensor = list.look_up(name);
      if (!tensor || list.files()[tensor->file] != shard->first) {
        throw_source_error(
            {"penstock: safetensors: ", shard->second, " says that ", shard->first,
             " has the tensor \"", shown(name), "\", and it has none",
             tensor ? joined({", but ", list.files()[tensor->file], " has"}) : std::string{},
             ": the index and the files do not belong together. Fetch all again."},
            shard->second, 0);
      }
    }
  }

 private:
  static constexpr std::uint64_t most_bytes = 100'000'000;
  using Shards = std::map<std::string, std::string>; // paths, and that of an index that names it
  struct Tensor {
    std::string name;
    Shards::const_iterator shard;
  };

  Shards shards_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> indexes_; // of a directory: the first of its indexes
};

} // namespace penstock::detail
