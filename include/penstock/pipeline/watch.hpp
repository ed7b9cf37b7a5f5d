// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/thread_end.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/engine/engine.hpp>
#include <penstock/pipeline/observer.hpp>
#include <penstock/pipeline/periodic_thread.hpp>
#include <penstock/run/run_options.hpp>

#include <system_error>

namespace penstock::detail {

/// Shows a run to the application from time to time, on a thread of its own.
class PeriodicWatch final : public Watch {
 public:
  PeriodicWatch(const RunOptions& options, Engine& engine)
      : observer_{options}, thread_{observer_.period(), [this, &engine] { look(engine); }} {}

 private:
  [[gnu::cold]] void look(Engine& engine) {
    const auto f = [&] { observer_.look(engine.report()); };
    caught(f, [&] { engine.fail("progress"); });
  }

  Observer observer_;
  PeriodicThread thread_; // last, since its thread uses the observer
};

[[gnu::cold]] inline Watch* start_watch(const RunOptions& options, Engine& engine) {
  try {
    return new PeriodicWatch{options, engine};
  } catch (const std::system_error& e) {
    throw_error<Error>({"penstock: no thread could be started to watch the run: ", e.what(),
                        ": leave out progress and stalled, or raise the limit on threads."});
  }
}

} // namespace penstock::detail
