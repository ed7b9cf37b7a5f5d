// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a pipeline costs in steady state besides its device's own functions and the user's
// callables, on every device: nothing. The including file defines TestDevice, for_each_device(f),
// work(stream), which enqueues something, and, after the suite, device_offences(device).
//
// Steady state begins when every ring has been lapped twice and ends before a worker finds its work
// done. To test another chain, add a test case like the first: a callable that makes the chain of
// `reader(watch, workers)`, and whose last stage tells `watch` of each batch. If run() does not
// drive it, costs_nothing() takes a second callable, (pipeline, device, watch), that does.

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/interposed.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/packed/packed_writer.hpp>
#include <penstock/formats/packed/unpack.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <type_traits>
#include <utility>

namespace suite {

using D = TestDevice;
using DeviceBytes = ps::Batch<const std::byte, ps::Device>;
using HostBytes = ps::Batch<const std::byte, ps::Pageable>;
namespace interposed = tests::interposed;
using interposed::Counts;
using interposed::Kind;

// Records are bytes, and a slot of those is 1 MiB.
constexpr std::uint64_t slot = 1 << 20;
constexpr std::uint64_t batch = slot / 4;
constexpr std::size_t depth = 3;
// More than all rings of a chain hold: on the device there is room for three copies of 12 MiB.
constexpr std::uint64_t lap = 50 * slot;
constexpr std::uint64_t armed_at = 2 * lap;
constexpr std::uint64_t disarmed_at = 3 * lap;
constexpr std::uint64_t total = 4 * lap;
constexpr std::uint64_t epochs = 20;

/// Something that must not be done, and what it counts as.
struct Offence {
  std::string name;
  Kind kind{};
  std::uint64_t times{};
  std::function<void()> commit;
};

/// Whose code commits an offence, and on which thread: the caller's, the Reader's, the device
/// thread.
enum class By { nobody, callable, source, copy };

/// Watches a chain run: arms and disarms the counters, and commits an offence once in between.
class Watch {
 public:
  Watch() = default;
  Watch(By by, Offence offence) : by_{by}, offence_{std::move(offence)} {}

  /// To be called with each batch that arrives.
  void arrived(std::uint64_t first, std::uint64_t records) {
    if (armed_at - first < records) {
      interposed::arm();
    }
    if (disarmed_at - first < records) {
      over_ = interposed::is_armed();
      interposed::disarm();
    }
    here(By::callable);
  }
  void here(By by) {
    if (by == by_ && interposed::is_armed() && !committed_.exchange(true)) {
      offence_.commit();
    }
  }
  /// Returns whether the counters were armed and are not any more, and the offence was committed,
  /// if there was one.
  bool is_over() const { return over_ && committed_ == (by_ != By::nobody); }

 private:
  const By by_{By::nobody};
  const Offence offence_;
  std::atomic<bool> committed_{false};
  std::atomic<bool> over_{false};
};

/// A user's source: from memory, while `watch` looks on.
class WatchedMemory {
 public:
  using schema = std::byte;

  explicit WatchedMemory(Watch& watch) : watch_{&watch}, memory_{ps::memory(bytes())} {}
  std::uint64_t size() const { return memory_.size(); }
  template <class Where> std::size_t read(ps::Batch<std::byte, Where> into) const {
    watch_->here(By::source);
    return memory_.read(into);
  }

 private:
  static std::span<const std::byte> bytes() {
    static const std::vector<std::byte> some = some_bytes(total / epochs);
    return some;
  }

  Watch* watch_;
  ps::Memory<std::byte> memory_;
};

/// A WatchedMemory for chains that nobody else tells `watch` of: it reports what it reads, by one
/// worker, which is ahead of the later stages by what the rings hold.
class ToldOfMemory : public WatchedMemory {
 public:
  explicit ToldOfMemory(Watch& watch) : WatchedMemory{watch}, told_{&watch} {}
  template <class Where> std::size_t read(ps::Batch<std::byte, Where> into) const {
    told_->arrived(*read_, into.size());
    *read_ += into.size();
    return WatchedMemory::read(into);
  }

 private:
  Watch* told_;
  std::shared_ptr<std::uint64_t> read_ = std::make_shared<std::uint64_t>(0); // in all epochs
};

/// A device that may commit an offence when it is told to copy.
template <class Device> struct WatchedCopies : Device {
  void copy_to_device(void* to, const void* from, std::size_t bytes, ps::Stream<Device> stream) {
    watch->here(By::copy);
    Device::copy_to_device(to, from, bytes, stream);
  }
  Watch* watch{};
};

template <class... Pinned> auto reader(Watch& watch, unsigned workers, Pinned... pinned) {
  return ps::Reader{
      WatchedMemory{watch}, pinned..., {.workers = workers, .depth = depth, .epochs = epochs}};
}
template <class Device> auto copier(Device& device) {
  return ps::AsyncCopier{device, {.batch = batch, .depth = depth}};
}
inline auto consumer(Watch& watch) {
  return ps::Consumer{[&watch](DeviceBytes bytes, ps::Stream<D> stream) {
    work(stream);
    watch.arrived(bytes.index(), bytes.size());
  }};
}

const auto pinned_chain = [](auto& device, unsigned workers, Watch& watch) {
  return reader(watch, workers, ps::to_pinned) | copier(device) | consumer(watch);
};

const auto run = [](auto& pipeline, auto&, Watch&) { pipeline.run(); };

/// Returns what was counted in a new pipeline's first run, except at its beginning and end.
template <class Device, class Make, class Drive>
Counts counted(Device& device, unsigned workers, Watch& watch, const Make& make,
               const Drive& drive) {
  auto pipeline = make(device, workers, watch);
  pipeline.prepare();
  std::uint64_t held = 0;
  for (const ps::StageReport& stage : pipeline.report().stages) {
    held += stage.depth * (stage.name == "AsyncCopier" ? batch : slot);
  }
  CHECK(held >= depth * slot);
  CHECK(held < lap);
  interposed::await_rest(); // or a worker begins to work while armed
  drive(pipeline, device, watch);
  CHECK(pipeline.report().records == total);
  CHECK(watch.is_over());
  return interposed::ours();
}

/// Returns whether anything can be counted, and says so if not.
inline bool can_count() {
  if (!interposed::counts) {
    WARN("under a sanitizer nothing is counted");
  }
  return interposed::counts;
}

/// Checks that with one worker a stage and with four nothing is counted.
template <class Make, class Drive = decltype(run)>
void costs_nothing(const Make& make, const Drive& drive = run) {
  can_count();
  for (const unsigned workers : {1U, 4U}) {
    CAPTURE(workers);
    for_each_device([&](D& device) {
      Watch watch;
      CHECK(counted(device, workers, watch, make, drive) == Counts{});
      interposed::print_first_of_ours();
    });
  }
}

/// Checks that each offence is counted, and nothing else is, when `by` commits it.
template <class Device>
void are_seen(Device& device, By by, std::vector<Offence> offences) {
  if (!can_count()) {
    offences.resize(1);
  }
  for (const Offence& offence : offences) {
    CAPTURE(offence.name);
    Watch watch{by, offence};
    if constexpr (requires { device.watch; }) {
      device.watch = &watch;
    }
    Counts expected;
    expected[offence.kind] = interposed::counts ? offence.times : 0;
    CHECK(counted(device, 4, watch, pinned_chain, run) == expected);
  }
}

/// Returns the offences that the including file knows among its device's functions.
std::vector<Offence> device_offences(D& device);
inline std::vector<Offence> host_offences() {
  // A compiler may leave out code that has no effect.
  static void* volatile kept;
  const auto mutex = std::make_shared<std::timed_mutex>();
  const auto shared = std::make_shared<std::shared_mutex>();
  return {{"new and delete", Kind::heap, 2,
           [] {
             auto* const made = new std::uint64_t{1};
             kept = made;
             delete made;
           }},
          {"malloc and free", Kind::heap, 2,
           [] {
             kept = std::malloc(1);
             std::free(kept);
           }},
          {"lock", Kind::lock, 1, [mutex] { const std::lock_guard lock{*mutex}; }},
          {"try_lock", Kind::lock, 1,
           [mutex] {
             if (mutex->try_lock()) {
               mutex->unlock();
             }
           }},
          {"lock_shared", Kind::lock, 1, [shared] { const std::shared_lock lock{*shared}; }}};
}

TEST_CASE("in steady state nothing is done in hiding: read into pinned memory, to the device") {
  costs_nothing(pinned_chain);
}

TEST_CASE("in steady state nothing is done in hiding: read, staged, to the device") {
  costs_nothing([](D& device, unsigned workers, Watch& watch) {
    return reader(watch, workers) | ps::PinnedStager{{.workers = workers, .depth = depth}} |
           copier(device) | consumer(watch);
  });
}

TEST_CASE("in steady state nothing is done in hiding: read, to the host") {
  costs_nothing([](D&, unsigned workers, Watch& watch) {
    return reader(watch, workers) |
           ps::Consumer{[&watch](HostBytes bytes) { watch.arrived(bytes.index(), bytes.size()); },
                        {.workers = workers}};
  });
}

TEST_CASE("in steady state nothing is done in hiding: read, decoded, staged, to the device") {
  costs_nothing([](D& device, unsigned workers, Watch& watch) {
    const auto copied = [](HostBytes in, ps::Batch<std::byte, ps::Pageable> out) {
      std::memcpy(out.data(), in.data(), in.size_bytes());
    };
    return reader(watch, workers) | ps::Decoder{copied, {.workers = workers, .depth = depth}} |
           ps::PinnedStager{{.workers = workers, .depth = depth}} | copier(device) |
           consumer(watch);
  });
}

TEST_CASE("in steady state nothing is done in hiding: the application's own loop") {
  costs_nothing([](D& device, unsigned workers,
                   Watch& watch) { return reader(watch, workers, ps::to_pinned) | copier(device); },
                [](auto& pipeline, D& device, Watch& watch) {
                  auto stream = device.stream();
                  for (auto got : pipeline.on(stream)) {
                    work(stream);
                    watch.arrived(got.index(), got.size());
                  }
                });
}

TEST_CASE("in steady state nothing is done in hiding: read into pinned memory, replayed") {
  costs_nothing([](D& device, unsigned, Watch& watch) {
    return ps::Reader{ToldOfMemory{watch},
                      ps::to_pinned,
                      {.workers = 1, .depth = depth, .epochs = epochs}} |
           copier(device) |
           ps::Consumer{ps::replayed(
               [](ps::FrozenBatch<const std::byte>, ps::Stream<D> stream) { work(stream); },
               {.lanes = 2})};
  });
}

TEST_CASE("whatever a callable does in steady state is counted") {
  D device;
  are_seen(device, By::callable, host_offences());
  are_seen(device, By::callable, device_offences(device));
}

TEST_CASE("whatever a Reader's worker does in steady state is counted") {
  D device;
  are_seen(device, By::source, host_offences());
}

TEST_CASE("in steady state nothing is done in hiding: read packed, to the device, unpacked") {
  can_count();
  const tests::TempDir dir;
  const auto bytes = some_bytes(20 * slot); // stay raw, and go through all that others do
  ps::PackedWriter writer{dir / "x", {ps::packed_column<std::uint8_t>("x")}};
  writer.add(0, bytes);
  writer.finish();
  const auto source = ps::packed<std::byte>(dir / "x", {.batch = 2 * slot}); // of two pieces
  constexpr std::uint64_t begin = 200 * slot; // behind twice what the rings hold
  constexpr std::uint64_t end = 300 * slot;
  for (const unsigned workers : {1U, 4U}) {
    CAPTURE(workers);
    for_each_device([&](D& device) {
      bool over = false;
      auto pipeline =
          ps::Reader{source, ps::to_pinned, {.workers = workers, .depth = depth, .epochs = 20}} |
          ps::AsyncCopier{device} | ps::unpack(source) |
          ps::Consumer{[&](DeviceBytes given, ps::Stream<D> stream) {
            work(stream);
            if (given.index() == begin) {
              interposed::arm();
            } else if (given.index() == end) {
              over = interposed::is_armed();
              interposed::disarm();
            }
          }};
      pipeline.prepare();
      interposed::await_rest();
      pipeline.run();
      CHECK(pipeline.report().records == 400 * slot);
      CHECK(over);
      Counts got = interposed::ours();
      if (std::is_same_v<ps::Stream<D>, ps::HostStream&>) {
        got[Kind::lock] = 0; // a host stream takes one where work is put on it, as a driver does
      }
      CHECK(got == Counts{});
    });
  }
}

TEST_CASE("whatever the device thread does in steady state is counted") {
  WatchedCopies<D> device;
  are_seen(device, By::copy, host_offences());
}

} // namespace suite
