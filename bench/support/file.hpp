// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/threads.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace penstock_bench {

inline constexpr std::size_t KiB = 1024;
inline constexpr std::size_t MiB = 1024 * KiB;

/// A record of 224 x 224 x 3 bytes, like an image, and the largest of the usual batches, of 256
/// such records.
inline constexpr std::size_t image_bytes = std::size_t{224} * 224 * 3;
inline constexpr std::size_t image_batch_bytes = 256 * image_bytes;
/// Files are whole numbers of this, four such batches: therefore also of 1 MiB and of all smaller
/// batches.
inline constexpr std::uint64_t file_unit = 4 * image_batch_bytes;

/// The small records as which these programs read files.
struct Block {
  std::uint8_t bytes[16384];
};

/// A program's options besides Google Benchmark's, which must be gone from argv.
struct FileOptions {
  /// --file=PATH: made if it is missing, or of another size.
  std::string path;
  /// --bytes=N: the bytes that a run transfers, cut to a multiple of file_unit, at least one.
  std::uint64_t bytes;

  /// By default a temporary file called `name`, of `units` file_units: 8.6 GB.
  FileOptions(int argc, char** argv, const char* name = "penstock-bench.bin",
              std::uint64_t units = 56)
      : path{(std::filesystem::temp_directory_path() / name).string()}, bytes{units * file_unit} {
    for (const std::string_view argument :
         std::span{argv, static_cast<std::size_t>(argc)}.subspan(1)) {
      if (argument.starts_with("--file=")) {
        path = argument.substr(7);
      } else if (argument.starts_with("--bytes=")) {
        const std::uint64_t asked = std::stoull(std::string{argument.substr(8)});
        bytes = std::max<std::uint64_t>(asked / file_unit, 1) * file_unit;
      } else {
        throw std::runtime_error{"unknown option " + std::string{argument} +
                                 "; there are --file=PATH, --bytes=N and Google Benchmark's"};
      }
    }
  }
};

/// An open file.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags)
      : path_{path}, descriptor_{open(path.c_str(), flags, 0644)} {
    if (descriptor_ < 0) {
      fail("open");
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { close(descriptor_); }

  /// Reads all of `into` from `at` on. Any thread.
  void read(std::uint64_t at, std::span<std::uint8_t> into) const {
    while (!into.empty()) {
      const ssize_t got = pread(descriptor_, into.data(), into.size(), static_cast<off_t>(at));
      if (got <= 0) {
        fail("pread");
      }
      at += static_cast<std::uint64_t>(got);
      into = into.subspan(static_cast<std::size_t>(got));
    }
  }
  void write(std::uint64_t at, std::span<const std::uint8_t> from) const {
    while (!from.empty()) {
      const ssize_t put = pwrite(descriptor_, from.data(), from.size(), static_cast<off_t>(at));
      if (put <= 0) {
        fail("pwrite");
      }
      at += static_cast<std::uint64_t>(put);
      from = from.subspan(static_cast<std::size_t>(put));
    }
  }
  /// Blocks until the file is on the disk, so that nothing is written while something else is
  /// timed.
  void sync() const {
    if (fsync(descriptor_) != 0) {
      fail("fsync");
    }
  }

 private:
  [[noreturn]] void fail(const char* call) const {
    throw std::system_error{errno, std::generic_category(), std::string{call} + " " + path_};
  }

  std::string path_;
  int descriptor_;
};

/// Calls f(at, buffer) for all of `bytes` bytes, 1 MiB at a time, from all processors. f may throw.
template <class F> void in_chunks(std::uint64_t bytes, F f) {
  std::atomic<std::uint64_t> next{0};
  on_threads(std::max(std::thread::hardware_concurrency(), 1U), [&](std::size_t) {
    std::vector<std::uint8_t> buffer(MiB);
    for (std::uint64_t at = next.fetch_add(MiB); at < bytes; at = next.fetch_add(MiB)) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(MiB, bytes - at));
      f(at, std::span{buffer}.first(size));
    }
  });
}

/// Makes the file that `options` ask for, of random bytes, unless it is there with that size; then
/// reads it into the page cache. Blocks.
inline void prepare_file(const FileOptions& options) {
  std::error_code missing;
  if (std::filesystem::file_size(options.path, missing) != options.bytes || missing) {
    const OpenFile file{options.path, O_RDWR | O_CREAT | O_TRUNC};
    in_chunks(options.bytes, [&](std::uint64_t at, std::span<std::uint8_t> buffer) {
      // splitmix64, seeded anew in each chunk.
      std::uint64_t state = at;
      for (std::uint8_t& byte : buffer) {
        state += 0x9e3779b97f4a7c15;
        std::uint64_t mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
        byte = static_cast<std::uint8_t>(mixed >> 56);
      }
      file.write(at, buffer);
    });
    file.sync();
  }
  const OpenFile file{options.path, O_RDONLY};
  in_chunks(options.bytes,
            [&](std::uint64_t at, std::span<std::uint8_t> buffer) { file.read(at, buffer); });
}

/// A file that is gone when this dies.
class FileCopy {
 public:
  /// Copies the first `bytes` bytes of `from` into a file in `folder`.
  FileCopy(const std::string& folder, const OpenFile& from, std::uint64_t bytes)
      : path_{folder + "/penstock-bench-" + std::to_string(::getpid()) + ".bin"} {
    try {
      const OpenFile file{path_, O_RDWR | O_CREAT | O_TRUNC};
      in_chunks(bytes, [&](std::uint64_t at, std::span<std::uint8_t> buffer) {
        from.read(at, buffer);
        file.write(at, buffer);
      });
    } catch (...) {
      ::unlink(path_.c_str());
      throw;
    }
  }
  FileCopy(const FileCopy&) = delete;
  FileCopy& operator=(const FileCopy&) = delete;
  ~FileCopy() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

} // namespace penstock_bench
