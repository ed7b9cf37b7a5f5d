// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/origin.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>

#include <cstddef>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// The memory of one ring, in one allocation. A column is one area through the whole ring, the part
/// of place k directly before that of place k+1, so that adjacent places are adjacent bytes.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&& other) noexcept {
    Allocation old{std::move(*this)};
    origin_ = other.origin_;
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = other.bytes_;
    owner_ = other.owner_;
    free_ = other.free_;
    kind_ = other.kind_;
    return *this;
  }
  ~Allocation();

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  MemoryKind kind() const noexcept { return kind_; }
  /// Returns whether this process made it, and not the parent of a forked child.
  bool is_here() const noexcept { return origin_.is_here(); }
  /// Returns the same memory for another ring. It stays this one's, which must live longer.
  [[gnu::cold]] Allocation lent() const noexcept;

  /// Allocates memory in `Where`. Page-locked memory is rounded up once to a page, nothing else is.
  /// Pageable memory needs no device.
  template <class Where, class D> static Allocation in(D* device, std::size_t bytes) {
    Allocation made;
    made.kind_ = kind_of<Where>;
    if constexpr (std::is_same_v<Where, Pageable>) {
      made.bytes_ = bytes;
      made.data_ = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{page}));
      made.free_ = [](void*, void* data, std::size_t) noexcept {
        ::operator delete(data, std::align_val_t{page});
      };
    } else if constexpr (std::is_same_v<Where, Pinned>) {
      made.bytes_ = (bytes + page - 1) / page * page;
      made.data_ = static_cast<std::byte*>(device->allocate_pinned(made.bytes_));
      made.free_ = [](void* owner, void* data, std::size_t n) noexcept {
        static_cast<D*>(owner)->deallocate_pinned(data, n);
      };
    } else {
      made.bytes_ = bytes;
      made.data_ = static_cast<std::byte*>(device->allocate(bytes));
      made.free_ = [](void* owner, void* data, std::size_t n) noexcept {
        static_cast<D*>(owner)->deallocate(data, n);
      };
    }
    made.owner_ = device;
    return made;
  }

 private:
  Origin origin_;
  std::byte* data_{};
  std::size_t bytes_{};
  void* owner_{};
  void (*free_)(void*, void*, std::size_t) noexcept {};
  MemoryKind kind_{};
};

/// Waits, by f(), for work that touches memory about to be freed; nobody else waits for it. If f()
/// throws, calls it once more: the error may be that of earlier work, and nothing was waited for.
template <class F> void wait_at_last(F f) noexcept {
  for (int tries = 0; tries < 2; ++tries) {
    try {
      f();
      return;
    } catch (...) {
    }
  }
}

/// Returns the bytes of `count` pieces of `each`, or throws an error that names both: sizes come
/// from options and files.
std::size_t checked_bytes(std::size_t count, std::size_t each, const char* what);

#if PENSTOCK_BODIES
PENSTOCK_INLINE Allocation::Allocation(Allocation&& other) noexcept
    : origin_{other.origin_}, data_{std::exchange(other.data_, nullptr)}, bytes_{other.bytes_},
      owner_{other.owner_}, free_{other.free_}, kind_{other.kind_} {}

PENSTOCK_INLINE Allocation::~Allocation() {
  if (data_ && is_here()) {
    free_(owner_, data_, bytes_);
  }
}

PENSTOCK_INLINE Allocation Allocation::lent() const noexcept {
  Allocation other;
  other.data_ = data_;
  other.bytes_ = bytes_;
  other.free_ = [](void*, void*, std::size_t) noexcept {};
  other.kind_ = kind_;
  return other;
}

PENSTOCK_INLINE std::size_t checked_bytes(std::size_t count, std::size_t each, const char* what) {
  // A page is left for rounding up.
  if (each != 0 && count > (std::numeric_limits<std::ptrdiff_t>::max() - page) / each) {
    throw_error<OptionError>(
        {"penstock: ", what, ": ", count, " times ", each,
         " bytes is more than memory can be: ask for less depth or smaller batches."});
  }
  return count * each;
}
#endif

} // namespace penstock::detail
