// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/algorithm.cuh>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace penstock::tests {

/// Holds a stream until `*open`, on either device; at most for some seconds, so that a thread that
/// waits for the work behind it is late, and does not hang.
struct WaitFor {
  const volatile std::uint32_t* open;
  PENSTOCK_HD void operator()(std::size_t) const {
#if defined(__CUDA_ARCH__)
    const long long most_clocks = 8'000'000'000;
    for (const long long start = clock64(); *open == 0 && clock64() - start < most_clocks;) {
    }
#else
    for (int k = 0; *open == 0 && k < 4000; ++k) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
#endif
  }
};

/// Keeps work queued on one stream until it is let go. Opens when it dies.
template <class D> class Gate {
 public:
  explicit Gate(D& device)
      : device_{device}, open_{static_cast<std::uint32_t*>(device.allocate_pinned(4096))},
        last_{device.event()} {
    // A kernel's first launch may wait for the GPU while its code is loaded: that is done here.
    let_go();
    auto stream = device_.stream();
    shut(stream);
    device_.sync(stream);
    *flag() = 0;
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    let_go();
    try {
      device_.sync(last_); // queued work reads the flag
    } catch (const DeviceError&) {
      // A test has failed before, and its own error says why.
    }
    device_.deallocate_pinned(open_, 4096);
  }

  /// Has all work that is put on the stream after this wait.
  void shut(Stream<D> stream) {
    for_each(stream, 1, WaitFor{flag()});
    device_.record(last_, stream);
  }
  void let_go() { *flag() = 1; }

 private:
  volatile std::uint32_t* flag() { return open_; }

  D& device_;
  std::uint32_t* open_;
  typename D::event_type last_;
};

} // namespace penstock::tests
