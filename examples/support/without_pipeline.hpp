// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "output.hpp"

#include <penstock/penstock.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

/// Makes the same counts without a pipeline, in two ways, each timed without its set-up, and
/// compares them with the pipeline's.
template <penstock::AnyDevice D> class WithoutPipeline {
  static constexpr std::size_t batch_bytes = std::size_t{4} << 20;
  static constexpr std::size_t read_bytes = std::size_t{1} << 20;
  static constexpr std::size_t pool_bytes = std::size_t{48} << 20;

 public:
  WithoutPipeline(D& device, const std::string& path, const Result& result)
      : device_{device}, file_{penstock::records<std::uint8_t>(path)}, result_{result},
        stream_{device.stream()}, bytes_{device, pool_bytes}, workspace_{device} {
    file_.open();
  }

  /// Times the program that one writes first: one thread reads a batch into a std::vector, copies
  /// it, launches the kernel and waits for it. A copy from a std::vector returns only when the
  /// bytes are read: this is cudaMemcpy by its other name.
  double naive() {
    std::vector<std::uint8_t> host(batch_bytes);
    return timed([&](std::uint64_t* counts) {
      for (std::uint64_t at = 0; at < file_.size(); at += host.size()) {
        const std::size_t n = std::min<std::uint64_t>(host.size(), file_.size() - at);
        read(host.data(), at, n);
        device_.copy_to_device(bytes_.data(), host.data(), n, stream_);
        penstock::histogram(stream_, bytes_.data(), n, counts, workspace_);
        device_.sync(stream_);
      }
    });
  }

  /// Times the pipeline's workers, pinned memory and grain, but one step after the other: all
  /// workers read, then one copy goes to the device, then the kernels run on batches.
  double sequential() {
    const unsigned workers = result_.report.stages.front().workers;
    auto* host = static_cast<std::uint8_t*>(device_.allocate_pinned(pool_bytes));
    std::uint64_t at = 0; // where the pool's first byte is in the file
    std::barrier step{static_cast<std::ptrdiff_t>(workers + 1)};
    std::mutex mutex;
    std::exception_ptr failed;
    std::vector<std::thread> threads;
    for (unsigned worker = 0; worker < workers; ++worker) {
      threads.emplace_back([&, worker] {
        for (step.arrive_and_wait(); at < file_.size(); step.arrive_and_wait()) {
          const std::size_t pool = std::min<std::uint64_t>(pool_bytes, file_.size() - at);
          for (std::size_t i = worker * read_bytes; i < pool; i += workers * read_bytes) {
            try {
              read(host + i, at + i, std::min(read_bytes, pool - i));
            } catch (...) {
              const std::scoped_lock lock{mutex};
              failed = std::current_exception();
            }
          }
          step.arrive_and_wait();
        }
      });
    }
    double seconds = 0;
    try {
      seconds = timed([&](std::uint64_t* counts) {
        while (at < file_.size()) {
          const std::size_t pool = std::min<std::uint64_t>(pool_bytes, file_.size() - at);
          step.arrive_and_wait(); // begin to read
          step.arrive_and_wait(); // all was read
          if (failed) {
            std::rethrow_exception(failed);
          }
          device_.copy_to_device(bytes_.data(), host, pool, stream_);
          device_.sync(stream_);
          for (std::size_t i = 0; i < pool; i += batch_bytes) {
            penstock::histogram(stream_, bytes_.data() + i, std::min(batch_bytes, pool - i), counts,
                                workspace_);
          }
          device_.sync(stream_);
          at += pool;
        }
      });
    } catch (...) {
      failed = std::current_exception();
    }
    at = file_.size();
    step.arrive_and_wait(); // nothing is left
    for (std::thread& thread : threads) {
      thread.join();
    }
    device_.deallocate_pinned(host, pool_bytes);
    if (failed) {
      std::rethrow_exception(failed);
    }
    return seconds;
  }

 private:
  void read(std::uint8_t* to, std::uint64_t at, std::size_t n) const {
    file_.read(penstock::Batch<std::uint8_t, penstock::Pageable>{to, n, at});
  }

  template <class F> double timed(F count) {
    penstock::DeviceArray<std::uint64_t, D> counts{device_, 256};
    const auto start = std::chrono::steady_clock::now();
    count(counts.data());
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (counts.read(stream_) != result_.counts) {
      throw std::runtime_error{"the comparison counted something else than the pipeline"};
    }
    return seconds;
  }

  D& device_;
  penstock::Records<std::uint8_t> file_;
  const Result& result_;
  typename D::stream_type stream_;
  penstock::DeviceArray<std::uint8_t, D> bytes_;
  penstock::Workspace<D> workspace_;
};

template <penstock::AnyDevice D>
Comparison without_pipeline(D& device, const std::string& path, const Result& result) {
  WithoutPipeline<D> other{device, path, result};
  return {other.naive() / result.report.seconds, other.sequential() / result.report.seconds};
}
