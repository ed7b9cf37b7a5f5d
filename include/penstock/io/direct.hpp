// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/io/file.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace penstock {

/// Whether a file is read directly, that is past the page cache (O_DIRECT). A file that is not in
/// the cache is read about twice as fast that way, with less work for the processor, but is not in
/// the cache afterwards either; a file that is in the cache is read many times slower.
enum class DirectReads {
  /// Directly if less than half of the file is in the cache when it is opened, by a look at some of
  /// its pages. Not for files below 1 MiB, nor on file systems that refuse.
  automatic,
  /// Directly, whatever is in the cache; it is an error if the file system refuses.
  always,
  /// Through the page cache: for files that you read again soon and that fit into memory.
  none,
};

namespace detail {

inline constexpr std::uint64_t least_direct_bytes = std::uint64_t{1} << 20;
inline constexpr std::size_t most_direct_alignment = std::size_t{1} << 16;
/// Room for a read of 1 MiB from anywhere, and for the blocks that it begins and ends in.
inline constexpr std::size_t bounce_bytes = (std::size_t{1} << 20) + 2 * most_direct_alignment;

/// Returns aligned memory for direct reads that cannot go straight into place. Each thread has its
/// own, from its first such read to its end.
std::span<std::byte> bounce_buffer();

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::span<std::byte> bounce_buffer() {
  constexpr std::align_val_t alignment{most_direct_alignment};
  struct Buffer {
    ~Buffer() { ::operator delete(at, alignment); }
    void* const at = ::operator new(bounce_bytes, alignment);
  };
  thread_local const Buffer buffer;
  return {static_cast<std::byte*>(buffer.at), bounce_bytes};
}
#endif

} // namespace detail

/// A File that is read directly where you want that and it can be. Movable. Any number of threads
/// may call its const members at once.
template <class Io = PosixIo> class DirectFile {
 public:
  /// Opens the file and decides; a direct one has two descriptors, of the same file. Throws what
  /// File throws, and SourceError if reads are `always` to be direct and cannot, or if another file
  /// took its name meanwhile. Blocks.
  [[gnu::cold]] DirectFile(const Io& io, std::string path, DirectReads reads)
      : file_{io, std::move(path)} {
    if (!is_wanted(reads)) {
      return;
    }
    const int error = open_direct();
    if (error == 0) {
      return;
    }
    direct_.reset();
    alignment_ = 0;
    if (reads == DirectReads::always) {
      detail::throw_source_error(
          {"penstock: cannot read ", this->path(),
           " directly, past the page cache: ", std::generic_category().message(error),
           ". Its file system may refuse that: take DirectReads::automatic, which "
           "then reads through the cache, or another file system."},
          this->path(), 0);
    }
  }

  /// Returns the path as it was given.
  const std::string& path() const noexcept { return file_.path(); }
  /// Returns the file's bytes when it was opened.
  std::uint64_t size() const noexcept { return file_.size(); }
  /// Returns whether it is read directly.
  bool is_direct() const noexcept { return alignment_ != 0; }
  /// Returns the file as it is read through the page cache.
  const File<Io>& file() const noexcept { return file_; }
  /// Returns whether its descriptors may stay open, for all that the process has.
  bool may_stay_open() const noexcept {
    return file_.descriptor().may_stay_open() && (!direct_ || direct_->may_stay_open());
  }
  /// Gives its descriptors back: from now on each read_full() opens the file for itself.
  void close() noexcept {
    file_.close();
    direct_.reset();
  }

 private:
  template <class AnyIo>
  friend void read_full(const DirectFile<AnyIo>& file, std::uint64_t offset,
                        std::span<std::byte> into);
  using Descriptor = detail::Descriptor<Io>;

  bool is_wanted(DirectReads reads) const {
    if (reads != DirectReads::automatic) {
      return reads == DirectReads::always && size() != 0;
    }
    double share = 1;
    return size() >= detail::least_direct_bytes && file_.descriptor().cached(size(), share) >= 0 &&
           share < 0.5;
  }

  // Returns an errno. Reads a block, since some file systems refuse only then.
  [[gnu::cold]] int open_direct() {
    if (const int error = file_.open_direct(direct_); error != 0) {
      return error;
    }
    const std::int64_t alignment = direct_->direct_alignment();
    if (alignment < 0) {
      return errno;
    }
    if (alignment > static_cast<std::int64_t>(detail::most_direct_alignment)) {
      return EINVAL;
    }
    alignment_ = static_cast<std::size_t>(alignment);
    return direct_->read(detail::bounce_buffer().first(alignment_), 0) < 0 ? errno : 0;
  }

  // Whole blocks go directly: straight into place, or through the bounce buffer where offset and
  // address differ modulo the alignment. What is left at either end, and at the file's end, goes
  // through the cache. So does all the rest once a direct read gives nothing: the cached read tells
  // whether that is an error.
  [[gnu::cold]] void read(const Descriptor& direct, std::uint64_t offset,
                          std::span<std::byte> into) const {
    const std::uint64_t end = size() / alignment_ * alignment_;
    while (!into.empty() && offset < end) {
      const std::size_t past = offset % alignment_;
      const auto there =
          static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), end - offset));
      std::size_t got = 0;
      if (reinterpret_cast<std::uintptr_t>(into.data()) % alignment_ != past) {
        got = read_bounced(direct, offset - past, past, into.first(there));
      } else if (past == 0 && there >= alignment_) {
        const std::size_t whole = std::min(there, detail::most_bytes_a_read);
        got = read_some(direct, into.first(whole / alignment_ * alignment_), offset);
      } else {
        got = std::min(there, alignment_ - past);
        read_full(file_, offset, into.first(got));
      }
      if (got == 0) {
        break;
      }
      into = into.subspan(got);
      offset += got;
    }
    read_full(file_, offset, into);
  }

  // Reads what lies `past` bytes after the aligned offset `from`. Returns how many bytes came.
  std::size_t read_bounced(const Descriptor& direct, std::uint64_t from, std::size_t past,
                           std::span<std::byte> into) const {
    const std::span<std::byte> buffer = detail::bounce_buffer();
    const std::size_t blocks = (past + into.size() + alignment_ - 1) / alignment_;
    const std::size_t got =
        read_some(direct, buffer.first(std::min(blocks * alignment_, buffer.size())), from);
    const std::size_t used = std::min(got - std::min(got, past), into.size());
    std::copy_n(buffer.data() + past, used, into.data());
    return used;
  }

  // Returns 0 also where the file system refuses just this read.
  std::size_t read_some(const Descriptor& direct, std::span<std::byte> into,
                        std::uint64_t offset) const {
    const std::int64_t got = direct.read(into, offset);
    if (got < 0 && errno != EINVAL) {
      detail::throw_read_error(path(), errno, offset);
    }
    return static_cast<std::size_t>(std::max<std::int64_t>(got, 0));
  }

  File<Io> file_;
  std::optional<Descriptor> direct_;
  std::size_t alignment_ = 0; // 0: not read directly
};

/// Fills `into` from byte `offset` on, as read_full() of a File does and with the same errors. Any
/// offset, count and address will do; the fastest reads have an offset and an address that are
/// multiples of 4096, and go straight into place. A thread's first other direct read allocates 1.1
/// MiB, which it keeps.
template <class Io>
void read_full(const DirectFile<Io>& file, std::uint64_t offset, std::span<std::byte> into) {
  if (!file.is_direct()) {
    read_full(file.file_, offset, into);
  } else if (file.direct_) {
    file.read(*file.direct_, offset, into);
  } else if (!into.empty()) {
    std::optional<detail::Descriptor<Io>> direct;
    if (const int error = file.file_.open_direct(direct); error != 0) {
      detail::throw_io_error("open", file.path(), error, offset);
    }
    file.read(*direct, offset, into);
  }
}

} // namespace penstock
