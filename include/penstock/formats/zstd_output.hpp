// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/zstd_table.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/posix.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <zstd.h>

// Needs libzstd (Debian: libzstd-dev), which the program must link: -lzstd.
namespace penstock {

/// Options of ZstdOutput.
struct ZstdOutputOptions {
  int level = 3;                                ///< How hard zstd tries: `zstd -1` to `-22`.
  std::uint64_t frame = std::uint64_t{1} << 20; ///< Bytes of a frame before: up to 64 MiB.
};

/// Compresses the file that a Writer writes, in zstd's seekable format: its workers compress side
/// by side. `Writer{"numbers.zst", {.workers = 4}, ZstdOutput{{.level = 9}}}` has it in
/// PosixIo's place. seekable() reads the file, and so does each program that knows zstd. Each byte
/// is written once, in any order that leaves few frames unfinished. Copies share the files that are
/// open. Base makes the system calls.
template <class Base = PosixIo> class ZstdOutput {
 public:
  /// Touches no file. Throws OptionError for a level or a frame's size that cannot be.
  explicit ZstdOutput(ZstdOutputOptions options = {}, Base base = {})
      : options_{options}, base_{std::move(base)}, shared_{detail::new_shared<Shared>()} {
    if (options.level < ::ZSTD_minCLevel() || options.level > ::ZSTD_maxCLevel()) {
      throw OptionError{"penstock: ZstdOutput: .level is " + std::to_string(options.level) +
                        ": give " + std::to_string(::ZSTD_minCLevel()) + " to " +
                        std::to_string(::ZSTD_maxCLevel()) + "."};
    }
    if (options.frame == 0 || options.frame > std::uint64_t{64} << 20) {
      throw OptionError{"penstock: ZstdOutput: .frame must be from 1 byte to 64 MiB."};
    }
  }

  /// Makes a new file, as PosixIo does.
  int create(const char* path) const {
    const int fd = base_.create(path);
    if (fd >= 0) {
      auto file = detail::new_shared<Output>();
      const std::lock_guard lock{shared_->mutex};
      shared_->open[fd] = std::move(file);
    }
    return fd;
  }
  /// Takes all bytes, which lie from `offset` on before they are compressed, and writes each frame
  /// that is whole, as soon as those before it are. Blocks. After an error it takes no more. Fails
  /// with EINVAL for bytes of a frame that is whole.
  std::int64_t write(int fd, const std::byte* from, std::size_t bytes, std::uint64_t offset) const {
    const auto file = of(fd);
    for (std::size_t done = 0; done != bytes;) {
      const std::uint64_t number = (offset + done) / options_.frame;
      const std::size_t past = (offset + done) % options_.frame;
      const std::size_t some =
          std::min(bytes - done, static_cast<std::size_t>(options_.frame) - past);
      if (!put(*file, fd, number, past, {from + done, some})) {
        return -1;
      }
      done += some;
    }
    return static_cast<std::int64_t>(bytes);
  }
  /// Ends the file, and returns when it is on its disk. Blocks.
  int sync(int fd) const { return finish(fd) ? base_.sync(fd) : -1; }
  /// Ends the file with the last frame and the table, and closes it. Blocks.
  int close(int fd) const noexcept {
    bool finished = false;
    try {
      finished = finish(fd);
      const std::lock_guard lock{shared_->mutex};
      shared_->open.erase(fd);
    } catch (const std::bad_alloc&) {
      errno = ENOMEM;
    }
    const int error = errno;
    const int closed = base_.close(fd);
    if (finished) {
      return closed;
    }
    errno = error;
    return -1;
  }
  /// As PosixIo does.
  /// @{
  int status(const char* path, FileStatus& status) const { return base_.status(path, status); }
  int sync_folder(const char* path) const { return base_.sync_folder(path); }
  int rename(const char* from, const char* to) const { return base_.rename(from, to); }
  int link(const char* from, const char* to) const { return base_.link(from, to); }
  int unlink(const char* path) const { return base_.unlink(path); }
  void pause() const { base_.pause(); }
  /// @}

 private:
  struct Unfinished {
    std::vector<std::byte> bytes;
    std::size_t covered{};
    std::size_t end{}; // of what was written
  };
  struct Packed {
    std::vector<std::byte> frame;
    std::size_t bytes{}; // before
  };
  struct Output {
    std::mutex mutex{};
    std::map<std::uint64_t, Unfinished> unfinished{};
    std::map<std::uint64_t, Packed> waiting{}; // for those before them
    std::uint64_t next{};                      // the frame that is to be written
    std::uint64_t at{};                        // the end of the file
    detail::ZstdTable table{};
    int error{};
    bool finished{};
  };
  struct Free {
    void operator()(ZSTD_CCtx* context) const noexcept { ::ZSTD_freeCCtx(context); }
  };
  using Context = std::unique_ptr<ZSTD_CCtx, Free>;
  struct Shared {
    std::mutex mutex{};
    std::unordered_map<int, detail::Shared<Output>> open{};
    std::vector<Context> contexts{}; // that nobody uses
  };

  detail::Shared<Output> of(int fd) const {
    const std::lock_guard lock{shared_->mutex};
    return shared_->open.at(fd);
  }
  // Puts bytes into a frame, which it compresses and writes if they are the last that it lacked.
  bool put(Output& file, int fd, std::uint64_t number, std::size_t past,
           std::span<const std::byte> bytes) const {
    if (bytes.size() == options_.frame) {
      return add(file, fd, number, bytes);
    }
    Unfinished whole;
    {
      const std::lock_guard lock{file.mutex};
      Unfinished& frame = file.unfinished[number];
      frame.bytes.resize(static_cast<std::size_t>(options_.frame));
      std::copy(bytes.begin(), bytes.end(),
                frame.bytes.begin() + static_cast<std::ptrdiff_t>(past));
      frame.covered += bytes.size();
      frame.end = std::max(frame.end, past + bytes.size());
      if (frame.covered < options_.frame) {
        return file.error == 0 || failed(file.error);
      }
      whole = std::move(frame);
      file.unfinished.erase(number);
    }
    return add(file, fd, number, whole.bytes);
  }
  bool add(Output& file, int fd, std::uint64_t number, std::span<const std::byte> bytes) const {
    Packed packed{compressed(bytes), bytes.size()};
    const std::lock_guard lock{file.mutex};
    if (number < file.next || !file.waiting.emplace(number, std::move(packed)).second) {
      file.error = file.error == 0 ? EINVAL : file.error;
    }
    return write_ready(file, fd);
  }
  // Writes the frames that are next.
  bool write_ready(Output& file, int fd) const {
    for (auto first = file.waiting.begin();
         file.error == 0 && first != file.waiting.end() && first->first == file.next;
         first = file.waiting.begin()) {
      file.table.add(first->second.frame, first->second.bytes);
      append(file, fd, first->second.frame);
      file.waiting.erase(first);
      ++file.next;
    }
    return file.error == 0 || failed(file.error);
  }
  void append(Output& file, int fd, std::span<const std::byte> bytes) const {
    for (unsigned tries = 0; !bytes.empty() && file.error == 0;) {
      const std::size_t some = std::min(bytes.size(), detail::most_bytes_a_read);
      const std::int64_t got =
          detail::persist(base_, [&] { return base_.write(fd, bytes.data(), some, file.at); });
      if (got < 0 || (got == 0 && ++tries == detail::most_tries)) {
        file.error = got < 0 ? errno : EIO;
        return;
      }
      bytes = bytes.subspan(static_cast<std::size_t>(got));
      file.at += static_cast<std::uint64_t>(got);
    }
  }
  bool finish(int fd) const {
    const auto kept = of(fd);
    Output& file = *kept;
    const std::lock_guard lock{file.mutex};
    if (!file.finished && file.error == 0) {
      if (!file.unfinished.empty()) {
        const auto& [number, last] = *file.unfinished.begin();
        if (file.unfinished.size() != 1 || number != file.next || last.covered != last.end ||
            !file.waiting.empty()) {
          file.error = EINVAL; // bytes before the last one were not written
        } else {
          const auto bytes = std::span{last.bytes}.first(last.covered);
          file.waiting[number] = {compressed(bytes), bytes.size()};
          file.unfinished.clear();
        }
      } else if (!file.waiting.empty()) {
        file.error = EINVAL;
      }
      if (write_ready(file, fd)) {
        append(file, fd, file.table.frame());
        file.finished = file.error == 0;
      }
    }
    return file.error == 0 || failed(file.error);
  }
  static bool failed(int error) noexcept {
    errno = error;
    return false;
  }
  Context context() const {
    {
      const std::lock_guard lock{shared_->mutex};
      if (!shared_->contexts.empty()) {
        Context last = std::move(shared_->contexts.back());
        shared_->contexts.pop_back();
        return last;
      }
    }
    Context made{::ZSTD_createCCtx()};
    if (!made) {
      throw std::bad_alloc{};
    }
    ::ZSTD_CCtx_setParameter(made.get(), ZSTD_c_compressionLevel, options_.level);
    ::ZSTD_CCtx_setParameter(made.get(), ZSTD_c_checksumFlag, 1);
    return made;
  }
  std::vector<std::byte> compressed(std::span<const std::byte> bytes) const {
    Context by = context();
    std::vector<std::byte> frame(::ZSTD_compressBound(bytes.size()));
    const std::size_t made =
        ::ZSTD_compress2(by.get(), frame.data(), frame.size(), bytes.data(), bytes.size());
    if (::ZSTD_isError(made) != 0) {
      throw std::bad_alloc{}; // there is room, so it lacks memory
    }
    frame.resize(made);
    const std::lock_guard lock{shared_->mutex};
    shared_->contexts.push_back(std::move(by));
    return frame;
  }

  ZstdOutputOptions options_;
  Base base_;
  detail::Shared<Shared> shared_;
};

} // namespace penstock
