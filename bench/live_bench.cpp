// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How old are records that come when they come, once the last stage has them?
//
// A thread writes records into a socket, each with the time at which it was written; a pipeline
// with .flush takes them out of the other end, and its Consumer looks at the clock.
//
// live/CHAIN/FLUSH/RATE, RATE in records a second:
//   host   Reader | Consumer
//   back   Reader | AsyncCopier | AsyncCopier{to_host} | Consumer: to the device and back
// and with /TIME a chain whose last stage, or a Kernel, takes so long for a batch, whatever its
// size: a short batch that waits behind another makes all after it older.
//
// p50_us, p99_us and max_us are ages, batches is the number of batches, and lost what did not come.
// nvcc makes a program for a GPU of it, g++ one with a HostDevice. Each writes for two seconds. To
// be run with --benchmark_repetitions=5; the medians count.

#include "support/contender.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/fifo.hpp>
#include <penstock/with_device.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds time_of_a_run{2};

struct Stamped {
  std::int64_t written; // nanoseconds, by Clock
  std::int64_t number;
};
std::int64_t now() {
  return Clock::now().time_since_epoch() / 1ns;
}

/// Two ends of a socket, and a thread that writes into one of them.
class Line {
 public:
  Line() {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) != 0) {
      throw std::system_error{errno, std::generic_category(), "socketpair"};
    }
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() {
    if (writer_.joinable()) {
      writer_.join();
    }
    ::close(ends_[0]);
  }

  int end() const { return ends_[0]; }
  /// Runs a pipeline that takes records out of end(), once it is prepared.
  template <class Pipeline> void feed(Pipeline pipeline, std::uint64_t rate) {
    pipeline.prepare();
    writer_ = std::thread{[this, rate] { write(rate); }};
    pipeline.run();
  }

 private:
  // Writes at once what has become due while it slept.
  void write(std::uint64_t rate) {
    prctl(PR_SET_TIMERSLACK, 1UL);
    const auto start = Clock::now();
    const std::uint64_t records = rate * time_of_a_run.count();
    for (std::uint64_t i = 0; i != records; ++i) {
      std::this_thread::sleep_until(start + i * 1'000'000'000ns / rate);
      const Stamped record{now(), static_cast<std::int64_t>(i)};
      if (::write(ends_[1], &record, sizeof record) != sizeof record) {
        break;
      }
    }
    ::close(ends_[1]);
  }

  int ends_[2]{};
  std::thread writer_;
};

/// The ages of all records, in nanoseconds.
class Ages {
 public:
  explicit Ages(std::uint64_t most) { ages_.reserve(most); }

  void note(std::int64_t written) { ages_.push_back(now() - written); }
  void end_batch() { ++batches_; }
  void report(benchmark::State& state, std::uint64_t records) {
    std::ranges::sort(ages_);
    const auto us = [&](double share) {
      return static_cast<double>(ages_.at(
                 static_cast<std::size_t>(share * static_cast<double>(ages_.size() - 1)))) /
             1e3;
    };
    state.counters["p50_us"] = us(0.5);
    state.counters["p99_us"] = us(0.99);
    state.counters["max_us"] = us(1);
    state.counters["batches"] = static_cast<double>(batches_);
    state.counters["lost"] = static_cast<double>(records - ages_.size());
  }

 private:
  std::vector<std::int64_t> ages_;
  std::uint64_t batches_{};
};

template <class Batch> void see(const Batch& batch, Ages& ages) {
  for (std::size_t i = 0; i != batch.size(); ++i) {
    ages.note(batch.data()[i].written);
  }
  ages.end_batch();
}

/// Takes its time.
struct Work {
  std::int64_t ns;

  PENSTOCK_HD void operator()(std::size_t /*i*/) const {
#ifdef __CUDA_ARCH__
    std::uint64_t start = 0;
    std::uint64_t now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < static_cast<std::uint64_t>(ns));
#else
    std::this_thread::sleep_for(std::chrono::nanoseconds{ns});
#endif
  }
};

template <class Chain>
void add(const std::string& name, std::chrono::microseconds flush, std::uint64_t rate,
         const Chain& chain) {
  const std::string wait = std::to_string(flush / 1us) + "us/";
  add_benchmark("live/" + name + '/' + wait + std::to_string(rate), [=](benchmark::State& state) {
    const std::uint64_t records = rate * time_of_a_run.count();
    for (auto _ : state) {
      Ages ages{records};
      Line line;
      const auto start = Clock::now();
      line.feed(chain(line.end(), ages), rate);
      state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
      ages.report(state, records);
    }
  });
}
template <class D> void add_all(D& device, std::chrono::microseconds flush, std::uint64_t rate) {
  add("host", flush, rate, [flush](int fd, Ages& ages) {
    return ps::Reader{ps::fifo<Stamped>(fd), {.flush = flush}} |
           ps::Consumer{[&](ps::Batch<const Stamped, ps::Pageable> batch) { see(batch, ages); }};
  });
  add("back", flush, rate, [&device, flush](int fd, Ages& ages) {
    return ps::Reader{ps::fifo<Stamped>(fd), ps::to_pinned, {.flush = flush}} |
           ps::AsyncCopier{device} | ps::AsyncCopier{ps::to_host} |
           ps::Consumer{[&](ps::Batch<const Stamped, ps::Pinned> batch) { see(batch, ages); }};
  });
}

template <class D> void add_at_work(D& device, std::chrono::microseconds flush, std::uint64_t rate,
                                    std::chrono::microseconds time) {
  const Work work{time / 1ns};
  const std::string with = '/' + std::to_string(time / 1us) + "us";
  add("host" + with, flush, rate, [flush, work](int fd, Ages& ages) {
    return ps::Reader{ps::fifo<Stamped>(fd), {.flush = flush}} |
           ps::Consumer{[&ages, work](ps::Batch<const Stamped, ps::Pageable> batch) {
             work(0);
             see(batch, ages);
           }};
  });
  add("back" + with, flush, rate, [&device, flush, work](int fd, Ages& ages) {
    return ps::Reader{ps::fifo<Stamped>(fd), ps::to_pinned, {.flush = flush}} |
           ps::AsyncCopier{device} |
           ps::Kernel{[work](ps::Batch<Stamped, ps::Device>, ps::Stream<D> stream) {
             ps::for_each(stream, 1, work);
           }} |
           ps::AsyncCopier{ps::to_host} |
           ps::Consumer{[&](ps::Batch<const Stamped, ps::Pinned> batch) { see(batch, ages); }};
  });
}

} // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_TIMERSLACK, 1UL); // for those who sleep instead of working
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    return ps::with_device("auto", [](auto& device) {
      for (const auto time : {100us, 3000us}) {
        for (const auto flush : {0us, 100us, 300us, 1000us, 3000us, 10'000us}) {
          for (const std::uint64_t rate : {1000U, 10'000U, 100'000U}) {
            add_at_work(device, flush, rate, time);
          }
        }
      }
      for (const std::chrono::microseconds flush : {0ms, 5ms}) {
        for (const std::uint64_t rate : {10U, 1000U, 100'000U}) {
          add_all(device, flush, rate);
        }
      }
      return run_all();
    });
  });
}
