// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the machine allows: its links, its memory and its page cache, alone and beside each other.

#include "support/file.hpp"
#include "support/several/devices.hpp"
#include "support/several/row.hpp"
#include "support/threads.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace penstock_bench {

/// Copies of pieces of pinned memory to one GPU, all from the same place, two enqueued at a time.
class OneLink {
 public:
  OneLink(Gpu& device, std::size_t piece)
      : device_{device}, piece_{piece}, pinned_{device, piece}, on_device_{device, piece},
        stream_{device.stream()} {}

  /// Copies until `left(bytes so far)`, how many are left, is 0; returns how many it has copied.
  template <class Left> std::uint64_t run(Left left) {
    std::uint64_t bytes = 0;
    std::size_t copies = 0;
    const auto next = [&] { return std::min<std::uint64_t>(left(bytes), piece_); };
    for (std::uint64_t size = next(); size != 0; bytes += size, size = next(), ++copies) {
      if (copies >= events_.size()) {
        device_.sync(events_[copies % events_.size()]);
      }
      device_.copy_to_device(on_device_.get(), pinned_.get(), static_cast<std::size_t>(size),
                             stream_);
      device_.record(events_[copies % events_.size()], stream_);
    }
    device_.sync(stream_);
    return bytes;
  }

 private:
  Gpu& device_;
  std::size_t piece_;
  PinnedMemory pinned_;
  OnDevice on_device_;
  OwnStream stream_;
  std::vector<Gpu::event_type> events_ = two_events(device_);

  static std::vector<Gpu::event_type> two_events(Gpu& device) {
    std::vector<Gpu::event_type> events;
    events.push_back(device.event());
    events.push_back(device.event());
    return events;
  }
};

/// The links of several GPUs at once, by copies of 256 MiB and nothing else.
class Links : public Row {
 public:
  static constexpr std::size_t piece = 256 * MiB;

  Links(const Devices& devices, std::size_t gpus, std::uint64_t bytes_each) : bytes_{bytes_each} {
    for (std::size_t i = 0; i != gpus; ++i) {
      links_.push_back(std::make_unique<OneLink>(
          devices[i], static_cast<std::size_t>(std::min<std::uint64_t>(piece, bytes_each))));
    }
  }
  std::uint64_t run() override {
    std::atomic<std::uint64_t> copied{0};
    on_threads(links_.size(), [&, this](std::size_t i) {
      copied += links_[i]->run([this](std::uint64_t bytes) { return bytes_ - bytes; });
    });
    // What the rate counts. A byte more, and the links would look slower than they are.
    if (copied != links_.size() * bytes_) {
      throw std::runtime_error{"the links have copied " + std::to_string(copied) +
                               " bytes and not " + std::to_string(links_.size() * bytes_)};
    }
    return 0;
  }

 private:
  std::uint64_t bytes_;
  std::vector<std::unique_ptr<OneLink>> links_;
};

/// Threads that move bytes, 1 MiB at a time, into a small pinned pool, as a pipeline's readers do.
/// Without a GPU's link, or with the links of all at work beside them.
class Moving : public Row {
 public:
  using Move = std::function<void(std::uint64_t at, std::span<std::uint8_t> into)>;

  /// `move` is called on many threads, for all bytes of the data, `rounds` times. The links copy
  /// pieces that stay in the processor's cache.
  Moving(const Devices& devices, std::size_t links, unsigned threads, std::uint64_t bytes,
         unsigned rounds, Move move)
      : threads_{threads}, bytes_{bytes}, all_{bytes * rounds}, move_{std::move(move)},
        pool_{devices[0], pool_bytes} {
    for (std::size_t i = 0; i != links; ++i) {
      links_.push_back(std::make_unique<OneLink>(devices[i], link_piece));
    }
  }
  std::uint64_t run() override {
    std::atomic<std::uint64_t> next{0};
    std::atomic<std::uint64_t> linked{0};
    std::atomic<unsigned> movers{threads_};
    on_threads(threads_ + links_.size(), [&, this](std::size_t i) {
      if (i >= threads_) {
        linked += links_[i - threads_]->run(
            [&](std::uint64_t) { return movers != 0 ? link_piece : std::size_t{0}; });
        return;
      }
      struct Gone {
        std::atomic<unsigned>& movers;
        ~Gone() { --movers; }
      } const gone{movers};
      for (std::uint64_t at = next.fetch_add(MiB); at + MiB <= all_; at = next.fetch_add(MiB)) {
        move_(at % bytes_, {pool_.get() + at % pool_bytes, MiB});
      }
    });
    linked_ = linked;
    return 0;
  }
  void count(benchmark::State& state) const override {
    if (!links_.empty()) {
      state.counters["link_bytes_per_second"] =
          benchmark::Counter(static_cast<double>(linked_), benchmark::Counter::kIsRate);
    }
  }

 private:
  static constexpr std::size_t pool_bytes = 48 * MiB;
  static constexpr std::size_t link_piece = 12 * MiB;

  unsigned threads_;
  std::uint64_t bytes_; // a multiple of MiB
  std::uint64_t all_;
  Move move_;
  PinnedMemory pool_;
  std::vector<std::unique_ptr<OneLink>> links_;
  std::uint64_t linked_{};
};

} // namespace penstock_bench
