// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/owned.hpp>

#include <concepts>
#include <cstddef>
#include <utility>

namespace penstock::detail {

/// How many owners a shared value has, and what drops it with the last.
class SharedCount {
 public:
  using Drop = void(SharedCount*) noexcept;

  /// Has one owner.
  explicit SharedCount(Drop* drop) noexcept : drop_{drop} {}

  void add_owner() noexcept { owners_.fetch_add(1, StdAtomics::relaxed); }
  [[gnu::noinline]] void leave() noexcept {
    // Pairs with itself: the last owner sees what all others did to the value.
    if (owners_.fetch_sub(1, StdAtomics::acq_rel) == 1) {
      drop_(this);
    }
  }

 private:
  StdAtomics::Atomic<unsigned long> owners_{1};
  Drop* const drop_;
};

/// Shares a value from new_shared(), or has none: the part of std::shared_ptr that the library's
/// inside needs, which takes a user's build half as long for each type. Any thread may copy, move
/// and drop one of its own.
template <class T> class Shared {
 public:
  Shared() = default;
  Shared(std::nullptr_t) noexcept {}
  Shared(const Shared& other) noexcept : value_{other.value_}, count_{other.count_} {
    if (count_) {
      count_->add_owner();
    }
  }
  Shared(Shared&& other) noexcept
      : value_{std::exchange(other.value_, nullptr)}, count_{std::exchange(other.count_, nullptr)} {
  }
  template <class Other>
    requires(!std::same_as<Other, T> && std::convertible_to<Other*, T*>)
  Shared(Shared<Other> other) noexcept
      : value_{std::exchange(other.value_, nullptr)}, count_{std::exchange(other.count_, nullptr)} {
  }
  Shared& operator=(Shared other) noexcept {
    std::swap(value_, other.value_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Shared() {
    if (count_) {
      count_->leave();
    }
  }

  T* get() const noexcept { return value_; }
  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_; }
  explicit operator bool() const noexcept { return value_ != nullptr; }

 private:
  template <class> friend class Shared;
  template <class Made, class... A> friend Shared<Made> new_shared(A&&... arguments);
  template <class Made>
  friend Shared<Made> share(Owned<Made>& owned, void (*destroy)(Made*) noexcept);

  Shared(T* value, SharedCount* count) noexcept : value_{value}, count_{count} {}

  T* value_{};
  SharedCount* count_{};
};

template <class T> struct SharedValue : SharedCount {
  template <class... A>
  explicit SharedValue(A&&... arguments)
      : SharedCount{[](SharedCount* count) noexcept { delete static_cast<SharedValue*>(count); }},
        value{std::forward<A>(arguments)...} {}

  T value;
};

/// Shares a value that its last owner is to destroy by `destroy`. If it throws std::bad_alloc, the
/// value is the caller's still.
template <class T> [[gnu::cold]] Shared<T> share(Owned<T>& owned, void (*destroy)(T*) noexcept) {
  struct Count : SharedCount {
    Count(T* of, void (*by)(T*) noexcept)
        : SharedCount{[](SharedCount* count) noexcept {
            const auto* const mine = static_cast<Count*>(count);
            mine->destroy(mine->value);
            delete mine;
          }},
          value{of}, destroy{by} {}

    T* const value;
    void (*const destroy)(T*) noexcept;
  };
  auto* const count = new Count{owned.get(), destroy};
  return {owned.release(), count};
}
/// Makes a T that may be shared.
template <class T, class... A> [[gnu::cold]] Shared<T> new_shared(A&&... arguments) {
  auto* const made = new SharedValue<T>{std::forward<A>(arguments)...};
  return {&made->value, made};
}

} // namespace penstock::detail
