// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whole pipelines on a host device whose k-th call fails, for every k: one error comes out, nothing
// hangs or leaks, and the pipeline runs again.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/fail_each_call.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

using namespace suite;
using tests::Came;
using tests::Outcome;
using tests::outcome_of;

namespace {

constexpr std::uint64_t count = 6;
constexpr std::size_t values = 500;

struct Item {
  std::uint32_t value[values];
};
struct Sample
    : ps::Columns<ps::Field<"image", std::uint32_t, values>, ps::Field<"label", std::uint64_t>> {};
struct Text
    : ps::Columns<ps::Field<"text", ps::Ragged<std::uint32_t>>, ps::Field<"label", std::uint64_t>> {
};

// The values of two runs differ, so that late bytes are found.
std::uint32_t value_of(std::uint64_t record, std::uint32_t run) {
  return static_cast<std::uint32_t>(record * 7919 + 1) + (run << 24);
}
std::size_t length_of(std::uint64_t record) {
  return record % 3 * 100;
}
bool is_all(const std::uint32_t* at, std::size_t n, std::uint32_t value) {
  return std::all_of(at, at + n, [&](std::uint32_t v) { return v == value; });
}

// One record a slot and batch.
constexpr ps::ReaderOptions reading{.workers = 2, .depth = 2, .batch = 1};

void to_columns(ps::Batch<const Item, ps::Pageable> in, ps::Batch<Sample, ps::Pageable> out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::copy_n(in.data()[i].value, values, ps::get<"image">(out)[i]);
    ps::get<"label">(out)[i] = in.source_index() + i;
  }
}
void to_text(ps::Batch<const Item, ps::Pageable> in, ps::Batch<Text, ps::Pinned> out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::size_t length = length_of(in.source_index() + i);
    std::copy_n(in.data()[i].value, length, ps::get<"text">(out).put(i, length));
    ps::get<"label">(out)[i] = in.source_index() + i;
  }
}

bool holds(const ps::Batch<const Item, ps::Device>& batch, std::uint32_t value) {
  return is_all(batch.data()->value, values, value);
}
bool holds(const ps::Batch<const Sample, ps::Device>& batch, std::uint32_t value) {
  return is_all(ps::get<"image">(batch).data(), values, value) &&
         ps::get<"label">(batch)[0] == batch.index();
}
bool holds(const ps::Batch<const Text, ps::Device>& batch, std::uint32_t value) {
  const auto text = ps::get<"text">(batch)[0];
  return text.size() == length_of(batch.index()) && is_all(text.data(), text.size(), value) &&
         ps::get<"label">(batch)[0] == batch.index();
}

// The bytes that a run delivered, looked at on the device's streams.
struct Seen {
  static constexpr std::uint64_t records = count, at_once = 1;
  template <class B> void look(const B& batch, ps::HostStream& stream) {
    ++given;
    enqueue(batch, stream, std::chrono::microseconds{0});
  }
  // Looks at a batch on a second stream, which takes its time.
  template <class B> void look_too(const B& batch, ps::HostStream& stream) {
    enqueue(batch, stream, std::chrono::milliseconds{1});
  }
  template <class B>
  void enqueue(const B& batch, ps::HostStream& stream, std::chrono::microseconds late) {
    stream.enqueue([this, batch, late, value = value_of(batch.index(), run)] {
      std::this_thread::sleep_for(late);
      all_right = all_right && holds(batch, value);
      ++looked_at;
    });
  }
  void next_run() {
    ++run;
    given = 0;
    looked_at = 0;
  }
  std::uint32_t run{};
  std::uint64_t given{};
  std::atomic<std::uint64_t> looked_at{0};
  bool right() const { return all_right; }
  bool whole() const { return given == count && looked_at >= count; }
  std::atomic<bool> all_right{true};
};

auto items(const Seen& seen) {
  return ps::generate<Item>(count, [&seen](std::span<Item> out, std::uint64_t first) {
    for (Item& item : out) {
      std::fill_n(item.value, values, value_of(first++, seen.run));
    }
  });
}

// A pipeline, and one run of it.
template <class P> struct Ran {
  P pipeline;
  void run() { pipeline.run(); }
};
template <class P> struct Looped {
  P pipeline;
  Seen& seen;
  ps::HostStream& stream;
  ps::HostStream* other; // uses every second batch too, after the event
  ps::HostEvent* event;
  void run() {
    for (auto batch : pipeline.on(stream)) {
      seen.look(as_batch(batch), stream);
      if (other && batch.index() % 2 == 1) {
        batch.used_on(*other);
        event->record(stream);
        other->wait(*event);
        seen.look_too(as_batch(batch), *other);
      }
    }
  }
  template <class B> static B as_batch(const ps::Lease<B>& lease) { return lease; }
};
using Bench = tests::Bench<Seen>;

template <class S> auto consumer(Seen& seen) {
  return ps::Consumer{[&seen](ps::Batch<const S, ps::Device> batch, ps::HostStream& stream) {
    seen.look(batch, stream);
  }};
}
constexpr ps::CopierOptions copying{.batch = 1, .depth = 2};

auto in_place(Bench b) {
  return Ran{ps::Reader{items(b.seen), ps::to_pinned, reading} |
             ps::AsyncCopier{b.device, copying} | consumer<Item>(b.seen)};
}
auto staged(Bench b) {
  return Ran{ps::Reader{items(b.seen), reading} | ps::PinnedStager{{.workers = 2, .depth = 2}} |
             ps::AsyncCopier{b.device, copying} | consumer<Item>(b.seen)};
}
auto columns(Bench b) {
  return Ran{ps::Reader{items(b.seen), reading} |
             ps::Decoder{to_columns, {.workers = 2, .depth = 2}} |
             ps::PinnedStager{{.workers = 1, .depth = 2}} | ps::AsyncCopier{b.device, copying} |
             consumer<Sample>(b.seen)};
}
auto ragged(Bench b) {
  return Ran{ps::Reader{items(b.seen), reading} |
             ps::Decoder{to_text, {.workers = 2, .depth = 2, .value_bytes = sizeof(Item)}} |
             ps::AsyncCopier{b.device, {.depth = 2}} | consumer<Text>(b.seen)};
}
auto loop(Bench b) {
  return Looped{ps::Reader{items(b.seen), ps::to_pinned, reading} |
                    ps::AsyncCopier{b.device, copying},
                b.seen, b.stream, nullptr, nullptr};
}
auto loop_of_two_streams(Bench b) {
  return Looped{
      ps::Reader{items(b.seen), reading} | ps::Decoder{to_columns, {.workers = 2, .depth = 2}} |
          ps::PinnedStager{{.workers = 1, .depth = 2}} | ps::AsyncCopier{b.device, copying},
      b.seen, b.stream, &b.other, &b.event};
}

// Memory, streams and events of prepare(); copies, waits and records of a run.
template <class Make> void fail_each_call(const char* chain, const char* last, Make make) {
  tests::fail_each_call<Seen>({chain, {"AsyncCopier", last}, 20, 10}, make);
}

} // namespace

TEST_CASE("whichever device call fails, a pipeline that reads into pinned memory ends with it") {
  fail_each_call("Reader, AsyncCopier, Consumer", "Consumer", in_place);
}

TEST_CASE("whichever device call fails, a pipeline that stages ends with it") {
  fail_each_call("Reader, PinnedStager, AsyncCopier, Consumer", "Consumer", staged);
}

TEST_CASE("whichever device call fails, a pipeline that decodes into columns ends with it") {
  fail_each_call("Reader, Decoder, PinnedStager, AsyncCopier, Consumer", "Consumer", columns);
}

TEST_CASE("whichever device call fails, a pipeline of a Ragged column ends with it") {
  fail_each_call("Reader, Decoder of Ragged, AsyncCopier, Consumer", "Consumer", ragged);
}

TEST_CASE("whichever device call fails, the application's own loop ends with it") {
  fail_each_call("Reader, AsyncCopier, loop", "loop", loop);
}

TEST_CASE("whichever device call fails, a loop that uses a second stream ends with it") {
  fail_each_call("Reader, Decoder, PinnedStager, AsyncCopier, loop of two streams", "loop",
                 loop_of_two_streams);
}

TEST_CASE("a run whose waiting at the end fails too leaves a pipeline that runs again") {
  // All calls fail from a moment on when copies and the callable's work are under way.
  tests::Watchdog watchdog{"waiting fails"};
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    watchdog.progress(seed);
    ps::HostDevice device{{.late_seed = seed, .copy_ns_per_kib = 50'000}};
    Seen seen;
    std::uint64_t left = seed % 3;
    auto pipeline =
        ps::Reader{items(seen), ps::to_pinned, reading} | ps::AsyncCopier{device, copying} |
        ps::Consumer{[&](ps::Batch<const Item, ps::Device> batch, ps::HostStream& stream) {
          seen.look(batch, stream);
          if (seen.run == 0 && left-- == 0) {
            device.fail_call(1, {.persistent = true});
          }
        }};
    CHECK(outcome_of([&] { pipeline.run(); }).cause == Came::device_error);
    // The device is still broken, and no run begins.
    CHECK(outcome_of([&] { pipeline.run(); }).cause == Came::device_error);
    device.fail_call(0);
    seen.next_run();
    CHECK(pipeline.run().records == count);
    CHECK(seen.looked_at >= count);
    CHECK(seen.right());
  }
}

TEST_CASE("a lease whose giving back fails after the loop is waited for before the next run") {
  for (const bool by_a_second_stream : {false, true}) {
    CAPTURE(by_a_second_stream);
    ps::HostDevice device;
    Seen seen;
    {
      ps::HostStream stream = device.stream();
      ps::HostStream other = device.stream();
      ps::HostEvent event = device.event();
      auto pipeline =
          ps::Reader{items(seen), ps::to_pinned, reading} | ps::AsyncCopier{device, copying};
      ps::Lease<ps::Batch<const Item, ps::Device>> kept;
      for (auto batch : pipeline.on(stream)) {
        if (batch.index() == 0) {
          kept = std::move(batch);
        }
      }
      if (by_a_second_stream) {
        kept.used_on(other);
      }
      seen.look_too(static_cast<const ps::Batch<const Item, ps::Device>&>(kept),
                    by_a_second_stream ? other : stream);
      device.fail_call(1);
      kept.release();
      CHECK(device.fault_fired());
      seen.next_run();
      std::uint64_t records = 0;
      for (auto batch : pipeline.on(stream)) {
        records += batch.size();
      }
      CHECK(records == count);
    }
    CHECK(seen.right());
  }
}

TEST_CASE("a second stream's use of a lease that outlives its loop is waited for by the next run") {
  ps::HostDevice device;
  Seen seen;
  {
    ps::HostStream stream = device.stream();
    ps::HostStream other = device.stream();
    auto pipeline =
        ps::Reader{items(seen), ps::to_pinned, reading} | ps::AsyncCopier{device, copying};
    ps::Lease<ps::Batch<const Item, ps::Device>> kept;
    for (auto batch : pipeline.on(stream)) {
      if (batch.index() == 0) {
        batch.used_on(other); // called before the end of the run, which waits
        kept = std::move(batch);
      }
    }
    seen.look_too(static_cast<const ps::Batch<const Item, ps::Device>&>(kept), other);
    kept.release();
    seen.next_run();
    std::uint64_t records = 0;
    for (auto batch : pipeline.on(stream)) {
      records += batch.size();
    }
    CHECK(records == count);
  }
  CHECK(seen.right());
}

TEST_CASE("work that throws on the device ends the run, and every later one at once") {
  tests::Watchdog watchdog{"a trap"};
  for (std::uint64_t bad = 0; bad < count; ++bad) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      for (const bool in_loop : {false, true}) {
        CAPTURE(bad, seed, in_loop);
        watchdog.progress(bad);
        ps::HostDevice device{{.late_seed = seed}};
        Seen seen;
        std::uint64_t calls = 0;
        {
          const auto use = [&](ps::Batch<const Item, ps::Device> batch, ps::HostStream& stream) {
            ++calls;
            if (batch.index() == bad) {
              stream.enqueue([] { throw std::runtime_error{"a trap"}; });
              if (seed == 2) { // the copier must see it before this batch's fence is recorded
                std::this_thread::sleep_for(std::chrono::milliseconds{3});
              }
            }
          };
          ps::HostStream own = device.stream();
          auto open = ps::Reader{items(seen), reading} |
                      ps::PinnedStager{{.workers = 2, .depth = 2}} |
                      ps::AsyncCopier{device, copying};
          auto closed = ps::Reader{items(seen), reading} |
                        ps::PinnedStager{{.workers = 2, .depth = 2}} |
                        ps::AsyncCopier{device, copying} | ps::Consumer{use};
          const auto run = [&] {
            if (!in_loop) {
              closed.run();
              return;
            }
            for (auto batch : open.on(own)) {
              use(batch, own);
            }
          };
          const Outcome out = outcome_of(run);
          CAPTURE(out);
          CHECK(out.came == Came::stage_error);
          CHECK(out.cause == Came::device_error);
          CHECK(out.sticky);
          CHECK(out.says("a trap"));
          // Whichever stage sees it, the error names the stage whose work it was.
          const std::string last = in_loop ? "loop" : "Consumer";
          CHECK((out.stage == last || out.enqueued_by == last));
          CHECK((out.enqueued_by.empty() || out.says("Still queued was what " + last)));
          CHECK(calls > bad);
          calls = 0;
          const Outcome again = outcome_of(run);
          CHECK(again.text == out.text);
          CHECK(calls == 0);
        }
        ps::tests::check_nothing_lives(device);
      }
    }
  }
}
