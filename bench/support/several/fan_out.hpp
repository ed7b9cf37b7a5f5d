// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// By hand, without a pipeline: what could be had if one chain on the host fed several GPUs?

#include "support/file.hpp"
#include "support/places.hpp"
#include "support/several/devices.hpp"
#include "support/several/limits.hpp"
#include "support/several/row.hpp"
#include "support/threads.hpp"

#include <penstock/parking.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#if defined(__CUDACC__)
#include "support/gpu.hpp"
#endif

namespace penstock_bench {

/// Memory that is page-locked for all GPUs of the process.
#if defined(__CUDACC__)
class PinnedForAll {
 public:
  PinnedForAll(Gpu& /*any*/, std::size_t bytes) : memory_{make_pinned(bytes)} {}
  std::uint8_t* get() const { return memory_.get(); }

 private:
  PinnedBytes memory_;
};
#else
using PinnedForAll = PinnedMemory;
#endif

/// One ring in host memory, of 48 places of 1 MiB, whose every place goes to all its GPUs.
class FanOut : public Row {
 public:
  /// `move` fills a place; many threads call it.
  FanOut(const std::vector<Gpu*>& gpus, std::uint64_t bytes, unsigned rounds, Moving::Move move,
         unsigned readers, bool checked)
      : readers_{readers}, blocks_{static_cast<std::int64_t>(bytes / MiB)},
        count_{blocks_ * rounds}, move_{std::move(move)}, pinned_{*gpus.front(), places * MiB},
        left_(places) {
    for (Gpu* const gpu : gpus) {
      sides_.push_back(std::make_unique<Side>(*gpu, checked));
    }
  }
  std::uint64_t run() override {
    places_.reset();
    std::fill(left_.begin(), left_.end(), static_cast<unsigned>(sides_.size()));
    std::atomic<std::int64_t> next{0};
    on_threads(readers_ + sides_.size(), [&, this](std::size_t i) {
      if (i < readers_) {
        read(next);
      } else {
        send(*sides_[i - readers_]);
      }
    });
    std::uint64_t sum = 0;
    for (const auto& side : sides_) {
      if (side->sum) {
        const std::uint64_t all = side->sum->get();
        sum += all - std::exchange(side->before, all);
      }
    }
    return sum;
  }
  void count(benchmark::State& state) const override { state.counters["workers"] = readers_; }

 private:
  static constexpr std::size_t places = 48;
  static constexpr std::int64_t most_a_copy = 8;
  static constexpr std::int64_t in_flight = 2;

  struct Side {
    Side(Gpu& on, bool checked)
        : device{on}, stream{on.stream()}, ring{on, places * MiB},
          sum{checked ? std::make_unique<Sum>(on) : nullptr} {
      for (std::int64_t i = 0; i != in_flight; ++i) {
        events.push_back(on.event());
      }
    }
    Gpu& device;
    OwnStream stream;
    OnDevice ring;
    std::vector<Gpu::event_type> events;
    std::unique_ptr<Sum> sum;
    std::uint64_t before{};
  };

  void read(std::atomic<std::int64_t>& next) {
    for (std::int64_t n = next++; n < count_; n = next++) {
      while (!places_.is_empty(n)) {
        penstock::SpinThenFutex::pause();
      }
      move_(static_cast<std::uint64_t>(n % blocks_) * MiB, {places_.at(n), MiB});
      places_.fill(n);
    }
  }
  // Copies runs of adjacent full places, and gives back those that have gone to all GPUs.
  void send(Side& side) {
    const auto attached = side.device.attach();
    std::int64_t sent = 0;
    std::int64_t back = 0;
    std::int64_t copies = 0;
    std::int64_t done = 0;
    std::int64_t ends[in_flight]{};
    while (back < count_) {
      while (done < copies &&
             side.device.is_done(side.events[static_cast<std::size_t>(done % in_flight)])) {
        for (; back < ends[done % in_flight]; ++back) {
          give_back(back);
        }
        ++done;
      }
      std::int64_t end = sent;
      const std::int64_t wrap = (sent / std::int64_t{places} + 1) * std::int64_t{places};
      const std::int64_t last = std::min({sent + most_a_copy, wrap, count_});
      while (copies - done < in_flight && end < last && places_.is_full(end)) {
        ++end;
      }
      if (end == sent) {
        penstock::SpinThenFutex::pause();
        continue;
      }
      const std::size_t at = static_cast<std::size_t>(sent) % places * MiB;
      const std::size_t bytes = static_cast<std::size_t>(end - sent) * MiB;
      side.device.copy_to_device(side.ring.get() + at, places_.at(sent), bytes, side.stream);
      if (side.sum) {
        side.sum->add(side.ring.get() + at, bytes, side.stream);
      }
      side.device.record(side.events[static_cast<std::size_t>(copies % in_flight)], side.stream);
      ends[copies % in_flight] = end;
      sent = end;
      ++copies;
    }
    side.device.sync(side.stream);
  }
  void give_back(std::int64_t number) {
    std::atomic<unsigned>& left = left_[static_cast<std::size_t>(number) % places];
    // Acquires what the other GPUs' threads have released: their copies are done.
    if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      left.store(static_cast<unsigned>(sides_.size()), std::memory_order_relaxed);
      places_.empty(number); // releases it
    }
  }

  unsigned readers_;
  std::int64_t blocks_;
  std::int64_t count_;
  Moving::Move move_;
  PinnedForAll pinned_;
  Places places_{pinned_.get(), places* MiB, MiB};
  std::vector<std::atomic<unsigned>> left_;
  std::vector<std::unique_ptr<Side>> sides_;
};

} // namespace penstock_bench
