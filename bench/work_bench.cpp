// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Does work that takes long, on records that weigh little, keep all workers busy?
//
// Eight workers sleep a while for each record, with every default but .workers; eight plain threads
// that draw numbers sleep as often, as long. A repetition does both, in this order and in the other
// by turns. rate_ratio is the threads' time over the run's, run_ms and threads_ms are the times.
//
// work/decoder: a Decoder of single records. work/untold: its source does not tell its size.
// work/batches: a Decoder of batches. work/outputs: a Decoder that may give any number of records.
// work/consumer: a host Consumer. work/ragged: records of a Ragged column. Each with 4000 records
// of 1 ms, 1,000,000 of 10 us and 64 of 30 ms. first_ms: from run() to the first call of the
// Consumer.
//
// work/crowd, work/outputs_crowd: likewise 100 workers, and as many threads, with 40,000 records of
// 1 ms.
//
// work/cheap/WORKERS: 64 M ints through a Decoder that copies whole batches, in GB/s.
//
// work/cheap_rows/WORKERS: as many ints in a column, through a Decoder that copies row by row, and
// through one that copies whole batches, by turns. rate_ratio is the batches' time over the rows'.
//
// It needs no GPU. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true; the medians count.

#include "support/contender.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/prctl.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr unsigned workers = 8; // and threads, unless a row says otherwise

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

using In = ps::Batch<const int, ps::Pageable>;
using Out = ps::Batch<int, ps::Pageable>;

auto zeros(std::uint64_t count) {
  return ps::generate<int>(
      count, [](std::span<int> into, std::uint64_t) { std::fill(into.begin(), into.end(), 0); });
}
/// As many zeros, from a source that does not tell how many.
struct Untold {
  using schema = int;
  std::uint64_t count;
  std::uint64_t size() const { return ps::unknown_size; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<int, Where> into) const {
    const std::size_t got =
        std::min<std::uint64_t>(into.size(), count - std::min(count, into.index()));
    std::fill_n(into.data(), got, 0);
    return got;
  }
};
struct Word : ps::Columns<ps::Field<"bytes", ps::Ragged<char>>> {};
/// Words of eight characters.
struct Words {
  using schema = Word;
  std::uint64_t count;
  std::uint64_t size() const { return count; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Word, Where> into) const {
    const auto bytes = ps::get<"bytes">(into);
    for (std::size_t i = 0; i < into.size(); ++i) {
      std::fill_n(bytes.put(i, 8), 8, 'a');
    }
    return into.size();
  }
};

/// Has the last stage note when it is called first, and count records.
struct Seen {
  template <class Batch> void operator()(Batch batch) {
    if (records == 0) {
      first_ms = ms_since(start);
    }
    records += batch.size();
  }
  Clock::time_point start;
  double first_ms{};
  std::uint64_t records{};
};

double threads_ms(unsigned count_of_threads, std::uint64_t count, microseconds each) {
  const auto start = Clock::now();
  std::atomic<std::uint64_t> next{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < count_of_threads; ++i) {
      threads.emplace_back([&] {
        while (next.fetch_add(1) < count) {
          std::this_thread::sleep_for(each);
        }
      });
    }
  }
  return ms_since(start);
}

/// Measures what `make(Seen&)` makes, a pipeline over `count` records that sleeps `each` for every
/// one.
template <class Make>
void add(const std::string& name, std::uint64_t count, microseconds each, Make make,
         unsigned threads_beside = workers) {
  add_benchmark("work/" + name, [=, other_way = false](benchmark::State& state) mutable {
    Seen seen;
    auto pipeline = make(seen);
    pipeline.prepare();
    const auto run = [&] {
      seen = {.start = Clock::now()};
      pipeline.run();
      const double took = ms_since(seen.start);
      if (seen.records != count) {
        throw std::runtime_error{std::to_string(seen.records) + " records were delivered"};
      }
      return took;
    };
    for (auto _ : state) {
      const bool threads_first = std::exchange(other_way, !other_way);
      const double before = threads_first ? threads_ms(threads_beside, count, each) : 0;
      const double took = run();
      const double threads = threads_first ? before : threads_ms(threads_beside, count, each);
      state.SetIterationTime(took / 1e3);
      state.counters["run_ms"] = took;
      state.counters["threads_ms"] = threads;
      state.counters["first_ms"] = seen.first_ms;
      state.counters["rate_ratio"] = threads / took;
    }
  });
}

// Callables that sleep for each record.
auto one_of_one(microseconds each) {
  return [=](const int& in, int& out) {
    std::this_thread::sleep_for(each);
    out = in;
  };
}
auto any_of_one(microseconds each) {
  return [=](const int& in, ps::Output<int>& out) {
    std::this_thread::sleep_for(each);
    out.push(in);
  };
}

void add_crowd() {
  constexpr std::uint64_t count = 40'000;
  constexpr unsigned crowd = 100;
  const microseconds each{1000};
  const auto with = [=](const std::string& name, auto callable) {
    add(
        name + "/40000x1ms", count, each,
        [=](Seen& seen) {
          return ps::Reader{zeros(count)} | ps::Decoder{callable, {.workers = crowd}} |
                 ps::Consumer{[&seen](In batch) { seen(batch); }};
        },
        crowd);
  };
  with("crowd", one_of_one(each));
  with("outputs_crowd", any_of_one(each));
}

void add_all(const std::string& sizes, std::uint64_t count, microseconds each) {
  const auto single = one_of_one(each);
  const auto whole = [=](In in, Out out) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      std::this_thread::sleep_for(each);
      out.data()[i] = in.data()[i];
    }
  };
  const ps::DecoderOptions eight{.workers = workers};
  add("decoder/" + sizes, count, each, [=](Seen& seen) {
    return ps::Reader{zeros(count)} | ps::Decoder{single, eight} |
           ps::Consumer{[&seen](In batch) { seen(batch); }};
  });
  add("untold/" + sizes, count, each, [=](Seen& seen) {
    return ps::Reader{Untold{count}} | ps::Decoder{single, eight} |
           ps::Consumer{[&seen](In batch) { seen(batch); }};
  });
  add("batches/" + sizes, count, each, [=](Seen& seen) {
    return ps::Reader{zeros(count)} | ps::Decoder{whole, eight} |
           ps::Consumer{[&seen](In batch) { seen(batch); }};
  });
  add("outputs/" + sizes, count, each, [=](Seen& seen) {
    return ps::Reader{zeros(count)} | ps::Decoder{any_of_one(each), eight} |
           ps::Consumer{[&seen](In batch) { seen(batch); }};
  });
  add("consumer/" + sizes, count, each, [=](Seen& seen) {
    const auto consume = [&seen, each, mutex = std::make_shared<std::mutex>()](In batch) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        std::this_thread::sleep_for(each);
      }
      const std::scoped_lock lock{*mutex};
      seen(batch);
    };
    return ps::Reader{zeros(count)} | ps::Consumer{consume, {.workers = workers}};
  });
  add("ragged/" + sizes, count, each, [=](Seen& seen) {
    const auto decode = [=](ps::Batch<const Word, ps::Pageable> in, Out out) {
      for (std::size_t i = 0; i < in.size(); ++i) {
        std::this_thread::sleep_for(each);
        out.data()[i] = static_cast<int>(ps::get<"bytes">(in)[i].size());
      }
    };
    return ps::Reader{Words{count}} | ps::Decoder{decode, eight} |
           ps::Consumer{[&seen](In batch) { seen(batch); }};
  });
}

struct Number : ps::Columns<ps::Field<"number", int>> {};
/// Ones in a column.
struct Ones {
  using schema = Number;
  std::uint64_t count;
  std::uint64_t size() const { return count; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Number, Where> into) const {
    std::fill_n(ps::get<"number">(into).data(), into.size(), 1);
    return into.size();
  }
};

void add_cheap_rows(unsigned with) {
  add_benchmark("work/cheap_rows/" + std::to_string(with), [=, other_way = false](
                                                               benchmark::State& state) mutable {
    constexpr std::uint64_t count = std::uint64_t{64} << 20;
    std::uint64_t sum = 0;
    const auto pipeline = [&](auto copy) {
      return ps::Reader{Ones{count}} | ps::Decoder{copy, {.workers = with}} |
             ps::Consumer{[&](ps::Batch<const Number, ps::Pageable> batch) {
               sum += static_cast<std::uint64_t>(ps::get<"number">(batch)[0]) + batch.size();
             }};
    };
    auto rows = pipeline([](ps::Row<const Number> in, ps::Row<Number> out) {
      ps::get<"number">(out) = ps::get<"number">(in);
    });
    auto batches =
        pipeline([](ps::Batch<const Number, ps::Pageable> in, ps::Batch<Number, ps::Pageable> out) {
          std::copy_n(ps::get<"number">(in).data(), in.size(), ps::get<"number">(out).data());
        });
    const auto run = [&](auto& of) {
      sum = 0;
      const auto start = Clock::now();
      of.run();
      const double took = ms_since(start);
      if (sum <= count) {
        throw std::runtime_error{"records were lost"};
      }
      return took;
    };
    run(rows);
    run(batches);
    for (auto _ : state) {
      const bool batches_first = std::exchange(other_way, !other_way);
      const double before = batches_first ? run(batches) : 0;
      const double took = run(rows);
      const double whole = batches_first ? before : run(batches);
      state.SetIterationTime(took / 1e3);
      state.counters["rows_ms"] = took;
      state.counters["batches_ms"] = whole;
      state.counters["rate_ratio"] = whole / took;
    }
  });
}

void add_cheap(unsigned with) {
  add_benchmark("work/cheap/" + std::to_string(with), [=](benchmark::State& state) {
    constexpr std::uint64_t count = std::uint64_t{64} << 20;
    std::uint64_t sum = 0;
    std::vector<int> ones(count, 1);
    auto pipeline =
        ps::Reader{ps::memory(ones)} |
        ps::Decoder{[](In in, Out out) { std::copy_n(in.data(), in.size(), out.data()); },
                    {.workers = with}} |
        ps::Consumer{
            [&](In batch) { sum += static_cast<std::uint64_t>(batch.data()[0]) + batch.size(); }};
    pipeline.run();
    for (auto _ : state) {
      sum = 0;
      const auto start = Clock::now();
      pipeline.run();
      const double took = ms_since(start);
      if (sum <= count) {
        throw std::runtime_error{"records were lost"};
      }
      state.SetIterationTime(took / 1e3);
      state.counters["gb_s"] = static_cast<double>(count * sizeof(int)) / took / 1e6;
    }
  });
}

} // namespace

int main(int argc, char** argv) {
  // Else each sleep is 50 us longer.
  prctl(PR_SET_TIMERSLACK, 1UL);
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    add_all("4000x1ms", 4000, microseconds{1000});
    add_all("1000000x10us", 1'000'000, microseconds{10});
    add_all("64x30ms", 64, microseconds{30'000});
    add_crowd();
    for (const unsigned with : {1, 2, 8}) {
      add_cheap(with);
      add_cheap_rows(with);
    }
    return run_all();
  });
}
