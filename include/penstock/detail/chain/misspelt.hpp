// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/callable.hpp>
#include <penstock/stage.hpp>

#include <type_traits>

namespace penstock {
namespace detail {

/// What a stage is of whose options fit no list, so that compilers say that and not which guides
/// they have tried. Every stage has guides that end in an ellipsis, which a list of whatever
/// options matches, as the last choice. Their first parameter is more cv-qualified than that of the
/// others, so that what fits both is the others': a reference to `const volatile` is bound only
/// where nothing else can be, also by what is const and moved.
struct Misspelt {};

/// Such a stage: `|` says no more of it.
struct RefusedStage : StageBase {
  static constexpr bool refused = true;
  template <class> using takes = Anything;
  template <class> using gives = Anything;
};

/// What those guides are for: a function's name binds to any reference alike.
template <class T>
concept Object = std::is_object_v<T>;

} // namespace detail
} // namespace penstock
