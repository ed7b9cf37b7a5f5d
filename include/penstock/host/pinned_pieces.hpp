// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

namespace penstock::detail {

/// Which memory is page-locked. Any thread. Devices in static storage may outlive other objects, so
/// this one has nothing to destroy, and keeps what it allocates.
///
/// Nothing takes a lock: that would order threads, and hide from ThreadSanitizer what they forgot
/// to order. A piece is one word, its first page and how many it has, so nobody sees half of one.
/// Who has a pointer into a piece has been told of it after it was noted here: relaxed will do.
class PinnedPieces {
 public:
  constexpr PinnedPieces() = default;
  PinnedPieces(const PinnedPieces&) = delete;
  PinnedPieces& operator=(const PinnedPieces&) = delete;

  /// Notes a piece of whole pages; of more than 2 TiB the first. If the process has no memory left
  /// for that, the piece counts as pageable.
  void add(const void* at, std::size_t bytes) noexcept {
    for (Group* group = &first_; group != nullptr; group = made_after(*group)) {
      for (Piece& piece : group->pieces) {
        std::uint64_t none = 0;
        // An exchange takes the cache line from those that look here, also if it fails.
        if (piece.load(StdAtomics::relaxed) == 0 &&
            piece.compare_exchange_strong(none, word(at, bytes), StdAtomics::relaxed)) {
          return;
        }
      }
    }
  }
  /// Forgets a piece.
  void remove(const void* at, std::size_t bytes) noexcept {
    any([is = word(at, bytes)](Piece& piece) {
      if (piece.load(StdAtomics::relaxed) != is) {
        return false;
      }
      piece.store(0, StdAtomics::relaxed);
      return true;
    });
  }
  /// Returns whether all these bytes lie in one piece.
  bool has(const void* at, std::size_t bytes) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(at);
    return any([&](const Piece& piece) {
      const std::uint64_t is = piece.load(StdAtomics::relaxed);
      const std::uint64_t first = is >> count_bits << page_bits;
      const std::uint64_t size = is % (std::uint64_t{1} << count_bits) << page_bits;
      return begin >= first && begin - first < size && bytes <= size - (begin - first);
    });
  }

 private:
  using Piece = StdAtomics::Atomic<std::uint64_t>;
  struct Group {
    std::array<Piece, 32> pieces{};
    StdAtomics::Atomic<Group*> next{nullptr};
  };
  static constexpr unsigned page_bits = 12;
  static constexpr unsigned count_bits = 29; // an address has 47 bits, less those of a page

  static std::uint64_t word(const void* at, std::size_t bytes) noexcept {
    const std::uint64_t first = reinterpret_cast<std::uintptr_t>(at) >> page_bits;
    constexpr std::uint64_t most = (std::uint64_t{1} << count_bits) - 1;
    return first << count_bits | std::min<std::uint64_t>(bytes >> page_bits, most);
  }
  // Returns null if there is no memory for another group.
  static Group* made_after(Group& group) noexcept {
    Group* next = group.next.load(StdAtomics::acquire); // pairs with the exchange below
    if (next == nullptr) {
      auto* const made = new (std::nothrow) Group;
      if (made != nullptr && group.next.compare_exchange_strong(
                                 next, made, StdAtomics::release,
                                 StdAtomics::acquire)) { // pair with each other, and with any()
        return made;
      }
      delete made;
    }
    return next;
  }
  // Returns whether f(piece) returned true for any piece; asks no more then.
  template <class F> bool any(F f) noexcept {
    for (Group* group = &first_; group != nullptr;) {
      for (Piece& piece : group->pieces) {
        if (f(piece)) {
          return true;
        }
      }
      group = group->next.load(StdAtomics::acquire); // pairs with made_after()
    }
    return false;
  }

  Group first_;
};

/// What all HostDevices of the process have page-locked: each of them may copy it as such, as a GPU
/// may what another one's context has. One object also for libraries that hide their symbols.
[[gnu::visibility("default")]] inline constinit PinnedPieces pinned_pieces{};

} // namespace penstock::detail
