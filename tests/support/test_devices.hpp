// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/device/device.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock::tests {

/// Counts copies and waits.
template <class D> struct Counting : D {
  using D::D;
  void copy_to_device(void* to, const void* from, std::size_t bytes, Stream<D> stream) {
    ++copies;
    D::copy_to_device(to, from, bytes, stream);
  }
  void wait(Stream<D> stream, const typename D::event_type& event) {
    ++waits;
    D::wait(stream, event);
  }
  std::atomic<std::uint64_t> copies{0};
  std::atomic<std::uint64_t> waits{0};
};

/// Planted bug: no stream ever waits for another.
template <class D> struct ForgetsWaits : D {
  using D::D;
  void wait(Stream<D>, const typename D::event_type&) {}
};

/// Spoils the bytes of each slot that is given back, before it can be filled again.
template <class D> struct Poisons : D {
  using D::D;
  static constexpr std::byte spoilt{0xDD};
  void poison(std::byte* at, std::size_t bytes) {
    std::memset(at, std::to_integer<int>(spoilt), bytes);
    poisoned += bytes;
  }
  std::atomic<std::uint64_t> poisoned{0};
};

/// Planted bug: all work counts as done at once, so slots are given back too early.
template <class D> struct Hasty : Poisons<D> {
  using Poisons<D>::Poisons;
  bool is_done(const typename D::event_type&) { return true; }
};

/// Makes each copy several times.
template <class D> struct SlowCopies : D {
  using D::D;
  void copy_to_device(void* to, const void* from, std::size_t bytes, Stream<D> stream) {
    for (int i = 0; i < times; ++i) {
      D::copy_to_device(to, from, bytes, stream);
    }
  }
  int times = 1;
};

/// Copies nothing but the first bytes.
template <class D> struct CheapCopies : D {
  using D::D;
  void copy_to_device(void* to, const void* from, std::size_t bytes, Stream<D> stream) {
    D::copy_to_device(to, from, std::min<std::size_t>(bytes, 4096), stream);
  }
};

} // namespace penstock::tests
