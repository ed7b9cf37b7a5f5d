// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Limits on what prepare() makes, however small the batches are.

#include "support/counted_new.hpp"

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace suite;
namespace memory = tests::memory;

namespace {

using Floats = ps::Batch<const float, ps::Device>;

// More than the room for three full copies: no run is too short for its rings.
constexpr std::uint64_t records = 10'000'000;
constexpr std::size_t mib = std::size_t{1} << 20;

auto floats(ps::HostDevice& device, ps::CopierOptions options) {
  return ps::Reader{ps::generate<float>(records,
                                        [](std::span<float> out, std::uint64_t first) {
                                          std::ranges::fill(out, static_cast<float>(first));
                                        }),
                    ps::to_pinned,
                    {.depth = 2}} |
         ps::AsyncCopier{device, options};
}

// What a chain holds when it is prepared: stages are those from the copier on, in a Report.
struct Made {
  std::size_t events;
  std::uint64_t bytes;
  std::size_t places; // of the copier's ring
};
template <class Rest> Made prepared(ps::CopierOptions options, Rest rest) {
  ps::HostDevice device;
  const std::uint64_t before = memory::allocated_bytes;
  auto pipeline = rest(floats(device, options));
  pipeline.prepare();
  return {device.counts().live_events,
          memory::allocated_bytes - before + device.counts().pinned_bytes,
          pipeline.report().stages[1].depth};
}

// Compares small batches with larger ones, in a chain of so many rings on the device.
template <class Rest> void check(std::size_t rings, Rest rest) {
  const Made usual = prepared({.batch = 4096}, rest);
  const Made small = prepared({.batch = 1}, rest);
  CAPTURE(usual.events, usual.bytes, small.events, small.bytes);
  CHECK(usual.places == 2304); // three copies of 12 MiB
  CHECK(small.places == 4096);
  CHECK(small.events == usual.events);
  CHECK(usual.events <= 264 * rings); // those for uses are for two laps
  CHECK(small.bytes <= usual.bytes + 64 * mib);
}

void put(ps::HostStream& stream, std::span<float> at) {
  stream.enqueue([at] { at[0] += 1; });
}

} // namespace

TEST_CASE("batches of one record cost prepare() no more events, and hardly more memory") {
  SECTION("a Consumer") {
    check(1, [](auto copied) {
      return std::move(copied) | ps::Consumer{[](Floats, ps::HostStream&) {}};
    });
  }
  SECTION("Kernels, out of place and in place") {
    check(3, [](auto copied) {
      return std::move(copied) |
             ps::Kernel{[](Floats, ps::Batch<float, ps::Device>, ps::HostStream&) {},
                        {.streams = 3}} |
             ps::Kernel{[](ps::Batch<float, ps::Device>, ps::HostStream&) {}} |
             ps::Consumer{[](Floats, ps::HostStream&) {}};
    });
  }
  SECTION("a loop") {
    check(1, [](auto copied) { return copied; });
  }
  SECTION("the way back, with counts") {
    check(2, [](auto copied) {
      return std::move(copied) |
             ps::Kernel{[](Floats, ps::Batch<ps::Counted<float>, ps::Device>, ps::HostStream&) {}} |
             ps::AsyncCopier{ps::to_host, {.batch = 4096}} |
             ps::Consumer{[](ps::Batch<const float, ps::Pinned>) {}};
    });
  }
  SECTION("a replayed Consumer") {
    check(1, [](auto copied) {
      return std::move(copied) |
             ps::Consumer{ps::replayed(
                 [](ps::FrozenBatch<const float> in, ps::HostStream& stream) {
                   stream.enqueue([at = in.data()] { static_cast<void>(at[0]); });
                 },
                 {.lanes = 4})};
    });
  }
  SECTION("a replayed Kernel") {
    check(2, [](auto copied) {
      return std::move(copied) |
             ps::Kernel{ps::replayed([](ps::FrozenBatch<float> both, ps::HostStream& stream) {
               put(stream, {both.data(), both.size()});
             })} |
             ps::Consumer{[](Floats, ps::HostStream&) {}};
    });
  }
}

TEST_CASE("who asks for more places than that gets them, and as many leases") {
  constexpr std::size_t depth = 10'000;
  const auto many = [](std::size_t batch) {
    return prepared({.batch = batch, .depth = depth}, [](auto copied) { return copied; });
  };
  CHECK(many(1).places == depth);
  CHECK(many(1).events == many(4096).events);

  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = floats(device, {.batch = 1, .depth = depth});
  std::vector<ps::Lease<Floats>> held;
  const auto e = tests::caught<ps::StageError>([&] {
    for (auto batch : pipeline.on(stream)) {
      held.push_back(std::move(batch));
    }
  });
  CHECK(std::string{e.what()}.find("10000 batches are held") != std::string::npos);
  CHECK(held.size() == depth);
}

TEST_CASE("batches of one record all come, though their uses share events") {
  constexpr std::uint64_t small = 60'000;
  std::vector<std::uint32_t> all(small);
  for (std::uint32_t i = 0; i < small; ++i) {
    all[i] = i;
  }
  for (const std::uint64_t seed : {1, 2}) {
    ps::HostDevice device{{.late_seed = seed}};
    auto stream = device.stream();
    auto other = device.stream();
    auto ready = device.event();
    std::uint32_t next = 0;
    std::uint64_t wrong = 0;
    auto pipeline = ps::Reader{ps::memory(std::span{all}), ps::to_pinned, {.batch = 1000}} |
                    ps::AsyncCopier{device, {.batch = 1}};
    std::vector<ps::Lease<ps::Batch<const std::uint32_t, ps::Device>>> held;
    for (auto batch : pipeline.on(stream)) {
      // Every 32nd batch is used, slowly, so that copies wait for places. Of those every other is
      // used by a second stream, and given back late.
      const std::uint32_t expected = next++;
      if (expected % 32 != 31) {
        continue;
      }
      const bool late = expected % 64 == 63;
      ps::HostStream& on = late ? other : stream;
      if (late) {
        device.record(ready, stream);
        device.wait(other, ready);
        batch.used_on(other);
      }
      on.enqueue([&wrong, at = batch.data(), expected] {
        std::this_thread::sleep_for(std::chrono::microseconds{100});
        wrong += *at != expected;
      });
      if (late) {
        device.record(ready, other);
        device.wait(stream, ready); // `wrong` is one stream's at a time
        held.push_back(std::move(batch));
      }
      if (held.size() == 3) {
        std::swap(held[0], held[2]);
        held.clear();
      }
    }
    held.clear();
    device.sync(stream);
    CHECK(next == small);
    CHECK(wrong == 0);
    CHECK(pipeline.report().records == small);
  }
}
