// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/host/device.hpp>

#include <atomic>
#include <thread>

namespace penstock::tests {

/// Keeps work queued on streams of a HostDevice until it opens, as cuda/gate.hpp does for both
/// devices. It must outlive the work that waits for it.
class HostGate {
 public:
  explicit HostGate(HostDevice&) {}
  HostGate(const HostGate&) = delete;
  HostGate& operator=(const HostGate&) = delete;
  ~HostGate() { let_go(); }

  /// Has all work that is put on the stream after this wait.
  void shut(HostStream& stream) {
    stream.enqueue([this] {
      while (!open_) {
        std::this_thread::yield();
      }
    });
  }
  void let_go() { open_ = true; }

 private:
  std::atomic<bool> open_{false};
};

} // namespace penstock::tests
