// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// A callable that the caller keeps alive, with one type for all callables of a signature. A
/// function that takes it is compiled once, and not for each callable.
template <class Signature> class Borrowed;
template <class R, class... A> class Borrowed<R(A...)> {
 public:
  /// Refers to `f`, which must outlive this.
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, Borrowed>)
  Borrowed(F&& f) noexcept
      : whose_{const_cast<void*>(static_cast<const void*>(std::addressof(f)))},
        call_{[](void* whose, A... arguments) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(whose))(arguments...);
        }} {}

  R operator()(A... arguments) const { return call_(whose_, arguments...); }

 private:
  void* whose_;
  R (*call_)(void*, A...);
};

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

/// How many owners a shared value has, and what drops it with the last.
class SharedCount {
 public:
  using Drop = void(SharedCount*) noexcept;

  /// Has one owner.
  explicit SharedCount(Drop* drop) noexcept : drop_{drop} {}

  void add_owner() noexcept { owners_.fetch_add(1, StdAtomics::relaxed); }
  void leave() noexcept;

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

#if PENSTOCK_BODIES
PENSTOCK_NOINLINE void SharedCount::leave() noexcept {
  // Pairs with itself: the last owner sees what all others did to the value.
  if (owners_.fetch_sub(1, StdAtomics::acq_rel) == 1) {
    drop_(this);
  }
}
#endif

} // namespace penstock::detail
