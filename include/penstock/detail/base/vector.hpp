// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// Returns memory for `count` values of `each` bytes. Throws std::bad_alloc.
void* places_for(std::size_t count, std::size_t each, std::size_t alignment);
/// Gives such memory back; does nothing for null.
void drop_places(void* at, std::size_t alignment) noexcept;

// What a Vector of plain values does in its own type's name would be compiled for each type.

/// Returns memory for `count` values, all bytes 0.
[[gnu::cold]] void* zeroed_places(std::size_t count, std::size_t each, std::size_t alignment);
/// Returns memory for `room` values that begins with the `size` values at `from`.
[[gnu::cold]] void* copied_places(const void* from, std::size_t size, std::size_t room,
                                  std::size_t each, std::size_t alignment);

/// Values side by side: the part of std::vector that the library's inside needs. Each type in a
/// std::vector costs a user's build some 20 ms, and a pipeline has 25 such types; in a Vector it
/// costs a few.
template <class T> class Vector {
  static constexpr bool copies = std::is_trivially_copyable_v<T>;
  static constexpr bool begins_as_0 = copies && std::is_trivially_default_constructible_v<T>;

 public:
  Vector() = default;
  /// Makes `count` values T(). T need not be movable.
  [[gnu::cold]] explicit Vector(std::size_t count) : Vector{} {
    if constexpr (begins_as_0) {
      at_ = static_cast<T*>(zeroed_places(count, sizeof(T), alignof(T)));
      size_ = room_ = count;
    } else {
      allocate(count);
      for (; size_ != count; ++size_) {
        ::new (static_cast<void*>(at_ + size_)) T();
      }
    }
  }
  /// Makes `count` copies of a value.
  [[gnu::cold]] Vector(std::size_t count, const T& value) : Vector{} {
    allocate(count);
    for (; size_ != count; ++size_) {
      ::new (static_cast<void*>(at_ + size_)) T(value);
    }
  }
  [[gnu::cold]] Vector(const Vector& other) : Vector{} {
    if constexpr (copies) {
      at_ = static_cast<T*>(
          copied_places(other.at_, other.size_, other.size_, sizeof(T), alignof(T)));
      size_ = room_ = other.size_;
    } else {
      allocate(other.size_);
      for (; size_ != other.size_; ++size_) {
        ::new (static_cast<void*>(at_ + size_)) T(other.at_[size_]);
      }
    }
  }
  Vector(Vector&& other) noexcept : at_{other.at_}, size_{other.size_}, room_{other.room_} {
    other.at_ = nullptr;
    other.size_ = other.room_ = 0;
  }
  Vector& operator=(Vector&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
    return *this;
  }
  Vector& operator=(const Vector& other) { return *this = Vector{other}; }
  [[gnu::cold]] ~Vector() {
    clear();
    drop_places(at_, alignof(T));
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* data() noexcept { return at_; }
  const T* data() const noexcept { return at_; }
  T* begin() noexcept { return at_; }
  const T* begin() const noexcept { return at_; }
  T* end() noexcept { return at_ + size_; }
  const T* end() const noexcept { return at_ + size_; }
  T& operator[](std::size_t i) noexcept { return at_[i]; }
  const T& operator[](std::size_t i) const noexcept { return at_[i]; }
  T& front() noexcept { return at_[0]; }
  const T& front() const noexcept { return at_[0]; }
  T& back() noexcept { return at_[size_ - 1]; }
  const T& back() const noexcept { return at_[size_ - 1]; }

  /// Allocates for `room` values in all, so that push_back() allocates nothing up to there.
  void reserve(std::size_t room) {
    if (room > room_) {
      grow(room);
    }
  }
  void push_back(const T& value) { push_back(T{value}); }
  /// Moves `value` in, which must not lie in this row.
  void push_back(T&& value) {
    if (size_ == room_) {
      grow(2 * room_ + 1);
    }
    ::new (static_cast<void*>(at_ + size_)) T(std::move(value));
    ++size_;
  }
  void pop_back() noexcept { at_[--size_].~T(); }
  void clear() noexcept {
    if constexpr (std::is_trivially_destructible_v<T>) {
      size_ = 0;
    } else {
      while (size_ != 0) {
        at_[--size_].~T();
      }
    }
  }
  /// Removes the first `count` values; the others move up.
  void pop_front(std::size_t count) noexcept {
    if (count == 0) {
      return; // each value would be moved to itself
    }
    for (std::size_t i = count; i < size_; ++i) {
      at_[i - count] = std::move(at_[i]);
    }
    while (count-- != 0) {
      pop_back();
    }
  }

 private:
  void allocate(std::size_t room) {
    if (room == 0) {
      return;
    }
    at_ = static_cast<T*>(places_for(room, sizeof(T), alignof(T)));
    room_ = room;
  }
  [[gnu::cold, gnu::noinline]] void grow(std::size_t room) {
    static_assert(std::is_nothrow_move_constructible_v<T>);
    T* to = nullptr;
    if constexpr (copies) {
      to = static_cast<T*>(copied_places(at_, size_, room, sizeof(T), alignof(T)));
    } else {
      to = static_cast<T*>(places_for(room, sizeof(T), alignof(T)));
      for (std::size_t i = 0; i != size_; ++i) {
        ::new (static_cast<void*>(to + i)) T(std::move(at_[i]));
        at_[i].~T();
      }
    }
    drop_places(at_, alignof(T));
    at_ = to;
    room_ = room;
  }

  T* at_{};
  std::size_t size_{};
  std::size_t room_{};
};

#if PENSTOCK_BODIES
PENSTOCK_NOINLINE void* places_for(std::size_t count, std::size_t each, std::size_t alignment) {
  if (count > std::numeric_limits<std::ptrdiff_t>::max() / each) {
    throw std::bad_array_new_length{};
  }
  if (alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
    return ::operator new(count * each, std::align_val_t{alignment});
  }
  return ::operator new(count * each);
}

PENSTOCK_NOINLINE void drop_places(void* at, std::size_t alignment) noexcept {
  if (!at) {
    return;
  }
  // No conditional expression: of that clang 19 calls both sides.
  if (alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
    ::operator delete(at, std::align_val_t{alignment});
  } else {
    ::operator delete(at);
  }
}

PENSTOCK_NOINLINE void* zeroed_places(std::size_t count, std::size_t each, std::size_t alignment) {
  return count == 0 ? nullptr : std::memset(places_for(count, each, alignment), 0, count * each);
}

PENSTOCK_NOINLINE void* copied_places(const void* from, std::size_t size, std::size_t room,
                                      std::size_t each, std::size_t alignment) {
  if (room == 0) {
    return nullptr;
  }
  void* const to = places_for(room, each, alignment);
  if (size != 0) {
    std::memcpy(to, from, size * each);
  }
  return to;
}
#endif

} // namespace penstock::detail
