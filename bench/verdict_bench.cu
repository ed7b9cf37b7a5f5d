// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Does the Report tell the truth?
//
// Twelve pipelines in which one thing is slow on purpose, six of which the next limit is known, and
// two that are healthy, each run --rounds times on the GPU: the verdict must name the stage, the
// cause and the next limit, and blame nobody where nothing is to gain. Of a cause's rounds one may
// say "a or b". Then eight other pipelines, whose settings were not used to find the rules: each is
// run, the first advice of its verdict is followed, and it is run again. The gain must be within a
// fifth of what was promised; medians of --rounds runs.
//
//   verdict_bench [--file=PATH] [--bytes=N] [--rounds=N] [--cold-file=PATH]
//
// The file lies in the page cache, the cold file on a disk. The exit code is 1 if anything was
// named wrong, or promised wrong.

#include "support/cold_file.hpp"
#include "support/file.hpp"
#include "support/gpu.hpp"
#include "support/planted.hpp"

#include <penstock/cuda.hpp>
#include <penstock/diagnose/gpu_observer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using ps::Cause;

/// Keeps a GPU for so many nanoseconds.
__global__ void spin(std::uint64_t ns) {
  std::uint64_t begin = 0;
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}

void launch_spin(double seconds, cudaStream_t stream) {
  spin<<<1, 1, 0, stream>>>(static_cast<std::uint64_t>(seconds * 1e9));
}

struct Gpu {
  static constexpr std::size_t most_pageable = 4 * MiB;

  void launch(double seconds, cudaStream_t stream) { launch_spin(seconds, stream); }
  void wait(cudaStream_t stream) { check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }
  void allocate() { make_on_device(4096); }
  void copy_pageable(std::size_t bytes, cudaStream_t stream) {
    check(cudaMemcpyAsync(memory.get(), pageable.data(), bytes, cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
  }

  ps::CudaDevice device;
  DeviceBytes memory = make_on_device(most_pageable);
  std::vector<char> pageable = std::vector<char>(most_pageable, 1);
};

/// A pipeline, and what its verdict is to say. `next`: what binds when the first advice was
/// followed; empty if that is not asked here.
struct Planted {
  std::string name;
  std::string stage;
  Cause cause;
  std::string next;
  std::function<ps::Report(ps::RunObserver*)> run;
};

auto pages_of(const FileOptions& file) {
  return ps::records<Page>(file.path);
}

class Plants {
 public:
  Plants(const FileOptions& file, const FileOptions& cold) : file_{file}, cold_{cold} {}

  std::vector<Planted> all() {
    const unsigned processors = ps::usable_processors();
    return {
        chain("few workers", "Decoder", Cause::too_few_workers, {.decode_cpu_s = 4e-6},
              {.pages = 128'000, .readers = 2, .slot = 256, .decoders = 1, .batch = 256}),
        chain("few units", "Decoder", Cause::too_few_units, {.decode_s = 8e-3 / 64},
              {.pages = 12'800, .readers = 1, .read_depth = 2, .slot = 64, .decoders = 8}),
        chain("small batches", "Consumer", Cause::small_batches, {},
              {.pages = 200'000, .batch = 1}),
        chain("pageable memory", "Consumer", Cause::pageable_memory, {.pageable_bytes = 4 * MiB},
              {.pages = 128'000, .slot = 256, .batch = 256}),
        chain("launches", "Consumer", Cause::launches, {.launches = 200},
              {.pages = 128'000, .slot = 256, .batch = 256}),
        chain("waits", "Consumer", Cause::waits, {.kernel_s = 5e-6, .waits = true},
              {.pages = 400'000, .slot = 256, .batch = 16}),
        {"cold disk", "Reader", Cause::disk, "",
         [this](ps::RunObserver* observe) {
           drop(cold_);
           return feed(pages_of(cold_), 4 * MiB, 0, observe);
         }},
        {"bus", "AsyncCopier", Cause::bus, "",
         [this](ps::RunObserver* observe) { return feed(pages_of(file_), 16 * MiB, 0, observe); }},
        chain("kernel", "Consumer", Cause::kernel, {.kernel_s = 2e-3},
              {.pages = 128'000, .slot = 256, .batch = 256}),
        {"writer", "Writer", Cause::writer, "",
         [this](ps::RunObserver* observe) { return to_file(observe); }},
        chain("all cores", "Decoder", Cause::cores, {.decode_cpu_s = 20e-6},
              {.pages = 32'000 * processors,
               .read_depth = 4 * processors,
               .slot = 256,
               .decoders = 2 * processors,
               .decode_depth = 4 * processors,
               .batch = 256}),
        {"depth", "Reader", Cause::depth, "",
         [](ps::RunObserver*) {
           return run_planted_on_host(
               {.read_s = 2e-3, .burst = 16, .decode_s = 2.2e-3 / 64},
               {.pages = 20'480, .readers = 1, .read_depth = 2, .slot = 64, .decoders = 1});
         }},
        // What binds next.
        chain("a Decoder before a kernel", "Decoder", Cause::too_few_workers,
              {.decode_s = 8e-6, .kernel_s = 0.5e-3},
              {.pages = 128'000, .slot = 256, .decoders = 1, .batch = 256}, "the kernel"),
        chain("a Reader before a Decoder", "Reader", Cause::too_few_workers,
              {.read_s = 4e-3, .decode_s = 6e-6},
              {.pages = 64'000, .readers = 1, .slot = 256, .decoders = 1, .batch = 256},
              "the Decoder"),
        {"a bus before a kernel", "AsyncCopier", Cause::bus, "the kernel",
         [this](ps::RunObserver* observe) {
           return feed(from_nowhere, 16 * MiB, 0.24e-3, observe);
         }},
        {"a kernel before a bus", "Consumer", Cause::kernel, "the bus",
         [this](ps::RunObserver* observe) {
           return feed(from_nowhere, 16 * MiB, 0.5e-3, observe);
         }},
        chain("a kernel before a Decoder", "Consumer", Cause::kernel,
              {.decode_s = 6e-6, .kernel_s = 2.5e-3},
              {.pages = 64'000, .slot = 256, .decoders = 1, .batch = 256}, "the Decoder"),
        chain(
            "a Decoder before all cores", "Decoder", Cause::too_few_workers,
            {.decode_cpu_s = 20e-6},
            {.pages = 256'000, .slot = 256, .decoders = std::max(1U, processors / 4), .batch = 256},
            "all cores"),
        // Healthy: the kernel binds, and nothing else would gain.
        {"healthy, from a file", "Consumer", Cause::kernel, "",
         [this](ps::RunObserver* observe) {
           return feed(pages_of(file_), 16 * MiB, 1e-3, observe);
         }},
        chain("healthy, decoded", "Consumer", Cause::kernel,
              {.decode_cpu_s = 2e-6, .kernel_s = 2e-3}, {.pages = 128'000, .batch = 256}),
    };
  }

 private:
  Planted chain(std::string name, std::string stage, Cause cause, Costs costs, Settings settings,
                std::string next = {}) {
    return {std::move(name), std::move(stage), cause, std::move(next),
            [this, costs, settings](ps::RunObserver* observe) {
              return run_planted(gpu_, costs, settings, observe);
            }};
  }
  // What comes from a file hardly comes faster than the bus takes it, on some machines.
  static constexpr PlantedSource from_nowhere{{}, 940'800};

  template <class Source>
  ps::Report feed(const Source& source, std::size_t batch, double kernel_s,
                  ps::RunObserver* observe) {
    auto pipeline =
        ps::Reader{source, ps::to_pinned} |
        ps::AsyncCopier{gpu_.device, {.batch = batch / sizeof(Page)}} |
        ps::Consumer{[kernel_s](ps::Batch<const Page, ps::Device>, cudaStream_t stream) {
          launch_spin(kernel_s, stream);
        }};
    pipeline.prepare();
    return pipeline.run({.observe = observe});
  }
  ps::Report to_file(ps::RunObserver* observe) {
    const std::string path = cold_.path + ".written";
    auto pipeline = ps::Reader{ps::records<Page>(file_.path), ps::to_pinned} |
                    ps::AsyncCopier{gpu_.device} |
                    ps::Kernel{[](ps::Batch<Page, ps::Device>, cudaStream_t stream) {
                      launch_spin(0, stream);
                    }} |
                    ps::AsyncCopier{ps::to_host} | ps::Writer{path};
    const ps::Report report = pipeline.run({.observe = observe});
    std::filesystem::remove(path);
    return report;
  }

  Gpu gpu_;
  FileOptions file_;
  FileOptions cold_;
};

/// Runs all of them; returns how many were named wrong.
int name_causes(Plants& plants, int rounds) {
  int wrong = 0;
  for (const Planted& planted : plants.all()) {
    int unsure = 0;
    for (int round = 0; round != rounds; ++round) {
      ps::GpuObserver observer;
      const ps::Report report = planted.run(&observer);
      const ps::Verdict verdict = ps::judge(report);
      const bool sure = verdict.or_cause == Cause::nothing;
      unsure += sure ? 0 : 1;
      const bool cause = verdict.cause == planted.cause || verdict.or_cause == planted.cause;
      const bool next = planted.next.empty() ||
                        (!verdict.advice.empty() && verdict.advice.front().next == planted.next);
      const bool healthy = !planted.name.starts_with("healthy") || !verdict.worth_it;
      const bool right = verdict.stage == planted.stage && cause && next && healthy && unsure <= 1;
      wrong += right ? 0 : 1;
      std::cout << (right ? "right  " : "WRONG  ") << planted.name << ", round " << round + 1
                << ": " << verdict;
      if (!right || round == 0) {
        std::cout << report;
      }
      std::cout << std::flush;
    }
  }
  return wrong;
}

/// A pipeline whose advice is followed.
struct Advised {
  const char* name;
  Costs costs;
  Settings settings;
  bool on_host{};
};

const std::vector<Advised>& advised() {
  static const std::vector<Advised> all{
      {"1 reader of 3 ms, a kernel of 0.7 ms",
       {.read_s = 3e-3, .kernel_s = 0.7e-3},
       {.pages = 102'400, .readers = 1, .slot = 256, .decoders = 4, .batch = 256}},
      {"3 decoders of 5 ms, 2 readers of 1 ms",
       {.read_s = 1e-3, .decode_s = 5e-3 / 128},
       {.pages = 102'400, .readers = 2, .slot = 128, .decoders = 3, .batch = 128}},
      {"2 decoders that compute, a kernel of 0.25 ms",
       {.decode_cpu_s = 6e-6, .kernel_s = 0.25e-3},
       {.pages = 512'000, .readers = 2, .slot = 256, .decoders = 2, .batch = 256}},
      {"6 decoders on 3 slots",
       {.decode_s = 5e-3 / 64},
       {.pages = 25'600, .readers = 1, .read_depth = 3, .slot = 64, .decoders = 6}},
      {"batches of 4 pages", {}, {.pages = 800'000, .batch = 4}},
      {"a source in bursts of 12, on the host",
       {.read_s = 1.5e-3, .burst = 12, .decode_s = 1.2e-3 / 32},
       {.pages = 19'200, .readers = 1, .read_depth = 3, .slot = 32, .decoders = 1},
       true},
      {"5 readers of 8 ms, 1 decoder of 0.8 ms",
       {.read_s = 8e-3, .decode_s = 0.8e-3 / 200},
       {.pages = 120'000, .readers = 5, .slot = 200, .decoders = 1, .batch = 200}},
      {"1 decoder that computes, on many processors",
       {.decode_cpu_s = 15e-6},
       {.pages = 64'000, .readers = 2, .slot = 128, .decoders = 1, .batch = 256}},
  };
  return all;
}

ps::Report run_of(Gpu& gpu, const Advised& one, const Settings& settings) {
  if (one.on_host) {
    return run_planted_on_host(one.costs, settings);
  }
  ps::GpuObserver observer;
  return run_planted(gpu, one.costs, settings, &observer);
}
/// Returns the median run of several.
ps::Report median_run(Gpu& gpu, const Advised& one, const Settings& settings, int rounds) {
  std::vector<ps::Report> reports;
  for (int round = 0; round != rounds; ++round) {
    reports.push_back(run_of(gpu, one, settings));
  }
  std::ranges::sort(reports, {}, &ps::Report::seconds);
  return reports[reports.size() / 2];
}

/// Follows the advice of all of them; returns how many gains were more than a fifth off.
int follow_advice(int rounds) {
  Gpu gpu;
  int wrong = 0;
  for (const Advised& one : advised()) {
    const ps::Report before = median_run(gpu, one, one.settings, rounds);
    const ps::Verdict verdict = ps::judge(before);
    Settings settings = one.settings;
    const bool followed =
        !verdict.advice.empty() && follow(verdict.advice.front().change, settings);
    double gain = 0;
    double promised = 0;
    if (followed) {
      const ps::Report after = median_run(gpu, one, settings, rounds);
      gain = before.seconds / after.seconds;
      promised = verdict.advice.front().gain;
      std::cout << "after:  " << after;
    }
    const bool right = followed && gain >= 0.8 * promised && gain <= 1.2 * promised;
    wrong += right ? 0 : 1;
    std::printf("%s  %s: promised %.2f, gained %.2f\n", right ? "right" : "WRONG", one.name,
                promised, gain);
    std::cout << "before: " << before << verdict << std::flush;
  }
  return wrong;
}

} // namespace

int main(int argc, char** argv) {
  try {
    int rounds = 3;
    std::string cold = (std::filesystem::temp_directory_path() / "penstock-cold.bin").string();
    std::vector<char*> left{argv[0]};
    for (char* argument : std::span{argv, static_cast<std::size_t>(argc)}.subspan(1)) {
      const std::string_view option{argument};
      if (option.starts_with("--rounds=")) {
        rounds = std::stoi(std::string{option.substr(9)});
      } else if (option.starts_with("--cold-file=")) {
        cold = option.substr(12);
      } else {
        left.push_back(argument);
      }
    }
    if (rounds < 1) { // none would be wrong
      throw std::runtime_error{"--rounds=N is at least 1"};
    }
    const FileOptions file{static_cast<int>(left.size()), left.data()};
    prepare_file(file);
    char* none[]{argv[0]};
    FileOptions on_disk{1, none};
    on_disk.path = cold;
    on_disk.bytes = 8 * file_unit;
    prepare_file(on_disk);
    Plants plants{file, on_disk};
    const int unnamed = name_causes(plants, rounds);
    const int unkept = follow_advice(rounds);
    std::printf("%d verdicts of %zu wrong, %d promises of %zu not kept\n", unnamed,
                plants.all().size() * static_cast<std::size_t>(rounds), unkept, advised().size());
    return unnamed + unkept != 0 ? 1 : 0;
  } catch (const std::exception& e) {
    std::cerr << "verdict_bench: " << e.what() << '\n';
    return 1;
  }
}
