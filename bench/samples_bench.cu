// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How busy is a GPU that trains on samples of the sizes that MLPerf Storage has?
//
// The sizes of a sample, the batches and the seconds that an accelerator computes on one are those
// of MLPerf Storage's workloads unet3d (with equal samples) and resnet50, for an A100, an H100 and
// a B200 (its configurations, read in November 2026). The rest is another thing: samples lie in one
// file in the page cache, they are copied to the GPU, and a kernel keeps the GPU as long as the
// table says. MLPerf Storage reads from storage that no cache has, and stops in host memory. These
// figures are no results of it, and cannot be compared with any.
//
//   samples_bench [--batches=N] [--rounds=N]
//
// `utilisation` is the kernels' time over the time from the first kernel's begin to the last one's
// end. The program says what held the run back.

#include "support/file.hpp"
#include "support/gpu.hpp"

#include <penstock/cuda.hpp>
#include <penstock/diagnose/verdict.hpp>
#include <penstock/run/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

struct Workload {
  const char* name;
  std::size_t sample_bytes;
  std::size_t batch;
  double compute_s;
};
constexpr Workload workloads[]{
    {"unet3d, A100", 146'600'628, 7, 0.636}, {"unet3d, H100", 146'600'628, 7, 0.323},
    {"unet3d, B200", 146'600'628, 7, 0.162}, {"resnet50, A100", 114'660, 400, 0.435},
    {"resnet50, H100", 114'660, 400, 0.224},
};

/// When the first kernel began and the last one ended, by the GPU's clock.
struct Span {
  unsigned long long first;
  unsigned long long last;
};
__global__ void compute(const std::byte* batch, unsigned long long ns, Span* span, unsigned* seen) {
  unsigned long long begin = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  span->first = span->first == 0 ? begin : span->first;
  *seen += static_cast<unsigned>(batch[0]);
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
  span->last = now;
}

ps::Json measure(const Workload& work, const FileOptions& file, std::uint64_t batches) {
  ps::CudaDevice gpu;
  auto span = ps::device_array<Span>(gpu, 1);
  auto seen = ps::device_array<unsigned>(gpu, 1);
  const auto ns = static_cast<unsigned long long>(work.compute_s * 1e9);
  const std::uint64_t samples = file.bytes / work.sample_bytes;
  const std::uint64_t epochs = (batches * work.batch + samples - 1) / samples;
  auto pipeline = ps::Reader{ps::records<std::byte>(file.path, {.record_bytes = work.sample_bytes,
                                                                .drop_partial = true}),
                             ps::to_pinned,
                             {.epochs = epochs}} |
                  ps::AsyncCopier{gpu, {.batch = work.batch}} |
                  ps::Consumer{[&](ps::Batch<const std::byte, ps::Device> in, cudaStream_t stream) {
                    compute<<<1, 1, 0, stream>>>(in.data(), ns, span.data(), seen.data());
                  }};
  pipeline.prepare();
  const ps::Report report = pipeline.run();
  auto stream = gpu.stream();
  const Span all = span.read(stream)[0];
  const double seconds = static_cast<double>(all.last - all.first) / 1e9;
  const double computed = work.compute_s * static_cast<double>(report.stages.back().units);
  const ps::Verdict verdict = ps::judge(report);
  std::cerr << work.name << ": utilisation " << computed / seconds << '\n' << report << verdict;
  return ps::Json::object({{"workload", work.name},
                           {"batches", report.stages.back().units},
                           {"bytes_per_s", static_cast<double>(report.bytes) / report.seconds},
                           {"utilisation", computed / seconds},
                           {"waited_s", report.waited_s},
                           {"seconds", report.seconds},
                           {"stage", verdict.stage},
                           {"cause", ps::name_of(verdict.cause)}});
}

} // namespace

int main(int argc, char** argv) {
  try {
    std::uint64_t batches = 8;
    int rounds = 1;
    for (const std::string_view option :
         std::span{argv, static_cast<std::size_t>(argc)}.subspan(1)) {
      if (option.starts_with("--batches=")) {
        batches = std::stoull(std::string{option.substr(10)});
      } else if (option.starts_with("--rounds=")) {
        rounds = std::stoi(std::string{option.substr(9)});
      } else {
        throw std::runtime_error{"unknown option " + std::string{option} +
                                 "; there are --batches=N and --rounds=N"};
      }
    }
    if (batches == 0 || batches > 1'000'000 || rounds < 1) {
      throw std::runtime_error{"--batches=N is from 1 to 1000000, and --rounds=N at least 1"};
    }
    char* none[]{argv[0]};
    FileOptions file{1, none, "penstock-samples.bin", 21}; // 22 samples of unet3d
    prepare_file(file);
    std::vector<ps::Json> figures;
    for (int round = 0; round != rounds; ++round) {
      for (const Workload& work : workloads) {
        figures.push_back(measure(work, file, batches));
      }
    }
    std::cout << ps::Json::array(figures).text() << '\n';
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "samples_bench: " << e.what() << '\n';
    return 1;
  }
}
