// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How often threads wake while nothing comes: a pipeline that waits, whatever its shape and
// whatever is held or queued, leaves the processor to others. Wakes are counted, not time: a busy
// machine makes them fewer.

#include "support/catch.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <penstock/callables/deferred.hpp>
#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>
#include <penstock/sources/fifo.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <time.h>
#include <unistd.h>

namespace {

namespace ps = penstock;
namespace tests = penstock::tests;
using namespace std::chrono_literals;

using Number = std::uint64_t;
using OnHost = ps::Batch<const Number, ps::Pageable>;
using Landed = ps::Batch<const Number, ps::Pinned>;
using OnDevice = ps::Batch<const Number, ps::Device>;
using Filled = ps::Batch<Number, ps::Device>;
using Some = ps::Batch<ps::Counted<Number>, ps::Device>;
using Stream = ps::HostStream&;

constexpr std::size_t slot = 16;
constexpr std::size_t a_batch = 64;
constexpr std::size_t most = 16;   // batches
constexpr std::size_t given = 200; // records that come before nothing comes any more

/// A pipe with a few records in it. Whoever has seen one of them says so, and all is over when it
/// hangs up.
class Line {
 public:
  Line() {
    REQUIRE(::pipe(ends_) == 0);
    const std::array<Number, given> records{};
    REQUIRE(::write(ends_[1], records.data(), sizeof records) == sizeof records);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() { ::close(ends_[0]); }

  int fd() const noexcept { return ends_[0]; }
  void came() noexcept { set(came_); }
  void await_came() const noexcept { came_.wait(false); }
  void hang_up() noexcept {
    ::close(ends_[1]);
    set(over_);
  }
  void await_over() const noexcept { over_.wait(false); }

 private:
  static void set(std::atomic<bool>& to) noexcept {
    to = true;
    to.notify_all();
  }

  int ends_[2]{};
  std::atomic<bool> came_{false};
  std::atomic<bool> over_{false};
};

std::map<std::string, std::uint64_t> wakes_of_threads() {
  std::map<std::string, std::uint64_t> wakes;
  for (const auto& task : std::filesystem::directory_iterator{"/proc/self/task"}) {
    std::ifstream status{task.path() / "status"};
    for (std::string line; std::getline(status, line);) {
      constexpr std::string_view wanted = "voluntary_ctxt_switches:";
      if (line.starts_with(wanted)) {
        wakes[task.path().filename()] = std::stoull(line.substr(wanted.size()));
      }
    }
  }
  return wakes;
}
std::chrono::nanoseconds cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

/// What happens while this thread sleeps.
struct Window {
  static constexpr auto length = 200ms;

  std::uint64_t wakes{}; // of all threads
  std::chrono::nanoseconds cpu{};

  static Window look() {
    const auto before = wakes_of_threads();
    const auto cpu = cpu_time();
    std::this_thread::sleep_for(length);
    Window seen{.cpu = cpu_time() - cpu};
    for (const auto& [thread, wakes] : wakes_of_threads()) {
      const auto had = before.find(thread);
      seen.wakes += wakes - (had != before.end() ? had->second : 0);
    }
    return seen;
  }
  // The watchdog wakes 100 times a second, and the device thread as often while a kernel runs. One
  // that polled each 20 us would wake 10,000 times or more, and one that span would take the whole
  // time.
  bool idle() const { return wakes * (1s / length) < 400 && cpu < length / 2; }
};

/// Runs it until it waits, and then looks a few times whether all threads sleep: the machine may be
/// slow to come so far.
void check_sleeps(const std::string& name, const std::function<void(Line&)>& run) {
  CAPTURE(name);
  Line line;
  std::exception_ptr error;
  std::thread thread{[&] {
    try {
      run(line);
    } catch (...) {
      error = std::current_exception();
      line.came();
    }
  }};
  line.await_came();
  Window seen = Window::look();
  for (int looks = 1; looks != 20 && !seen.idle(); ++looks) {
    seen = Window::look();
  }
  line.hang_up();
  thread.join();
  CAPTURE(seen.wakes, seen.cpu.count());
  CHECK(seen.idle());
  CHECK(error == nullptr);
}

struct Waits {
  const char* name;
  ps::ReaderOptions options;
};
const std::vector<Waits> all_waits{
    {"", {}},
    {"flush, ", {.flush = 1ms}},
    {"ahead, ", {.ahead = 1000}},
    {"ahead and flush, ", {.ahead = 1000, .flush = 1ms}},
};

auto pinned(Line& line, ps::ReaderOptions options) {
  options.batch = slot;
  return ps::Reader{ps::fifo<Number>(line.fd()), ps::to_pinned, options};
}
auto pageable(Line& line, ps::ReaderOptions options) {
  options.batch = slot;
  return ps::Reader{ps::fifo<Number>(line.fd()), options};
}
ps::CopierOptions copying() {
  return {.batch = a_batch, .depth = most};
}
/// Takes what comes, and holds so many of the newest leases meanwhile.
template <class Run> void take_all(Line& line, Run run, std::size_t count, auto use) {
  std::deque<decltype(run.next())> held;
  while (auto batch = run.next()) {
    use(batch);
    held.push_back(std::move(batch));
    if (held.size() > count) {
      held.pop_front();
    }
    line.came();
  }
}
template <class Run> void take_all(Line& line, Run run, std::size_t count) {
  take_all(line, std::move(run), count, [](auto&) {});
}

/// Keeps a stream busy until the line hangs up.
void keep_busy(Line& line, Stream stream) {
  stream.enqueue([&line] { line.await_over(); });
}

enum class How { token, sleeps, polls };

/// Gives `given` records, and then nothing: each of its readers waits in one way.
template <How how> struct Silent {
  using schema = Number;
  using Told = std::conditional_t<how == How::token, std::stop_token, const ps::Patience&>;
  Line* line;

  std::uint64_t size() const { return ps::unknown_size; }
  template <ps::HostSpace W> ps::Filled read(ps::Batch<Number, W> into, Told told) const {
    if (into.index() < given / slot * slot) {
      std::fill_n(into.data(), into.size(), Number{0});
      return ps::for_now(into.size());
    }
    if constexpr (how == How::token) {
      std::mutex mutex;
      std::condition_variable_any told_to;
      std::unique_lock lock{mutex};
      told_to.wait(lock, told, [] { return false; });
    } else if constexpr (how == How::sleeps) {
      told.sleep_for(24h);
    } else {
      char all[sizeof(Number) * given];
      while (told.readable(line->fd()) && ::read(line->fd(), all, sizeof all) > 0) {
      }
    }
    return 0;
  }
};
template <How how> void check_readers() {
  check_sleeps("readers, " + std::to_string(static_cast<int>(how)), [](Line& line) {
    auto pipeline = ps::Reader{Silent<how>{&line}, {.workers = 3, .batch = slot}} |
                    ps::Consumer{[&line](OnHost) { line.came(); }};
    std::thread stops{[&] {
      line.await_over();
      pipeline.stop();
    }};
    pipeline.run();
    stops.join();
  });
}

} // namespace

TEST_CASE("all threads sleep while a device loop waits, whatever it holds") {
  const tests::Watchdog watchdog{"device loops", 120s};
  for (const auto& [name, options] : all_waits) {
    for (const std::size_t held : {std::size_t{0}, std::size_t{1}, most}) {
      check_sleeps(std::string{"device loop, "} + name + "held: " + std::to_string(held),
                   [&](Line& line) {
                     ps::HostDevice device;
                     auto stream = device.stream();
                     auto other = device.stream();
                     auto open = pinned(line, options) | ps::AsyncCopier{device, copying()};
                     take_all(line, open.on(stream), held, [&](auto& batch) {
                       stream.enqueue([] {});
                       batch.used_on(other);
                     });
                   });
    }
  }
}

TEST_CASE("all threads sleep while a device loop waits behind kernels") {
  const tests::Watchdog watchdog{"kernels", 120s};
  for (const auto& [name, options] : all_waits) {
    check_sleeps(std::string{"kernels, "} + name, [&](Line& line) {
      ps::HostDevice device;
      auto stream = device.stream();
      auto open = pinned(line, options) | ps::AsyncCopier{device, copying()} |
                  ps::Kernel{[](OnDevice, Filled, Stream) {}, {.streams = 2, .depth = most}} |
                  ps::Kernel{[](Filled, Stream) {}};
      take_all(line, open.on(stream), most);
    });
  }
}

TEST_CASE("the device thread sleeps while nobody asks for a batch") {
  const tests::Watchdog watchdog{"a long body", 120s};
  for (const auto& [name, options] : all_waits) {
    check_sleeps(std::string{"body, "} + name, [&](Line& line) {
      ps::HostDevice device;
      auto stream = device.stream();
      auto open = pinned(line, options) | ps::AsyncCopier{device, copying()};
      auto run = open.on(stream);
      const auto batch = run.next();
      line.came();
      line.await_over();
    });
    check_sleeps(std::string{"consumer, "} + name, [&](Line& line) {
      ps::HostDevice device;
      auto pipeline = pinned(line, options) | ps::AsyncCopier{device, copying()} |
                      ps::Consumer{[&line](OnDevice, Stream) {
                        line.came();
                        line.await_over();
                      }};
      pipeline.run();
    });
  }
}

TEST_CASE("the device thread looks seldom at work that takes long") {
  const tests::Watchdog watchdog{"long work", 120s};
  for (const auto& [name, options] : all_waits) {
    check_sleeps(std::string{"kernel of a loop, "} + name, [&](Line& line) {
      ps::HostDevice device;
      auto stream = device.stream();
      const ps::DeviceArray<Number, ps::HostDevice> value{device, 1};
      auto deferred = ps::deferred<Number>(device);
      auto open = pinned(line, options) | ps::AsyncCopier{device, copying()};
      take_all(line, open.on(stream), 0, [&](auto&) {
        keep_busy(line, stream);
        deferred.put(value.data(), stream);
      });
    });
    check_sleeps(std::string{"kernel of a Consumer, "} + name, [&](Line& line) {
      ps::HostDevice device;
      auto pipeline = pinned(line, options) | ps::AsyncCopier{device, copying()} |
                      ps::Consumer{[&line](OnDevice, Stream stream) {
                        line.came();
                        keep_busy(line, stream);
                      }};
      pipeline.run();
    });
    check_sleeps(std::string{"kernel before a copy, "} + name, [&](Line& line) {
      ps::HostDevice device;
      auto open = pinned(line, options) | ps::AsyncCopier{device, copying()} |
                  ps::Kernel{[&line](OnDevice, Filled, Stream stream) {
                    line.came();
                    keep_busy(line, stream);
                  }} |
                  ps::AsyncCopier{ps::to_host};
      take_all(line, open.batches(), 0);
    });
  }
}

TEST_CASE("all threads sleep while a device Consumer waits") {
  const tests::Watchdog watchdog{"device consumers", 120s};
  for (const auto& [name, options] : all_waits) {
    check_sleeps(std::string{"Consumer, "} + name, [&](Line& line) {
      ps::HostDevice device;
      auto pipeline = pinned(line, options) | ps::AsyncCopier{device, copying()} |
                      ps::Consumer{[&line](OnDevice, Stream stream) {
                        stream.enqueue([] {});
                        line.came();
                      }};
      pipeline.run();
    });
    check_sleeps(std::string{"replayed, "} + name, [&](Line& line) {
      ps::HostDevice device;
      auto pipeline = pinned(line, options) | ps::AsyncCopier{device, copying()} |
                      ps::Consumer{ps::replayed(
                          [&line](ps::FrozenBatch<const Number>, Stream stream) {
                            stream.enqueue([&line] { line.came(); });
                          },
                          {.lanes = 2})};
      pipeline.run();
    });
  }
}

TEST_CASE("all threads sleep while what comes back from a device is waited for") {
  const tests::Watchdog watchdog{"the way back", 120s};
  for (const auto& [name, options] : all_waits) {
    check_sleeps(std::string{"counted, "} + name, [&](Line& line) {
      ps::HostDevice device;
      auto open = pinned(line, options) | ps::AsyncCopier{device, copying()} |
                  ps::Kernel{[](OnDevice in, Some out, Stream stream) {
                    stream.enqueue([in, out] {
                      std::copy_n(in.data(), in.size(), out.data());
                      *out.count() = in.size();
                    });
                  }} |
                  ps::AsyncCopier{ps::to_host, {.batch = slot}};
      take_all(line, open.batches(), 1);
    });
    check_sleeps(std::string{"Writer, "} + name, [&](Line& line) {
      const tests::TempDir dir;
      ps::HostDevice device;
      auto pipeline = pinned(line, options) | ps::AsyncCopier{device, copying()} |
                      ps::Kernel{[&line](OnDevice, Filled, Stream) { line.came(); }} |
                      ps::AsyncCopier{ps::to_host, {.batch = slot}} |
                      ps::Writer{dir / "out", {.workers = 2}};
      pipeline.run();
    });
  }
}

TEST_CASE("all threads sleep while host stages wait") {
  const tests::Watchdog watchdog{"host stages", 120s};
  for (const auto& [name, options] : all_waits) {
    check_sleeps(std::string{"host loop, "} + name, [&](Line& line) {
      auto open =
          pageable(line, options) | ps::Decoder{[](const Number& in, ps::Output<Number>& out) {
            out.push(in);
            out.push(in);
          }};
      take_all(line, open.batches(), 1);
    });
    check_sleeps(std::string{"host Consumer, "} + name, [&](Line& line) {
      ps::HostDevice device;
      auto pipeline = pageable(line, options) |
                      ps::Decoder{[](const Number& in, Number& out) { out = in; }, {.workers = 3}} |
                      ps::PinnedStager{device} |
                      ps::Consumer{[&line](Landed) { line.came(); }, {.workers = 2}};
      pipeline.run();
    });
  }
}

TEST_CASE("many workers that wait wake seldom, all together") {
  const tests::Watchdog watchdog{"many workers", 120s};
  constexpr unsigned workers = 24;
  for (const auto& [name, options] : all_waits) {
    check_sleeps(std::string{"Consumer of many workers, "} + name, [&](Line& line) {
      auto pipeline = pageable(line, options) |
                      ps::Consumer{[&line](OnHost) { line.came(); }, {.workers = workers}};
      pipeline.run();
    });
    check_sleeps(std::string{"Decoder of many workers, "} + name, [&](Line& line) {
      ps::HostDevice device;
      auto pipeline =
          pageable(line, options) |
          ps::Decoder{[](const Number& in, Number& out) { out = in; }, {.workers = workers}} |
          ps::PinnedStager{device} | ps::Consumer{[&line](Landed) { line.came(); }};
      pipeline.run();
    });
  }
}

TEST_CASE("all threads sleep while several devices wait for one chain") {
  const tests::Watchdog watchdog{"several devices", 120s};
  check_sleeps("FanOut", [](Line& line) {
    std::deque<ps::HostDevice> devices(2);
    ps::FanOut fan{pinned(line, {}), devices, copying()};
    const auto loop = [&](std::size_t i) {
      auto stream = devices[i].stream();
      take_all(line, fan.on(i, stream), most);
    };
    std::thread first{[&] { loop(0); }};
    loop(1);
    first.join();
  });
}

TEST_CASE("all threads sleep while several readers wait for one source") {
  const tests::Watchdog watchdog{"several readers", 120s};
  check_readers<How::token>();
  check_readers<How::sleeps>();
  check_readers<How::polls>();
}

TEST_CASE("a pipeline that does not run, and streams without work, wake nobody") {
  const tests::Watchdog watchdog{"no run", 120s};
  check_sleeps("prepared", [](Line& line) {
    ps::HostDevice device;
    std::deque<ps::HostStream> streams;
    for (int i = 0; i != 8; ++i) {
      streams.push_back(device.stream());
      streams.back().enqueue([] {});
    }
    auto pipeline = pinned(line, {}) | ps::AsyncCopier{device, copying()} |
                    ps::Consumer{[](OnDevice, Stream) {}};
    pipeline.prepare();
    line.came();
    line.await_over();
    pipeline.run();
  });
}
