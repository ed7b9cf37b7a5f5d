// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

namespace detail {

/// Returns a number of the calling thread: threads that start one after the other have neighbours.
std::size_t thread_number() noexcept;

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::size_t thread_number() noexcept {
  static StdAtomics::Atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1, StdAtomics::relaxed);
  return mine;
}
#endif

} // namespace detail

/// More descriptors of one file, for threads that read few bytes at a time. The system counts who
/// uses an open file, and threads that share a descriptor wait for each other there: 16 threads
/// that read records of 1 KiB got 5.6 GiB/s by one, and 19 GiB/s by one each, on an H200's host.
/// Any number of threads.
template <class Io = PosixIo> class Descriptors {
  using Descriptor = detail::Descriptor<Io>;

 public:
  /// Reads of more bytes gain nothing.
  static constexpr std::size_t most_bytes = std::size_t{64} << 10;
  /// As many as readers there may be.
  static constexpr std::size_t most = 16;

  /// Has room for `count`; opens none yet.
  explicit Descriptors(std::size_t count) : places_(count) {}
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  ~Descriptors() {
    for (std::size_t i = 0; i != places_.size(); ++i) {
      delete places_[i].descriptor.load(StdAtomics::relaxed);
    }
  }

  /// Returns this thread's descriptor of the file, which it opens when a thread asks for it more
  /// often. Null if there is none, since few reads need none, it cannot be opened again, the
  /// process has many files open, or another file has its name now: the file's own serves.
  const Descriptor* of(const File<Io>& file) {
    WorkerFile& place = places_[detail::thread_number() % places_.size()];
    // Pairs with the exchange below.
    if (const Descriptor* const open = place.descriptor.load(StdAtomics::acquire)) {
      return open;
    }
    const bool few = place.asked.fetch_add(1, StdAtomics::relaxed) < most_shared;
    return few || given_up_.load(StdAtomics::relaxed) ? nullptr : open(place, file);
  }

  /// Returns whether a thread has one.
  bool any() const noexcept {
    return std::any_of(places_.begin(), places_.end(), [](const WorkerFile& place) {
      return place.descriptor.load(StdAtomics::relaxed) != nullptr;
    });
  }

 private:
  // Reads by the file's own, before a thread has one.
  static constexpr unsigned most_shared = 32;

  struct alignas(detail::cache_line) WorkerFile {
    StdAtomics::Atomic<const Descriptor*> descriptor{nullptr};
    StdAtomics::Atomic<unsigned> asked{0};
  };

  [[gnu::cold]] const Descriptor* open(WorkerFile& place, const File<Io>& file) {
    const Descriptor* made = nullptr;
    try {
      made = new Descriptor{file.opened_again(1)};
    } catch (const SourceError&) {
    }
    if (!made || !made->may_stay_open()) {
      delete made;
      given_up_.store(true, StdAtomics::relaxed);
      return nullptr;
    }
    const Descriptor* other = nullptr;
    // Pairs with the load above, and, where another thread was first, with itself.
    if (!place.descriptor.compare_exchange_strong(other, made, StdAtomics::acq_rel,
                                                  StdAtomics::acquire)) {
      delete made;
      made = other;
    }
    return made;
  }

  detail::Vector<WorkerFile> places_;
  StdAtomics::Atomic<bool> given_up_{false};
};

/// Fills `into` as read_full() does: small reads, of what is read through the page cache, by this
/// thread's own descriptor, if there are `more` and it has one.
template <class Io>
void read_full(const DirectFile<Io>& file, Descriptors<Io>* more, std::uint64_t offset,
               std::span<std::byte> into) {
  const bool small = more && into.size() <= Descriptors<Io>::most_bytes && !file.is_direct();
  if (const auto* const own = small ? more->of(file.file()) : nullptr) {
    read_full(file.file(), *own, offset, into);
  } else {
    read_full(file, offset, into);
  }
}

} // namespace penstock
