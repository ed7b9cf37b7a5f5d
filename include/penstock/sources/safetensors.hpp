// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/batch.hpp>
#include <penstock/detail/base/shared.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/error.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/memory.hpp>
#include <penstock/prepare_options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/opened_safetensors.hpp>
#include <penstock/sources/tensor_info.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
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
      : paths_{std::move(paths)}, options_{options}, io_{std::move(io)} {}

  /// Opens the files and reads their headers, many by several threads at once, and refuses what is
  /// not as the format says, the first file in order: a header that is no JSON or has other members
  /// or an unknown dtype, tensors whose shape does not make their bytes, that overlap, or that
  /// leave a part of the file uncovered; then a name that two files have. Takes some ten times a
  /// header's bytes of memory, of which a header has at most 100 MB. Blocks. Throws SourceError
  /// with file and offset; what progress throws. Does nothing the second time.
  void open(const PrepareOptions& preparing = {}) {
    if (!opened_) {
      opened_ = detail::new_shared<Opened>(io_, paths_, options_.direct, preparing);
    }
  }

  /// Returns the bytes of all tensors. After open().
  std::uint64_t size() const { return opened().parts.back().end; }
  /// Returns the tensors, as they lie, file after file. After open(); valid while a copy of this
  /// lives.
  std::span<const TensorInfo> tensors() const { return opened().tensors; }
  /// Returns the tensor of this name. Valid while a copy of this lives. Throws OptionError if there
  /// is none.
  const TensorInfo& tensor(std::string_view name) const {
    const Opened& all = opened();
    const auto at = std::lower_bound(
        all.by_name.begin(), all.by_name.end(), name,
        [&](std::size_t i, std::string_view than) { return all.tensors[i].name < than; });
    if (at == all.by_name.end() || all.tensors[*at].name != name) {
      detail::throw_error<OptionError>(
          {"penstock: safetensors: of the ", all.tensors.size(), " tensors none is called \"", name,
           "\"", at == all.by_name.end() ? "" : "; the next one in the order of names is \"",
           at == all.by_name.end() ? "" : all.tensors[*at].name,
           at == all.by_name.end() ? ": tensors() has all." : "\": tensors() has all."});
    }
    return all.tensors[*at];
  }
  /// Returns the paths of the files, in order. After open().
  std::vector<std::string> files() const {
    std::vector<std::string> paths;
    for (std::size_t i = 0; i != opened().files.size(); ++i) {
      paths.push_back(opened().files.path(i));
    }
    return paths;
  }
  /// Returns what a file's header has besides tensors, by name. After open().
  const std::map<std::string, std::string>& metadata(std::size_t file = 0) const {
    if (file >= opened().files.size()) {
      detail::throw_error<OptionError>({"penstock: safetensors: metadata of file number ", file,
                                        ", but there are ", opened().files.size(),
                                        " files: they count from 0."});
    }
    return opened().parts[file].metadata;
  }
  /// Returns how many of the files are read directly. After open().
  std::size_t direct_files() const { return opened().files.direct_files(); }

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
    detail::check_bytes("safetensors", at, into.size(), size(), 1);
    pieces(at, into.size(), [&](std::size_t file, std::uint64_t offset, std::size_t bytes) {
      opened().files.read(file, offset, into.first(bytes));
      into = into.subspan(bytes);
    });
  }
  /// Has the system read these bytes into the page cache. Any thread.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires requires(const Io& io) { io.will_read(0, first, count); }
  {
    pieces(first, count, [&](std::size_t file, std::uint64_t offset, std::uint64_t bytes) {
      opened_->files.will_read(file, offset, bytes);
    });
  }
  /// Appends how the files are read.
  [[gnu::cold]] void note(std::string& to) const { opened().files.note(to); }

 private:
  using Opened = detail::OpenedSafetensors<Io>;

  const Opened& opened() const {
    if (!opened_) {
      const std::string_view first = paths_.empty() ? std::string_view{} : paths_.front();
      detail::throw_source_error(
          {"penstock: safetensors: ", first, " is not open yet: call open() first."}, first, 0);
    }
    return *opened_;
  }

  template <class F> void pieces(std::uint64_t at, std::uint64_t count, F f) const {
    const auto& parts = opened_->parts;
    auto part = std::upper_bound(
        parts.begin(), parts.end(), at,
        [](std::uint64_t byte, const typename Opened::Part& p) { return byte < p.end; });
    for (; count != 0 && part != parts.end(); ++part) {
      const std::uint64_t here = std::min(part->end - at, count);
      if (here != 0) {
        f(static_cast<std::size_t>(part - parts.begin()), part->data + (at - part->first), here);
      }
      at += here;
      count -= here;
    }
  }

  std::vector<std::string> paths_;
  SafetensorsOptions options_;
  Io io_;
  std::shared_ptr<const Opened> opened_;
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
