// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "blas.hpp"
#include "memory_use.hpp"

#include <penstock/cuda.hpp>
#include <penstock/device/device_array.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

inline penstock::CudaEvent timing_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return penstock::CudaEvent::from_native_handle(event);
}
inline double ms_between(const penstock::CudaEvent& first, const penstock::CudaEvent& last) {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, first.get(), last.get()), "cudaEventElapsedTime");
  return ms;
}

/// Fills memory with integers from -2 to 2: sums of their products are exact in a float.
inline void fill(float* at, std::size_t count, std::uint32_t seed) {
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525 + 1013904223;
    at[i] = static_cast<float>(static_cast<int>((seed >> 16) % 5) - 2);
  }
}

/// Enqueues out = weights * in, all of n columns of n floats.
inline void multiply(Blas& blas, std::size_t n, const float* weights, const float* in, float* out,
                     cudaStream_t stream,
                     const penstock::Workspace<penstock::CudaDevice>& workspace) {
  const int size = static_cast<int>(n);
  const float one = 1;
  const float zero = 0;
  check(cublasSgemm(blas.on(stream, workspace), CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one,
                    weights, size, in, size, &zero, out, size),
        "cublasSgemm");
}

/// Returns the least size, in steps of 128, at which a product takes no less time than a copy one
/// way.
inline std::size_t balanced_size(penstock::CudaDevice& gpu) {
  constexpr std::size_t most = 4096;
  Blas blas;
  const penstock::Workspace<penstock::CudaDevice> workspace{gpu, Blas::workspace_bytes};
  const auto weights = penstock::device_array<float>(gpu, most * most);
  const auto in = penstock::device_array<float>(gpu, most * most);
  const auto out = penstock::device_array<float>(gpu, most * most);
  const Pinned host{gpu, most * most};
  const auto stream = gpu.stream();
  const penstock::CudaEvent events[] = {timing_event(), timing_event(), timing_event()};
  for (std::size_t n = 512;; n += 128) {
    constexpr int times = 5;
    for (int round = 0; round < 2; ++round) { // the first loads cuBLAS's kernels
      check(cudaEventRecord(events[0].get(), stream), "cudaEventRecord");
      for (int i = 0; i < times; ++i) {
        gpu.copy_to_device(in.data(), host.data(), n * n * sizeof(float), stream);
      }
      check(cudaEventRecord(events[1].get(), stream), "cudaEventRecord");
      for (int i = 0; i < times; ++i) {
        multiply(blas, n, weights.data(), in.data(), out.data(), stream, workspace);
      }
      check(cudaEventRecord(events[2].get(), stream), "cudaEventRecord");
      gpu.sync(stream);
    }
    const double copy = ms_between(events[0], events[1]) / times;
    const double product = ms_between(events[1], events[2]) / times;
    if (product >= copy || n == most) {
      std::cout << "of " << n << " x " << n << " floats a copy takes " << copy
                << " ms, and a product " << product << " ms\n";
      return n;
    }
  }
}

/// The items, what the program does with each, and what must come of it.
class Work {
 public:
  Work(penstock::CudaDevice& device, std::size_t size, std::size_t count)
      : gpu{device}, n{size}, floats{n * n}, bytes{floats * sizeof(float)}, items{count},
        data_{make_floats(items * floats)}, wanted_{make_floats(items * floats)}, weights_(floats),
        on_gpu_{gpu, floats}, clock_{gpu.stream()} {
    fill(data_.get(), items * floats, 1);
    fill(weights_.data(), floats, 2);
    gpu.copy_to_device(on_gpu_.data(), weights_.data(), bytes, clock_);
    for (std::size_t i = 0; i < 2 * items; ++i) {
      events_.push_back(timing_event());
    }
    // The first product loads cuBLAS's kernels, whose memory must count for none of the ways.
    const auto in = penstock::device_array<float>(gpu, floats);
    const auto out = penstock::device_array<float>(gpu, floats);
    const penstock::Workspace<penstock::CudaDevice> workspace{gpu, Blas::workspace_bytes};
    multiply(0, in.data(), out.data(), clock_, workspace);
    gpu.sync(clock_);
  }

  float* item(std::size_t i) const { return data_.get() + i * floats; }
  std::span<const std::byte> all() const {
    return {reinterpret_cast<const std::byte*>(item(0)), items * bytes};
  }

  /// Enqueues the product of item `i`. One thread at a time.
  void multiply(std::size_t i, const float* in, float* out, cudaStream_t stream,
                const penstock::Workspace<penstock::CudaDevice>& workspace) {
    check(cudaEventRecord(events_[2 * i].get(), stream), "cudaEventRecord");
    ::multiply(blas_, n, on_gpu_.data(), in, out, stream, workspace);
    check(cudaEventRecord(events_[2 * i + 1].get(), stream), "cudaEventRecord");
  }

  enum class Use { keep, compare_all, compare_a_column };
  Use use_as = Use::keep;

  /// Does what the host does with a product.
  void use(std::size_t i, const float* product) {
    float* const wanted = wanted_.get() + i * floats;
    const std::size_t column = i * 37 % n * n;
    if (use_as == Use::keep) {
      std::copy_n(product, floats, wanted);
      compare(i, product + column, column_of(i, column).data(), n);
    } else if (use_as == Use::compare_all) {
      compare(i, product, wanted, floats);
    } else {
      compare(i, product + column, wanted + column, n);
    }
    ++used_;
  }

  void begin() {
    used_ = 0;
    check(cudaEventRecord(start_.get(), clock_), "cudaEventRecord");
  }
  /// Returns for how long the GPU has multiplied since begin(); products side by side count once.
  double end() {
    if (used_ != items) {
      throw std::runtime_error{std::to_string(used_) + " products came"};
    }
    std::vector<std::pair<double, double>> spans;
    for (std::size_t i = 0; i < 2 * items; i += 2) {
      spans.emplace_back(ms_between(start_, events_[i]), ms_between(start_, events_[i + 1]));
    }
    std::sort(spans.begin(), spans.end());
    double ms = 0;
    double until = 0;
    for (const auto& [first, last] : spans) {
      ms += std::max(last - std::max(first, until), 0.0);
      until = std::max(until, last);
    }
    return ms;
  }

  penstock::CudaDevice& gpu;
  const std::size_t n, floats, bytes, items;

 private:
  static void compare(std::size_t i, const float* product, const float* wanted, std::size_t count) {
    if (std::memcmp(product, wanted, count * sizeof(float)) != 0) {
      throw std::runtime_error{"product " + std::to_string(i) + " is wrong"};
    }
  }
  /// Computes the column of the product that begins at float number `first`, by a plain loop.
  std::vector<float> column_of(std::size_t i, std::size_t first) const {
    std::vector<float> column(n);
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t row = 0; row < n; ++row) {
        column[row] += weights_[k * n + row] * item(i)[first + k];
      }
    }
    return column;
  }

  Floats data_;
  Floats wanted_;
  std::vector<float> weights_;
  penstock::DeviceArray<float, penstock::CudaDevice> on_gpu_;
  penstock::CudaStream clock_;
  Blas blas_;
  std::vector<penstock::CudaEvent> events_; // before and after each product
  penstock::CudaEvent start_ = timing_event();
  std::size_t used_{};
};
