// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/callable.hpp>
#include <penstock/stage.hpp>

#include <type_traits>

namespace penstock {
namespace detail {

/// The template argument of a stage whose options fit no list: compilers then say that, and not
/// which guides they have tried. Every stage has guides that end in an ellipsis, which match any
/// list of options, as the last choice. Their first parameter is more cv-qualified than that of the
/// other guides: a reference to `const volatile` is bound only where no other guide fits, also to
/// an object that is const and moved.
struct Misspelt {};

/// A stage that was refused already: `|` says no more of it.
struct RefusedStage : StageBase {
  static constexpr bool refused = true;
  template <class> using takes = Anything;
  template <class> using gives = Anything;
};

/// The guides that end in an ellipsis take only objects: a function's name would bind to any
/// reference alike.
template <class T>
concept Object = std::is_object_v<T>;

} // namespace detail
} // namespace penstock
