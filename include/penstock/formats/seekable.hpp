// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/frame_cache.hpp>
#include <penstock/formats/frames.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/posix.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace penstock {

/// Options of seekable().
struct SeekableOptions {
  /// The most bytes that may come out of a frame, less than 2 GiB: each thread that reads needs
  /// memory for one or two.
  std::uint64_t most = std::uint64_t{64} << 20;
  /// Frames of so many bytes together are kept, decompressed, for reads of their other parts.
  std::uint64_t keep = std::uint64_t{64} << 20;
};

/// Reads compressed files of many frames as if they held what comes out of them, from any byte on,
/// by any number of threads side by side. Made by seekable(). It stands in PosixIo's place for
/// sources that read. Copies share the frames that were decompressed. Base makes the system calls.
template <FramedCodec C, class Base = PosixIo> class SeekableIo {
 public:
  using Folder = typename Base::Folder; ///< An open directory.

  /// Touches no file. Throws OptionError for a .most that is too large.
  explicit SeekableIo(C codec, SeekableOptions options = {}, Base base = {})
      : base_{std::move(base)},
        shared_{detail::new_shared<Shared>(std::move(codec), checked(options))} {}

  /// Opens a file, and finds its frames. Throws SourceError with the file and the byte where that
  /// cannot be done. Blocks.
  int open(const char* path) const {
    const int fd = base_.open(path);
    if (fd < 0) {
      return fd;
    }
    try {
      FileStatus status;
      if (detail::persist(base_, [&] { return base_.status(fd, status); }) < 0) {
        const int error = errno;
        base_.close(fd);
        errno = error;
        return -1;
      }
      if (status.kind == FileKind::regular) {
        detail::Shared<const Opened> opened = found(path, fd, status);
        const std::lock_guard lock{shared_->mutex};
        shared_->open[fd] = std::move(opened);
      }
    } catch (...) {
      base_.close(fd);
      throw;
    }
    return fd;
  }
  /// Refuses with EINVAL: what comes out of a file lies on no disk.
  int open_direct(const char*) const noexcept { return refused(); }
  /// Closes a file.
  int close(int fd) const noexcept {
    {
      const std::lock_guard lock{shared_->mutex};
      shared_->open.erase(fd);
    }
    return base_.close(fd);
  }
  /// Asks about what lies at `path`, as it lies there.
  int status(const char* path, FileStatus& status) const { return base_.status(path, status); }
  /// Asks about an open file. Its size is that of what comes out of it.
  int status(int fd, FileStatus& status) const {
    const int result = base_.status(fd, status);
    if (const auto opened = of(fd); result >= 0 && opened) {
      status.size = opened->index.bytes();
    }
    return result;
  }
  /// Refuses with EINVAL.
  std::int64_t direct_alignment(int) const noexcept { return refused(); }
  /// Says that all is in the page cache, so that nobody reads past it.
  int cached(int, std::uint64_t, double& share) const noexcept {
    share = 1;
    return 0;
  }
  /// Returns the bytes of memory that are free.
  std::uint64_t available_memory() const { return base_.available_memory(); }
  /// Reads what comes out of a file from byte `offset` on: all that was asked for, or as much as
  /// there is. Blocks while it decompresses, or while another thread does the same frame. Throws
  /// SourceError with the file, and the byte of what comes out, for a damaged frame.
  std::int64_t read(int fd, std::byte* into, std::size_t bytes, std::uint64_t offset) const {
    const auto opened = of(fd);
    if (!opened) {
      return base_.read(fd, into, bytes, offset);
    }
    const FrameIndex& index = opened->index;
    if (offset >= index.bytes()) {
      return 0;
    }
    bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, index.bytes() - offset));
    std::size_t number = index.find(offset);
    std::size_t done = 0;
    for (; done != bytes; ++number) {
      const Frame& frame = index.frames()[number];
      const std::size_t past = offset + done - frame.at;
      const std::size_t some = std::min(bytes - done, frame.bytes - past);
      const auto fill = [&](std::span<std::byte> room) { unpack(fd, *opened, frame, room); };
      if (some == frame.bytes) {
        fill({into + done, some});
      } else {
        shared_->cache.use({opened.get(), number}, frame.bytes, fill,
                           [&](std::span<const std::byte> all) {
                             std::copy_n(all.data() + past, some, into + done);
                           });
      }
      done += some;
    }
    return static_cast<std::int64_t>(done);
  }
  /// Has the system begin to read the frames that hold a part into the page cache.
  int will_read(int fd, std::uint64_t offset, std::uint64_t bytes) const noexcept
    requires requires(const Base& base) { base.will_read(0, offset, bytes); }
  {
    const auto opened = of(fd);
    if (!opened || bytes == 0 || offset >= opened->index.bytes()) {
      return 0;
    }
    const FrameIndex& index = opened->index;
    const Frame& first = index.frames()[index.find(offset)];
    const std::uint64_t last = offset + std::min(bytes, index.bytes() - offset) - 1;
    const Frame& end = index.frames()[index.find(last)];
    return base_.will_read(fd, first.begin, end.begin + end.packed - first.begin);
  }
  /// Lists a directory, as PosixIo does.
  /// @{
  int open_folder(const char* path, Folder& folder) const {
    return base_.open_folder(path, folder);
  }
  int next_name(Folder folder, const char*& name) const { return base_.next_name(folder, name); }
  int close_folder(Folder folder) const { return base_.close_folder(folder); }
  /// @}
  /// Waits before a call is made again.
  void pause() const { base_.pause(); }

 private:
  struct Opened {
    std::string path;
    FileStatus status; // of the file as it lies there
    FrameIndex index;
  };
  // What a thread decompresses with.
  struct Bench {
    C codec;
    std::vector<std::byte> packed{};
  };
  struct Shared {
    Shared(C by, const SeekableOptions& with) : codec{std::move(by)}, options{with} {}

    const C codec;
    const SeekableOptions options;
    detail::FrameCache cache{options.keep};
    std::mutex mutex{}; // guards what follows
    std::unordered_map<int, detail::Shared<const Opened>> open{};
    std::unordered_map<std::uint64_t, detail::Shared<const Opened>> known{}; // by their inodes
    std::vector<detail::Owned<Bench>> benches{};                             // that nobody uses
  };

  static const SeekableOptions& checked(const SeekableOptions& options) {
    if (options.most > std::uint64_t{std::numeric_limits<std::int32_t>::max()}) {
      throw OptionError{"penstock: seekable: .most must be less than 2 GiB."};
    }
    return options;
  }
  static int refused() noexcept {
    errno = EINVAL;
    return -1;
  }
  detail::Shared<const Opened> of(int fd) const {
    const std::lock_guard lock{shared_->mutex};
    const auto found = shared_->open.find(fd);
    return found == shared_->open.end() ? detail::Shared<const Opened>{} : found->second;
  }
  // Reads all of a part of the file. Returns false if there is an error, as errno says, or if the
  // file ends before, with errno 0.
  bool read_all(int fd, std::uint64_t at, std::span<std::byte> into) const {
    while (!into.empty()) {
      const std::int64_t got = detail::persist(base_, [&] {
        return base_.read(fd, into.data(), std::min(into.size(), detail::most_bytes_a_read), at);
      });
      if (got <= 0) {
        errno = got == 0 ? 0 : errno;
        return false;
      }
      into = into.subspan(static_cast<std::size_t>(got));
      at += static_cast<std::uint64_t>(got);
    }
    return true;
  }
  void must_read(const std::string& path, int fd, std::uint64_t at,
                 std::span<std::byte> into) const {
    if (read_all(fd, at, into)) {
      return;
    }
    if (errno != 0) {
      detail::throw_read_error(path, errno, at);
    }
    detail::throw_source_error({"penstock: ", path,
                                " shrank while it was read. Leave a file alone as long as it is "
                                "read."},
                               path, at);
  }
  // Finds the frames of a file, once, as long as it is the same.
  detail::Shared<const Opened> found(const char* path, int fd, const FileStatus& status) const {
    {
      const std::lock_guard lock{shared_->mutex};
      const auto same = shared_->known.find(status.inode);
      if (same != shared_->known.end() && same->second->status == status) {
        return same->second;
      }
    }
    auto opened = detail::new_shared<Opened>(path, status, FrameIndex{shared_->options.most});
    const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
      must_read(opened->path, fd, at, into);
    };
    shared_->codec.index(FrameFile{opened->path, C::name, status.size, read}, opened->index);
    const std::lock_guard lock{shared_->mutex};
    shared_->known[status.inode] = opened;
    return opened;
  }
  detail::Owned<Bench> bench() const {
    {
      const std::lock_guard lock{shared_->mutex};
      if (!shared_->benches.empty()) {
        detail::Owned<Bench> last = std::move(shared_->benches.back());
        shared_->benches.pop_back();
        return last;
      }
    }
    return detail::Owned<Bench>{new Bench{shared_->codec}};
  }
  // Decompresses a frame into as much room as it claims.
  void unpack(int fd, const Opened& file, const Frame& frame, std::span<std::byte> into) const {
    detail::Owned<Bench> mine = bench();
    mine->packed.resize(std::max<std::size_t>(mine->packed.size(), frame.packed));
    const auto packed = std::span{mine->packed}.first(frame.packed);
    must_read(file.path, fd, frame.begin, packed);
    const Decompressed got = mine->codec.whole(frame, packed, into);
    const bool ended = got.state == Decompressed::State::end;
    if (!ended || got.made != into.size() || got.used != packed.size()) {
      const std::string why =
          got.state == Decompressed::State::damaged
              ? detail::joined({"has ", got.why, "."})
              : detail::joined({"says that it holds ", into.size(), " bytes in ", packed.size(),
                                ended ? detail::joined({", and ", got.made, " in ", got.used})
                                      : std::string{", and more"},
                                " came: it is damaged. Copy or download the file again."});
      detail::throw_source_error(
          {"penstock: ", file.path, ": the frame at byte ", frame.begin, " (", C::name, ") ", why},
          file.path, frame.at);
    }
    const std::lock_guard lock{shared_->mutex};
    shared_->benches.push_back(std::move(mine));
  }

  Base base_;
  detail::Shared<Shared> shared_;
};

/// Makes an Io for sources of files that were compressed in many frames, such as those of zstd's
/// seekable format, of lz4 and of bgzip: `lines("text.jsonl.zst", {}, seekable(Zstd{}))`.
/// The source then is as if the file held what comes out of it: it may be read in any order, by any
/// number of workers, each of which decompresses other frames. open() looks for the frames: in the
/// seek table, or else in the header of each frame and block. A file of one large frame is refused:
/// see SeekableOptions::most.
template <FramedCodec C, class Base = PosixIo>
SeekableIo<C, Base> seekable(C codec, SeekableOptions options = {}, Base base = {}) {
  return SeekableIo<C, Base>{std::move(codec), options, std::move(base)};
}

} // namespace penstock
