// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/json_text.hpp>
#include <penstock/formats/detail/safetensors_header.hpp>
#include <penstock/formats/detail/tensor_list.hpp>
#include <penstock/formats/tensor_info.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/folder.hpp>
#include <penstock/io/new_file.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/endings.hpp>
#include <penstock/sources/detail/paths.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/utf8.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
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

namespace penstock {

/// Options of safetensors().
struct SafetensorsOptions {
  /// Whether files are read past the page cache: see RecordsOptions::direct.
  DirectReads direct = DirectReads::automatic;
};

/// The tensors of safetensors files: what they are, known before a byte of them is read, and a
/// source of their bytes. Made by safetensors(). A record is one byte, so that a Reader reads
/// pieces of any size; they come file by file, each from its first tensor's first byte to its last
/// one's last. Copies share what open() has opened. Io makes the system calls: see PosixIo.
template <class Io = PosixIo> class Safetensors {
 public:
  /// The type of its records.
  using schema = std::byte;

  /// Takes files and directories; touches none before open().
  explicit Safetensors(std::vector<std::string> paths, SafetensorsOptions options = {}, Io io = {})
      : files_{"safetensors", std::move(paths), std::move(io)}, options_{options} {}

  /// Opens the files and reads their headers, many by several threads at once, and refuses what is
  /// not as the format says, the first file in order: a header that is no JSON or has other members
  /// or an unknown dtype, tensors whose shape does not make their bytes, that overlap, or that
  /// leave a part of the file uncovered; then a name that two files have. Of a directory with an
  /// index of shards, such as model.safetensors.index.json, each tensor must be where that says,
  /// and no file beside. Takes some ten times a
  /// header's bytes of memory, of which a header has at most 100 MB. Blocks. Throws SourceError
  /// with file and offset; what progress throws. Does nothing the second time.
  void open(const PrepareOptions& preparing = {}) {
    if (list_) {
      return;
    }
    auto list = detail::new_shared<detail::TensorList>();
    detail::ShardIndexes indexes;
    std::vector<std::string> paths =
        detail::files_ending("safetensors", files_.io(), files_.paths(), ".safetensors",
                             [&](const std::string& file) { indexes.take(files_.io(), file); });
    indexes.check_files(paths);
    detail::RecordFiles<Io> files{"safetensors", std::move(paths), files_.io()};
    files.open(
        preparing, options_.direct, 0,
        [](const auto& file, std::size_t) { return detail::read_safetensors_header(file); },
        [&](detail::SafetensorsHeader& header, const auto& file, std::uint64_t before) {
          return list->add(std::move(header), file.path(), file.size(), before);
        });
    list->sort();
    indexes.check_tensors(*list);
    files_ = std::move(files);
    list_ = std::move(list);
  }

  /// Returns the bytes of all tensors. After open().
  std::uint64_t size() const { return files_.size(); }
  /// Returns the tensors, as they lie, file after file. After open(); valid while a copy of this
  /// lives.
  std::span<const TensorInfo> tensors() const { return list().tensors(); }
  /// Returns the tensor of this name. After open(); valid while a copy of this lives. Throws
  /// OptionError if there is none.
  const TensorInfo& tensor(std::string_view name) const { return list().find(name); }
  /// Returns the paths of the files, in order. After open().
  const std::vector<std::string>& files() const { return list().files(); }
  /// Returns what a file's header has besides tensors, by name. After open().
  const std::map<std::string, std::string>& metadata(std::size_t file = 0) const {
    if (file >= files().size()) {
      detail::throw_error<OptionError>({"penstock: safetensors: metadata of file number ", file,
                                        ", but there are ", files().size(),
                                        " files: give a number below that, they count from 0."});
    }
    return list().metadata()[file];
  }
  /// Returns how many of the files that have bytes of tensors are read directly. After open().
  std::size_t direct_files() const { return files_.direct_files(); }

  /// Reads the bytes from into.index() on. After open(). Blocks; any number of threads at once.
  /// Throws SourceError with file and offset.
  template <HostSpace Where> std::size_t read(Batch<std::byte, Where> into) const {
    detail::check_range("safetensors", into, size(), 1);
    read_bytes(into.index(), {into.data(), into.size()});
    return into.size();
  }
  /// Reads the bytes from `at` on, counted over all tensors: from a tensor's `at` on, `bytes` of
  /// them are that tensor.
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const {
    files_.read_bytes(at, into, 1);
  }
  /// Has the system read these bytes into the page cache. Any thread.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires requires(const Io& io) { io.will_read(0, first, count); }
  {
    files_.will_read(first, count, 1);
  }
  /// Appends how the files are read.
  [[gnu::cold]] void note(std::string& to) const { files_.note(to); }

 private:
  const detail::TensorList& list() const {
    static_cast<void>(files_.size()); // throws if it is not open
    return *list_;
  }

  detail::RecordFiles<Io> files_;
  SafetensorsOptions options_;
  detail::Shared<const detail::TensorList> list_;
};

/// Makes a source of the tensors in a safetensors file, or in those of a directory whose names end
/// in .safetensors, or of a list of both: the shards of one model. It touches nothing before
/// open(), which prepare() calls. The files must stay as they are while they are read.
template <class Io = PosixIo>
Safetensors<Io> safetensors(detail::Paths paths, SafetensorsOptions options = {}, Io io = {}) {
  return Safetensors<Io>{std::move(paths).take(), options, std::move(io)};
}

} // namespace penstock
