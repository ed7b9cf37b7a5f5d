// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/io/file.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock {

namespace detail {

/// A descriptor out of which records come, and the part of the next one that came before the rest.
/// One thread at a time.
class Inlet {
 public:
  Inlet(std::string path, std::size_t each)
      : name_{std::move(path)}, part_(each, std::byte{}), owns_{true} {}
  Inlet(int fd, std::size_t each)
      : name_{"descriptor " + std::to_string(fd)}, part_(each, std::byte{}), fd_{fd} {}
  Inlet(const Inlet&) = delete;
  Inlet& operator=(const Inlet&) = delete;
  ~Inlet();

  [[gnu::cold]] void open();

  /// Reads what is there into `into`, whose first record is number `first`.
  Filled fill(std::span<std::byte> into, std::uint64_t first, const Patience& patience);

 private:
  // Returns 0 at the end, and -1 if nothing is there after all.
  std::int64_t read(std::span<std::byte> into) const;
  // A record that the end has cut is lost: another writer begins with a whole one.
  void check_end(std::uint64_t first);

  const std::string name_;
  Vector<std::byte> part_;
  std::size_t part_size_{};
  std::uint64_t taken_{}; // bytes, in whole records, and in those that were cut
  std::size_t cut_{};     // bytes of a record that the end has cut, until more comes
  int fd_ = -1;
  const bool owns_{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Inlet::~Inlet() {
  if (owns_ && fd_ >= 0) {
    ::close(fd_);
  }
}

PENSTOCK_INLINE void Inlet::open() {
  if (owns_ && fd_ < 0) {
    // Without O_NONBLOCK a FIFO would open only when somebody writes to it.
    fd_ = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  }
  if ((fd_ < 0 && owns_) || ::fcntl(fd_, F_GETFD) < 0) {
    throw_io_error("open", name_, errno);
  }
  if ((::fcntl(fd_, F_GETFL) & O_ACCMODE) == O_WRONLY) {
    throw_source_error(
        {"penstock: ", name_, " is open for writing only: give the end that can be read."}, name_,
        0);
  }
  int type = SOCK_STREAM;
  socklen_t size = sizeof type;
  if (::getsockopt(fd_, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type != SOCK_STREAM) {
    throw_source_error({"penstock: ", name_,
                        " is a socket of packets, and what of a packet has no room would be "
                        "lost: write a source whose read() takes them one by one."},
                       name_, 0);
  }
}

PENSTOCK_INLINE Filled Inlet::fill(std::span<std::byte> into, std::uint64_t first,
                                   const Patience& patience) {
  if (!patience.readable(fd_)) {
    return for_now(0);
  }
  std::copy_n(part_.data(), part_size_, into.data());
  const std::int64_t got = read(into.subspan(part_size_));
  if (got < 0) {
    return for_now(0);
  }
  if (got == 0) {
    check_end(first);
    return 0;
  }
  cut_ = 0;
  const std::size_t there = part_size_ + static_cast<std::size_t>(got);
  part_size_ = there % part_.size();
  const std::size_t whole = there - part_size_;
  std::copy_n(into.data() + whole, part_size_, part_.data());
  taken_ += whole;
  return for_now(whole / part_.size());
}

PENSTOCK_INLINE std::int64_t Inlet::read(std::span<std::byte> into) const {
  // A socket may have thrown away a damaged packet since it was asked, and would block.
  std::int64_t got = ::recv(fd_, into.data(), into.size(), MSG_DONTWAIT);
  if (got < 0 && errno == ENOTSOCK) {
    got = ::read(fd_, into.data(), into.size());
  }
  if (got < 0 && errno == EIO && ::isatty(fd_) == 1) {
    return 0; // nobody has the other end of the terminal open
  }
  if (got < 0 && errno != EINTR && errno != EAGAIN) {
    throw_read_error(name_, errno, taken_ + part_size_);
  }
  return got;
}

PENSTOCK_INLINE void Inlet::check_end(std::uint64_t first) {
  if (part_size_ != 0) {
    cut_ = std::exchange(part_size_, 0);
    taken_ += cut_;
  }
  if (cut_ != 0) {
    throw_source_error({"penstock: ", name_, " ended in the middle of a record: of the ",
                        part_.size(), " bytes from byte ", taken_ - cut_, " on it gave ", cut_,
                        ". Check the record's type, and that whoever writes sends all of it."},
                       name_, taken_ - cut_, first);
  }
}
#endif

} // namespace detail

/// A source of records that come when they come, as they lie in memory, out of a FIFO, a pipe, a
/// stream socket or a terminal. It has no known size, and ends when all who write have closed their
/// end. Copies share the descriptor and what was read of the next record, and a run goes on where
/// the one before stopped, so only one run at a time may read. Made by fifo().
template <class T> class Fifo {
 public:
  /// The type of its records.
  using schema = T;

  /// For fifo().
  explicit Fifo(detail::Shared<detail::Inlet> inlet) : inlet_{std::move(inlet)} {}

  /// Opens the path, if it is not open yet, without waiting for anybody to write. Throws
  /// SourceError.
  void open() const { inlet_->open(); }
  /// Returns unknown_size.
  std::uint64_t size() const noexcept { return unknown_size; }
  /// Blocks until there is something to read, the end is reached or `patience` is over; keeps the
  /// part of a last record until its rest comes. One thread at a time. Throws SourceError with the
  /// offset in bytes since open(), also if the end cuts a record.
  template <HostSpace Where> Filled read(Batch<T, Where> into, const Patience& patience) const {
    return inlet_->fill({reinterpret_cast<std::byte*>(into.data()), into.size_bytes()},
                        into.index(), patience);
  }

 private:
  detail::Shared<detail::Inlet> inlet_;
};

/// Makes a source of the records that come out of the FIFO, or the terminal, at `path`.
template <class T> Fifo<T> fifo(std::string path) {
  return Fifo<T>{detail::new_shared<detail::Inlet>(std::move(path), sizeof(T))};
}
/// Makes a source of the records that come out of an open pipe, stream socket, FIFO or terminal,
/// such as standard input, number 0. You keep it open as long as the pipeline lives, and nobody
/// else reads from it: a read could then block where no stop reaches it. Its flags stay as they
/// are.
template <class T> Fifo<T> fifo(int descriptor) {
  return Fifo<T>{detail::new_shared<detail::Inlet>(descriptor, sizeof(T))};
}

} // namespace penstock
