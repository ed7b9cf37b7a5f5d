// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/cuda/algorithm.cuh>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace penstock::tests {

/// Holds a stream until `*open`, on either device; at most for some seconds, so that who waits for
/// work behind it is late, and does not hang.
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

/// Work that stays queued until it is let go, on one stream. Opens when it dies.
template <class D> class Gate {
 public:
  explicit Gate(D& device)
      : device_{device}, open_{static_cast<std::uint32_t*>(device.allocate_pinned(4096))},
        last_{device.event()} {
    // A kernel's first launch may wait for the GPU while its code is loaded: let that be over.
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
      device_.sync(last_); // what is queued reads the flag
    } catch (const DeviceError&) {
      // A test has failed before, and says why.
    }
    device_.deallocate_pinned(open_, 4096);
  }

  /// What is put on the stream after this waits.
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
