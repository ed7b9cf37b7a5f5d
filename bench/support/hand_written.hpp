// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loops as a careful programmer writes them for one program: contenders of the pipelines.

#include "support/contender.hpp"
#include "support/file.hpp"
#include "support/gpu.hpp"
#include "support/light.cuh"
#include "support/places.hpp"

#include <penstock/parking.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace penstock_bench {

/// The options of a loop by hand.
struct LoopOptions {
  std::uint64_t bytes = 0;                          ///< In all: a multiple of read_bytes.
  std::size_t batch_bytes = 0;                      ///< For the kernel.
  std::size_t read_bytes = std::size_t{1} << 20;    ///< Of a place.
  std::size_t copy_bytes = std::size_t{8} << 20;    ///< Of one copy, at most.
  std::size_t pinned_bytes = std::size_t{48} << 20; ///< Of all places.
  std::size_t in_flight = 200;                      ///< Copies enqueued at once.
  unsigned readers = 10;
  unsigned stagers = 0;
};

/// The GPU's half of a loop whose reads, copies and batches have sizes of their own: adjacent full
/// places go in one copy, and batches are worked on where they lie in a ring on the device.
class CopyAndWork {
 public:
  CopyAndWork(const LoopOptions& options, const Work& work)
      : options_{options}, work_{work},
        ring_bytes_{std::max<std::size_t>(4, (std::size_t{192} << 20) / options.batch_bytes) *
                    options.batch_bytes},
        ring_{make_on_device(ring_bytes_)}, copied_(options.in_flight),
        // Every copy may end a batch, and none is smaller than a place.
        used_(ring_bytes_ / options.read_bytes + 2) {
    std::generate(copied_.begin(), copied_.end(), make_event);
    std::generate(used_.begin(), used_.end(), make_event);
  }

  /// Empties `places` until all has been worked on. Blocks.
  void run(Places& places) {
    next_ = given_back_to_ = 0;
    sent_ = worked_ = waited_ = 0;
    copies_ = marks_made_ = 0;
    flights_.clear();
    marks_.clear();
    while (sent_ < options_.bytes) {
      give_back(places);
      const std::int64_t end = full_from(next_, places);
      if (end == next_ || flights_.size() == copied_.size()) {
        penstock::SpinThenFutex::pause();
        continue;
      }
      copy(places, end);
      work();
    }
    sync(copying_);
    sync(working_);
  }

 private:
  struct Flight {
    std::int64_t end;
    std::size_t event;
  };
  struct Mark { // batches before `end` are used up at `event`
    std::uint64_t end;
    std::size_t event;
  };

  void give_back(Places& places) {
    while (!flights_.empty() && is_done(copied_[flights_.front().event])) {
      for (; given_back_to_ < flights_.front().end; ++given_back_to_) {
        places.empty(given_back_to_);
      }
      flights_.pop_front();
    }
  }
  // Returns how far a copy can go: through full places, not around the end of their memory.
  std::int64_t full_from(std::int64_t first, const Places& places) const {
    const auto count = static_cast<std::int64_t>(places.count());
    const auto most = static_cast<std::int64_t>(
        std::max<std::size_t>(options_.copy_bytes / options_.read_bytes, 1));
    const std::int64_t last = std::min(first + most, (first / count + 1) * count);
    std::int64_t end = first;
    while (end < last && places.is_full(end)) {
      ++end;
    }
    return end;
  }
  void copy(Places& places, std::int64_t end) {
    const std::uint64_t until = std::min<std::uint64_t>(
        static_cast<std::uint64_t>(end) * options_.read_bytes, options_.bytes);
    if (until > ring_bytes_ && until - ring_bytes_ > waited_) {
      while (marks_.front().end < until - ring_bytes_) {
        marks_.pop_front();
      }
      wait(copying_, used_[marks_.front().event]);
      waited_ = marks_.front().end;
    }
    const std::uint8_t* from = places.at(next_);
    while (sent_ < until) {
      const std::uint64_t at = sent_ % ring_bytes_;
      const auto size =
          static_cast<std::size_t>(std::min<std::uint64_t>(until - sent_, ring_bytes_ - at));
      copy_to_device(ring_.get() + at, from, size, copying_);
      from += size;
      sent_ += size;
    }
    const std::size_t event = copies_++ % copied_.size();
    record(copied_[event], copying_);
    flights_.push_back({end, event});
    next_ = end;
  }
  void work() {
    const std::uint64_t before = worked_;
    while (worked_ < sent_ &&
           (sent_ - worked_ >= options_.batch_bytes || sent_ == options_.bytes)) {
      if (worked_ == before) {
        wait(working_, copied_[flights_.back().event]);
      }
      const auto size =
          static_cast<std::size_t>(std::min<std::uint64_t>(options_.batch_bytes, sent_ - worked_));
      work_(ring_.get() + worked_ % ring_bytes_, size, working_.get());
      worked_ += size;
    }
    if (worked_ != before) {
      const std::size_t event = marks_made_++ % used_.size();
      record(used_[event], working_);
      marks_.push_back({worked_, event});
    }
  }

  LoopOptions options_;
  Work work_;
  std::size_t ring_bytes_;
  DeviceBytes ring_;
  Stream copying_ = make_stream();
  Stream working_ = make_stream();
  std::vector<Event> copied_;
  std::vector<Event> used_;

  std::int64_t next_{};
  std::int64_t given_back_to_{};
  std::uint64_t sent_{};
  std::uint64_t worked_{};
  std::uint64_t waited_{};
  std::size_t copies_{};
  std::size_t marks_made_{};
  std::deque<Flight> flights_;
  std::deque<Mark> marks_;
};

/// Reads, copies and batches have sizes of their own; everything is read in place.
class ThreeGrains : public Contender {
 public:
  ThreeGrains(const std::string& path, const LoopOptions& options, const Work& work)
      : file_{path, O_RDONLY}, options_{options}, work_{work}, gpu_{options, work} {}

  std::uint64_t run() override {
    places_.reset();
    const FileReaders readers{file_, options_.bytes, options_.readers, places_};
    gpu_.run(places_);
    return work_.checksum();
  }

 private:
  OpenFile file_;
  LoopOptions options_;
  Work work_;
  PinnedBytes pinned_ = make_pinned(options_.pinned_bytes);
  Places places_{pinned_.get(), options_.pinned_bytes, options_.read_bytes};
  CopyAndWork gpu_;
};

/// Three sizes, with a hop between: reads into pageable memory, and threads of their own copy into
/// pinned memory.
class TwoHops : public Contender {
 public:
  TwoHops(const std::string& path, const LoopOptions& options, const Work& work)
      : file_{path, O_RDONLY}, options_{options}, work_{work}, gpu_{options, work} {}

  std::uint64_t run() override {
    pageable_places_.reset();
    places_.reset();
    std::atomic<std::int64_t> next{0};
    const auto count =
        static_cast<std::int64_t>((options_.bytes + options_.read_bytes - 1) / options_.read_bytes);
    const FileReaders readers{file_, options_.bytes, options_.readers, pageable_places_};
    std::vector<std::jthread> stagers;
    for (unsigned i = 0; i < options_.stagers; ++i) {
      stagers.emplace_back([&](std::stop_token given_up) {
        for (std::int64_t n = next++; n < count; n = next++) {
          if (!spin_until(given_up,
                          [&] { return pageable_places_.is_full(n) && places_.is_empty(n); })) {
            return;
          }
          std::memcpy(places_.at(n), pageable_places_.at(n), options_.read_bytes);
          pageable_places_.empty(n);
          places_.fill(n);
        }
      });
    }
    gpu_.run(places_);
    return work_.checksum();
  }

 private:
  OpenFile file_;
  LoopOptions options_;
  Work work_;
  std::vector<std::uint8_t> pageable_ = std::vector<std::uint8_t>(options_.pinned_bytes);
  PinnedBytes pinned_ = make_pinned(options_.pinned_bytes);
  Places pageable_places_{pageable_.data(), options_.pinned_bytes, options_.read_bytes};
  Places places_{pinned_.get(), options_.pinned_bytes, options_.read_bytes};
  CopyAndWork gpu_;
};

/// One slot is one read, one copy and one kernel. The thread that reads asks the GPU whether the
/// slot's last copy is done.
class OneGrain : public Contender {
 public:
  /// Uses of the options: bytes, batch_bytes and readers.
  OneGrain(const std::string& path, const LoopOptions& options, const Work& work)
      : file_{path, O_RDONLY}, options_{options}, work_{work}, copied_(slots_), used_(slots_) {
    std::generate(copied_.begin(), copied_.end(), make_event);
    std::generate(used_.begin(), used_.end(), make_event);
  }

  std::uint64_t run() override {
    places_.reset();
    const auto count = static_cast<std::int64_t>((options_.bytes + options_.batch_bytes - 1) /
                                                 options_.batch_bytes);
    std::atomic<std::int64_t> next{0};
    std::vector<std::jthread> readers;
    for (unsigned i = 0; i < options_.readers; ++i) {
      readers.emplace_back([&](std::stop_token given_up) {
        for (std::int64_t n = next++; n < count; n = next++) {
          // An empty place says that its copy is enqueued, its event that it is done.
          if (!spin_until(given_up, [&] { return places_.is_empty(n); }) ||
              !spin_until(given_up, [&] { return is_done(copied_[slot(n)]); })) {
            return;
          }
          file_.read(first(n), {places_.at(n), size(n)});
          places_.fill(n);
        }
      });
    }
    for (std::int64_t n = 0; n < count; ++n) {
      while (!places_.is_full(n)) {
        penstock::SpinThenFutex::pause();
      }
      std::uint8_t* on_device = ring_.get() + slot(n) * options_.batch_bytes;
      wait(copying_, used_[slot(n)]);
      copy_to_device(on_device, places_.at(n), size(n), copying_);
      record(copied_[slot(n)], copying_);
      places_.empty(n);
      wait(working_, copied_[slot(n)]);
      work_(on_device, size(n), working_.get());
      record(used_[slot(n)], working_);
    }
    sync(working_);
    return work_.checksum();
  }

 private:
  // Returns as many as 256 MiB hold, from 4 to 64, and at least two more than there are readers.
  static std::size_t slots_for(const LoopOptions& options) {
    const std::size_t fit = (std::size_t{256} << 20) / options.batch_bytes;
    return std::max<std::size_t>(std::clamp<std::size_t>(fit, 4, 64), options.readers + 2);
  }
  std::size_t slot(std::int64_t number) const { return static_cast<std::size_t>(number) % slots_; }
  std::uint64_t first(std::int64_t number) const {
    return static_cast<std::uint64_t>(number) * options_.batch_bytes;
  }
  std::size_t size(std::int64_t number) const {
    return static_cast<std::size_t>(
        std::min<std::uint64_t>(options_.batch_bytes, options_.bytes - first(number)));
  }

  OpenFile file_;
  LoopOptions options_;
  Work work_;
  std::size_t slots_ = slots_for(options_);
  PinnedBytes pinned_ = make_pinned(slots_ * options_.batch_bytes);
  DeviceBytes ring_ = make_on_device(slots_ * options_.batch_bytes);
  Places places_{pinned_.get(), slots_* options_.batch_bytes, options_.batch_bytes};
  Stream copying_ = make_stream();
  Stream working_ = make_stream();
  std::vector<Event> copied_;
  std::vector<Event> used_;
};

} // namespace penstock_bench
