// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 20_several_gpus: several GPUs of one host, in one process. Each reads a share of a file's numbers
// and adds it up, by a thread and a pipeline for each GPU, or by one thread that takes a batch of
// each GPU's pipeline in turn. Or each adds up all numbers, which are read once for all GPUs.
//
//   20_several_gpus [--device auto|cuda|host] [--gpus N] [--one-thread | --all] [FILE]
//
// It takes all GPUs, or the first N; on the host device it pretends to have two, or N. FILE, or all
// files of a folder, has numbers of 4 bytes, and without it the program makes a million. It prints
// each GPU's sum and how many batches it had. It fails if a plain loop over the file comes to
// another sum.

#include "support/temporary_file.hpp"

#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>
#endif

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;

using Number = std::uint32_t;
using Numbers = ps::Batch<const Number, ps::Device>;

constexpr std::size_t lanes = 1024;

/// Adds every lanes-th number of a batch to one sum.
struct AddLane {
  const Number* numbers;
  std::size_t count;
  std::uint64_t* sums;
  PENSTOCK_HD void operator()(std::size_t lane) const {
    for (std::size_t i = lane; i < count; i += lanes) {
      sums[lane] += numbers[i];
    }
  }
};

/// A GPU, its share of the file if it has one, and what it has added up so far.
template <ps::AnyDevice D> class Adding {
 public:
  explicit Adding(D& gpu) : gpu_{gpu}, stream_{gpu.stream()}, sums_{gpu, lanes} {}
  Adding(D& gpu, const std::string& path, const ps::Ranks& share)
      : gpu_{gpu}, stream_{gpu.stream()}, sums_{gpu, lanes},
        data_{ps::Reader{ps::records<Number>(path),
                         ps::to_pinned,
                         {.order = {.ranks = share, .uneven = ps::Uneven::keep}}} |
                  ps::AsyncCopier{gpu},
              stream_} {}

  D& gpu() { return gpu_; }
  typename D::stream_type& stream() { return stream_; }
  ps::Batches<Numbers> batches() { return data_.batches(); }
  /// To be called by a thread to which the GPU is attached.
  void add(const Numbers& batch) {
    ps::for_each(stream_, lanes, AddLane{batch.data(), batch.size(), sums_.data()});
    ++batches_;
  }
  std::uint64_t sum() {
    const std::vector<std::uint64_t> sums = sums_.read(stream_);
    return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
  }
  std::size_t batches_added() const { return batches_; }

 private:
  D& gpu_;
  typename D::stream_type stream_;
  ps::DeviceArray<std::uint64_t, D> sums_;
  ps::AnyBatches<Numbers> data_;
  std::size_t batches_{};
};
template <ps::AnyDevice D> using AllGpus = std::vector<std::unique_ptr<Adding<D>>>;

/// A thread for each GPU drives its pipeline.
template <ps::AnyDevice D> void by_threads(AllGpus<D>& all) {
  std::vector<std::future<void>> threads;
  for (const auto& one : all) {
    threads.push_back(std::async(std::launch::async, [&one] {
      const auto attached = one->gpu().attach(); // this thread's kernels go to this GPU
      for (auto batch : one->batches()) {
        one->add(batch);
      }
    }));
  }
  for (std::future<void>& thread : threads) {
    thread.get(); // throws what the thread has thrown
  }
}

/// This thread takes a batch of each GPU's pipeline in turn.
template <ps::AnyDevice D> void in_turn(AllGpus<D>& all) {
  std::vector<ps::Batches<Numbers>> runs;
  for (const auto& one : all) {
    runs.push_back(one->batches());
  }
  for (bool any = true; any;) {
    any = false;
    for (std::size_t i = 0; i != runs.size(); ++i) {
      const auto attached = all[i]->gpu().attach(); // until the next GPU's turn
      if (const auto batch = runs[i].next()) {
        all[i]->add(batch);
        any = true;
      }
    }
  }
}

/// Each GPU gets all numbers. They are read once, and a thread for each GPU takes its batches.
template <ps::AnyDevice D> void all_to_each(AllGpus<D>& all, const std::string& path) {
  std::vector<D*> gpus;
  for (const auto& one : all) {
    gpus.push_back(&one->gpu());
  }
  ps::FanOut numbers{ps::Reader{ps::records<Number>(path), ps::to_pinned}, gpus};
  std::vector<std::future<void>> threads;
  for (std::size_t i = 0; i != all.size(); ++i) {
    threads.push_back(std::async(std::launch::async, [&, i] {
      const auto attached = gpus[i]->attach();
      for (auto batch : numbers.on(i, all[i]->stream())) {
        all[i]->add(batch);
      }
    }));
  }
  for (std::future<void>& thread : threads) {
    thread.get();
  }
}

struct Options {
  Options(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string arg = argv[i];
      if (arg == "--one-thread") {
        one_thread = true;
      } else if (arg == "--all") {
        all = true;
      } else if (arg == "--device" && i + 1 < argc) {
        device = argv[++i];
      } else if (arg == "--gpus" && i + 1 < argc) {
        gpus = number_of_gpus(argv[++i]);
      } else if (!arg.starts_with("-") && !arg.empty() && file.empty()) {
        file = arg;
      } else {
        throw std::invalid_argument{"what is \"" + arg +
                                    "\"? Usage: [--device auto|cuda|host] [--gpus N] "
                                    "[--one-thread | --all] [FILE]"};
      }
    }
    if (one_thread && all) {
      throw std::invalid_argument{"--one-thread is for shares of the file, so it does not go with "
                                  "--all"};
    }
  }

  std::string device = "auto";
  std::size_t gpus = 0; // 0: not given
  bool one_thread = false;
  bool all = false;
  std::string file;

 private:
  static std::size_t number_of_gpus(const std::string& text) {
    constexpr std::size_t most = 64;
    const char* const end = text.data() + text.size();
    std::size_t number = 0;
    if (std::from_chars(text.data(), end, number).ptr != end || number == 0 || number > most) {
      throw std::invalid_argument{"--gpus takes a number from 1 to " + std::to_string(most) +
                                  ", and \"" + text + "\" is none."};
    }
    return number;
  }
};

struct Sum {
  std::uint64_t sum; ///< Of what all GPUs have added up.
  std::uint64_t of;  ///< How often each number is in it.
};

/// Adds up the file on all GPUs that make(i) makes, and prints the sums.
template <class Make>
Sum add_up(const Options& options, const std::string& file, std::size_t count, Make make) {
  using D = typename decltype(make(0))::element_type;
  std::vector<std::unique_ptr<D>> gpus; // outlive the pipelines
  AllGpus<D> all;
  for (std::size_t i = 0; i != count; ++i) {
    gpus.push_back(make(static_cast<int>(i)));
    if (options.all) {
      all.push_back(std::make_unique<Adding<D>>(*gpus.back()));
      continue;
    }
    const ps::Ranks share{.rank = static_cast<std::uint32_t>(i),
                          .world = static_cast<std::uint32_t>(count)};
    all.push_back(std::make_unique<Adding<D>>(*gpus.back(), file, share));
  }
  if (options.all) {
    all_to_each(all, file);
  } else {
    options.one_thread ? in_turn(all) : by_threads(all);
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i != count; ++i) {
    const std::uint64_t of_this = all[i]->sum();
    std::cout << "GPU " << i << ": " << of_this << ", of " << all[i]->batches_added()
              << " batches\n";
    sum += of_this;
  }
  return {sum, options.all ? count : 1};
}

Sum add_on_all(const Options& options, const std::string& file) {
#if defined(__CUDACC__)
  const auto found = static_cast<std::size_t>(ps::CudaDevice::count());
  if (options.device == "cuda" || (options.device == "auto" && found != 0)) {
    return add_up(options, file, options.gpus == 0 ? std::max<std::size_t>(found, 1) : options.gpus,
                  [](int number) { return std::make_unique<ps::CudaDevice>(number); });
  }
#endif
  if (options.device != "host" && options.device != "auto") {
    throw std::invalid_argument{"there is no device \"" + options.device + '"'};
  }
  return add_up(options, file, options.gpus == 0 ? 2 : options.gpus,
                [](int) { return std::make_unique<ps::HostDevice>(); });
}

std::string some_numbers() {
  std::string bytes;
  Number state = 1;
  for (int i = 0; i < 1'000'000; ++i) {
    state = state * 1664525 + 1013904223;
    bytes.append(reinterpret_cast<const char*>(&state), sizeof state);
  }
  return bytes;
}

std::uint64_t plain_sum(const std::string& path) {
  auto file = ps::records<Number>(path); // a folder's files are one, as for the pipelines
  file.open();
  std::vector<Number> some(1 << 16);
  std::uint64_t sum = 0;
  for (std::uint64_t at = 0; at < file.size(); at += some.size()) {
    const std::size_t n = std::min<std::uint64_t>(some.size(), file.size() - at);
    file.read(ps::Batch<Number, ps::Pageable>{some.data(), n, at});
    sum = std::accumulate(some.data(), some.data() + n, sum);
  }
  return sum;
}

int main(int argc, char** argv) try {
  const Options options{argc, argv};
  std::optional<TemporaryFile> made;
  const std::string file =
      options.file.empty() ? made.emplace(some_numbers()).path() : options.file;
  const Sum found = add_on_all(options, file);
  const std::uint64_t plain = plain_sum(file) * found.of;
  if (found.sum != plain) {
    throw std::runtime_error{"the sum is " + std::to_string(found.sum) + ", and a plain loop's " +
                             std::to_string(plain)};
  }
  std::cout << found.sum << " in all\n";
} catch (const std::exception& error) {
  std::cerr << "20_several_gpus: " << error.what() << '\n';
  return 1;
}

// prints with --device host:
//   GPU 0: …, of … batches
//   GPU 1: …, of … batches
//   2148684361680416 in all
