// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/origin.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/many_reads.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include <sys/mman.h>

/// \file
/// The kernel's words for io_uring, without macros that come with them and whose names a program
/// may want for itself.

#pragma push_macro("BLOCK_SIZE")
#pragma push_macro("BLOCK_SIZE_BITS")
#pragma push_macro("NR_FILE")
#include <linux/io_uring.h>
#pragma pop_macro("BLOCK_SIZE")
#pragma pop_macro("BLOCK_SIZE_BITS")
#pragma pop_macro("NR_FILE")

namespace penstock::detail {

/// Memory that the kernel shares with this process, and not with its children.
class SharedMapping {
 public:
  SharedMapping() = default;
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  ~SharedMapping();

  /// Maps it, once. Returns whether it did; else errno says why not.
  bool map(int fd, std::uint64_t what, std::size_t bytes) noexcept;
  bool is_here() const noexcept { return origin_.is_here(); }
  template <class T> T* at(std::size_t offset) const noexcept {
    return reinterpret_cast<T*>(static_cast<std::byte*>(at_) + offset);
  }

 private:
  Origin origin_;
  void* at_ = MAP_FAILED;
  std::size_t bytes_{};
};

/// An io_uring for reads of some files. One thread at a time.
template <class Calls> class UringRing {
 public:
  static constexpr unsigned depth = 128;

  /// Makes a ring for these files; -1 stands for none. It opens each of them once more for itself,
  /// if it can, for what an open file counts and notes about its readers is shared by all who use
  /// it. Returns null and sets `error` if there is none to be had. Blocks.
  [[gnu::cold]] static Owned<UringRing> made(const Calls& calls, std::span<const int> files,
                                             int& error) noexcept {
    try {
      Owned<UringRing> ring{new UringRing{calls}};
      if (ring->open() && ring->take(files)) {
        return ring;
      }
      error = errno;
    } catch (const std::bad_alloc&) {
      error = ENOMEM;
    }
    return {};
  }
  UringRing(const UringRing&) = delete;
  UringRing& operator=(const UringRing&) = delete;
  ~UringRing() {
    if (fd_ >= 0) {
      calls_.close(fd_);
    }
  }

  /// Returns whether this process made it: a forked child must leave it alone.
  bool is_here() const noexcept { return rings_.is_here(); }

  /// Puts a read behind those that were put since the last run(), at most `depth`. It sets
  /// `read.got`, which must stay where it is.
  void put(FileRead& read) noexcept {
    const unsigned place = put_ & mask_;
    reads_[place] = &read;
    io_uring_sqe& entry = entries_.at<io_uring_sqe>(0)[place];
    entry = {};
    entry.opcode = IORING_OP_READ;
    entry.flags = IOSQE_FIXED_FILE;
    entry.fd = static_cast<int>(read.file);
    entry.off = read.offset;
    entry.addr = reinterpret_cast<std::uintptr_t>(read.into.data());
    entry.len = static_cast<unsigned>(read.into.size());
    entry.user_data = place;
    ++put_;
  }
  /// Does what was put. Returns 0, or the errno of a ring that is to be used no more. In either
  /// case no read is under way any more. Blocks.
  int run() noexcept {
    unsigned left = put_ - *at(offsets_.sq_off.tail);
    // Pairs with the kernel's acquire load of the tail: it sees the entries.
    Ref{*at(offsets_.sq_off.tail)}.store(put_, StdAtomics::release);
    int error = 0;
    while (left != 0) {
      const int result = calls_.enter(fd_, put_ - taken(), left);
      if (result < 0 && errno != EINTR) {
        if (error == 0) {
          error = errno;
          left -= take_back();
        } else {
          calls_.pause(); // not even to wait works, and the reads that began must end
        }
      }
      left -= collect();
    }
    return error;
  }

 private:
  using Ref = StdAtomics::AtomicRef<unsigned>;
  // Linux 5.6 is the first that has IORING_OP_READ; it came with the last of these.
  static constexpr unsigned needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP |
                                     IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_RW_CUR_POS;

  explicit UringRing(const Calls& calls) : calls_{calls} {}

  bool open() {
    fd_ = persist(calls_, [this] { return calls_.setup(depth, offsets_); });
    if (fd_ < 0) {
      return false;
    }
    if ((offsets_.features & needed) != needed || offsets_.sq_entries != depth) {
      errno = ENOSYS;
      return false;
    }
    const std::size_t submitted = offsets_.sq_off.array + depth * sizeof(unsigned);
    const std::size_t completed = offsets_.cq_off.cqes + offsets_.cq_entries * sizeof(io_uring_cqe);
    if (!rings_.map(fd_, IORING_OFF_SQ_RING, std::max(submitted, completed)) ||
        !entries_.map(fd_, IORING_OFF_SQES, depth * sizeof(io_uring_sqe))) {
      return false;
    }
    mask_ = *at(offsets_.sq_off.ring_mask);
    put_ = *at(offsets_.sq_off.tail);
    for (unsigned i = 0; i != depth; ++i) {
      at(offsets_.sq_off.array)[i] = i;
    }
    return true;
  }
  // One by one: of the files that a process may have open it takes one more, not as many again.
  bool take(std::span<const int> files) {
    const Vector<int> none(files.size(), -1);
    bool done = change(IORING_REGISTER_FILES, none.data(), none.size());
    for (std::size_t i = 0; done && i != files.size(); ++i) {
      if (files[i] >= 0) {
        const int again = calls_.open_again(files[i]);
        done = put_file(i, again < 0 ? files[i] : again);
        if (again >= 0) {
          calls_.close(again); // the ring has it open
        }
      }
    }
    return done;
  }
  bool put_file(std::size_t at, int file) const {
    io_uring_files_update update{};
    update.offset = static_cast<unsigned>(at);
    update.fds = reinterpret_cast<std::uintptr_t>(&file);
    return change(IORING_REGISTER_FILES_UPDATE, &update, 1);
  }
  bool change(unsigned what, const void* to, std::size_t count) const {
    return persist(calls_,
                   [&] { return calls_.change(fd_, what, to, static_cast<unsigned>(count)); }) >= 0;
  }

  unsigned* at(std::size_t offset) const noexcept { return rings_.at<unsigned>(offset); }
  // Returns how far the kernel has taken entries. Pairs with the kernel's release store.
  unsigned taken() const noexcept {
    return Ref{*at(offsets_.sq_off.head)}.load(StdAtomics::acquire);
  }
  // Returns how many reads the kernel has not begun, and never will: it looks for entries only when
  // it is called.
  unsigned take_back() noexcept {
    const unsigned untouched = put_ - taken();
    put_ -= untouched;
    Ref{*at(offsets_.sq_off.tail)}.store(put_, StdAtomics::release);
    return untouched;
  }
  // Returns how many reads have ended since the last call.
  unsigned collect() noexcept {
    const unsigned first = *at(offsets_.cq_off.head); // only written here
    // Pairs with the kernel's release store: what it read is in place.
    const unsigned end = Ref{*at(offsets_.cq_off.tail)}.load(StdAtomics::acquire);
    const unsigned mask = *at(offsets_.cq_off.ring_mask);
    for (unsigned i = first; i != end; ++i) {
      const io_uring_cqe& done = rings_.at<io_uring_cqe>(offsets_.cq_off.cqes)[i & mask];
      reads_[done.user_data]->got = static_cast<std::size_t>(std::max(done.res, 0));
    }
    // Pairs with the kernel's acquire load: it may write there again.
    Ref{*at(offsets_.cq_off.head)}.store(end, StdAtomics::release);
    return end - first;
  }

  Calls calls_;
  int fd_ = -1;
  io_uring_params offsets_{};
  SharedMapping rings_;
  SharedMapping entries_;
  unsigned mask_{};
  unsigned put_{}; // the tail, with what run() has not told the kernel yet
  FileRead* reads_[depth]{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE SharedMapping::~SharedMapping() {
  // A child lacks it, and something else may lie at its addresses.
  if (at_ != MAP_FAILED && origin_.is_here()) {
    ::munmap(at_, bytes_);
  }
}

PENSTOCK_INLINE bool SharedMapping::map(int fd, std::uint64_t what, std::size_t bytes) noexcept {
  bytes_ = bytes;
  at_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
               static_cast<off_t>(what));
  return at_ != MAP_FAILED && ::madvise(at_, bytes, MADV_DONTFORK) == 0;
}
#endif

} // namespace penstock::detail
