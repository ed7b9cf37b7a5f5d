// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does a Decoder cost that gives another number of records than it takes?
//
// outputs/JOB/WAY/THREADS, the job done by THREADS threads. Each group is first copied from memory,
// as it would be read from a file: by hand by the thread that is to work on it, in a pipeline by
// the Reader's threads, which are four more.
//   expand  2 million records of 16 bytes, each to 8 of 64 bytes, which a generator fills
//   pack    4 million documents of 4 to 60 tokens, 2048 at a time, into windows of 1024 tokens,
//           each document with a checksum, and the last window filled up with 0
// By hand, threads take groups of records by a counter, and write what they make where it belongs:
// of an expanded record that is known; of a pack each in turn adds up its windows. There is no
// ring: all outputs lie in one array, written in the run before. The ways of penstock end in a
// Consumer that does nothing.
//   hand     that loop
//   stated   a Decoder of groups that states its count
//   pushed   the same, and states nothing
//   single   a Decoder of single records (expand alone)
// Checked against one thread. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true. It needs no GPU.

#include "support/contender.hpp"
#include "support/threads.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

template <class T> using Host = ps::Batch<T, ps::Pageable>;

std::uint64_t next(std::uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

/// Each record expands to `times` blocks.
struct Expand {
  struct In {
    std::uint64_t seed;
    std::uint64_t number;
  };
  struct Out {
    std::uint64_t words[8];
  };
  static constexpr std::size_t records = std::size_t{2} << 20;
  static constexpr std::size_t group = 512;
  static constexpr std::size_t times = 8;
  static constexpr const char* name = "expand";

  static In record(std::uint64_t number) { return {number * 0x9e37'79b9'7f4a'7c15 | 1, number}; }
  static std::size_t count(std::span<const In> in) { return in.size() * times; }
  /// Calls add() for each output, and fills what it returns.
  template <class Add> static void make(std::span<const In> in, Add add) {
    for (const In& one : in) {
      std::uint64_t state = one.seed;
      for (std::size_t i = 0; i != times; ++i) {
        Out& out = add();
        for (std::uint64_t& word : out.words) {
          word = next(state) + one.number;
        }
      }
    }
  }
};

/// A group of documents is packed into windows.
struct Pack {
  struct In {
    std::uint32_t length;
    std::uint16_t tokens[62];
  };
  struct Out {
    std::uint16_t tokens[1024];
  };
  static constexpr std::size_t records = std::size_t{1} << 22;
  static constexpr std::size_t group = 2048;
  static constexpr const char* name = "pack";

  static In record(std::uint64_t number) {
    std::uint64_t state = number * 0x9e37'79b9'7f4a'7c15 | 1;
    In made{static_cast<std::uint32_t>(4 + next(state) % 57), {}};
    for (std::uint32_t i = 0; i != made.length; ++i) {
      made.tokens[i] = static_cast<std::uint16_t>(state >> i % 48);
    }
    return made;
  }
  static std::size_t count(std::span<const In> in) {
    std::size_t tokens = 0;
    for (const In& one : in) {
      tokens += one.length + 1;
    }
    return (tokens + 1023) / 1024;
  }
  template <class Add> static void make(std::span<const In> in, Add add) {
    Out* out = nullptr;
    std::size_t at = 1024;
    const auto put = [&](std::uint16_t token) {
      if (at == 1024) {
        out = &add();
        at = 0;
      }
      out->tokens[at++] = token;
    };
    for (const In& one : in) {
      std::uint16_t sum = 0;
      for (std::uint32_t i = 0; i != one.length; ++i) {
        sum = static_cast<std::uint16_t>(sum * 31 + one.tokens[i]);
        put(one.tokens[i]);
      }
      put(sum);
    }
    std::fill(out->tokens + at, out->tokens + 1024, std::uint16_t{0});
  }
};

template <class Job> const std::vector<typename Job::In>& input() {
  static const std::vector<typename Job::In> all = [] {
    std::vector<typename Job::In> made(Job::records);
    for (std::size_t i = 0; i != made.size(); ++i) {
      made[i] = Job::record(i);
    }
    return made;
  }();
  return all;
}
template <class Job> std::span<const typename Job::In> group_of(std::size_t group) {
  return std::span{input<Job>()}.subspan(group * Job::group, Job::group);
}
template <class Job> std::uint64_t sum_of(const typename Job::Out& out) {
  std::array<std::uint64_t, sizeof out / 8> words;
  std::memcpy(words.data(), &out, sizeof out);
  std::uint64_t sum = 0;
  for (const std::uint64_t word : words) {
    sum = sum * 31 + word;
  }
  return sum;
}
/// A sum that depends on the order.
template <class Job>
std::uint64_t sum_of(std::uint64_t sum, std::span<const typename Job::Out> outputs) {
  for (const typename Job::Out& out : outputs) {
    sum = sum * 0x9e37'79b9'7f4a'7c15 + sum_of<Job>(out);
  }
  return sum;
}

template <class Job> std::size_t outputs() {
  static const std::size_t count = [] {
    std::size_t sum = 0;
    for (std::size_t group = 0; group != Job::records / Job::group; ++group) {
      sum += Job::count(group_of<Job>(group));
    }
    return sum;
  }();
  return count;
}
template <class Job> std::uint64_t expected() {
  static const std::uint64_t sum = [] {
    std::vector<typename Job::Out> some;
    std::uint64_t all = 0;
    for (std::size_t group = 0; group != Job::records / Job::group; ++group) {
      some.resize(Job::count(group_of<Job>(group)));
      Job::make(group_of<Job>(group), [at = some.data()]() mutable -> auto& { return *at++; });
      all = sum_of<Job>(all, some);
    }
    return all;
  }();
  return sum;
}

template <class Job> class ByHand : public Contender {
 public:
  ByHand(unsigned threads, bool checked)
      : threads_{threads}, checked_{checked}, all_(outputs<Job>()) {}

  std::uint64_t run() override {
    next_ = turn_ = written_ = 0;
    std::vector<std::thread> others;
    for (unsigned i = 1; i != threads_; ++i) {
      others.emplace_back([this] { work(); });
    }
    work();
    for (std::thread& other : others) {
      other.join();
    }
    return checked_ ? sum_of<Job>(0, all_) : 0;
  }

 private:
  void work() {
    std::vector<typename Job::In> in(Job::group);
    for (;;) {
      const std::size_t group = next_.fetch_add(1, std::memory_order_relaxed);
      if (group >= Job::records / Job::group) {
        return;
      }
      std::memcpy(in.data(), group_of<Job>(group).data(), Job::group * sizeof in[0]);
      const std::size_t count = Job::count(in);
      std::size_t first = group * count;
      if constexpr (std::is_same_v<Job, Pack>) {
        while (turn_.load(std::memory_order_acquire) != group) {
          __builtin_ia32_pause();
        }
        first = std::exchange(written_, written_ + count);
        turn_.store(group + 1, std::memory_order_release);
      }
      Job::make(in, [at = all_.data() + first]() mutable -> auto& { return *at++; });
    }
  }

  const unsigned threads_;
  const bool checked_;
  std::vector<typename Job::Out> all_;
  alignas(64) std::atomic<std::size_t> next_{0};
  alignas(64) std::atomic<std::size_t> turn_{0};
  std::size_t written_{};
};

enum class Way { stated, pushed, single };

template <class Job, Way way> class Penstock : public Contender {
  using In = typename Job::In;
  using Out = typename Job::Out;

 public:
  Penstock(unsigned threads, bool checked)
      : pipeline_{chain(threads, checked ? &sum_ : nullptr)}, checked_{checked} {}

  std::uint64_t run() override {
    sum_ = 0;
    pipeline_.run();
    return checked_ ? sum_ : 0;
  }

 private:
  static auto decoder(unsigned workers) {
    if constexpr (way == Way::single) {
      return ps::Decoder{[](const In& in, ps::Output<Out>& out) {
                           Job::make({&in, 1}, [&]() -> auto& { return out.add(); });
                         },
                         {.workers = workers}};
    } else {
      return ps::Decoder{[](Host<const In> in, ps::Output<Out>& out) {
                           const std::span<const In> all{in.data(), in.size()};
                           if (way == Way::stated) {
                             out.open(Job::count(all));
                           }
                           Job::make(all, [&]() -> auto& { return out.add(); });
                         },
                         {.workers = workers, .group = Job::group}};
    }
  }
  static auto chain(unsigned threads, std::uint64_t* sum) {
    return ps::Reader{ps::memory(input<Job>()), {.workers = 4}} | decoder(threads) |
           ps::Consumer{[sum](Host<const Out> batch) {
                          if (sum) {
                            *sum = sum_of<Job>(*sum, {batch.data(), batch.size()});
                          }
                        },
                        {.workers = 1}};
  }

  std::uint64_t sum_{};
  decltype(chain(2, nullptr)) pipeline_;
  const bool checked_;
};

template <class Job, class C> void add_way(const std::string& way, unsigned threads) {
  add(
      "outputs/" + std::string{Job::name} + "/" + way + "/" + std::to_string(threads),
      outputs<Job>() * sizeof(typename Job::Out), [] { return expected<Job>(); },
      [threads](bool checked) { return std::make_unique<C>(threads, checked); });
}
template <class Job> void add_job(unsigned threads) {
  add_way<Job, ByHand<Job>>("hand", threads);
  add_way<Job, Penstock<Job, Way::stated>>("stated", threads);
  add_way<Job, Penstock<Job, Way::pushed>>("pushed", threads);
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    for (const unsigned threads : {2, 4, 8}) {
      add_job<Expand>(threads);
      add_way<Expand, Penstock<Expand, Way::single>>("single", threads);
      add_job<Pack>(threads);
    }
    return run_all();
  });
}
