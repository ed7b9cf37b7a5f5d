// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How long records wait for others. Who writes them goes on only when the last stage has seen what
// came before: a stage that held a record until its batch is full would hang.

#include "support/catch.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/fifo.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

namespace ps = penstock;
namespace tests = penstock::tests;
using namespace std::chrono_literals;

using Record = std::uint32_t;
using OnDevice = ps::Batch<const Record, ps::Device>;
using Filled = ps::Batch<Record, ps::Device>;
using Some = ps::Batch<ps::Counted<Record>, ps::Device>;
using Landed = ps::Batch<const Record, ps::Pinned>;
using OnHost = ps::Batch<const Record, ps::Pageable>;
using Stream = ps::HostStream&;
using Use = std::function<void(OnDevice, Stream)>;
using Count = std::function<void(OnDevice, Some, Stream)>;
using See = std::function<void(Landed)>;
using SeeHost = std::function<void(OnHost)>;
using Decode = std::function<void(const Record&, Record&)>;

/// What the last stage has seen, in order; `count` can be waited for.
struct Seen {
  std::vector<Record> records;
  std::vector<std::size_t> batches;
  std::atomic<std::uint64_t> count{0};
  std::uint64_t epoch = ~std::uint64_t{0}; // records in it
  bool in_order = true;

  template <class Where> void operator()(ps::Batch<const Record, Where> batch) {
    in_order = in_order && batch.index() == records.size() &&
               batch.source_index() == batch.data()[0] % epoch;
    batches.push_back(batch.size());
    records.insert(records.end(), batch.data(), batch.data() + batch.size());
    count += batch.size();
    count.notify_all();
  }
  void await(std::uint64_t least) const {
    for (std::uint64_t now = count; now < least; now = count) {
      count.wait(now);
    }
  }
  bool all(std::uint64_t records_in_all) const {
    std::vector<Record> expected(records_in_all);
    std::iota(expected.begin(), expected.end(), Record{0});
    return in_order && records == expected;
  }
};
Use on_stream(Seen& seen) {
  return
      [&seen](OnDevice batch, Stream stream) { stream.enqueue([&seen, batch] { seen(batch); }); };
}

/// A pair of connected sockets, and what a pipeline made of what is written to one of them.
struct Line {
  Line() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0); }
  ~Line() {
    ::close(ends[0]);
    hang_up();
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void write(std::span<const Record> records) const {
    const auto bytes = static_cast<ssize_t>(records.size_bytes());
    if (::write(ends[1], records.data(), records.size_bytes()) != bytes) {
      std::abort();
    }
  }
  void hang_up() {
    if (ends[1] >= 0) {
      ::close(std::exchange(ends[1], -1));
    }
  }

  int ends[2]{};
  ps::HostDevice device{{.late_seed = 3}};
  Seen seen;
};

/// Runs what `chain` makes; writes numbers, some at a time, and each time waits until all have been
/// seen.
template <class Chain> void check_answers(Chain chain) {
  constexpr std::uint64_t in_all = 300;
  Line line;
  auto pipeline = chain(line);
  std::thread writer{[&] {
    std::uint64_t next = 0;
    for (std::uint64_t some = 1; next != in_all; some = some * 3 % 17) {
      std::vector<Record> records(std::min(some, in_all - next));
      std::iota(records.begin(), records.end(), static_cast<Record>(next));
      line.write(records);
      next += records.size();
      line.seen.await(next);
    }
    line.hang_up();
  }};
  pipeline.run();
  writer.join();
  CHECK(line.seen.all(in_all));
}

auto reader(Line& line, std::chrono::microseconds flush, std::size_t ahead) {
  return ps::Reader{ps::fifo<Record>(line.ends[0]), {.ahead = ahead, .flush = flush}};
}
auto to_device(Line& line, std::chrono::microseconds flush, std::size_t ahead, std::size_t batch) {
  return reader(line, flush, ahead) |
         ps::Decoder{Decode{[](const Record& in, Record& out) { out = in; }}, {.workers = 2}} |
         ps::PinnedStager{line.device} | ps::AsyncCopier{line.device, {.batch = batch}};
}
auto in_place() {
  return ps::Kernel{std::function<void(Filled, Stream)>{[](Filled, Stream) {}}};
}

} // namespace

TEST_CASE("no stage holds a record longer than flush says", "[flush]") {
  tests::Watchdog watchdog{"flush", 60s};
  for (const auto flush : {0us, 300us}) {
    for (const std::size_t ahead : {0U, 40U, 2000U}) {
      CAPTURE(flush.count(), ahead);
      check_answers([=](Line& line) {
        return reader(line, flush, ahead) | ps::Consumer{SeeHost{std::ref(line.seen)}};
      });
      check_answers([=](Line& line) {
        return to_device(line, flush, ahead, 1000) | ps::Consumer{on_stream(line.seen)};
      });
      check_answers([=](Line& line) {
        return to_device(line, flush, ahead, 1) | in_place() |
               ps::AsyncCopier{ps::to_host, {.batch = 700}} |
               ps::Consumer{See{std::ref(line.seen)}};
      });
      check_answers([=](Line& line) {
        return to_device(line, flush, ahead, 1) | ps::Kernel{Count{[](auto in, auto out, auto& on) {
                 on.enqueue([in, out] {
                   std::copy_n(in.data(), in.size(), out.data());
                   *out.count() = in.size();
                 });
               }}} |
               ps::AsyncCopier{ps::to_host, {.batch = 700}} |
               ps::Consumer{See{std::ref(line.seen)}};
      });
    }
  }
}

TEST_CASE("until they are due batches are full, however the records come", "[flush]") {
  tests::Watchdog watchdog{"no flush", 60s};
  const auto check_full = [](auto chain) {
    for (const std::chrono::microseconds flush : {ps::never, std::chrono::microseconds{1h}}) {
      Line line;
      auto pipeline = chain(line, flush);
      std::thread writer{[&] {
        for (Record next = 0; next != 250; ++next) {
          line.write({&next, 1});
          if (next % 60 == 0) {
            std::this_thread::sleep_for(1ms);
          }
        }
        line.hang_up();
      }};
      pipeline.run();
      writer.join();
      CHECK(line.seen.all(250));
      CHECK(line.seen.batches == std::vector<std::size_t>{100, 100, 50});
    }
  };
  check_full([](Line& line, std::chrono::microseconds flush) {
    return to_device(line, flush, 0, 100) | ps::Consumer{on_stream(line.seen)};
  });
  check_full([](Line& line, std::chrono::microseconds flush) {
    return to_device(line, flush, 0, 30) | in_place() |
           ps::AsyncCopier{ps::to_host, {.batch = 100}} | ps::Consumer{See{std::ref(line.seen)}};
  });
}

namespace {

/// Numbers of known size whose read of a range waits until all before it were seen.
struct Shy {
  using schema = Record;
  const Seen* seen;
  std::uint64_t records;

  std::uint64_t size() const { return records; }
  template <class Where> std::size_t read(ps::Batch<Record, Where> into) const {
    seen->await(into.index());
    std::iota(into.data(), into.data() + into.size(), static_cast<Record>(into.index()));
    return into.size();
  }
};
/// Numbers of known size that come one after the other.
struct Slow : Shy {
  template <class Where>
  ps::Filled read(ps::Batch<Record, Where> into, const ps::Patience& patience) const {
    const std::uint64_t before = patience.epoch() * records;
    while (seen->count < before + into.index()) {
      if (!patience.sleep_for(20us)) {
        return ps::for_now(0);
      }
    }
    into.data()[0] = static_cast<Record>(before + into.index());
    return ps::for_now(1);
  }
};

} // namespace

TEST_CASE("a source of known size is flushed too", "[flush]") {
  tests::Watchdog watchdog{"flush of a known size", 60s};
  ps::HostDevice device;
  Seen seen;
  SECTION("when a slot is read") {
    auto pipeline = ps::Reader{Shy{&seen, 100}, ps::to_pinned, {.batch = 9, .flush = 1ms}} |
                    ps::AsyncCopier{device, {.batch = 50}} | ps::Consumer{on_stream(seen)};
    pipeline.run();
    CHECK(seen.all(100));
  }
  SECTION("and in the middle of a slot, with epochs") {
    seen.epoch = 30;
    auto pipeline = ps::Reader{Slow{{&seen, 30}}, {.epochs = 3, .batch = 20, .flush = 0us}} |
                    ps::Consumer{SeeHost{std::ref(seen)}};
    pipeline.run();
    CHECK(seen.all(90));
    CHECK(std::ranges::count(seen.batches, 1U) == 90);
  }
}

TEST_CASE("with flush, batches larger than what may be ahead are cut", "[flush]") {
  tests::Watchdog watchdog{"flush at the bound", 60s};
  ps::HostDevice device{{.late_seed = 9}};
  Seen seen;
  std::vector<Record> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), Record{0});
  auto pipeline = ps::Reader{ps::memory(std::span<const Record>{numbers}),
                             ps::to_pinned,
                             {.workers = 3, .ahead = 64, .flush = 1h}} |
                  ps::AsyncCopier{device, {.batch = 100}} |
                  ps::Kernel{std::function<void(Filled, Stream)>{[](Filled, Stream) {}}} |
                  ps::AsyncCopier{ps::to_host, {.batch = 90}} | ps::Consumer{See{std::ref(seen)}};
  pipeline.run();
  CHECK(seen.all(1000));
  CHECK(*std::ranges::max_element(seen.batches) <= 64);
}

TEST_CASE("who writes to a socket feels how many may be ahead", "[ahead]") {
  tests::Watchdog watchdog{"a socket's other end", 60s};
  constexpr std::uint64_t ahead = 100;
  // Writes records, one at a time, until nobody takes any more for a while; returns how many.
  const auto written_to = [](const Line& line) {
    const int fd = line.ends[1];
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    std::uint64_t written = 0;
    for (pollfd room{fd, POLLOUT, 0}; ::poll(&room, 1, 200) == 1; ++written) {
      const auto next = static_cast<Record>(written);
      if (::write(fd, &next, sizeof next) != sizeof next) {
        break;
      }
    }
    return written;
  };
  const Line nobody_reads;
  const std::uint64_t in_the_kernel = written_to(nobody_reads);
  Line line;
  std::atomic<std::uint64_t> written{0};
  std::thread writer{[&] {
    written = written_to(line);
    line.hang_up();
    written.notify_all();
  }};
  auto pipeline = reader(line, ps::never, ahead) | ps::Consumer{SeeHost{[&](OnHost batch) {
                    written.wait(0);
                    line.seen(batch);
                  }}};
  pipeline.run();
  writer.join();
  CHECK(line.seen.all(written));
  CHECK(written <= in_the_kernel + ahead);
  CHECK(written > ahead);
}
