// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/fixed_path.hpp>
#include <penstock/error.hpp>
#include <penstock/io/file.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace penstock {

namespace detail {

const char* cure_of_writing(int error);

[[noreturn]] void throw_sink_error(const std::string& doing, const std::string& path, int error,
                                   std::uint64_t offset = 0);

/// Returns what comes before the name in a path: empty, or all up to the last slash.
std::string folder_of(const std::string& path);

#if PENSTOCK_BODIES
PENSTOCK_INLINE const char* cure_of_writing(int error) {
  switch (error) {
  case ENOSPC:
    return "Free some space, or write to another disk.";
  case EDQUOT:
    return "Free some of this user's space, or have the quota raised.";
  case EIO:
    return "The disk or the network below it has failed: see the system's log.";
  case EACCES:
  case EPERM:
    return "Give this user the right to make files in its folder.";
  case EROFS:
    return "Its file system can only be read: write to another.";
  case EFBIG:
    return "Its file system, or the limit on files' sizes (ulimit -f), allows no larger one: write "
           "several files.";
  case ENOENT:
  case ENOTDIR:
    return "Check the path, and make its folder first.";
  case ENAMETOOLONG:
    return "Take a shorter name: until commit() the file's is up to 14 bytes longer.";
  case EEXIST:
    return "Remove the hidden files with this name in their own that killed processes have left.";
  case EISDIR:
    return "Name a file in it.";
  case EMFILE:
  case ENFILE:
    return "Raise the limit on open files (ulimit -n).";
  case EBADF:
    return "A file takes no more once commit() was called.";
  default:
    return "Check the file system that it is to lie on.";
  }
}

PENSTOCK_INLINE void throw_sink_error(const std::string& doing, const std::string& path, int error,
                                      std::uint64_t offset) {
  throw SinkError{"penstock: cannot " + doing + " " + path + ": " +
                      std::generic_category().message(error) + ". " + cure_of_writing(error),
                  path, offset};
}

PENSTOCK_INLINE std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/') + 1); // npos + 1 is 0
}
#endif

} // namespace detail

/// A file that is written in parts and appears whole or not at all: until commit() it has a hidden
/// name of its own in the folder of `path`, and what lies at `path` stays as it is. It has the
/// rights of a new file, whatever it replaces; a link at `path` is itself replaced, not the file
/// that it leads to. A process that is killed leaves the hidden file behind. Movable: one moved
/// from can only be destroyed.
template <class Io = PosixIo> class NewFile {
 public:
  /// Makes the file. Throws SinkError if it cannot, or if something lies at `path` that is no
  /// regular file. Blocks.
  NewFile(const Io& io, std::string path) : io_{io}, path_{std::move(path)} {
    check_path();
    const std::string& to = path_.absolute();
    const std::string folder = detail::folder_of(to);
    const std::string stem = folder + '.' + to.substr(folder.size()) + '.' +
                             std::to_string(::getpid()) + '.'; // other files may have it too
    for (unsigned tries = 0; fd_ < 0; ++tries) {
      temporary_ = stem + std::to_string(tries);
      fd_ = detail::open_patiently(io_, [&] { return io_.create(temporary_.c_str()); });
      if (fd_ < 0 && (errno != EEXIST || tries == detail::most_tries)) {
        detail::throw_sink_error("create", this->path(), errno);
      }
    }
  }
  /// Moves the file; `other` then holds nothing.
  NewFile(NewFile&& other) noexcept
      : io_{other.io_}, path_{std::move(other.path_)},
        temporary_{std::exchange(other.temporary_, {})}, old_{std::exchange(other.old_, {})},
        fd_{std::exchange(other.fd_, -1)} {}
  NewFile& operator=(NewFile&&) = delete;
  /// Removes the file if it was not committed.
  ~NewFile() { discard(); }

  /// Returns where it will lie, as it was given. A relative path leads to where it led when the
  /// file was made.
  const std::string& path() const noexcept { return path_.given(); }

  /// Writes all of `from` from byte `offset` on. Goes on after short writes and interruptions.
  /// Bytes below the last one that no write touches are 0. Blocks. Any number of threads at once,
  /// before commit(). Throws SinkError with the place where it failed; you may try again.
  void write(std::uint64_t offset, std::span<const std::byte> from) const {
    while (!from.empty()) {
      const std::size_t wanted = std::min(from.size(), detail::most_bytes_a_read);
      const std::int64_t got = detail::persist(io_, [&]() -> std::int64_t {
        const std::int64_t result = io_.write(fd_, from.data(), wanted, offset);
        if (result != 0) {
          return result;
        }
        errno = EAGAIN; // nothing written, and no reason given
        return -1;
      });
      if (got < 0) {
        const int error = errno;
        detail::throw_sink_error("write byte " + std::to_string(offset) + " of", path(), error,
                                 offset);
      }
      from = from.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
  }

  /// Gives the file its name, in place of what had it; call it once, after all writes have
  /// returned. If `durable` the file is on the disk before that, and its name after, so that a
  /// power failure takes neither, as far as the file system can keep that. Blocks. Throws
  /// SinkError: then the file is removed and what lay at `path` is as it was, unless the text says
  /// that the file has its name.
  void commit(bool durable = false) {
    commit(durable, [] { return true; });
  }
  /// Commits unless `still_wanted()` returns false: then the file is removed, and what lay at
  /// `path` is as it was. It calls `still_wanted()` once, when all but the name is done, which may
  /// take seconds. The rename comes next, and is the point of no return.
  template <class StillWanted> void commit(bool durable, StillWanted still_wanted) {
    commit_all(std::span{this, 1}, durable, still_wanted);
  }
  /// Commits several files so: if one cannot get its name, none has it, and what lay at each `path`
  /// does again. A process that is killed meanwhile may leave some with their names. Each lies in a
  /// file system that has hard links.
  template <class StillWanted>
  static void commit_all(std::span<NewFile> files, bool durable, StillWanted still_wanted) {
    finish_all(files, durable);
    name_all(files, durable, still_wanted);
  }
  /// Do the same in two steps: the first does all but the names. Call each once.
  /// @{
  static void finish_all(std::span<NewFile> files, bool durable) {
    for (NewFile& file : files) {
      file.finish(durable);
    }
  }
  template <class StillWanted>
  static void name_all(std::span<NewFile> files, bool durable, StillWanted still_wanted) {
    const bool wanted = still_wanted();
    std::size_t named = 0;
    try {
      for (; wanted && named != files.size(); ++named) {
        files[named].take_name(files.size() != 1);
      }
    } catch (...) {
      while (named != 0) {
        files[--named].give_name_back();
      }
      throw;
    }
    for (NewFile& file : files) {
      wanted ? file.keep_name(durable) : file.discard();
    }
  }
  /// @}

 private:
  [[noreturn]] void refuse(const std::string& text) const {
    throw SinkError{"penstock: " + text, path(), 0};
  }

  void check_path() const {
    const std::string shown{path().c_str()};
    if (path().empty()) {
      refuse("the path of the file to write is empty: name a file.");
    }
    if (shown.size() != path().size()) {
      refuse("the path \"" + shown + "\" goes on after a zero byte: check how it was made.");
    }
    FileStatus status{.kind = FileKind::regular};
    if (!done([&] { return io_.status(path_.absolute().c_str(), status); }) && errno != ENOENT) {
      detail::throw_sink_error("create", path(), errno);
    }
    if (status.kind == FileKind::directory) {
      detail::throw_sink_error("create", path(), EISDIR);
    }
    if (status.kind == FileKind::other) {
      refuse(path() + " is not a regular file, so it cannot be replaced as a whole: name another, "
                      "and copy it there.");
    }
  }

  void finish(bool durable) {
    if (fd_ < 0) {
      fail("write", EBADF);
    }
    if (durable && !done([&] { return io_.sync(fd_); })) {
      fail("write", errno);
    }
    // Some file systems tell only here that a write has failed. The file is closed even then.
    if (io_.close(std::exchange(fd_, -1)) < 0) {
      fail("write", errno);
    }
  }
  // `keeps_old`: what lies there keeps a hidden name, to be given back.
  void take_name(bool keeps_old) {
    const std::string& to = path_.absolute();
    if (keeps_old) {
      old_ = temporary_ + ".old";
      if (!done([&] { return io_.link(to.c_str(), old_.c_str()); })) {
        old_.clear();
        if (errno != ENOENT) {
          fail("keep, until all files have their names, what lies at", errno);
        }
      }
    }
    if (!done([&] { return io_.rename(temporary_.c_str(), to.c_str()); })) {
      fail("give its name to", errno);
    }
    temporary_.clear();
  }
  void give_name_back() noexcept {
    const std::string& to = path_.absolute();
    done([&] {
      return old_.empty() ? io_.unlink(to.c_str()) : io_.rename(old_.c_str(), to.c_str());
    });
    old_.clear();
  }
  void keep_name(bool durable) {
    forget_old();
    const std::string folder = detail::folder_of(path_.absolute()) + '.';
    if (durable && !done([&] { return io_.sync_folder(folder.c_str()); }) && errno != EINVAL) {
      fail("be sure that a power failure leaves its name to what now lies at", errno);
    }
  }
  void forget_old() noexcept {
    if (!old_.empty()) {
      done([&] { return io_.unlink(old_.c_str()); });
      old_.clear();
    }
  }

  template <class Call> bool done(Call call) const { return detail::persist(io_, call) >= 0; }

  [[noreturn]] void fail(const char* doing, int error) {
    discard();
    detail::throw_sink_error(doing, path(), error);
  }

  // Ignores failures: what could be done has been.
  void discard() noexcept {
    if (fd_ >= 0) {
      io_.close(std::exchange(fd_, -1));
    }
    forget_old();
    if (!temporary_.empty()) {
      done([&] { return io_.unlink(temporary_.c_str()); });
      temporary_.clear();
    }
  }

  Io io_;
  detail::FixedPath path_;
  std::string temporary_; // empty if there is none
  std::string old_;       // a second name of what lies at the path; empty if there is none
  int fd_ = -1;
};

} // namespace penstock
