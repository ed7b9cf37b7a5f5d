// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <string>

namespace penstock::detail {

/// A thread that works for several nodes, none of which has a thread of its own. The engine owns it
/// and has it run once a run.
class SharedThread {
 public:
  SharedThread() = default;
  SharedThread(const SharedThread&) = delete;
  SharedThread& operator=(const SharedThread&) = delete;
  virtual ~SharedThread() = default;

  /// Returns the name of the first node that it works for.
  virtual const std::string& name() const noexcept = 0;
  /// Forgets the last run, before the next, while all threads rest.
  virtual void reset() noexcept = 0;
  /// Does its part of a run, on the thread itself. Throws nothing, but a callable may end the
  /// thread.
  virtual void run() = 0;
};

} // namespace penstock::detail
