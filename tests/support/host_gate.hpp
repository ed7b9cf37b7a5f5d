// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/host/device.hpp>

#include <atomic>
#include <thread>

namespace penstock::tests {

/// Work that stays queued until it is let go, on streams of a HostDevice, as cuda/gate.hpp has it
/// for both devices. It must outlive what waits for it.
class HostGate {
 public:
  explicit HostGate(HostDevice&) {}
  HostGate(const HostGate&) = delete;
  HostGate& operator=(const HostGate&) = delete;
  ~HostGate() { let_go(); }

  /// What is put on the stream after this waits.
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
