// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <memory>
#include <utility>

namespace penstock::detail {

/// Makes a T, as std::make_shared does: with one more allocation, and 20 functions fewer to compile
/// for each type.
template <class T, class... A> [[gnu::cold]] std::shared_ptr<T> new_shared(A&&... arguments) {
  return std::shared_ptr<T>{new T{std::forward<A>(arguments)...}};
}

} // namespace penstock::detail
