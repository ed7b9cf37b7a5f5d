// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <utility>

namespace penstock::detail {

/// Owns one value from new, or none: the part of std::unique_ptr that the library's inside needs. A
/// std::unique_ptr compiles 30 functions for each type, which takes 10 ms.
template <class T> class Owned {
 public:
  Owned() = default;
  explicit Owned(T* value) noexcept : value_{value} {}
  Owned(Owned&& other) noexcept : value_{other.value_} { other.value_ = nullptr; }
  Owned& operator=(Owned&& other) noexcept {
    Owned taken{std::move(other)};
    std::swap(value_, taken.value_);
    return *this;
  }
  ~Owned() { delete value_; }

  /// Gives the value up: the caller owns it now.
  T* release() noexcept { return std::exchange(value_, nullptr); }
  T* get() const noexcept { return value_; }
  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_; }
  explicit operator bool() const noexcept { return value_ != nullptr; }

 private:
  T* value_{};
};

} // namespace penstock::detail
