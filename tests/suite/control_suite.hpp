// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How runs end on every device: by errors, by stops; and what the Report says. The including file
// defines TestDevice, for_each_device(f), for_each_slow_device(f) for a device whose
// copies can be repeated, pinned_bytes(device), and delay(stream, time), which keeps a stream busy.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/sanitizer.hpp"
#include "support/test_devices.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <vector>

namespace suite {

using D = TestDevice;
using Bytes = ps::Batch<const std::byte, ps::Device>;
using namespace std::chrono_literals;

/// A source of `records` bytes that takes `pause` for each MiB.
inline auto slow_bytes(std::uint64_t records, std::chrono::microseconds pause) {
  return ps::generate<std::byte>(records, [pause](std::span<std::byte> out, std::uint64_t first) {
    std::memset(out.data(), static_cast<int>(first >> 20), out.size());
    std::this_thread::sleep_for(pause);
  });
}

TEST_CASE("an exception in the callable ends the run with its stage and record") {
  struct Boom : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  const auto bytes = some_bytes(2'000'000);
  for_each_device([&](D& device) {
    for (const std::uint64_t bad : {0, 3, 19}) {
      CAPTURE(bad);
      std::uint64_t calls = 0;
      auto pipeline = ps::Reader{ps::memory(std::span{bytes}), ps::to_pinned, {.workers = 2}} |
                      ps::AsyncCopier{device, {.batch = 100'000}} |
                      ps::Consumer{[&](Bytes batch, ps::Stream<D>) {
                        if (batch.index() == bad * 100'000) {
                          throw Boom{"boom"};
                        }
                        ++calls;
                      }};
      for (int run = 0; run < 2; ++run) {
        calls = 0;
        try {
          pipeline.run();
          CHECK(false);
        } catch (const ps::StageError& e) {
          CHECK(e.stage() == "Consumer");
          CHECK(e.record() == bad * 100'000);
          CHECK(std::string{e.what()}.find("boom") != std::string::npos);
          CHECK_THROWS_AS(std::rethrow_if_nested(e), Boom);
        }
        CHECK(calls == bad);
        CHECK(pipeline.report().records == bad * 100'000);
      }
    }
  });
}

TEST_CASE("an exception in a source ends the run with the exact record, file and offset") {
  for_each_device([&](D& device) {
    std::uint64_t consumed = 0;
    const auto fails = [](std::span<std::byte>, std::uint64_t first) {
      if (first >= 10'000'000) {
        throw ps::SourceError{"penstock: bad sector", "disk", 42, first + 7};
      }
    };
    auto pipeline = ps::Reader{ps::generate<std::byte>(20'000'000, fails), {.workers = 2}} |
                    ps::PinnedStager{} | ps::AsyncCopier{device} |
                    ps::Consumer{[&](Bytes batch, ps::Stream<D>) { consumed += batch.size(); }};
    for (int run = 0; run < 2; ++run) {
      consumed = 0;
      try {
        pipeline.run();
        CHECK(false);
      } catch (const ps::StageError& e) {
        CHECK(e.stage() == "Reader");
        CHECK((e.record() == 10 * 1048576 + 7 || e.record() == 11 * 1048576 + 7));
        CHECK(e.file() == "disk");
        CHECK(e.offset() == 42);
        CHECK_THROWS_AS(std::rethrow_if_nested(e), ps::SourceError);
      }
      CHECK(consumed <= 12 * 1048576);
    }
  });
}

TEST_CASE("a stop asked for before the run ends it at once, and is no error") {
  for_each_device([&](D& device) {
    auto pipeline = ps::Reader{slow_bytes(100 << 20, 1ms), ps::to_pinned} |
                    ps::AsyncCopier{device} | ps::Consumer{[](Bytes, ps::Stream<D>) {}};
    std::stop_source stop;
    stop.request_stop();
    const ps::Report& report = pipeline.run(stop.get_token());
    CHECK(report.stopped);
    CHECK(report.records == 0);
    CHECK_FALSE(pipeline.run().stopped);
    CHECK(pipeline.report().records == 100 << 20);
  });
}

TEST_CASE("a stop during the run ends it early, and what was dropped is counted") {
  for_each_device([&](D& device) {
    for (const bool by_token : {true, false}) {
      std::stop_source stop;
      std::function<void()> end;
      std::uint64_t records = 0;
      auto pipeline = ps::Reader{slow_bytes(2000 << 20, 500us), ps::to_pinned, {.workers = 2}} |
                      ps::AsyncCopier{device, {.batch = 1 << 20}} |
                      ps::Consumer{[&](Bytes batch, ps::Stream<D>) {
                        records += batch.size();
                        if (batch.index() >= 5 << 20) {
                          end();
                        }
                      }};
      end = [&] { by_token ? void(stop.request_stop()) : pipeline.stop(); };
      const ps::Report& report = pipeline.run(stop.get_token());
      CHECK(report.stopped);
      CHECK(report.records == records);
      CHECK(report.records == 6 << 20); // none after the batch that asked for the stop
      CHECK(report.dropped == report.stages[0].records - report.records);
    }
  });
}

TEST_CASE("a stop from another thread wakes a pipeline whose every thread sleeps") {
  for_each_device([&](D& device) {
    std::stop_source stop;
    const auto stuck = [&](std::span<std::byte> out, std::uint64_t first) {
      // One slot comes; the rest wait until the run is stopped.
      while (first != 0 && !stop.stop_requested()) {
        std::this_thread::sleep_for(100us);
      }
      std::memset(out.data(), 1, out.size());
    };
    auto pipeline =
        ps::Reader{ps::generate<std::byte>(100 << 20, stuck), ps::to_pinned, {.workers = 2}} |
        ps::AsyncCopier{device} | ps::Consumer{[](Bytes, ps::Stream<D>) {}};
    std::thread stopper{[&] {
      std::this_thread::sleep_for(30ms);
      stop.request_stop();
    }};
    const ps::Report& report = pipeline.run(stop.get_token());
    stopper.join();
    CHECK(report.stopped);
  });
}

TEST_CASE("options that cannot work are refused by prepare, with the stage named") {
  for_each_device([&](D& device) {
    const auto refused = [](auto pipeline, const char* stage) {
      try {
        pipeline.prepare();
        return false;
      } catch (const ps::OptionError& e) {
        return std::string{e.what()}.find(stage) != std::string::npos;
      }
    };
    const auto bytes = some_bytes(1000);
    const auto source = ps::memory(std::span{bytes});
    const auto use = [](Bytes, ps::Stream<D>) {};
    CHECK(refused(ps::Reader{source, ps::to_pinned, {.depth = 1}} | ps::AsyncCopier{device} |
                      ps::Consumer{use},
                  "Reader: depth is 1"));
    CHECK(refused(ps::Reader{source} | ps::PinnedStager{{.depth = 1}} | ps::AsyncCopier{device} |
                      ps::Consumer{use},
                  "PinnedStager: depth is 1"));
    CHECK(refused(ps::Reader{source, ps::to_pinned} | ps::AsyncCopier{device, {.depth = 1}} |
                      ps::Consumer{use},
                  "AsyncCopier: depth is 1"));
    CHECK(refused(ps::Reader{source, ps::to_pinned, {.epochs = 0}} | ps::AsyncCopier{device} |
                      ps::Consumer{use},
                  "epochs is 0"));
    CHECK(refused(ps::Reader{source, ps::to_pinned, {.workers = 100'000}} |
                      ps::AsyncCopier{device} | ps::Consumer{use},
                  "workers is 100000"));
    CHECK(refused(ps::Reader{source, ps::to_pinned} | ps::AsyncCopier{device} |
                      ps::Consumer{use, {.workers = 2}},
                  "Consumer: workers is 2"));
    CHECK(refused(ps::Reader{source, ps::to_pinned} |
                      ps::AsyncCopier{device, {.batch = ~std::size_t{0} / 2}} | ps::Consumer{use},
                  "AsyncCopier"));
    CHECK(refused(ps::Reader{source, ps::to_pinned, {.depth = ~std::size_t{0} / 2}} |
                      ps::AsyncCopier{device} | ps::Consumer{use},
                  "Reader"));
  });
}

TEST_CASE("pinned memory is slots times slot bytes, rounded up once to a page") {
  const auto bytes = some_bytes(3 * 150'529);
  for_each_device([&](D& device) {
    const std::uint64_t before = pinned_bytes(device);
    auto pipeline = ps::Reader{ps::memory(std::span{bytes}, {.record_bytes = 150'529}),
                               ps::to_pinned,
                               {.depth = 5}} |
                    ps::AsyncCopier{device} | ps::Consumer{[](Bytes, ps::Stream<D>) {}};
    pipeline.prepare();
    const std::uint64_t slot = 6 * 150'529; // six records are the number nearest to 1 MiB
    CHECK(pinned_bytes(device) - before == (5 * slot + 4095) / 4096 * 4096);
    pipeline.run();
    CHECK(pinned_bytes(device) - before == (5 * slot + 4095) / 4096 * 4096);
  });
}

TEST_CASE("the Report accounts for every record, byte and second") {
  const auto bytes = some_bytes(10'000'000);
  for_each_device([&](D& device) {
    auto pipeline =
        ps::Reader{ps::memory(std::span{bytes}, {.record_bytes = 100}), {.workers = 2}} |
        ps::PinnedStager{{.workers = 2}} | ps::AsyncCopier{device, {.batch = 5000}} |
        ps::Consumer{[](Bytes, ps::Stream<D>) {}};
    pipeline.run();
    const ps::Report& report = pipeline.run();
    REQUIRE(report.stages.size() == 4);
    const char* names[] = {"Reader", "PinnedStager", "AsyncCopier", "Consumer"};
    for (std::size_t i = 0; i < 4; ++i) {
      const ps::StageReport& stage = report.stages[i];
      CAPTURE(i);
      CHECK(stage.name == names[i]);
      CHECK(stage.records == 100'000);
      CHECK(stage.bytes == bytes.size());
      CHECK((stage.busy_s >= 0 && stage.starved_s >= 0 && stage.blocked_s >= 0));
      CHECK(stage.busy_s + stage.starved_s + stage.blocked_s > 0);
      CHECK(stage.busy_s + stage.starved_s + stage.blocked_s <= report.seconds * 1.001);
      CHECK(stage.cpu_share >= 0);
      CHECK(stage.depth_in_use <= static_cast<double>(stage.depth));
    }
    CHECK(report.stages[0].depth_in_use > 0);
    CHECK(report.records == 100'000);
    CHECK(report.bytes == bytes.size());
    CHECK(report.seconds > 0);
    CHECK(report.dropped == 0);
    CHECK(report.device == device.name());
  });
}

TEST_CASE("the Report names the stage that is three times slower than the others", "[timed]") {
  // Each stage has one worker; a slot is 1 MiB; the other stages take a third of `slow` or less,
  // even the stager's copying, which ThreadSanitizer slows.
  constexpr std::chrono::microseconds slow = tests::under_tsan ? 15ms : 1500us;
  // A busy machine wakes threads late, and then another stage may seem the slow one: one
  // undisturbed run is enough.
  const auto names = [](const std::string& stage, auto& device, std::chrono::microseconds read,
                        int copies, std::chrono::microseconds use) {
    using Dev = std::remove_reference_t<decltype(device)>;
    auto pipeline = ps::Reader{slow_bytes(60 << 20, read), {.workers = 1, .depth = 8}} |
                    ps::PinnedStager{{.workers = 1, .depth = 8}} |
                    ps::AsyncCopier{device, {.batch = 1 << 20}} |
                    ps::Consumer{[use](Bytes, ps::Stream<Dev> stream) { delay(stream, use); }};
    device.times = copies;
    pipeline.run();
    bool named = false;
    for (int attempt = 0; attempt < 20 && !named; ++attempt) {
      named = pipeline.run().limiting_stage == stage;
    }
    INFO(pipeline.report());
    CHECK(named);
  };
  for_each_slow_device([&](auto& device, int equal) {
    names("Reader", device, slow, equal, slow / 3);
    names("AsyncCopier", device, slow / 3, equal * 3, slow / 3);
    names("Consumer", device, slow / 3, equal, slow);
  });
  // The stager's copying cannot be slowed, so the other stages are made quick: no bytes are
  // written, and only the first of each copy go to the device.
  struct Large {
    std::byte bytes[48 << 20];
  };
  tests::CheapCopies<D> device;
  const auto quick = [](std::span<Large>, std::uint64_t) {};
  auto pipeline = ps::Reader{ps::generate<Large>(8, quick), {.workers = 1, .depth = 2}} |
                  ps::PinnedStager{{.workers = 1, .depth = 2}} | ps::AsyncCopier{device} |
                  ps::Consumer{[](ps::Batch<const Large, ps::Device>, ps::Stream<D>) {}};
  // The other stages sleep here, so the thread that watches the copies often wakes late.
  bool named = false;
  for (int attempt = 0; attempt < 100 && !named; ++attempt) {
    named = pipeline.run().limiting_stage == "PinnedStager";
  }
  INFO(pipeline.report());
  CHECK(named);
}

TEST_CASE("host batches go to a consumer in host memory, by several workers too") {
  const auto bytes = some_bytes(7'000'001);
  for_each_device([&](D& device) {
    for (const unsigned workers : {1U, 3U}) {
      std::vector<std::byte> got(bytes.size());
      std::atomic<std::uint64_t> records{0};
      const auto gather = [&](ps::Batch<const std::byte, ps::Pageable> batch) {
        std::memcpy(got.data() + batch.index(), batch.data(), batch.size());
        records += batch.size();
      };
      auto pageable =
          ps::Reader{ps::memory(std::span{bytes})} | ps::Consumer{gather, {.workers = workers}};
      pageable.run();
      CHECK(records == bytes.size());
      CHECK(got == bytes);
      CHECK(pageable.report().device == "none");

      std::fill(got.begin(), got.end(), std::byte{0});
      auto pinned =
          ps::Reader{ps::memory(std::span{bytes})} | ps::PinnedStager{device} |
          ps::Consumer{[&](ps::Batch<const std::byte, ps::Pinned> batch) {
                         std::memcpy(got.data() + batch.index(), batch.data(), batch.size());
                       },
                       {.workers = workers}};
      CHECK(pinned.run().records == bytes.size());
      CHECK(got == bytes);
      CHECK(pinned.report().device == device.name());
    }
  });
}

} // namespace suite
