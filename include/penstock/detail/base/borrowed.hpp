// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <concepts>
#include <memory>
#include <type_traits>

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

} // namespace penstock::detail
