// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/file.hpp"
#include "support/several/devices.hpp"
#include "support/several/ranks.hpp"

#include <penstock/machine/usable.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace penstock_bench {

/// The options of several_bench, besides Google Benchmark's.
struct SeveralOptions {
#if defined(__CUDACC__)
  static constexpr std::uint64_t file_units = 56;
  static constexpr unsigned usual_rounds = 4;
#else
  static constexpr std::uint64_t file_units = 1;
  static constexpr unsigned usual_rounds = 1;
#endif
  std::uint64_t bytes = file_units * file_unit;
  std::size_t gpus = 0;
  std::string file = (std::filesystem::temp_directory_path() / "penstock-several.bin").string();
  std::string tmpfs = "/dev/shm";
  std::string run_ranks;
  RankTask rank{.times = {},
                .file = {},
                .how = {.rounds = usual_rounds}}; // of a rank: `times` is empty elsewhere

  SeveralOptions(int argc, char** argv) {
    for (const std::string_view argument :
         std::span{argv, static_cast<std::size_t>(argc)}.subspan(1)) {
      const std::size_t end = argument.find('=');
      if (!set(argument.substr(0, end),
               std::string{end == std::string_view::npos ? "" : argument.substr(end + 1)})) {
        throw std::runtime_error{"unknown option " + std::string{argument} +
                                 "; there are --gpus=N, --bytes=N, --rounds=N, --file=PATH, "
                                 "--tmpfs=FOLDER, --run-ranks=PATH and Google Benchmark's"};
      }
    }
    rank.file = file;
    const std::size_t found = Devices::count();
    gpus = gpus == 0 ? found : gpus;
    if ((gpus == 0 || gpus > found) && rank.times.empty()) {
      throw std::runtime_error{"the process has " + std::to_string(found) + " GPUs, and not " +
                               std::to_string(std::max<std::size_t>(gpus, 1))};
    }
  }

 private:
  bool set(std::string_view name, const std::string& value) {
    if (name == "--gpus") {
      gpus = std::stoul(value);
    } else if (name == "--bytes") {
      bytes = std::max<std::uint64_t>(std::stoull(value) / file_unit, 1) * file_unit;
    } else if (name == "--file") {
      file = value;
    } else if (name == "--tmpfs") {
      tmpfs = value;
    } else if (name == "--run-ranks") {
      run_ranks = value;
    } else if (name == "--as-rank") {
      rank.times = value;
    } else if (name == "--workers") {
      rank.how.workers = static_cast<unsigned>(std::stoul(value));
    } else if (name == "--rounds") {
      rank.how.rounds = std::max(static_cast<unsigned>(std::stoul(value)), 1U);
    } else if (name == "--checked") {
      rank.checked = value == "1";
    } else {
      return false;
    }
    return true;
  }
};

/// Puts into the JSON's context what is said of places.
inline void add_places(std::size_t gpus) {
  const auto line = [](const std::string& path) {
    std::ifstream file{path};
    std::string text;
    std::getline(file, text);
    return text;
  };
  benchmark::AddCustomContext("processors", std::to_string(penstock::usable_processors()));
  benchmark::AddCustomContext("numa_nodes", line("/sys/devices/system/node/online"));
  benchmark::AddCustomContext(
      "cache", line("/sys/devices/system/cpu/cpu0/cache/index3/size") + " for " +
                   line("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list"));
  benchmark::AddCustomContext("huge_pages", line("/sys/kernel/mm/transparent_hugepage/enabled"));
  benchmark::AddCustomContext("gpus", std::to_string(gpus));
#if defined(__CUDACC__)
  for (std::size_t i = 0; i != gpus; ++i) {
    char bus[32] = "";
    cudaDeviceGetPCIBusId(bus, sizeof bus, static_cast<int>(i));
    std::string id = bus;
    std::transform(id.begin(), id.end(), id.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::string at = "/sys/bus/pci/devices/" + id;
    benchmark::AddCustomContext("gpu_" + std::to_string(i),
                                id + " node " + line(at + "/numa_node") + " processors " +
                                    line(at + "/local_cpulist") + ", threads kept to " +
                                    std::to_string(Devices::make(i)->processors_near().count()));
  }
#endif
}

} // namespace penstock_bench
