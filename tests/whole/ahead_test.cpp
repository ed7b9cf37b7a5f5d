// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How far a Reader may be ahead: what is read and not used up is counted at both ends, never more
// than was asked for, and every chain comes to its end all the same.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <penstock/detail/engine/build.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
namespace tests = penstock::tests;
using namespace std::chrono_literals;

using Record = std::uint32_t;
using OnDevice = ps::Batch<const Record, ps::Device>;
using Filled = ps::Batch<Record, ps::Device>;
using Landed = ps::Batch<const Record, ps::Pinned>;
using OnHost = ps::Batch<const Record, ps::Pageable>;
using Stream = ps::HostStream&;
// One type for all callables: stages of many lambdas would take long to compile.
using Make = std::function<void(OnDevice, Filled, Stream)>;
using Use = std::function<void(OnDevice, Stream)>;
using See = std::function<void(Landed)>;
using SeeHost = std::function<void(OnHost)>;
using Decode = std::function<void(const Record&, Record&)>;

/// Counts what was read and is not used up. Relaxed: what the pipeline orders is to be seen.
struct Flight {
  std::atomic<std::int64_t> now{0}, most{0}, used{0};

  void read(std::size_t count) {
    const auto more = static_cast<std::int64_t>(count);
    const std::int64_t all = now.fetch_add(more, std::memory_order_relaxed) + more;
    std::int64_t seen = most.load(std::memory_order_relaxed);
    while (seen < all && !most.compare_exchange_weak(seen, all, std::memory_order_relaxed)) {
    }
  }
  void use(std::size_t count) {
    used.fetch_add(static_cast<std::int64_t>(count), std::memory_order_relaxed);
    now.fetch_sub(static_cast<std::int64_t>(count), std::memory_order_relaxed);
  }
  void clear() { now = most = used = 0; }
};

/// Numbers from 0 on. Some slots come late, so that workers overtake each other.
struct Numbers {
  using schema = Record;
  std::uint64_t records;
  Flight* flight;
  bool known = true;

  std::uint64_t size() const { return known ? records : ps::unknown_size; }
  template <class Where> std::size_t read(ps::Batch<Record, Where> into) const {
    const std::uint64_t left = into.index() < records ? records - into.index() : 0;
    const std::size_t count = std::min<std::uint64_t>(into.size(), left);
    flight->read(count);
    if (into.index() % 7 == 3) {
      std::this_thread::sleep_for(20us);
    }
    for (std::size_t i = 0; i != count; ++i) {
      into.data()[i] = static_cast<Record>(into.index() + i);
    }
    return count;
  }
};

/// Numbers some slots of which cannot be read.
struct Bad : Numbers {
  template <class Where> std::size_t read(ps::Batch<Record, Where> into) const {
    if (into.index() % 3 == 0) {
      throw std::runtime_error{"a bad slot"};
    }
    return Numbers::read(into);
  }
};

/// A chain's sizes, and which of its records are left out.
struct Shape {
  unsigned workers;
  std::size_t ahead;
  std::size_t batch;
  std::size_t slot = 0;
  std::uint64_t records = 500;
  std::uint64_t epochs = 1;
  bool skips = false;
  bool known = true;

  std::uint64_t in_all() const { return records * epochs; }
  ps::ReaderOptions reading() const {
    return {.workers = workers, .epochs = epochs, .batch = slot, .ahead = ahead};
  }
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const unsigned workers : {1U, 2U, 3U, 8U}) {
    all.push_back({workers, 64, 64});
    all.push_back({workers, 67, 61, 13});
    all.push_back({workers, 1, 1});
    all.push_back({workers, 100, 100, 50, 505, 3, true});
    all.push_back({workers, 13, 11, 0, 97, 4, true});
    all.push_back({workers, 300, 64, 0, 777, 1, true, false});
  }
  return all;
}

/// Leaves out each seventh record of what it is told to.
struct Sieve {
  Flight* flight;
  bool leaves_out;

  void operator()(const Record& in, Record& out) const {
    if (leaves_out && in % 7 == 5) {
      flight->use(1);
      throw std::runtime_error{"a bad record"};
    }
    out = in;
  }
};

auto source(const Shape& shape, Flight& flight) {
  return Numbers{shape.records, &flight, shape.known};
}
auto to_device(const Shape& shape, Flight& flight, ps::HostDevice& device) {
  return ps::Reader{source(shape, flight), shape.reading()} |
         ps::Decoder{Decode{Sieve{&flight, shape.skips}},
                     {.workers = shape.workers, .on_error = {.skips = shape.skips ? 1000U : 0U}}} |
         ps::PinnedStager{device, {.workers = 2}} | ps::AsyncCopier{device, {.batch = shape.batch}};
}
/// Ends the use of as many records as `in` has, when the stream reaches it.
void use_later(Flight& flight, std::size_t count, Stream stream) {
  stream.enqueue([&flight, count] { flight.use(count); });
}

/// Writes, and ends the use of what was written.
struct CountingIo : ps::PosixIo {
  Flight* flight;

  std::int64_t write(int fd, const std::byte* from, std::size_t bytes, std::uint64_t offset) const {
    const std::int64_t wrote = ps::PosixIo::write(fd, from, bytes, offset);
    flight->use(static_cast<std::size_t>(wrote) / sizeof(Record));
    return wrote;
  }
};

/// Runs twice, since a run is not to leave anything to the next, and checks what was counted.
template <class Pipeline> void check(Pipeline& pipeline, const Shape& shape, Flight& flight) {
  for (int run = 0; run != 2; ++run) {
    flight.clear();
    pipeline.run();
    CAPTURE(run, shape.workers, shape.ahead, shape.batch, shape.slot, shape.skips);
    CHECK(flight.most.load() <= static_cast<std::int64_t>(shape.ahead));
    CHECK(flight.used.load() == static_cast<std::int64_t>(shape.in_all()));
    CHECK(flight.now.load() == 0);
  }
}

} // namespace

TEST_CASE("no more records are on the host than the Reader may be ahead", "[ahead]") {
  tests::Watchdog watchdog{"ahead on the host", 60s};
  for (const Shape& shape : shapes()) {
    Flight flight;
    auto pipeline = ps::Reader{source(shape, flight), shape.reading()} |
                    ps::Decoder{Decode{Sieve{&flight, shape.skips}},
                                {.workers = 3, .on_error = {.skips = shape.skips ? 1000U : 0U}}} |
                    ps::Consumer{SeeHost{[&](OnHost batch) { flight.use(batch.size()); }},
                                 {.workers = shape.workers}};
    if (shape.slot > shape.ahead) {
      continue;
    }
    check(pipeline, shape, flight);
  }
}

TEST_CASE("no more records wait for a file than the Reader may be ahead", "[ahead]") {
  tests::Watchdog watchdog{"ahead of a Writer", 60s};
  const tests::TempDir folder;
  for (const std::size_t ahead : {1U, 17U, 100U}) {
    const Shape shape{3, ahead, 0};
    Flight flight;
    const std::string path = folder / "written";
    auto pipeline = ps::Reader{source(shape, flight), shape.reading()} |
                    ps::Writer{path, {.workers = 2}, CountingIo{{}, &flight}};
    check(pipeline, shape, flight);
    CHECK(std::filesystem::file_size(path) == shape.records * sizeof(Record));
  }
}

TEST_CASE("no more records are on the device than the Reader may be ahead", "[ahead]") {
  tests::Watchdog watchdog{"ahead of a device", 120s};
  for (const std::uint64_t seed : {0, 3}) {
    for (const Shape& shape : shapes()) {
      ps::HostDevice device{{.late_seed = seed}};
      Flight flight;
      auto pipeline =
          to_device(shape, flight, device) | ps::Consumer{Use{[&](OnDevice batch, Stream stream) {
            use_later(flight, batch.size(), stream);
          }}};
      check(pipeline, shape, flight);
    }
  }
}

TEST_CASE("no more records are replayed than the Reader may be ahead", "[ahead]") {
  tests::Watchdog watchdog{"ahead of a replay", 60s};
  for (const Shape& shape : shapes()) {
    ps::HostDevice device;
    Flight flight;
    using Frozen = std::function<void(ps::FrozenBatch<const Record, ps::Device>, Stream)>;
    auto pipeline = to_device(shape, flight, device) |
                    ps::Consumer{ps::replayed(Frozen{[&](auto batch, Stream stream) {
                      use_later(flight, batch.size(), stream);
                    }})};
    check(pipeline, shape, flight);
  }
}

TEST_CASE("Kernels and the way back count what they were made of", "[ahead]") {
  tests::Watchdog watchdog{"ahead both ways", 120s};
  struct Fold {
    std::size_t gives, per, landing;
  };
  for (const Fold fold :
       {Fold{1, 1, 0}, Fold{1, 1, 7}, Fold{1, 5, 1}, Fold{1, 5, 3}, Fold{2, 1, 7}}) {
    // The last record of each group counts for what it was made of.
    const auto counted = [fold](std::uint64_t made) { return made / fold.gives * fold.per; };
    for (Shape shape : shapes()) {
      shape.batch = shape.batch / fold.per * fold.per;
      if (shape.batch == 0) {
        continue;
      }
      // Batches and slots that do not fit into each other: some of either may wait.
      shape.ahead += (fold.landing + 1) * fold.per;
      shape.skips = shape.skips && fold.per == 1;
      shape.records = shape.records / fold.per * fold.per;
      ps::HostDevice device{{.late_seed = 2}};
      Flight flight;
      auto pipeline =
          to_device(shape, flight, device) |
          ps::Kernel{Make{[](OnDevice in, Filled out, Stream stream) {
                       stream.enqueue([in, out] {
                         for (std::size_t i = 0; i != out.size(); ++i) {
                           out.data()[i] = in.data()[i * in.size() / out.size()];
                         }
                       });
                     }},
                     {.gives = fold.gives, .per = fold.per}} |
          ps::AsyncCopier{ps::to_host, {.batch = fold.landing}} |
          ps::Consumer{See{[&](Landed batch) {
                         flight.use(counted(batch.index() + batch.size()) - counted(batch.index()));
                       }},
                       {.workers = shape.workers}};
      CAPTURE(fold.per, fold.landing);
      check(pipeline, shape, flight);
    }
  }
}

TEST_CASE("what a device leaves out is given back when the others are copied", "[ahead]") {
  tests::Watchdog watchdog{"ahead of a filter", 60s};
  using Some = ps::Batch<ps::Counted<Record>, ps::Device>;
  for (const std::size_t of : {1U, 3U, 1000U}) {
    const Shape shape{2, 140, 20, 0, 1000};
    ps::HostDevice device{{.late_seed = 5}};
    Flight flight;
    std::atomic<std::uint64_t> kept{0};
    auto pipeline =
        to_device(shape, flight, device) |
        ps::Kernel{
            std::function<void(OnDevice, Some, Stream)>{[&](OnDevice in, Some out, Stream s) {
              s.enqueue([&flight, in, out, of] {
                std::size_t count = 0;
                for (std::size_t i = 0; i != in.size(); ++i) {
                  if (in.data()[i] % of == 0) {
                    out.data()[count++] = in.data()[i];
                  }
                }
                *out.count() = count;
                flight.use(in.size() - count);
              });
            }}} |
        ps::AsyncCopier{ps::to_host, {.batch = 100}} | ps::Consumer{See{[&](Landed batch) {
          kept += batch.size();
          flight.use(batch.size());
        }}};
    check(pipeline, shape, flight);
    CHECK(kept.load() == 2 * ((shape.records + of - 1) / of));
  }
}

namespace {

struct Word : ps::Columns<ps::Field<"text", ps::Ragged<char>>, ps::Field<"number", Record>> {};

/// Words of different lengths.
struct Words {
  using schema = Word;
  Flight* flight;

  std::uint64_t size() const { return 500; }
  template <class Where> std::size_t read(ps::Batch<Word, Where> into) const {
    flight->read(into.size());
    const auto text = ps::get<"text">(into);
    for (std::size_t i = 0; i != into.size(); ++i) {
      const std::size_t length = (into.index() + i) % 5;
      std::fill_n(text.put(i, length), length, 'a');
      ps::get<"number">(into)[i] = static_cast<Record>(into.index() + i);
    }
    return into.size();
  }
};

/// Records of 3 MiB, which go in pieces; counts bytes.
struct Large {
  using schema = std::byte;
  static constexpr std::size_t each = std::size_t{3} << 20;
  Flight* flight;

  std::uint64_t size() const { return 9; }
  std::size_t record_bytes() const { return each; }
  template <class Where> std::size_t read(ps::Batch<std::byte, Where> into) const {
    throw std::logic_error{"a record of " + std::to_string(into.record_bytes()) + " is whole"};
  }
  void read_bytes(std::uint64_t, std::span<std::byte> into) const { flight->read(into.size()); }
};

} // namespace

TEST_CASE("words, whose slots are batches, are counted too", "[ahead]") {
  tests::Watchdog watchdog{"words ahead", 60s};
  for (const unsigned workers : {1U, 3U}) {
    for (const std::size_t ahead : {20U, 33U}) {
      ps::HostDevice device{{.late_seed = 6}};
      Flight flight;
      auto pipeline =
          ps::Reader{Words{&flight}, ps::to_pinned, {.workers = workers, .ahead = ahead}} |
          ps::AsyncCopier{device, {.batch = 20}} |
          ps::Consumer{std::function<void(ps::Batch<const Word, ps::Device>, Stream)>{
              [&](auto batch, auto& stream) { use_later(flight, batch.size(), stream); }}};
      pipeline.run();
      CHECK(flight.used.load() == 500);
      CHECK(flight.most.load() <= static_cast<std::int64_t>(ahead));
    }
  }
}

TEST_CASE("records that go in pieces are counted whole", "[ahead]") {
  tests::Watchdog watchdog{"pieces ahead", 60s};
  for (const unsigned workers : {1U, 3U}) {
    ps::HostDevice device{{.late_seed = 6}};
    Flight flight;
    auto pipeline =
        ps::Reader{Large{&flight}, ps::to_pinned, {.workers = workers, .ahead = 3}} |
        ps::AsyncCopier{device, {.batch = 2}} |
        ps::Consumer{std::function<void(ps::Batch<const std::byte, ps::Device>, Stream)>{
            [&](auto batch, auto& stream) { use_later(flight, batch.size_bytes(), stream); }}};
    pipeline.run();
    CHECK(flight.used.load() == 9 * static_cast<std::int64_t>(Large::each));
    CHECK(flight.most.load() <= 3 * static_cast<std::int64_t>(Large::each));
  }
}

TEST_CASE("slots that cannot be read keep nothing", "[ahead]") {
  tests::Watchdog watchdog{"ahead of bad slots", 60s};
  Flight flight;
  auto pipeline =
      ps::Reader{Bad{{300, &flight}}, {.workers = 2, .ahead = 25, .on_error = {.skips = 1000}}} |
      ps::Consumer{SeeHost{[&](OnHost batch) { flight.use(batch.size()); }}};
  const ps::Report& report = pipeline.run();
  CHECK(report.records + report.skipped == 300);
  CHECK(report.skipped >= 100);
  CHECK(flight.most.load() <= 25);
}

TEST_CASE("leases keep what they hold, in any order", "[ahead]") {
  tests::Watchdog watchdog{"ahead of a loop", 60s};
  ps::HostDevice device{{.late_seed = 4}};
  Shape shape{2, 128, 32, 0, 1000};
  Flight flight;
  SECTION("and an error if they leave none") {
    shape.ahead = 64;
    auto pipeline = to_device(shape, flight, device);
    ps::HostStream own = device.stream();
    std::vector<ps::Lease<OnDevice>> held;
    const auto error = tests::caught<ps::StageError>([&] {
      for (auto batch : pipeline.on(own)) {
        held.push_back(std::move(batch));
      }
    });
    CHECK(tests::has(error, "keep 64 of the 64 records"));
    CHECK(held.size() == 2);
    held.clear();
  }
  SECTION("up to what leaves room for one batch") {
    auto pipeline = to_device(shape, flight, device);
    ps::HostStream own = device.stream();
    std::vector<ps::Lease<OnDevice>> held;
    std::uint64_t records = 0;
    for (auto batch : pipeline.on(own)) {
      records += batch.size();
      use_later(flight, batch.size(), own);
      held.push_back(std::move(batch));
      if (held.size() == 3) {
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(records / 32 % 3));
        held.pop_back();
      }
    }
    CHECK(records == shape.records);
    CHECK(flight.most.load() <= 128);
    held.clear();
  }
}

TEST_CASE("a loop gets its next batch with what leases leave, to the last record", "[ahead]") {
  tests::Watchdog watchdog{"ahead with a lease", 60s};
  ps::HostDevice device;
  // A lease and a batch are all there may be, and the slots do not fit into a batch.
  const Shape shape{2, 120, 60, 50, 600};
  Flight flight;
  auto pipeline = to_device(shape, flight, device);
  ps::HostStream own = device.stream();
  ps::Lease<OnDevice> before;
  std::uint64_t batches = 0;
  for (auto batch : pipeline.on(own)) {
    before = std::move(batch);
    ++batches;
  }
  CHECK(batches == 10);
}

TEST_CASE("a second stream's use counts too", "[ahead]") {
  tests::Watchdog watchdog{"ahead of two streams", 60s};
  ps::HostDevice device;
  const Shape shape{2, 40, 20, 0, 400};
  Flight flight;
  auto pipeline = to_device(shape, flight, device);
  ps::HostStream own = device.stream();
  ps::HostStream other = device.stream();
  for (auto batch : pipeline.on(own)) {
    other.enqueue([] { std::this_thread::sleep_for(1ms); });
    use_later(flight, batch.size(), other);
    batch.used_on(other);
  }
  CHECK(flight.used.load() == 400);
  CHECK(flight.most.load() <= 40);
}

TEST_CASE("leases of slots keep what they hold", "[ahead]") {
  tests::Watchdog watchdog{"ahead of a loop on the host", 60s};
  const Shape shape{4, 100, 0, 10, 1000};
  Flight flight;
  auto pipeline = ps::Pipeline{std::tuple{ps::Reader{source(shape, flight), shape.reading()}}};
  std::vector<ps::Lease<ps::Batch<const Record, ps::Pageable>>> held;
  const auto error = tests::caught<ps::StageError>([&] {
    for (auto batch : pipeline.batches()) {
      held.push_back(std::move(batch));
    }
  });
  CHECK(tests::has(error, "keep 100 of the 100 records"));
  CHECK(held.size() == 10);
  held.clear();
  std::uint64_t records = 0;
  flight.clear();
  for (auto batch : pipeline.batches()) {
    records += batch.size();
    flight.use(batch.size());
    held.push_back(std::move(batch));
    if (held.size() == 9) {
      held.erase(held.begin() + 1, held.end() - 1);
    }
    if (held.size() > 5) {
      held.erase(held.begin());
    }
  }
  CHECK(records == shape.records);
}

TEST_CASE("too few records ahead are refused, with the figures", "[ahead]") {
  ps::HostDevice device;
  Flight flight;
  const auto refusal = [&](auto pipeline) {
    try {
      pipeline.prepare();
    } catch (const ps::OptionError& e) {
      return std::string{e.what()};
    }
    return std::string{"no error"};
  };
  const auto seen = See{[](Landed) {}};
  const auto use = Use{[](OnDevice, Stream) {}};
  SECTION("a batch") {
    CHECK(refusal(to_device({2, 99, 100}, flight, device) | ps::Consumer{use}) ==
          "penstock: Reader: ahead is 99, but the batches of this chain, while they fill, may hold "
          "100 records, and would never be full: give it at least that, or smaller batches, or "
          ".flush, and "
          "they are handed on as they are.");
    CHECK(refusal(to_device({2, 100, 100}, flight, device) | ps::Consumer{use}) == "no error");
  }
  SECTION("what no time can mean") {
    using namespace std::chrono_literals;
    const std::vector<int> numbers(100);
    const auto with = [&](const ps::ReaderOptions& options) {
      return refusal(ps::Reader{ps::memory(numbers), options} |
                     ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}});
    };
    CHECK(with({.flush = -1us}) ==
          "penstock: Reader: flush is less than 0: give it 0 or more, or ps::never.");
    CHECK(with({.batch = 10, .drop_last = true, .flush = 1us}) ==
          "penstock: Reader: drop_last leaves out short batches, and flush makes some at any time: "
          "choose one of them.");
    CHECK(with({.flush = 0us}) == "no error");
  }
  SECTION("two that do not fit into each other") {
    const auto with = [&](std::size_t ahead) {
      return refusal(to_device({2, ahead, 64}, flight, device) |
                     ps::AsyncCopier{ps::to_host, {.batch = 100}} | ps::Consumer{seen});
    };
    CHECK(with(159).find("may hold 160 records") != std::string::npos);
    CHECK(with(160) == "no error");
  }
  SECTION("a slot that is a batch") {
    const auto with = [&](std::size_t ahead) {
      return refusal(ps::Reader{Numbers{100, &flight}, {.batch = 20, .ahead = ahead}} |
                     ps::Consumer{SeeHost{[](OnHost) {}}});
    };
    CHECK(with(19).find("may hold 20 records") != std::string::npos);
    CHECK(with(20) == "no error");
  }
}

TEST_CASE("with flush less may be ahead than a slot holds", "[ahead]") {
  using namespace std::chrono_literals;
  tests::Watchdog watchdog{"ahead of slots", 60s};
  const std::vector<int> numbers(1000, 1);
  std::size_t records = 0;
  SECTION("a Decoder") {
    auto pipeline = ps::Reader{ps::memory(numbers), {.batch = 100, .ahead = 10, .flush = 1ms}} |
                    ps::Decoder{[](const int& in, int& out) { out = in; }, {.workers = 2}};
    for (auto batch : pipeline.batches()) {
      records += batch.size();
    }
    CHECK(records == 1000);
  }
  SECTION("a Consumer") {
    auto pipeline =
        ps::Reader{ps::memory(numbers), {.batch = 64, .ahead = 63, .flush = 1ms}} |
        ps::Consumer{[&](ps::Batch<const int, ps::Pageable> batch) { records += batch.size(); }};
    pipeline.run();
    CHECK(records == 1000);
  }
  SECTION("leases that keep all are told of") {
    auto pipeline = ps::Reader{ps::memory(numbers), {.batch = 10, .ahead = 15, .flush = 0us}} |
                    ps::Decoder{[](const int& in, int& out) { out = in; }};
    std::vector<ps::Lease<ps::Batch<const int, ps::Pageable>>> held;
    std::string error;
    try {
      for (auto batch : pipeline.batches()) {
        held.push_back(std::move(batch));
      }
    } catch (const ps::StageError& e) {
      error = e.what();
    }
    CHECK(error.find("keep 15 of the 15 records that the Reader may be ahead") !=
          std::string::npos);
  }
}

TEST_CASE("credits that are shared twice, and rounded, are not too few", "[ahead]") {
  ps::detail::AheadNeeds needs;
  ps::detail::Ahead<> enough{1000};
  SECTION("what was gathered is gathered again") {
    // A Kernel makes two of each. Of the credits of 15, 7, the last five have 3, and the next 15
    // have 8: 11 for 20 that wait.
    needs.recount(1, 2);
    needs.gather(15);
    needs.gather(20 + 15);
    needs.check(enough);
    CHECK(enough.needs() >= 1 + 7 + 11);
  }
  SECTION("what some are left out of is gathered") {
    needs.recount(2, 3);
    needs.leave_out();
    needs.gather(10); // of three that share two credits one may have both
    needs.check(enough);
    CHECK(enough.needs() == 1 + 9);
  }
}

TEST_CASE("a bound on what is ahead outlasts a stop and an error", "[ahead]") {
  tests::Watchdog watchdog{"ahead and a stop", 60s};
  ps::HostDevice device{{.late_seed = 7}};
  const Shape shape{4, 40, 20, 0, 2000};
  Flight flight;
  int fails = 0;
  auto pipeline =
      to_device(shape, flight, device) | ps::Consumer{Use{[&](OnDevice batch, Stream stream) {
        if (batch.index() == 200 && fails-- > 0) {
          throw std::runtime_error{"planted"};
        }
        use_later(flight, batch.size(), stream);
      }}};
  for (int round = 0; round != 5; ++round) {
    fails = 1;
    CHECK_THROWS_AS(pipeline.run(), ps::StageError);
    fails = 0;
    std::stop_source stop;
    stop.request_stop();
    CHECK(pipeline.run({.stop = stop.get_token()}).stopped);
    check(pipeline, shape, flight);
  }
}
