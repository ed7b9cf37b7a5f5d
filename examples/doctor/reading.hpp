// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data.hpp"
#include "memory_budget.hpp"
#include "timing.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace doctor {

/// How a file is read: through the page cache, or past it.
enum class Way { cached, direct };

/// What to do if a file cannot be opened or read, by the system's number for the error.
inline const char* cure_of(int error) {
  switch (error) {
  case EMFILE:
  case ENFILE:
    return "raise the limit on open files: ulimit -n";
  case EIO:
    return "the disk or the network below it has failed: see the system's log";
  default:
    return "check the path, and the right to read it";
  }
}

/// A file that is open; one at a time.
class OpenFile {
 public:
  explicit OpenFile(Way way = Way::cached) : way_{way} {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { close(); }

  void open(const std::string& path) {
    close();
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (way_ == Way::direct ? O_DIRECT : 0));
    if (file_ < 0) {
      fail("open", path);
    }
  }
  void close() {
    if (file_ >= 0) {
      ::close(file_);
      file_ = -1;
    }
  }
  int number() const { return file_; }
  /// Fills `into` from `offset` on. A direct read may go on to the end of the file's last block.
  void read(const std::string& path, std::uint64_t offset, std::span<std::byte> into) const {
    constexpr std::size_t block = 4096;
    for (std::size_t done = 0; done < into.size();) {
      std::size_t wanted = into.size() - done;
      if (way_ == Way::direct) {
        wanted = (wanted + block - 1) / block * block;
      }
      const ssize_t got =
          ::pread(file_, into.data() + done, wanted, static_cast<off_t>(offset + done));
      if (got < 0 && errno != EINTR) {
        fail("read", path);
      }
      if (got == 0) {
        throw std::runtime_error{path + " has become shorter: leave files alone as long as they "
                                        "are measured"};
      }
      done += got > 0 ? static_cast<std::size_t>(got) : 0;
    }
  }

 private:
  [[noreturn]] static void fail(const char* what, const std::string& path) {
    const int error = errno;
    throw std::system_error{error, std::generic_category(),
                            "cannot " + std::string{what} + " " + path + " (" + cure_of(error) +
                                ")"};
  }

  Way way_;
  int file_ = -1;
};

/// Which pieces are read: `count` from `first` on, once, or again and again.
struct Part {
  std::size_t first;
  std::size_t count;
  bool again;
};

/// What was read, and how long that took.
struct Pace {
  std::size_t pieces = 0;
  std::uint64_t bytes = 0;
  std::uint64_t files = 0; ///< Opened.
  double seconds = 0;

  double gb_per_s() const { return static_cast<double>(bytes) / seconds / 1e9; }
  double files_per_s() const { return static_cast<double>(files) / seconds; }
};

/// Threads that read the sample, each into 4 MiB of memory of its own that it uses again and again,
/// as a pipeline uses its ring.
class Readings {
 public:
  Readings(const Data& data, unsigned most_threads) : data_{data} {
    for (unsigned i = 0; i < most_threads; ++i) {
      buffers_.push_back(make_bytes(buffer_bytes));
      std::memset(buffers_.back().get(), 1, buffer_bytes);
    }
  }

  /// Reads until the part is through, or `limit` seconds are over.
  Pace read(Part part, unsigned threads, Way way, double limit) const {
    std::atomic<std::size_t> next{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> files{0};
    Pace pace;
    pace.seconds = on_threads(threads, [&](unsigned thread) {
      const auto begin = Clock::now();
      OpenFile file{way};
      std::size_t open = data_.paths.size(); // none
      std::size_t place = 0;
      while (seconds_since(begin) < limit) {
        const std::size_t number = next.fetch_add(1);
        if (number >= part.count && !part.again) {
          break;
        }
        const Piece& piece = data_.pieces[part.first + number % part.count];
        // Small files are opened for each read, as a program opens each of them once.
        if (open != piece.file || (data_.small_files && piece.offset == 0)) {
          file.open(data_.paths[piece.file]);
          open = piece.file;
          files.fetch_add(piece.offset == 0);
        }
        std::byte* const into = buffers_[thread].get() + place * piece_bytes;
        file.read(data_.paths[piece.file], piece.offset, {into, piece.bytes});
        place = (place + 1) % (buffer_bytes / piece_bytes);
        bytes.fetch_add(piece.bytes);
      }
    });
    pace.bytes = bytes;
    pace.files = files;
    pace.pieces = std::min(next.load(), part.count);
    return pace;
  }

 private:
  static constexpr std::size_t buffer_bytes = 4 * piece_bytes;

  const Data& data_;
  std::vector<Bytes> buffers_;
};

} // namespace doctor
