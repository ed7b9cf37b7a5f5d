// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/host/detail/machine.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace penstock {

class HostStream;

namespace detail {

/// Work captured on several streams, the lanes: kept, and run any number of times.
class CapturedWork {
 public:
  explicit CapturedWork(std::size_t lanes) : lanes_(lanes) {}

  template <class F> void add(std::size_t lane, F f) {
    lanes_[lane].push_back(std::make_unique<Kept<F>>(std::move(f)));
  }
  /// Runs all work. Lanes must not depend on each other, so the last one runs first: this finds out
  /// work that relies on the order in which it was enqueued. On the pretended machine they run side
  /// by side.
  void run(Pace& pace);

 private:
  struct Work {
    virtual ~Work() = default;
    virtual void run(Pace& pace) = 0;
  };
  template <class F> struct Kept final : Work {
    explicit Kept(F f) : work{std::move(f)} {}
    void run(Pace& pace) override { work(pace); }
    F work;
  };

  Vector<Vector<std::unique_ptr<Work>>> lanes_;
};

/// Where a stream puts its work while it is captured.
struct Capture {
  CapturedWork* work{};
  std::size_t lane{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void CapturedWork::run(Pace& pace) {
  const Pace::Clock::time_point begin = pace.at();
  Pace::Clock::time_point end = begin;
  for (std::size_t lane = lanes_.size(); lane-- != 0;) {
    pace.go_back(begin);
    for (const std::unique_ptr<Work>& work : lanes_[lane]) {
      work->run(pace);
    }
    end = std::max(end, pace.at());
  }
  pace.not_before(end);
}
#endif

} // namespace detail

/// Work captured on streams of a HostDevice. HostDevice::capture() makes it; it moves, and can be
/// launched any number of times. It may die while its work still runs.
class HostGraph {
 public:
  /// Captures what `f()` enqueues on `lanes`: work of one in order, that of two in any. None of it
  /// runs. Throws what `f` throws; the streams are then as before.
  template <class F> static HostGraph capture(std::span<HostStream> lanes, F f);
  /// Enqueues the whole graph on `stream`, as one piece of work; returns at once, unless
  /// HostStream::capacity pieces are waiting. Throws DeviceError.
  void launch(HostStream& stream) const;

 private:
  explicit HostGraph(detail::Shared<detail::CapturedWork> work) : work_{std::move(work)} {}

  detail::Shared<detail::CapturedWork> work_;
};

} // namespace penstock
