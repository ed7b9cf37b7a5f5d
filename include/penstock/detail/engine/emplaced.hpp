// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstddef>
#include <new>
#include <utility>

namespace penstock::detail {

/// A T, or none: the part of std::optional that needs no T until there is one. What never calls
/// emplace() compiles nothing of T.
template <class T> class Emplaced {
 public:
  Emplaced() = default;
  Emplaced(const Emplaced&) = delete;
  Emplaced& operator=(const Emplaced&) = delete;
  ~Emplaced() { reset(); }

  /// Makes a T. There must be none.
  template <class... Args> void emplace(Args&&... args) {
    ::new (static_cast<void*>(at_)) T(std::forward<Args>(args)...);
    destroy_ = [](void* at) noexcept { static_cast<T*>(at)->~T(); };
  }
  /// Destroys the T, if there is one.
  void reset() noexcept {
    if (destroy_) {
      std::exchange(destroy_, nullptr)(at_);
    }
  }

 private:
  alignas(T) std::byte at_[sizeof(T)];
  void (*destroy_)(void* at) noexcept {};
};

} // namespace penstock::detail
