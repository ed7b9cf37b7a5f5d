// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/io/descriptors.hpp>
#include <penstock/io/detail/cache_blocks.hpp>
#include <penstock/io/detail/cache_handles.hpp>
#include <penstock/io/detail/cache_shape.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/posix.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace penstock {

/// Options of CachedIo.
struct CacheOptions {
  /// The folder that has the cache: on a disk of this host, and best a fast one. It is made if it
  /// is missing, in a folder that is there. Processes that name the same one share it.
  std::string cache;
  /// The most bytes that it takes there. All who share it say the same; another number begins anew.
  std::uint64_t bytes = std::uint64_t{64} << 30;
  /// The bytes that are fetched and kept at once: a power of two from 4096 to 1 MiB. A file's last
  /// block, or a smaller file, takes the place of a whole one: for many small files give less.
  std::size_t block_bytes = std::size_t{1} << 20;
};

/// What a CachedIo has done so far, in all its copies.
struct CacheCounts {
  unsigned long long hit_bytes{};    ///< That were read from the cache.
  unsigned long long missed_bytes{}; ///< That were not there, and were read by the Io below.
  unsigned long long evicted{};      ///< Blocks that gave way to others.
  unsigned long long damaged{};      ///< Blocks whose checksum was wrong, and which were not used.
  int error{};                       ///< An errno: why no more is kept; 0 if all is well.
};

/// Reads files as another Io does, and keeps what it has read in a cache on a disk of this host:
/// `records<Frame>("https://…/frames.bin", {}, ps::CachedIo{ps::HttpIo{}, {.cache = "/nvme/frames",
/// .bytes = 200ULL << 30}})`. Later reads of the same bytes, also by other processes, come from
/// there, as fast as from a file. A file is known by its name, size, time and ETag or inode, so one
/// that changed is read anew; one that has no version is not kept. Where the cache is full, the
/// block that was used the longest ago goes, among the 16 that may give way to a new one. A process
/// may be killed at any time: others never wait for it, nor read what it had half written. Each
/// process checks a block's CRC-32C when it first reads it. If the disk is full or fails, it goes
/// on without keeping more, and says so in the note. Any number of threads; copies share the cache.
template <class Io, class Calls = CacheCalls> class CachedIo : public detail::MostOpen<Io> {
  using Blocks = detail::CacheBlocks<Calls>;

 public:
  using Folder = typename Io::Folder; ///< An open directory.

  /// Opens or makes the cache. Throws OptionError if the options or the folder cannot work. Blocks.
  CachedIo(Io io, const CacheOptions& options, Calls calls = {})
      : io_{std::move(io)}, shared_{detail::new_shared<State>(calls, options)} {}

  /// Returns what it has done so far.
  CacheCounts counts() const;
  /// Returns that in words, for a Report's note, and what the Io below has to say.
  [[gnu::cold]] std::string note() const;
  /// Returns the Io below.
  const Io& io() const noexcept { return io_; }

  /// Opens a file by the Io below, and asks for its version. Returns a number that is no
  /// descriptor.
  int open(const char* path) const {
    const int below = io_.open(path);
    FileStatus status;
    if (below < 0) {
      return below;
    }
    const bool known = detail::persist(io_, [&] { return io_.status(below, status); }) >= 0;
    const int number =
        shared_->handles.add({below, known ? status.size : 0,
                              known ? detail::CacheKey::of(path, status) : detail::CacheKey{}});
    if (number < 0) {
      const int why = errno;
      io_.close(below);
      errno = why;
    }
    return number;
  }
  /// A cache is not read past the page cache.
  int open_direct(const char*) const noexcept {
    errno = EINVAL;
    return -1;
  }
  std::int64_t direct_alignment(int) const noexcept { return open_direct(nullptr); } ///< Fails.
  int close(int fd) const { return io_.close(shared_->handles.remove(fd)); } ///< Closes a file.
  /// Asks the Io below.
  /// @{
  int status(const char* path, FileStatus& status) const { return io_.status(path, status); }
  int status(int fd, FileStatus& status) const { return io_.status(below(fd), status); }
  std::uint64_t available_memory() const { return io_.available_memory(); }
  int open_folder(const char* path, Folder& folder) const { return io_.open_folder(path, folder); }
  int next_name(Folder folder, const char*& name) const { return io_.next_name(folder, name); }
  int close_folder(Folder folder) const { return io_.close_folder(folder); }
  void pause() const { io_.pause(); }
  bool may_stay_open(int fd) const { return detail::may_stay_open(io_, below(fd)); }
  /// @}
  /// Says that a file is not to be read directly.
  int cached(int, std::uint64_t, double& share) const noexcept {
    share = 1;
    return 0;
  }
  /// Reads up to the end of a block, from the cache if it is there. Else it has the Io below read
  /// the whole block, and keeps it. Blocks; fails as that fails.
  std::int64_t read(int fd, std::byte* into, std::size_t bytes, std::uint64_t offset) const;

 private:
  struct alignas(detail::cache_line) Counted {
    StdAtomics::Atomic<unsigned long long> hits{0};
    StdAtomics::Atomic<unsigned long long> missed{0};
  };
  struct State {
    State(const Calls& calls, const CacheOptions& options)
        : blocks{calls, options.cache, detail::CacheShape::of(options.bytes, options.block_bytes)} {
    }

    Counted& counted() noexcept { return counts[detail::thread_number() % counts.size()]; }

    Blocks blocks;
    detail::CacheHandles handles;
    std::array<Counted, 16> counts;
  };

  int below(int fd) const { return shared_->handles.at(fd).below; }
  std::int64_t fetch(const detail::CacheHandle& file, const detail::CacheBlock& block,
                     std::size_t within, std::span<std::byte> into) const;

  Io io_;
  detail::Shared<State> shared_;
};

template <class Io, class Calls>
std::int64_t CachedIo<Io, Calls>::read(int fd, std::byte* into, std::size_t bytes,
                                       std::uint64_t offset) const {
  const detail::CacheHandle& file = shared_->handles.at(fd);
  Blocks& blocks = shared_->blocks;
  if (!file.key.known || offset >= file.bytes || bytes == 0 || !blocks.usable()) {
    return io_.read(file.below, into, bytes, offset);
  }
  const std::uint64_t number = offset / blocks.block_bytes();
  const std::uint64_t begin = number * blocks.block_bytes();
  const detail::CacheBlock block{
      file.key, number,
      static_cast<std::size_t>(std::min<std::uint64_t>(blocks.block_bytes(), file.bytes - begin))};
  const std::size_t within = offset - begin;
  const std::span<std::byte> part{into, std::min(bytes, block.bytes - within)};
  if (!blocks.read(block, within, part)) {
    return fetch(file, block, within, part);
  }
  shared_->counted().hits.fetch_add(part.size(), StdAtomics::relaxed);
  return static_cast<std::int64_t>(part.size());
}

template <class Io, class Calls>
std::int64_t CachedIo<Io, Calls>::fetch(const detail::CacheHandle& file,
                                        const detail::CacheBlock& block, std::size_t within,
                                        std::span<std::byte> into) const {
  Blocks& blocks = shared_->blocks;
  const std::uint64_t begin = block.number * blocks.block_bytes();
  // Who cannot keep the block reads no more than is wanted.
  if (!blocks.is_here() || blocks.error() != 0) {
    const std::int64_t got = io_.read(file.below, into.data(), into.size(), begin + within);
    shared_->counted().missed.fetch_add(static_cast<std::uint64_t>(std::max<std::int64_t>(got, 0)),
                                        StdAtomics::relaxed);
    return got;
  }
  const std::scoped_lock lock{blocks.fetching(block)};
  if (blocks.read(block, within, into)) {
    shared_->counted().hits.fetch_add(into.size(), StdAtomics::relaxed);
    return static_cast<std::int64_t>(into.size());
  }
  const std::span<std::byte> whole =
      into.size() == block.bytes ? into : detail::bounce_buffer().first(block.bytes);
  std::size_t had = 0;
  while (had != whole.size()) {
    const std::int64_t got = detail::persist(io_, [&] {
      return io_.read(file.below, whole.data() + had, whole.size() - had, begin + had);
    });
    if (got < 0) {
      return got;
    }
    if (got == 0) {
      break; // it has become shorter
    }
    had += static_cast<std::size_t>(got);
  }
  shared_->counted().missed.fetch_add(had, StdAtomics::relaxed);
  if (had == whole.size()) {
    blocks.keep(block, whole);
  }
  const std::size_t some = std::min(had - std::min(had, within), into.size());
  if (whole.data() != into.data()) {
    std::copy_n(whole.data() + within, some, into.data());
  }
  return static_cast<std::int64_t>(some);
}

template <class Io, class Calls> CacheCounts CachedIo<Io, Calls>::counts() const {
  const Blocks& blocks = shared_->blocks;
  CacheCounts sum{
      .evicted = blocks.evicted(), .damaged = blocks.damaged(), .error = blocks.error()};
  for (const Counted& counted : shared_->counts) {
    sum.hit_bytes += counted.hits.load(StdAtomics::relaxed);
    sum.missed_bytes += counted.missed.load(StdAtomics::relaxed);
  }
  return sum;
}

template <class Io, class Calls> std::string CachedIo<Io, Calls>::note() const {
  const CacheCounts now = counts();
  std::string text;
  if (now.hit_bytes + now.missed_bytes != 0) {
    text = detail::joined({"from the cache ", now.hit_bytes / 1'000'000, " MB, past it ",
                           now.missed_bytes / 1'000'000, " MB"});
  }
  if (now.damaged != 0) {
    text += detail::joined({", ", now.damaged, " damaged blocks of it not used"});
  }
  if (now.error != 0) {
    text += detail::joined({text.empty() ? "" : ", ", "nothing more is kept in the cache: ",
                            std::generic_category().message(now.error)});
  }
  if constexpr (requires { io_.note(); }) {
    const std::string more = io_.note();
    text += (text.empty() || more.empty() ? "" : ", ") + more;
  }
  return text;
}

} // namespace penstock
