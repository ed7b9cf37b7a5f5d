// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Limits on a run once its pipeline is prepared: it does not allocate, makes no streams or events,
// and calls the device no more often than it must.

#include "support/counted_new.hpp"

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

#include <penstock/sources/fifo.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <numeric>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace suite;
namespace memory = tests::memory;

namespace {

constexpr std::size_t total = 13'300'000;
constexpr std::size_t batch = 200'000;
constexpr std::uint64_t batches = (total + batch - 1) / batch;

// Counts what is made, and which thread makes each call: the test's own or another.
struct Counting : ps::HostDevice {
  struct Calls {
    std::atomic<std::uint64_t> copies{0}, records{0}, waits{0}, questions{0}, syncs{0};

    void clear() { copies = records = waits = questions = syncs = 0; }
  };

  ps::HostStream stream() {
    ++made;
    return HostDevice::stream();
  }
  ps::HostEvent event() {
    ++made;
    return HostDevice::event();
  }
  void* allocate(std::size_t bytes) {
    ++made;
    return HostDevice::allocate(bytes);
  }
  void* allocate_pinned(std::size_t bytes) {
    ++made;
    return HostDevice::allocate_pinned(bytes);
  }
  void copy_to_device(void* to, const void* from, std::size_t bytes, ps::HostStream& stream) {
    ++calls().copies;
    HostDevice::copy_to_device(to, from, bytes, stream);
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes, ps::HostStream& stream) {
    ++calls().copies;
    HostDevice::copy_to_host(to, from, bytes, stream);
  }
  void record(ps::HostEvent& event, ps::HostStream& stream) {
    ++calls().records;
    HostDevice::record(event, stream);
  }
  void wait(ps::HostStream& stream, const ps::HostEvent& event) {
    ++calls().waits;
    HostDevice::wait(stream, event);
  }
  bool is_done(const ps::HostEvent& event) {
    ++calls().questions;
    return HostDevice::is_done(event);
  }
  void sync(const ps::HostEvent& event) {
    ++calls().syncs;
    HostDevice::sync(event);
  }
  void sync(ps::HostStream& stream) {
    ++calls().syncs;
    HostDevice::sync(stream);
  }

  Calls& calls() { return std::this_thread::get_id() == caller ? here : elsewhere; }

  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<std::uint64_t> made{0};
  Calls here, elsewhere;
};
static_assert(ps::AnyDevice<Counting>);

using Bytes = ps::Batch<const std::byte, ps::Device>;

// Returns the allocations of all threads in one more run.
template <class P> std::uint64_t allocations_of_a_run(P& pipeline) {
  const std::uint64_t before = memory::allocations;
  pipeline.run();
  return memory::allocations - before;
}

struct File {
  File() : bytes{some_bytes(total)}, path{dir.write("bytes", std::span<const std::byte>{bytes})} {}
  std::vector<std::byte> bytes;
  tests::TempDir dir;
  std::string path;
};

} // namespace

TEST_CASE("no run to the device allocates, nor makes streams or events") {
  const File file;
  Counting device;
  std::atomic<std::uint64_t> sum{0};
  auto pipeline =
      ps::Reader{ps::records<std::byte>(file.path), {.workers = 3, .depth = 3, .epochs = 3}} |
      ps::PinnedStager{{.workers = 2, .depth = 3}} | ps::AsyncCopier{device, {.batch = batch}} |
      ps::Consumer{[&sum](Bytes bytes, ps::HostStream& stream) {
        stream.enqueue([&sum, bytes] { sum += static_cast<std::uint64_t>(bytes.data()[0]); });
      }};
  pipeline.prepare();
  const std::uint64_t made = device.made;
  CHECK(made > 0);
  for (int run = 0; run < 3; ++run) {
    CAPTURE(run);
    CHECK(allocations_of_a_run(pipeline) == 0);
    CHECK(device.made == made);
    CHECK(pipeline.report().records == 3 * total);
  }
}

TEST_CASE("no run into pinned memory allocates, from memory or from a callable") {
  const auto bytes = some_bytes(total);
  Counting device;
  auto from_memory = ps::Reader{ps::memory(std::span{bytes}), ps::to_pinned, {.workers = 2}} |
                     ps::AsyncCopier{device} | ps::Consumer{[](Bytes, ps::HostStream&) {}};
  auto from_callable =
      ps::Reader{ps::generate<std::byte>([](std::span<std::byte> out, std::uint64_t first) {
                   std::memset(out.data(), 1, out.size());
                   return first < total ? out.size() : 0;
                 }),
                 ps::to_pinned,
                 {.workers = 4}} |
      ps::AsyncCopier{device} | ps::Consumer{[](Bytes, ps::HostStream&) {}};
  from_memory.prepare();
  from_callable.prepare();
  const std::uint64_t made = device.made;
  for (int run = 0; run < 2; ++run) {
    CAPTURE(run);
    CHECK(allocations_of_a_run(from_memory) == 0);
    CHECK(allocations_of_a_run(from_callable) == 0);
    CHECK(device.made == made);
  }
}

TEST_CASE("no run to the host allocates, by one worker or several") {
  const File file;
  for (const unsigned workers : {1U, 3U}) {
    CAPTURE(workers);
    auto pipeline =
        ps::Reader{ps::records<std::byte>(file.path), {.workers = 2, .depth = 2}} |
        ps::Consumer{[](ps::Batch<const std::byte, ps::Pageable>) {}, {.workers = workers}};
    pipeline.prepare();
    for (int run = 0; run < 2; ++run) {
      CAPTURE(run);
      CHECK(allocations_of_a_run(pipeline) == 0);
      CHECK(pipeline.report().records == total);
    }
  }
}

TEST_CASE("a second run that leaves records out allocates nothing") {
  struct Bad : std::exception {
    const char* what() const noexcept override { return "bad"; }
  };
  constexpr std::uint64_t slot = 100;
  auto pipeline =
      ps::Reader{ps::generate<std::uint64_t>(3000 * slot,
                                             [](std::span<std::uint64_t> out, std::uint64_t first) {
                                               std::iota(out.begin(), out.end(), first);
                                             }),
                 {.workers = 1, .depth = 4, .batch = slot}} |
      ps::Decoder{[](const std::uint64_t& in, std::uint64_t& out) {
                    out = in;
                    if (in % 10 == 7) {
                      throw Bad{};
                    }
                  },
                  {.workers = 2, .depth = 4, .on_error = {.skips = 1'000'000}}} |
      ps::Consumer{[](ps::Batch<const std::uint64_t, ps::Pageable>) {}, {.workers = 2}};
  pipeline.run();
  for (int run = 0; run < 2; ++run) {
    const std::uint64_t before = memory::allocations;
    const ps::Report& report = pipeline.run();
    const std::uint64_t after = memory::allocations;
    // The C++ runtime's own allocations for exceptions are not operator new's.
    CHECK((after == before || !memory::can_refuse));
    CHECK(report.skipped == 300 * slot);
  }
}

TEST_CASE("no run of large records allocates, though the Report says more of them") {
  const auto bytes = some_bytes(4 * 1'500'000);
  Counting device;
  auto pipeline =
      ps::Reader{
          ps::memory(std::span{bytes}, {.record_bytes = 1'500'000}), ps::to_pinned, {.batch = 1}} |
      ps::AsyncCopier{device, {.batch = 1}} | ps::Consumer{[](Bytes, ps::HostStream&) {}};
  pipeline.prepare();
  for (int run = 0; run < 2; ++run) {
    CAPTURE(run);
    CHECK(allocations_of_a_run(pipeline) == 0);
    CHECK(pipeline.report().stages[0].note == "a record of 1500000 bytes is a slot");
  }
}

TEST_CASE("more files than may be open are read without allocating") {
  const tests::TempDir dir;
  const auto bytes = some_bytes(300 * 100);
  for (int i = 0; i < 300; ++i) {
    dir.write("f" + std::to_string(i), std::span<const std::byte>{bytes}.subspan(i * 100u, 100));
  }
  std::atomic<std::uint64_t> records{0};
  auto pipeline =
      ps::Reader{ps::records<std::byte>(dir.path())} |
      ps::Consumer{[&](ps::Batch<const std::byte, ps::Pageable> some) { records += some.size(); }};
  pipeline.prepare();
  CHECK(allocations_of_a_run(pipeline) == 0);
  CHECK(records == bytes.size());
}

TEST_CASE("a stopped run allocates nothing either") {
  const auto bytes = some_bytes(total);
  Counting device;
  std::stop_source stop;
  auto pipeline = ps::Reader{ps::memory(std::span{bytes}), ps::to_pinned} |
                  ps::AsyncCopier{device, {.batch = batch}} |
                  ps::Consumer{[&](Bytes some, ps::HostStream&) {
                    if (some.index() >= total / 2) {
                      stop.request_stop();
                    }
                  }};
  pipeline.prepare();
  const std::uint64_t made = device.made;
  const std::uint64_t before = memory::allocations;
  pipeline.run(stop.get_token());
  CHECK(memory::allocations == before);
  CHECK(device.made == made);
  CHECK(pipeline.report().stopped);
}

TEST_CASE("a run out of a pipe allocates nothing, though it waits for each batch") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const std::vector<std::uint64_t> some(64);
  const std::size_t bytes = some.size() * sizeof some[0];
  const auto send = [&] {
    return ::write(ends[1], some.data(), bytes) == static_cast<std::ptrdiff_t>(bytes);
  };
  std::uint64_t seen = 0;
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  std::stop_source stop;
  auto pipeline = ps::Reader{ps::fifo<std::uint64_t>(ends[0]), {.depth = 4, .batch = some.size()}} |
                  ps::Consumer{[&](ps::Batch<const std::uint64_t, ps::Pageable>) {
                    before = ++seen == 10 ? memory::allocations.load() : before;
                    after = memory::allocations;
                    if (seen == 1000 || !send()) {
                      stop.request_stop();
                    }
                  }};
  REQUIRE(send());
  pipeline.run({.stop = stop.get_token()});
  CHECK(seen == 1000);
  CHECK(after == before);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("a consumer that allocates is seen by the same count") {
  const auto bytes = some_bytes(total);
  Counting device;
  std::unique_ptr<std::uint64_t> kept;
  auto pipeline = ps::Reader{ps::memory(std::span{bytes}), ps::to_pinned} |
                  ps::AsyncCopier{device, {.batch = batch}} |
                  ps::Consumer{[&](Bytes some, ps::HostStream&) {
                    kept = std::make_unique<std::uint64_t>(some.index());
                  }};
  pipeline.run();
  CHECK(allocations_of_a_run(pipeline) == batches);
}

TEST_CASE("a batch costs the caller's thread a record and at most a wait, and a copy one record") {
  const auto bytes = some_bytes(total);
  for (int run = 0; run < 5; ++run) {
    CAPTURE(run);
    Counting device;
    auto pipeline = ps::Reader{ps::memory(std::span{bytes}), ps::to_pinned, {.workers = 2}} |
                    ps::AsyncCopier{device, {.batch = batch}} |
                    ps::Consumer{[](Bytes, ps::HostStream& stream) { stream.enqueue([] {}); }};
    pipeline.run();
    device.here.clear();
    device.elsewhere.clear();
    const std::uint64_t calls = device.counts().calls;
    pipeline.run();
    CHECK(device.here.records == batches);
    CHECK(device.here.waits <= batches);
    CHECK(device.here.copies == 0);
    CHECK(device.here.questions == 0);
    CHECK(device.here.syncs <= 2);        // the end of the run
    CHECK(device.elsewhere.copies <= 13); // slots
    CHECK(device.elsewhere.copies >= 2);  // at most 12 MiB each
    CHECK(device.elsewhere.records == device.elsewhere.copies);
    CHECK(device.elsewhere.waits <= device.elsewhere.copies);
    CHECK(device.elsewhere.syncs <= 1);
    // No calls are made but these.
    const auto sum = [](const Counting::Calls& c) {
      return c.copies + c.records + c.waits + c.questions + c.syncs;
    };
    CHECK(device.counts().calls - calls == sum(device.here) + sum(device.elsewhere));
  }
}

TEST_CASE("small batches that are given back one after the other share a record") {
  const auto bytes = some_bytes(total);
  Counting device;
  auto pipeline = ps::Reader{ps::memory(std::span{bytes}), ps::to_pinned} |
                  ps::AsyncCopier{device, {.batch = 4096}};
  auto stream = device.stream();
  pipeline.prepare();
  const std::uint64_t small = (total + 4095) / 4096;
  std::uint64_t seen = 0;
  device.here.clear();
  for (auto batch : pipeline.on(stream)) {
    // All of the run has room on the device. When it is there, no step has to wait.
    while (seen == 0 && pipeline.report().stages[1].records != total) {
      std::this_thread::yield();
    }
    seen += batch.size() != 0 ? 1 : 0;
  }
  CHECK(seen == small);
  CHECK(device.here.records == (small + 15) / 16);
}

TEST_CASE("no run both ways allocates, makes streams or events, or waits for the device") {
  const auto bytes = some_bytes(total);
  Counting device;
  std::atomic<std::uint64_t> sum{0};
  std::uint64_t came = 0;
  constexpr std::size_t gives = 8;
  auto pipeline =
      ps::Reader{ps::memory(std::span{bytes}), ps::to_pinned, {.workers = 2}} |
      ps::AsyncCopier{device, {.batch = batch}} |
      ps::Kernel{[](Bytes in, ps::Batch<std::byte, ps::Device> out, ps::HostStream& stream) {
                   stream.enqueue([in, out] { std::copy_n(in.data(), out.size(), out.data()); });
                 },
                 {.streams = 2, .gives = gives, .per = 0, .extents = {1}}} |
      ps::Kernel{[&sum](ps::Batch<std::byte, ps::Device> both, ps::HostStream& stream) {
        stream.enqueue([&sum, both] { sum += static_cast<std::uint64_t>(both.data()[0]); });
      }} |
      ps::AsyncCopier{ps::to_host} |
      ps::Consumer{[&came](ps::Batch<const std::byte, ps::Pinned> some) { came += some.size(); },
                   {.workers = 1}};
  pipeline.prepare();
  const std::uint64_t made = device.made;
  for (int run = 0; run < 3; ++run) {
    CAPTURE(run);
    came = 0;
    device.here.clear();
    device.elsewhere.clear();
    const std::uint64_t calls = device.counts().calls;
    CHECK(allocations_of_a_run(pipeline) == 0);
    CHECK(device.made == made);
    CHECK(came == batches * gives);
    // A batch costs one record in each kernel, and each copy costs one.
    CHECK(device.elsewhere.records == device.elsewhere.copies + 2 * batches);
    CHECK(device.elsewhere.copies <= 13 + batches);
    // The first kernel waits for the copy and for its place, the second for the first kernel.
    CHECK(device.elsewhere.waits <= 2 * device.elsewhere.copies + 3 * batches);
    CHECK(device.elsewhere.syncs <= 10); // the end of the run: streams, and events recorded on them
    const auto all = [](const Counting::Calls& c) {
      return c.copies + c.records + c.waits + c.questions + c.syncs;
    };
    CHECK(all(device.here) == 0);
    CHECK(device.counts().calls - calls == all(device.elsewhere));
  }
}
