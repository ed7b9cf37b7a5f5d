// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace penstock::detail {

/// How many bytes may still be held. Any thread.
class BytesLeft {
 public:
  explicit BytesLeft(std::uint64_t bytes) noexcept : left_{bytes} {}

  /// Takes some, or none: returns whether there were as many.
  bool take(std::uint64_t bytes) noexcept;
  void give_back(std::uint64_t bytes) noexcept { left_.fetch_add(bytes, StdAtomics::relaxed); }
  std::uint64_t now() const noexcept { return left_.load(StdAtomics::relaxed); }

 private:
  StdAtomics::Atomic<std::uint64_t> left_;
};

/// Some bytes of those that may be held, given back in the end.
class TakenBytes {
 public:
  /// Takes them; has none if there are fewer.
  TakenBytes(Shared<BytesLeft> left, std::uint64_t bytes)
      : left_{left->take(bytes) ? std::move(left) : nullptr}, bytes_{bytes} {}
  TakenBytes(TakenBytes&& other) noexcept = default;
  TakenBytes& operator=(TakenBytes&&) = delete;
  ~TakenBytes();

  explicit operator bool() const noexcept { return static_cast<bool>(left_); }
  std::uint64_t count() const noexcept { return bytes_; }

 private:
  Shared<BytesLeft> left_;
  std::uint64_t bytes_;
};

/// Bytes in memory, which begin as anything, so that a page of them is used only once it is
/// written.
class HeldBytes {
 public:
  /// Makes as many as were taken. Throws std::bad_alloc.
  explicit HeldBytes(TakenBytes taken);
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;
  ~HeldBytes() { drop_places(at_, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }

  std::span<std::byte> bytes() const noexcept;

 private:
  const TakenBytes taken_;
  void* const at_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE bool BytesLeft::take(std::uint64_t bytes) noexcept {
  std::uint64_t left = now();
  while (left >= bytes) {
    if (left_.compare_exchange_weak(left, left - bytes, StdAtomics::relaxed)) {
      return true;
    }
  }
  return false;
}

PENSTOCK_INLINE TakenBytes::~TakenBytes() {
  if (left_) {
    left_->give_back(bytes_);
  }
}

PENSTOCK_INLINE HeldBytes::HeldBytes(TakenBytes taken)
    : taken_{std::move(taken)},
      at_{places_for(std::size_t{taken_.count()}, 1, __STDCPP_DEFAULT_NEW_ALIGNMENT__)} {}

PENSTOCK_INLINE std::span<std::byte> HeldBytes::bytes() const noexcept {
  return {static_cast<std::byte*>(at_), std::size_t{taken_.count()}};
}
#endif

} // namespace penstock::detail
