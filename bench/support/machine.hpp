// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#endif

namespace penstock_bench {

/// Returns the first line of a file that contains `word`, from behind `from` on; empty if there is
/// none.
inline std::string line_with(const std::string& path, const std::string& word,
                             const std::string& from = {}) {
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);) {
    if (line.find(word) != std::string::npos) {
      const std::size_t at = from.empty() ? std::string::npos : line.find(from);
      const std::size_t begin =
          at == std::string::npos ? 0 : line.find_first_not_of(" \t", at + from.size());
      return begin == std::string::npos ? std::string{} : line.substr(begin);
    }
  }
  return {};
}

/// Puts into the JSON's context what the figures depend on: processor, GPU, its link, driver and
/// CUDA's version if nvcc compiled the program, compiler, and the commit, which bench/run passes in
/// PENSTOCK_COMMIT. To be called once, before RunSpecifiedBenchmarks().
inline void add_context() {
  using benchmark::AddCustomContext;
  AddCustomContext("cpu", line_with("/proc/cpuinfo", "model name", ":"));
  AddCustomContext("cores", std::to_string(std::thread::hardware_concurrency()));
  AddCustomContext("memory", line_with("/proc/meminfo", "MemTotal", ":"));
  AddCustomContext("kernel", line_with("/proc/version", "version"));
  AddCustomContext("compiler", __VERSION__);
  const char* commit = std::getenv("PENSTOCK_COMMIT");
  AddCustomContext("commit", commit != nullptr ? commit : "unknown");
#if defined(__CUDACC__)
  const auto version = [](int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  };
  int runtime = 0;
  int newest = 0;
  cudaDeviceProp properties{};
  char bus[32] = "";
  const bool there = cudaRuntimeGetVersion(&runtime) == cudaSuccess &&
                     cudaDriverGetVersion(&newest) == cudaSuccess &&
                     cudaGetDeviceProperties(&properties, 0) == cudaSuccess &&
                     cudaDeviceGetPCIBusId(bus, sizeof bus, 0) == cudaSuccess;
  AddCustomContext("gpu", there ? properties.name : cudaGetErrorString(cudaGetLastError()));
  AddCustomContext("cuda_runtime", version(runtime));
  AddCustomContext("cuda_driver", version(newest));
  AddCustomContext("driver", line_with("/proc/driver/nvidia/version", "NVRM", ":"));
  std::string place = bus;
  std::transform(place.begin(), place.end(), place.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  // A virtual machine may not show the link.
  const std::string link = "/sys/bus/pci/devices/" + place;
  AddCustomContext("pcie", line_with(link + "/current_link_speed", "") + " x" +
                               line_with(link + "/current_link_width", ""));
#endif
}

} // namespace penstock_bench
