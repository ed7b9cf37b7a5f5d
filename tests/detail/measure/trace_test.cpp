// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a tool is told through the hooks of detail/measure/trace.hpp.

#include "support/counted_new.hpp"

#include <penstock/penstock.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

using namespace penstock;
using detail::trace_hooks;
using detail::TraceHooks;
using detail::TraceRange;

namespace {

static_assert(std::is_nothrow_constructible_v<TraceRange, const char*, std::uint64_t>);
static_assert(!std::is_copy_constructible_v<TraceRange> && !std::is_copy_assignable_v<TraceRange>);

// What a tool has been told by this thread; `Which` tells two tools apart.
template <int Which> struct Told {
  struct Range {
    const char* stage;
    std::uint64_t record;
  };

  static inline thread_local std::uint64_t begun = 0;
  static inline thread_local std::uint64_t ended = 0;
  static inline thread_local std::uint64_t deepest = 0;
  static inline thread_local bool ended_before_it_began = false;
  static inline thread_local std::array<Range, 8> first{};

  static void begin(const char* stage, std::uint64_t record) noexcept {
    if (begun < first.size()) {
      first[begun] = {stage, record};
    }
    ++begun;
    deepest = begun - ended > deepest ? begun - ended : deepest;
  }
  static void end() noexcept {
    ended_before_it_began = ended_before_it_began || ended == begun;
    ++ended;
  }
  static void clear() {
    begun = ended = deepest = 0;
    ended_before_it_began = false;
    first = {};
  }
  static constexpr TraceHooks hooks{begin, end};
};
using Tool = Told<0>;
using Other = Told<1>;

void set(const TraceHooks* hooks) {
  trace_hooks.store(hooks, StdAtomics::relaxed);
}

// Notes the ranges of all threads.
struct Notes {
  struct Range {
    const char* stage;
    std::uint64_t record;
  };

  static inline std::array<Range, 1'000> ranges{};
  static inline std::atomic<std::size_t> begun{0};
  static inline std::atomic<std::size_t> open{0};

  static void begin(const char* stage, std::uint64_t record) noexcept {
    ranges[begun++ % ranges.size()] = {stage, record};
    ++open;
  }
  static void end() noexcept { --open; }
  static constexpr TraceHooks hooks{begin, end};

  // Returns the records at which the ranges of one stage begin, sorted; to be called after the run.
  static std::vector<std::uint64_t> of(std::string_view stage) {
    std::vector<std::uint64_t> records;
    for (const Range& range : std::span{ranges}.first(std::min(begun.load(), ranges.size()))) {
      if (range.stage == stage) {
        records.push_back(range.record);
      }
    }
    std::sort(records.begin(), records.end());
    return records;
  }
};

struct Listening {
  explicit Listening(const TraceHooks& hooks = Tool::hooks) {
    Tool::clear();
    Other::clear();
    Notes::begun = Notes::open = 0;
    set(&hooks);
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() { set(nullptr); }
};

} // namespace

TEST_CASE("no tool listens unless one was set") {
  Tool::clear();
  CHECK(trace_hooks.load(StdAtomics::relaxed) == nullptr);
  {
    const TraceRange range{"Reader", 1};
  }
  CHECK(Tool::begun == 0);
  CHECK(Tool::ended == 0);
}

TEST_CASE("a tool is told the stage and the record when a range begins, and when it ends") {
  const Listening listening;
  const char* const stage = "Reader";
  {
    const TraceRange range{stage, 12'288};
    CHECK(Tool::begun == 1);
    CHECK(Tool::ended == 0);
  }
  CHECK(Tool::begun == 1);
  CHECK(Tool::ended == 1);
  CHECK(Tool::first[0].stage == stage);
  CHECK(Tool::first[0].record == 12'288);
}

TEST_CASE("ranges nest, and one that an exception leaves ends") {
  const Listening listening;
  try {
    const TraceRange outer{"Reader", 1};
    const TraceRange inner{"Consumer", 2};
    CHECK(Tool::begun == 2);
    CHECK(Tool::ended == 0);
    throw std::runtime_error{"left"};
  } catch (const std::runtime_error&) {
    CHECK(Tool::ended == 2);
  }
  CHECK(Tool::deepest == 2);
  CHECK(Tool::first[1].record == 2);
}

TEST_CASE("who was told of a range's beginning is told of its end, and nobody else") {
  const Listening listening;
  SECTION("a tool that goes while a range is open") {
    {
      const TraceRange range{"Reader", 0};
      set(nullptr);
    }
    CHECK(Tool::ended == 1);
  }
  SECTION("a tool that comes while a range is open") {
    set(nullptr);
    {
      const TraceRange range{"Reader", 0};
      set(&Tool::hooks);
    }
    CHECK(Tool::begun == 0);
    CHECK(Tool::ended == 0);
    {
      const TraceRange range{"Reader", 1};
    }
    CHECK(Tool::begun == 1);
    CHECK(Tool::ended == 1);
  }
  SECTION("a tool that takes another's place while a range is open") {
    {
      const TraceRange outer{"Reader", 0};
      set(&Other::hooks);
      const TraceRange inner{"Consumer", 0};
    }
    CHECK(Tool::begun == 1);
    CHECK(Tool::ended == 1);
    CHECK(Other::begun == 1);
    CHECK(Other::ended == 1);
  }
}

TEST_CASE("each thread is told of its own ranges, while tools come and go") {
  const Listening listening;
  constexpr std::uint64_t enough = 1'000; // told to either tool
  struct Seen {
    std::uint64_t begun, ended, deepest;
    bool ended_before_it_began;
  };
  std::array<Seen, 3> tool{};
  std::array<Seen, 3> other{};
  std::atomic<std::size_t> working{tool.size()};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < tool.size(); ++t) {
    threads.emplace_back([&, t] {
      while (Tool::begun < enough || Other::begun < enough) {
        const TraceRange outer{"Reader", 0};
        const TraceRange inner{"Consumer", 0};
      }
      tool[t] = {Tool::begun, Tool::ended, Tool::deepest, Tool::ended_before_it_began};
      other[t] = {Other::begun, Other::ended, Other::deepest, Other::ended_before_it_began};
      --working;
    });
  }
  while (working != 0) {
    for (const TraceHooks* hooks :
         {&Other::hooks, static_cast<const TraceHooks*>(nullptr), &Tool::hooks}) {
      set(hooks);
      std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t t = 0; t < tool.size(); ++t) {
    CAPTURE(t);
    for (const Seen& seen : {tool[t], other[t]}) {
      CHECK(seen.begun >= enough);
      CHECK(seen.begun == seen.ended);
      CHECK(seen.deepest <= 2);
      CHECK_FALSE(seen.ended_before_it_began);
    }
  }
  CHECK(Tool::begun == 0);
}

TEST_CASE("threads that a tool listens to all the time tell it each of their ranges") {
  const Listening listening;
  constexpr std::uint64_t ranges = 1'000;
  std::array<std::uint64_t, 3> begun{};
  std::array<std::uint64_t, 3> ended{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < begun.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < ranges * (t + 1); ++i) {
        const TraceRange range{"Reader", i};
      }
      begun[t] = Tool::begun;
      ended[t] = Tool::ended;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t t = 0; t < begun.size(); ++t) {
    CHECK(begun[t] == ranges * (t + 1));
    CHECK(ended[t] == ranges * (t + 1));
  }
}

TEST_CASE("a range allocates nothing, with a tool or without") {
  const Listening listening;
  for (const TraceHooks* hooks : {static_cast<const TraceHooks*>(nullptr), &Tool::hooks}) {
    set(hooks);
    const std::uint64_t before = tests::memory::allocations;
    for (std::uint64_t i = 0; i < 1'000; ++i) {
      const TraceRange range{"a name that is too long to be kept within a std::string", i};
    }
    CHECK(tests::memory::allocations == before);
  }
  CHECK(Tool::begun == 1'000);
}

TEST_CASE("a run opens one range for each slot, copy and batch, with its stage and first record") {
  constexpr std::uint64_t slot = std::uint64_t{1} << 20;
  constexpr std::uint64_t records = 2 * slot + 77'777; // of a byte each
  const std::vector<std::byte> bytes(records);
  HostDevice device;
  const Listening listening{Notes::hooks};
  auto pipeline = Reader{memory(bytes), {.workers = 3, .epochs = 2}} |
                  PinnedStager{{.workers = 2}} | AsyncCopier{device, {.batch = slot}} |
                  Consumer{[](Batch<const std::byte, Device>, HostStream&) {}};
  pipeline.run();
  // Checked while the names live that it has noted.
  const std::vector<std::uint64_t> slots{0,       slot,           2 * slot,
                                         records, records + slot, records + 2 * slot};
  CHECK(Notes::of("Reader") == slots);
  CHECK(Notes::of("PinnedStager") == slots);
  CHECK(Notes::of("Consumer") == slots);
  const std::vector<std::uint64_t> copies = Notes::of("AsyncCopier");
  CHECK(std::includes(slots.begin(), slots.end(), copies.begin(), copies.end()));
  CHECK(std::count(copies.begin(), copies.end(), 0U) == 1);
  CHECK(std::count(copies.begin(), copies.end(), records) == 1);
  CHECK(Notes::begun == 3 * slots.size() + copies.size());
  CHECK(Notes::open == 0);
}

TEST_CASE("a stage that waits has no range open") {
  const std::vector<std::byte> bytes(std::size_t{16} << 20);
  HostDevice device;
  int quiet = 0; // looks in a row that found the consumer's range alone
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  const Listening listening{Notes::hooks};
  auto pipeline = Reader{memory(bytes), {.workers = 2, .depth = 2}} |
                  PinnedStager{device, {.workers = 2, .depth = 2}} |
                  Consumer{[&](Batch<const std::byte, Pinned>) {
                    // While the callable stays here, its stages fill their rings and then wait.
                    while (quiet < 20 && std::chrono::steady_clock::now() < end) {
                      std::this_thread::sleep_for(std::chrono::milliseconds{1});
                      quiet = Notes::open == 1 ? quiet + 1 : 0;
                    }
                  }};
  pipeline.run();
  CHECK(quiet == 20);
  CHECK(Notes::open == 0);
}

TEST_CASE("a callable that throws ends its range") {
  const std::vector<std::byte> bytes(100);
  const Listening listening{Notes::hooks};
  auto pipeline = Reader{memory(bytes)} | Consumer{[](Batch<const std::byte, Pageable>) {
                    throw std::runtime_error{"bad"};
                  }};
  CHECK_THROWS_AS(pipeline.run(), StageError);
  CHECK(Notes::of("Consumer").size() == 1);
  CHECK(Notes::open == 0);
}
