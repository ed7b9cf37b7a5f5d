// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace penstock::detail {

/// Returns S as the compiler spells it: the same in every shared library. An object's address is
/// not, where a library hides what it does not export.
template <class S> consteval std::string_view name_of() {
  constexpr std::string_view text = __PRETTY_FUNCTION__; // "... S = penstock::HostStream; ...]"
  constexpr std::size_t begin = text.find("S = ") + 4;
  return text.substr(begin, text.find_first_of(";]", begin) - begin);
}
/// The kind of a stream, which may be a pointer to a type that has a name.
template <class S>
inline constexpr std::string_view stream_kind =
    name_of<std::remove_cv_t<std::remove_pointer_t<std::remove_cv_t<S>>>>();

/// A stream of any device, without its type; of no kind: no stream. Null is a stream, CUDA's
/// default one.
struct StreamHandle {
  const void* stream{};
  std::string_view kind{};

  bool operator==(const StreamHandle&) const = default;
  explicit operator bool() const noexcept { return !kind.empty(); }

  template <class S> static StreamHandle of(S& stream) noexcept {
    if constexpr (std::is_pointer_v<std::remove_cv_t<S>>) {
      return {stream, stream_kind<S>};
    } else if constexpr (requires { stream.get(); }) {
      auto&& native = stream.get();
      return of(native);
    } else {
      return {&stream, stream_kind<S>};
    }
  }
  /// Returns whether a device can take it as S; a null that is written out fits any pointer.
  template <class S> bool is() const noexcept {
    return kind == stream_kind<std::remove_reference_t<S>> ||
           (std::is_pointer_v<S> && kind == stream_kind<std::nullptr_t>);
  }
  /// Returns the stream as S.
  template <class S> S as() const noexcept {
    if constexpr (std::is_pointer_v<S>) {
      return static_cast<S>(const_cast<void*>(stream));
    } else {
      return *static_cast<std::remove_reference_t<S>*>(const_cast<void*>(stream));
    }
  }
};

} // namespace penstock::detail
