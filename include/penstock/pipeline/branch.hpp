// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/chain/chain.hpp>
#include <penstock/detail/chain/fit.hpp>
#include <penstock/run/options.hpp>
#include <penstock/run/report.hpp>

#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>

namespace penstock {

namespace detail {
template <class> inline constexpr bool has_reader = false; // whatever it is
}

/// Stages joined by `|` without a Reader: what tee() takes as a branch, or what you join to a
/// pipeline later, `pipeline | branch`. Whether its stages fit is judged then. Movable; a
/// description that runs nothing.
template <class... Stages> class Branch {
 public:
  /// For `|` and tee().
  explicit Branch(std::tuple<Stages...> stages) : stages_{std::move(stages)} {}

  /// For tee() and prepare().
  const std::tuple<Stages...>& stages() const& noexcept { return stages_; }
  /// For `|`.
  std::tuple<Stages...>&& stages() && noexcept { return std::move(stages_); }
  /// For `|` and tee(): joins `left` with stages.
  template <class Left> static auto follow(Left left, Stages... stages) {
    if constexpr (sizeof...(Stages) == 0) {
      return left;
    } else {
      return (std::move(left) | ... | std::move(stages));
    }
  }

  /// Refused: only a pipeline runs. Each says so itself, since a call more makes the error longer.
  /// @{
  template <class R = const Report&> R run(const RunOptions& = {}) {
    static_assert(detail::has_reader<R>,
                  "penstock: a pipeline starts with a Reader, and this one does not: "
                  "write ps::Reader{source} | ... .");
    return Refused{}.run();
  }
  template <class R = const Report&> R run(std::stop_token) { return run<R>(); }
  template <class R = void> R prepare(const PrepareOptions& = {}) {
    static_assert(detail::has_reader<R>,
                  "penstock: a pipeline starts with a Reader, and this one does not: "
                  "write ps::Reader{source} | ... .");
  }
  template <class S> Refused::Range on(S&&, RunOptions = {}) {
    static_assert(detail::has_reader<S>,
                  "penstock: a pipeline starts with a Reader, and this one does not: "
                  "write ps::Reader{source} | ... .");
    return {};
  }
  template <class R = Refused::Range> R batches(RunOptions = {}) {
    static_assert(detail::has_reader<R>,
                  "penstock: a pipeline starts with a Reader, and this one does not: "
                  "write ps::Reader{source} | ... .");
    return {};
  }
  /// @}

 private:
  std::tuple<Stages...> stages_;
};

namespace detail {
template <class... S, class Next>
std::tuple<S..., Next> stages_of(Branch<S...>&& branch, Next&& next) {
  return std::tuple_cat(std::move(branch).stages(), std::tuple<Next>{std::move(next)});
}
} // namespace detail

} // namespace penstock
