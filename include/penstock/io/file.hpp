// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/fixed_path.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/url.hpp>
#include <penstock/error.hpp>
#include <penstock/io/posix.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/resource.h>

namespace penstock::detail {

inline constexpr unsigned most_tries = 1000;

/// Makes a system call, again and again while it is interrupted or says to try later, but not for
/// ever.
template <class Io, class Call> auto persist(const Io& io, Call call) {
  for (unsigned tries = 1;; ++tries) {
    const auto result = call();
    if (result >= 0 || (errno != EINTR && errno != EAGAIN) || tries == most_tries) {
      return result;
    }
    if (errno == EAGAIN) {
      io.pause();
    }
  }
}

/// Makes a system call that opens a file, as persist() does. While too many files are open it makes
/// up to so many tries, for about a second: other threads open files for one read and close them.
template <class Io, class Call>
[[gnu::cold]] int open_patiently(const Io& io, Call call, unsigned most = most_tries) {
  for (unsigned tries = 1;; ++tries) {
    const int fd = persist(io, call);
    if (fd >= 0 || (errno != EMFILE && errno != ENFILE) || tries == most) {
      return fd;
    }
    io.pause();
  }
}

/// Returns how many descriptors the process has for files that are open for one read.
[[gnu::cold]] std::size_t descriptors_for_a_read() noexcept;

/// Returns whether a file with this descriptor may stay open. A new descriptor has the lowest free
/// number, so this one says how many of all that the process may have are taken, whoever has them.
/// The upper half is left to the program, and to files that are open for one read.
[[gnu::cold]] bool may_stay_open(int fd) noexcept;

/// Asks an Io that has numbers of its own for its files.
template <class Io> bool may_stay_open(const Io& io, int fd) noexcept {
  if constexpr (requires { io.may_stay_open(fd); }) {
    return io.may_stay_open(fd);
  } else {
    return may_stay_open(fd);
  }
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::size_t descriptors_for_a_read() noexcept {
  constexpr std::size_t many = 1024;
  rlimit files{};
  return ::getrlimit(RLIMIT_NOFILE, &files) != 0
             ? many
             : std::size_t{std::min<rlim_t>(files.rlim_cur / 2, many)};
}

PENSTOCK_INLINE bool may_stay_open(int fd) noexcept {
  rlimit files{};
  return ::getrlimit(RLIMIT_NOFILE, &files) != 0 || static_cast<rlim_t>(fd) < files.rlim_cur / 2;
}
#endif

} // namespace penstock::detail

namespace penstock {

namespace detail {

/// Linux reads at most 4096 bytes less than 2 GiB; other systems fail above that.
inline constexpr std::size_t most_bytes_a_read = std::size_t{1} << 30;

/// A file could not be opened or read since the system lacks descriptors or memory.
class [[gnu::visibility("default")]] LacksRoom : public SourceError {
 public:
  using SourceError::SourceError;
};

[[noreturn, gnu::cold]] void throw_io_error(std::string_view doing, const std::string& path,
                                            int error, std::uint64_t offset = 0);

[[noreturn, gnu::cold]] void throw_read_error(const std::string& path, int error,
                                              std::uint64_t offset);

[[noreturn, gnu::cold]] void throw_not_a_file(const std::string& path);

/// Checks a file that was opened again: `first` is its status when it was opened first, `now` the
/// present one. Throws SourceError if it is another file or was written to.
[[gnu::cold]] void check_same(const std::string& path, const FileStatus& first,
                              const FileStatus& now);

struct direct_t {};

/// The number of an open regular file, which it closes in the end.
template <class Io> class Descriptor {
 public:
  [[gnu::cold]] Descriptor(const Io& io, const FixedPath& path, FileStatus& status,
                           unsigned tries = most_tries)
      : io_{io} {
    fd_ = open_patiently(io, [&] { return io.open(path.absolute().c_str()); }, tries);
    if (fd_ < 0) {
      throw_io_error("open", path.given(), errno);
    }
    // Asked of the open file: another may have taken the name since.
    const int result = this->status(status);
    if (result < 0 || status.kind != FileKind::regular) {
      const int error = errno;
      close();
      result < 0 ? throw_io_error("examine", path.given(), error) : throw_not_a_file(path.given());
    }
  }
  /// Opens a file past the page cache that was opened before. If that fails it is not open, and
  /// errno says why.
  Descriptor(const Io& io, const FixedPath& path, direct_t)
      : io_{io}, fd_{open_patiently(io, [&] { return io.open_direct(path.absolute().c_str()); })} {}
  Descriptor(Descriptor&& other) noexcept : io_{other.io_}, fd_{std::exchange(other.fd_, -1)} {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }

  const Io& io() const noexcept { return io_; }
  bool is_open() const noexcept { return fd_ >= 0; }
  int number() const noexcept { return fd_; } // negative if it is not open
  bool may_stay_open() const noexcept { return detail::may_stay_open(io_, fd_); }
  void close() noexcept {
    if (is_open()) {
      io_.close(std::exchange(fd_, -1)); // only read from, so a failure has lost nothing
    }
  }
  int status(FileStatus& status) const {
    return persist(io_, [&] { return io_.status(fd_, status); });
  }
  std::int64_t read(std::span<std::byte> into, std::uint64_t offset) const {
    return persist(io_, [&] { return io_.read(fd_, into.data(), into.size(), offset); });
  }
  void will_read(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    io_.will_read(fd_, offset, bytes); // a hint: no error matters
  }
  std::int64_t direct_alignment() const {
    return persist(io_, [&] { return io_.direct_alignment(fd_); });
  }
  int cached(std::uint64_t size, double& share) const { return io_.cached(fd_, size, share); }

 private:
  Io io_;
  int fd_ = -1;
};

#if PENSTOCK_BODIES
PENSTOCK_NOINLINE void throw_io_error(std::string_view doing, const std::string& path, int error,
                                      std::uint64_t offset) {
  const char* cure = "Check the file and the file system it lies on.";
  switch (error) {
  case ENOENT:
  case ENOTDIR:
    cure =
        path.find_first_of("*?[{") == std::string::npos
            ? is_url(path) ? "Check the URL: nothing is there, or this user may not see it. A "
                             "source reads URLs by an HttpIo, of penstock/io/http.hpp, which it "
                             "takes behind its options."
                           : "Check the path."
            : "Check the path: it is taken as it stands, and no pattern is filled in. Give a list "
              "of paths, or a folder.";
    break;
  case EACCES:
  case EPERM:
    cure = "Give this user the right to read it.";
    break;
  case EMFILE:
  case ENFILE:
    cure = "Raise the limit on open files (ulimit -n).";
    break;
  case EIO:
    cure = "The disk or the network below it has failed: see the system's log.";
    break;
  default:
    break;
  }
  const std::string text = joined({"penstock: cannot ", doing, " ", path, ": ",
                                   std::generic_category().message(error), ". ", cure});
  if (error == EMFILE || error == ENFILE || error == ENOMEM) {
    throw_source_error<LacksRoom>({text}, path, offset);
  }
  throw_source_error({text}, path, offset);
}

PENSTOCK_NOINLINE void throw_read_error(const std::string& path, int error, std::uint64_t offset) {
  throw_io_error(joined({"read byte ", offset, " of"}), path, error, offset);
}

PENSTOCK_NOINLINE void throw_not_a_file(const std::string& path) {
  throw_source_error({"penstock: ", path,
                      " is not a regular file, so it cannot be read in parts, each at its "
                      "place: copy what comes out of it into a file."},
                     path, 0);
}

PENSTOCK_INLINE void check_same(const std::string& path, const FileStatus& first,
                                const FileStatus& now) {
  if (now != first) {
    const std::string how =
        now.device != first.device || now.inode != first.inode ? "another file has its name now"
        : now.size != first.size ? joined({"it had ", first.size, " bytes and now has ", now.size})
                                 : "it was written to, or its time was set";
    throw_source_error({"penstock: ", path, " changed while it was read: ", how,
                        ". Leave a file alone as long as it is read."},
                       path, 0);
  }
}
#endif

} // namespace detail

/// A regular file, opened for reading, and closed in the end. Movable. Any number of threads may
/// call its const members at once.
template <class Io = PosixIo> class File {
 public:
  /// Opens `path`. Throws SourceError if it cannot be opened or is no regular file with a size.
  /// Waits for nothing but the file system.
  [[gnu::cold]] File(const Io& io, std::string path)
      : path_{std::move(path)}, descriptor_{io, path_, status_} {
    std::byte any;
    const std::int64_t got = size() == 0 ? descriptor_.read({&any, 1}, 0) : 0;
    if (got < 0) {
      detail::throw_io_error("read", this->path(), errno);
    }
    if (got > 0) {
      detail::throw_source_error(
          {"penstock: ", this->path(),
           " says that it has 0 bytes, but something is in it, made as it is "
           "read: copy it into another file."},
          this->path(), 0);
    }
  }

  /// Returns the path as it was given. A relative one leads to where it led when the file was
  /// opened.
  const std::string& path() const noexcept { return path_.given(); }
  /// Returns the file's bytes when it was opened.
  std::uint64_t size() const noexcept { return status_.size; }
  /// Gives the descriptor back: from now on each read_full() opens the file for itself.
  void close() noexcept { descriptor_.close(); }
  /// Returns whether it still has its descriptor.
  bool is_open() const noexcept { return descriptor_.is_open(); }

  /// For code that reads the file in another way.
  /// @{
  const detail::Descriptor<Io>& descriptor() const noexcept { return descriptor_; }
  detail::Descriptor<Io> opened_again(unsigned tries = detail::most_tries) const {
    FileStatus now;
    detail::Descriptor<Io> again{descriptor_.io(), path_, now, tries};
    detail::check_same(path(), status_, now);
    return again;
  }
  /// Opens the file past the page cache. Returns an errno.
  int open_direct(std::optional<detail::Descriptor<Io>>& direct) const {
    FileStatus now;
    direct.emplace(descriptor_.io(), path_, detail::direct_t{});
    if (!direct->is_open() || direct->status(now) < 0) {
      return errno;
    }
    detail::check_same(path(), status_, now);
    return 0;
  }
  /// @}

 private:
  detail::FixedPath path_;
  FileStatus status_;
  detail::Descriptor<Io> descriptor_;
};

/// Fills `into` from byte `offset` on; all of it must lie in the file as it was when opened. Goes
/// on after short reads and interruptions. Blocks; any thread. Throws SourceError with the place
/// where it failed, also if the file has become shorter, and, where it has to be opened anew, if it
/// is another or was written to.
template <class Io>
void read_full(const File<Io>& file, std::uint64_t offset, std::span<std::byte> into) {
  if (file.is_open()) {
    read_full(file, file.descriptor(), offset, into);
  } else if (!into.empty()) {
    read_full(file, file.opened_again(), offset, into);
  }
}
/// Fills `into` by this descriptor of the file, with the same errors.
template <class Io>
void read_full(const File<Io>& file, const detail::Descriptor<Io>& by, std::uint64_t offset,
               std::span<std::byte> into) {
  while (!into.empty()) {
    const std::size_t wanted = std::min(into.size(), detail::most_bytes_a_read);
    const std::int64_t got = by.read(into.first(wanted), offset);
    if (got < 0) {
      detail::throw_read_error(file.path(), errno, offset);
    }
    if (got == 0) {
      detail::throw_source_error({"penstock: ", file.path(), " shrank while it was read: it had ",
                                  file.size(),
                                  " bytes when it was opened and now ends before byte ", offset,
                                  ". Leave a file alone as long as it is read."},
                                 file.path(), offset);
    }
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

} // namespace penstock
