// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Several processes, started by examples/run_ranks, each with a pipeline and a GPU of its own.

#include "support/several/devices.hpp"
#include "support/several/pipelines.hpp"
#include "support/several/row.hpp"

#include <penstock/penstock.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock_bench {

/// What ranks tell the process that has started them, in a file that all map.
struct RankTimes {
  static constexpr std::size_t most = 64;
  struct One {
    std::int64_t begin_ns; // by the steady clock, which is one for all processes
    std::int64_t end_ns;
    double cpu_s;
    std::uint64_t sum;
    std::uint32_t workers;
  };
  std::atomic<std::uint32_t> ready;
  One ranks[most];
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// The file, mapped.
class SharedTimes {
 public:
  /// Makes it if it is not there.
  explicit SharedTimes(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0 || ::ftruncate(descriptor, sizeof(RankTimes)) != 0) {
      throw std::system_error{errno, std::generic_category(), path};
    }
    void* const at =
        ::mmap(nullptr, sizeof(RankTimes), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    if (at == MAP_FAILED) {
      throw std::system_error{errno, std::generic_category(), "mmap " + path};
    }
    times_ = static_cast<RankTimes*>(at); // a new file is zeros, which is what it begins with
  }
  SharedTimes(const SharedTimes&) = delete;
  SharedTimes& operator=(const SharedTimes&) = delete;
  ~SharedTimes() { ::munmap(times_, sizeof(RankTimes)); }
  RankTimes* operator->() const { return times_; }

 private:
  RankTimes* times_;
};

/// What a rank is told on its command line: which file it reads, and where it writes its times.
struct RankTask {
  std::string times;
  std::string file;
  How how;
  bool checked{};

  std::vector<std::string> arguments() const {
    return {"--as-rank=" + times, "--file=" + file, "--workers=" + std::to_string(how.workers),
            "--rounds=" + std::to_string(how.rounds), checked ? "--checked=1" : "--checked=0"};
  }
};

/// Does what a rank has to do; returns the program's exit code.
inline int run_as_rank(const RankTask& task) {
  using Clock = std::chrono::steady_clock;
  const penstock::Ranks me = penstock::ranks();
  const auto device = Devices::make(me.local_rank);
  const SharedTimes times{task.times};
  Feeding feeding{*device, penstock::records<Block>(task.file), task.how, me, task.checked};
  if (!task.checked) {
    feeding.run();
  }
  const auto now = [] { return std::chrono::nanoseconds{Clock::now().time_since_epoch()}.count(); };
  times->ready.fetch_add(1, std::memory_order_acq_rel);
  // A rank that is gone never comes: run_ranks then ends this one.
  while (times->ready.load(std::memory_order_acquire) < me.world) {
    std::this_thread::sleep_for(std::chrono::microseconds{20});
  }
  RankTimes::One& mine = times->ranks[me.rank];
  const double before = cpu_seconds();
  mine.begin_ns = now();
  feeding.run();
  mine.end_ns = now();
  mine.cpu_s = cpu_seconds() - before;
  mine.sum = feeding.sum();
  mine.workers = Workers{feeding.report()}.readers;
  return 0;
}

/// Starts the processes anew for each run; the run's time is from the first rank's beginning to the
/// last one's end, when all are prepared and have run once.
class RankProcesses : public Row {
 public:
  /// `run_ranks` is that program's path.
  RankProcesses(std::string run_ranks, std::size_t ranks, RankTask task)
      : run_ranks_{std::move(run_ranks)}, ranks_{ranks}, task_{std::move(task)} {}

  std::uint64_t run() override {
    task_.times =
        (std::filesystem::temp_directory_path() / ("penstock-ranks-" + std::to_string(::getpid())))
            .string();
    const SharedTimes times{task_.times};
    struct Removed {
      ~Removed() { ::unlink(path.c_str()); }
      const std::string& path;
    } const removed{task_.times};
    start();
    std::int64_t begin = times->ranks[0].begin_ns;
    std::int64_t end = times->ranks[0].end_ns;
    std::uint64_t sum = 0;
    cpu_ = 0;
    for (std::size_t i = 0; i != ranks_; ++i) {
      const RankTimes::One& one = times->ranks[i];
      begin = std::min(begin, one.begin_ns);
      end = std::max(end, one.end_ns);
      cpu_ += one.cpu_s;
      sum += one.sum;
    }
    workers_ = times->ranks[0].workers;
    seconds_ = static_cast<double>(end - begin) / 1e9;
    return sum;
  }
  double cpu(double /*here*/) const override { return cpu_; }
  double seconds(double /*here*/) const override { return seconds_; }
  void count(benchmark::State& state) const override { state.counters["workers"] = workers_; }

 private:
  void start() const {
    std::vector<std::string> words{run_ranks_, std::to_string(ranks_),
                                   std::filesystem::read_symlink("/proc/self/exe").string()};
    for (std::string& word : task_.arguments()) {
      words.push_back(std::move(word));
    }
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    pid_t child = 0;
    const int failed =
        ::posix_spawn(&child, run_ranks_.c_str(), nullptr, nullptr, arguments.data(), environ);
    if (failed != 0) {
      throw std::system_error{failed, std::generic_category(), run_ranks_};
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) {
      throw std::runtime_error{"a rank has failed: " + run_ranks_ + " ended with status " +
                               std::to_string(status)};
    }
  }

  std::string run_ranks_;
  std::size_t ranks_;
  RankTask task_;
  double cpu_{};
  double seconds_{};
  unsigned workers_{};
};

} // namespace penstock_bench
