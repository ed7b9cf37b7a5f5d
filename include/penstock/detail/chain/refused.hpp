// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/callable.hpp>
#include <penstock/run/options.hpp>
#include <penstock/run/report.hpp>
#include <penstock/run/run_options.hpp>
#include <penstock/stage.hpp>

#include <stop_token>

namespace penstock {

/// What `|` gives after a refusal. It accepts every use silently, so that one mistake makes one
/// error.
struct Refused : StageBase {
  struct Range {
    const detail::Anything* begin() const;
    const detail::Anything* end() const;
    detail::Anything next();
  };
  template <class> using takes = detail::Anything;
  template <class> using gives = detail::Anything;
  void prepare(const PrepareOptions& = {});
  const Report& run(const RunOptions& = {});
  const Report& run(std::stop_token);
  template <class S> Range on(S&&, RunOptions = {});
  Range batches(RunOptions = {});
  void stop();
  Report report() const;
};

} // namespace penstock
