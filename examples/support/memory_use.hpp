// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "blas.hpp"

#include <penstock/cuda.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include <sys/mman.h>

inline constexpr double mib = 1 << 20;

struct Free {
  void operator()(float* at) const { std::free(at); }
};
using Floats = std::unique_ptr<float[], Free>;

/// Returns pageable memory, zeroed, in huge pages where the system has them, as page-locked memory
/// is too.
inline Floats make_floats(std::size_t count) {
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  const std::size_t bytes = (count * sizeof(float) + huge_page - 1) / huge_page * huge_page;
  Floats made{static_cast<float*>(std::aligned_alloc(huge_page, bytes))};
  if (!made) {
    throw std::bad_alloc{};
  }
  ::madvise(made.get(), bytes, MADV_HUGEPAGE);
  std::fill_n(made.get(), count, 0.0F);
  return made;
}

/// Page-locks memory where it lies, for as long as this lives.
class PinnedInPlace {
 public:
  PinnedInPlace(float* at, std::size_t count) : at_{at} {
    check(cudaHostRegister(at, count * sizeof(float), cudaHostRegisterDefault), "cudaHostRegister");
  }
  PinnedInPlace(const PinnedInPlace&) = delete;
  PinnedInPlace& operator=(const PinnedInPlace&) = delete;
  ~PinnedInPlace() { cudaHostUnregister(at_); }

 private:
  float* at_;
};

/// Page-locked memory of its own; `count` floats are whole pages.
class Pinned {
 public:
  Pinned(penstock::CudaDevice& gpu, std::size_t count)
      : gpu_{gpu}, bytes_{count * sizeof(float)},
        data_{static_cast<float*>(gpu.allocate_pinned(bytes_))} {}
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { gpu_.deallocate_pinned(data_, bytes_); }
  float* data() const { return data_; }

 private:
  penstock::CudaDevice& gpu_;
  std::size_t bytes_;
  float* data_;
};

/// Returns what Linux says of this process's memory, in MiB: RssAnon, VmHWM and so on. Not a number
/// where Linux does not say it.
inline double process_mib(const std::string& name) {
  std::ifstream status{"/proc/self/status"};
  for (std::string word; status >> word;) {
    if (double kib = 0; word == name + ':' && status >> kib) {
      return kib / 1024;
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}
/// Returns how much memory is free on the current GPU, in MiB.
inline double free_on_gpu_mib() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<double>(free) / mib;
}
