// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Draws pipelines with tee(), runs each to its end, into an error or a stop in any branch, and on
// from its position, and compares all that each branch gets with what one thread would get.
// `random_trees SEEDS [FIRST]` takes so many seeds, `random_trees 600s [FIRST]` as many as it can
// in so many seconds. `random_trees 1 SEED` repeats one, if it takes no order of threads that is
// rare.

#include "support/outcome.hpp"
#include "support/temp_dir.hpp"
#include "support/test_devices.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>
#include <penstock/pipeline/tee.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace penstock::tests;

namespace {

using Clock = std::chrono::steady_clock;
using Number = std::uint64_t;
constexpr Number never = ~Number{0};

enum class Fault { none, thrown, stopped };

// One branch's end: what it has got, and what it is to do.
struct End {
  std::string name;
  Number factor = 1;
  std::vector<Number> got{};
  Fault fault = Fault::none;
  Number at = never; // of the numbers that it gets
  Number naps = 0;   // one batch in so many is late; 0: none
  std::stop_source* stop{};

  // Returns whether the run is to end.
  bool take(const Number* from, std::size_t count) {
    if (naps != 0 && (got.size() / std::max<std::size_t>(count, 1)) % naps == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
    const bool now = fault != Fault::none && at - got.size() < count;
    if (now && fault == Fault::thrown) {
      throw std::runtime_error{"told to"};
    }
    got.insert(got.end(), from, from + count);
    return now;
  }
};

// What a pipeline is made with.
struct Drawn {
  std::vector<Number> source;
  ps::ReaderOptions reader;
  ps::CopierOptions copier;
  ps::CopierOptions other;
  std::chrono::microseconds kernel{};
  unsigned workers = 1;
  std::string path;
};

template <class Where> auto keep(End& end) {
  return ps::Consumer{[&end](ps::Batch<const Number, Where> batch) {
    if (end.take(batch.data(), batch.size())) {
      end.stop->request_stop();
    }
  }};
}
auto keep_on_device(End& end) {
  return ps::Consumer{[&end, given = Number{0}](ps::Batch<const Number, ps::Device> batch,
                                                ps::HostStream& stream) mutable {
    // Enqueued work throws nothing: the callable does.
    if (batch.index() == 0) {
      given = 0;
    }
    if (end.fault == Fault::thrown && end.at - given < batch.size()) {
      throw std::runtime_error{"told to"};
    }
    given += batch.size();
    stream.enqueue([&end, batch] {
      if (end.take(batch.data(), batch.size())) {
        end.stop->request_stop();
      }
    });
  }};
}
auto triple(std::chrono::microseconds pause) {
  return ps::Kernel{[pause](ps::Batch<const Number, ps::Device> in,
                            ps::Batch<Number, ps::Device> out, ps::HostStream& stream) {
    stream.enqueue([in, out, pause] {
      std::this_thread::sleep_for(pause);
      std::transform(in.data(), in.data() + in.size(), out.data(), [](Number n) { return 3 * n; });
    });
  }};
}
auto twice(unsigned workers) {
  return ps::Decoder{[](const Number& in, Number& out) { out = 2 * in; }, {.workers = workers}};
}

// One pipeline of each shape, with its ends; the Writer's file has `written` times each number.
struct OnHost {
  static constexpr Number written = 1;
  static auto ends() { return std::array{End{"1/Consumer"}, End{"2/Consumer", 2}}; }
  static auto make(const Drawn& d, std::deque<End>& e) {
    return ps::Reader{ps::memory(d.source), d.reader} |
           ps::tee(keep<ps::Pageable>(e[0]), twice(d.workers) | keep<ps::Pageable>(e[1]),
                   ps::Writer{d.path});
  }
};
struct Nested {
  static constexpr Number written = 2;
  static auto ends() {
    return std::array{End{"1/Consumer", 2}, End{"2.1/Consumer", 2}, End{"2.2/loop", 2}};
  }
  static auto make(const Drawn& d, std::deque<End>& e) {
    return ps::Reader{ps::memory(d.source), d.reader} | twice(d.workers) |
           ps::tee(keep<ps::Pageable>(e[0]), ps::tee(keep<ps::Pageable>(e[1]), ps::to_loop),
                   ps::Writer{d.path, {.workers = d.workers}});
  }
};
struct OnDevice {
  static constexpr Number written = 3;
  static auto ends() { return std::array{End{"1/Consumer"}, End{"3/Consumer", 3}, End{"4/loop"}}; }
  template <class D> static auto make(const Drawn& d, std::deque<End>& e, D& device) {
    return ps::Reader{ps::memory(d.source), ps::to_pinned, d.reader} |
           ps::AsyncCopier{device, d.copier} |
           ps::tee(keep_on_device(e[0]),
                   triple(d.kernel) | ps::AsyncCopier{ps::to_host} | ps::Writer{d.path},
                   triple({}) | ps::AsyncCopier{ps::to_host} | keep<ps::Pinned>(e[1]), ps::to_loop);
  }
};
struct Deep {
  static constexpr Number written = 9;
  static auto ends() {
    return std::array{End{"1.1/Consumer"}, End{"1.2.1/Consumer", 3}, End{"2/Consumer"},
                      End{"3/Consumer", 3}};
  }
  template <class D> static auto make(const Drawn& d, std::deque<End>& e, D& device) {
    return ps::Reader{ps::memory(d.source), ps::to_pinned, d.reader} |
           ps::tee(ps::AsyncCopier{device, d.copier} |
                       ps::tee(keep_on_device(e[0]),
                               triple(d.kernel) |
                                   ps::tee(keep_on_device(e[1]), triple({}) |
                                                                     ps::AsyncCopier{ps::to_host} |
                                                                     ps::Writer{d.path})),
                   keep<ps::Pinned>(e[2]),
                   ps::AsyncCopier{device, d.other} | triple({}) | keep_on_device(e[3]));
  }
};

void require(bool good, const std::string& what) {
  if (!good) {
    throw std::runtime_error{what};
  }
}

struct Tally {
  std::uint64_t whole{}, thrown{}, stopped{}, resumed{}, records{};
};

// Draws for one seed.
class Trial {
 public:
  Trial(std::uint64_t seed, Tally& tally)
      : random_{seed}, tally_{tally}, device_{ps::HostOptions{.late_seed = draw(3) * seed}} {
    d_.source.resize(static_cast<std::size_t>(one_in(12) ? draw(3) : draw(6000)));
    std::iota(d_.source.begin(), d_.source.end(), Number{1});
    d_.reader.workers = static_cast<unsigned>(1 + draw(3));
    d_.reader.depth = static_cast<std::size_t>(2 + draw(6));
    d_.reader.epochs = 1 + draw(3);
    d_.reader.batch = static_cast<std::size_t>(1 + draw(300));
    d_.copier = {.batch = static_cast<std::size_t>(1 + draw(400)),
                 .depth = static_cast<std::size_t>(2 + draw(3))};
    d_.other = {.batch = static_cast<std::size_t>(1 + draw(400))};
    d_.kernel = std::chrono::microseconds{draw(3) * 30};
    d_.workers = static_cast<unsigned>(1 + draw(3));
    d_.path = dir_ / "out";
  }

  void run() {
    switch (draw(4)) {
    case 0:
      return on_host<OnHost>();
    case 1:
      return on_host<Nested>();
    case 2:
      return on_device<OnDevice>();
    default:
      return on_device<Deep>();
    }
  }

 private:
  Number draw(Number below) { return random_() % below; }
  bool one_in(Number times) { return draw(times) == 0; }
  Number all() const { return d_.source.size() * d_.reader.epochs; }

  template <class Shape> void on_host() {
    set<Shape>();
    auto pipeline = Shape::make(d_, ends_);
    trial<Shape>(pipeline);
  }
  template <class Shape> void on_device() {
    set<Shape>();
    auto pipeline = Shape::make(d_, ends_, device_);
    trial<Shape>(pipeline);
  }
  template <class Shape> void set() {
    for (End& end : Shape::ends()) {
      ends_.push_back(std::move(end));
      ends_.back().naps = one_in(3) ? 1 + draw(5) : 0;
    }
  }

  template <class Shape, class P> void trial(P& pipeline) {
    if (one_in(4)) {
      whole<Shape>(pipeline, {}, 0);
    }
    End& end = ends_[static_cast<std::size_t>(draw(ends_.size()))];
    const Fault fault = one_in(2) ? Fault::thrown : Fault::stopped;
    end.fault = fault;
    end.at = draw(all() + all() / 8 + 1);
    const Outcome outcome = drive(pipeline, {});
    const bool happens = end.at < all();
    end.fault = Fault::none;
    check(0);
    const ps::Report report = pipeline.report();
    if (happens && fault == Fault::thrown) {
      ++tally_.thrown;
      if (end.name.ends_with("loop")) {
        require(outcome.came == Came::other, "a loop's own error is not its own");
      } else {
        require(outcome.came == Came::stage_error && outcome.stage == end.name,
                "the error names " + outcome.stage + " and not " + end.name);
      }
      require(!std::ifstream{d_.path} || written_, "a run that failed has left a file");
    } else {
      require(outcome.came == Came::nothing, outcome.text);
      ++tally_.stopped;
    }
    Number from = report.position.epoch() * d_.source.size() + report.position.step();
    for (const End& e : ends_) {
      // What is enqueued on a device may be thrown away with an error, and is not used up then.
      require(from <= e.got.size(), "the position is behind what " + e.name + " has got");
    }
    if (happens || from == all()) {
      whole<Shape>(pipeline, report.position, from);
      ++tally_.resumed;
    }
    whole<Shape>(pipeline, {}, 0);
  }

  // Runs it to its end, from where it has given `from` numbers.
  template <class Shape, class P>
  void whole(P& pipeline, const ps::Position& position, Number from) {
    const Outcome outcome = drive(pipeline, {.from = position});
    require(outcome.came == Came::nothing, outcome.text);
    check(from);
    for (const End& end : ends_) {
      require(end.got.size() == all() - from, end.name + " has got " +
                                                  std::to_string(end.got.size()) + " of " +
                                                  std::to_string(all() - from));
    }
    std::ifstream in{d_.path, std::ios::binary};
    const std::vector<char> bytes{std::istreambuf_iterator<char>{in}, {}};
    require(bytes.size() == (all() - from) * sizeof(Number), "the file has another length");
    for (Number i = 0; i != all() - from; ++i) {
      Number value = 0;
      std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      require(value == Shape::written * number(from + i), "the file has another number");
    }
    written_ = true;
    const ps::Report report = pipeline.report();
    require(!report.stopped && report.dropped == 0, "a whole run was stopped, or dropped some");
    ++tally_.whole;
  }
  template <class P> Outcome drive(P& pipeline, ps::RunOptions options) {
    std::stop_source stop;
    options.stop = stop.get_token();
    for (End& end : ends_) {
      end.got.clear();
      end.stop = &stop;
    }
    return outcome_of([&] {
      if constexpr (std::is_void_v<typename ps::detail::chain<P>::gives>) {
        pipeline.run(options);
      } else if constexpr (ps::detail::batch_of<typename ps::detail::chain<P>::gives>::device) {
        auto stream = device_.stream();
        for (auto batch : pipeline.on(stream, options)) {
          stream.sync();
          if (ends_.back().take(batch.data(), batch.size())) {
            break;
          }
        }
      } else {
        for (auto batch : pipeline.batches(options)) {
          if (ends_.back().take(batch.data(), batch.size())) {
            break;
          }
        }
      }
    });
  }
  Number number(Number at) const { return d_.source[at % d_.source.size()]; }
  void check(Number from) {
    for (const End& end : ends_) {
      require(end.got.size() <= all() - from, end.name + " has got too much");
      for (Number i = 0; i != end.got.size(); ++i) {
        require(end.got[i] == end.factor * number(from + i),
                end.name + " has got another number at " + std::to_string(i));
      }
      tally_.records += end.got.size();
    }
  }

  std::mt19937_64 random_;
  Tally& tally_;
  const TempDir dir_;
  Poisons<ps::HostDevice> device_;
  Drawn d_;
  std::deque<End> ends_;
  bool written_{};
};

} // namespace

int main(int count, char** arguments) {
  const std::string until{count > 1 ? arguments[1] : "100"};
  const std::uint64_t first = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  const bool timed = until.ends_with('s');
  const auto most = std::strtoull(until.c_str(), nullptr, 10);
  const Clock::time_point end = Clock::now() + std::chrono::seconds{timed ? most : 0};
  static std::array<char, 64> doing{};
  Watchdog watchdog{doing.data(), std::chrono::seconds{60}};
  Tally tally;
  std::uint64_t seeds = 0, failures = 0;
  for (; timed ? Clock::now() < end : seeds != most; ++seeds) {
    std::snprintf(doing.data(), doing.size(), "seed %llu",
                  static_cast<unsigned long long>(first + seeds));
    watchdog.progress(first + seeds);
    const Outcome outcome = outcome_of([&] { Trial{first + seeds, tally}.run(); });
    if (outcome.came != Came::nothing) {
      std::printf("FAILED %s: %s\n", doing.data(), outcome.text.c_str());
      std::fflush(stdout);
      ++failures;
    }
  }
  const auto print = [](const char* what, std::uint64_t number) {
    std::printf("%llu %s", static_cast<unsigned long long>(number), what);
  };
  print("trees; ", seeds);
  print("whole runs, ", tally.whole);
  print("errors, ", tally.thrown);
  print("stops, ", tally.stopped);
  print("resumed, ", tally.resumed);
  print("records; ", tally.records);
  print("failed\n", failures);
  return failures != 0 || (seeds >= 20 && (tally.thrown == 0 || tally.resumed == 0)) ? 1 : 0;
}
