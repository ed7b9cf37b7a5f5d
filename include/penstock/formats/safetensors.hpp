// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/safetensors_header.hpp>
#include <penstock/formats/detail/tensor_list.hpp>
#include <penstock/formats/shard_index.hpp>
#include <penstock/formats/tensor_info.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/folder.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/endings.hpp>
#include <penstock/sources/detail/record_files.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
/// in .safetensors. It touches nothing before open(), which prepare() calls. The files must stay as
/// they are while they are read.
template <class Io = PosixIo>
Safetensors<Io> safetensors(std::string path, SafetensorsOptions options = {}, Io io = {}) {
  std::vector<std::string> paths;
  paths.push_back(std::move(path));
  return Safetensors<Io>{std::move(paths), options, std::move(io)};
}
/// Makes a source of several files: the shards of one model.
template <class Io = PosixIo>
Safetensors<Io> safetensors(std::vector<std::string> paths, SafetensorsOptions options = {},
                            Io io = {}) {
  return Safetensors<Io>{std::move(paths), options, std::move(io)};
}
/// Makes a source of several files named in a list.
template <class Io = PosixIo>
Safetensors<Io> safetensors(std::initializer_list<std::string> paths,
                            SafetensorsOptions options = {}, Io io = {}) {
  return Safetensors<Io>{std::vector<std::string>{paths}, options, std::move(io)};
}

} // namespace penstock
