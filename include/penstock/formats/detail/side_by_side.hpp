// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/threads.hpp>
#include <penstock/formats/detail/stream_part.hpp>
#include <penstock/sources/patience.hpp>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

namespace penstock::detail {

/// Decodes lanes of files side by side on threads of its own, and takes their records in turn:
/// `block` of each lane, and so on. A lane has its files one after the other. Which record comes
/// when depends on nothing else. One thread at a time, besides its own.
template <class Records> class SideBySide {
 public:
  /// Which lanes there are. If they are endless no lane ever ends, so that anyone can say which
  /// record of which lane is number n.
  struct Lanes {
    std::size_t count;
    std::uint64_t block;
    bool endless;
  };

  /// `open(lane, number, fruitless)` returns an Owned<Records> of the lane's file of that number,
  /// or null behind its last; `fruitless` files of the lane, the last ones, had no records. It may
  /// throw. The threads call it.
  template <class Open>
  SideBySide(const Lanes& lanes, unsigned threads, Open open)
      : its_{lanes}, left_{lanes.block}, turns_(lanes.count), lanes_(lanes.count) {
    std::iota(turns_.begin(), turns_.end(), std::size_t{0});
    try {
      for (unsigned i = 0; i != threads; ++i) {
        threads_.push_back(start_thread([this, open] { decode(open); }));
      }
    } catch (...) {
      end();
      throw;
    }
  }
  SideBySide(const SideBySide&) = delete;
  SideBySide& operator=(const SideBySide&) = delete;
  ~SideBySide() { end(); }

  /// Returns how many records were taken or passed over.
  std::uint64_t at() const noexcept { return at_; }
  /// Passes over the records before number `to`, which must not lie before at(); fewer if
  /// `patience` ends.
  void go_to(std::uint64_t to, const Patience& patience) {
    if (its_.endless) { // lanes between are not even looked at
      at_ = to;
      turn_ = static_cast<std::size_t>(to / its_.block % its_.count);
      left_ = its_.block - to % its_.block;
    }
    const auto pass = [](const StreamPart&, std::size_t, std::size_t) {};
    while (at_ != to &&
           next(static_cast<std::size_t>(std::min(to - at_, its_.block)), pass, patience) != 0) {
    }
  }
  /// Calls take(part, first, count) with records of a part, at least one and at most `most`, from
  /// its number `first` on; waits for them. Returns how many, and 0 if no lane has any left, or
  /// `patience` has ended: the next call then goes on. Throws what is wrong with the lane whose
  /// turn it is.
  template <class Take> std::size_t next(std::size_t most, Take take, const Patience& patience) {
    while (!turns_.empty() && !patience.stop_requested()) {
      if (left_ == 0) {
        turn_ = (turn_ + 1) % turns_.size();
        left_ = its_.block;
      }
      Lane& lane = lanes_[turns_[turn_]];
      const StreamPart& part = await(lane);
      const std::size_t there = part.records - lane.taken;
      const std::uint64_t before = to_pass(lane);
      const std::uint64_t wanted = before != 0 ? before : std::min<std::uint64_t>(most, left_);
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(wanted, there));
      if (count != 0) {
        const std::size_t first = lane.taken;
        lane.taken += count;
        lane.at += count;
        if (before == 0) {
          take(part, first, count);
          left_ -= count;
          at_ += count;
          return count;
        }
      } else if (part.failure) {
        std::rethrow_exception(part.failure);
      } else if (part.last) {
        turns_.erase(turns_.begin() + static_cast<std::ptrdiff_t>(turn_));
        turn_ = turns_.empty() ? 0 : turn_ % turns_.size();
        left_ = its_.block;
      } else {
        drop(lane);
      }
    }
    return 0;
  }

 private:
  static constexpr std::size_t most_parts = 3; // of a lane, ahead
  struct Lane {
    std::array<StreamPart, most_parts> ring; // each keeps its memory
    std::size_t first{};
    std::size_t count{};
    Owned<Records> records;
    std::uint64_t files{};     // that were opened
    std::uint64_t fruitless{}; // of them, the last ones
    bool wanted{};             // the thread that takes has come by
    bool busy{};               // a thread decodes it
    bool ended{};              // nothing comes behind the parts
    // For the thread that takes.
    bool held{};         // it knows that the first part is there
    std::size_t taken{}; // of the first part
    std::uint64_t at{};  // of all

    StreamPart& part(std::size_t i) noexcept { return ring[(first + i) % most_parts]; }
  };

  // Returns how many records of the lane are not for this thread to take: others have them.
  std::uint64_t to_pass(const Lane& lane) const noexcept {
    return its_.endless
               ? at_ / (its_.block * its_.count) * its_.block + (its_.block - left_) - lane.at
               : 0;
  }
  StreamPart& await(Lane& lane) {
    if (!lane.held) {
      std::unique_lock lock{mutex_};
      looks_at_ = turn_;
      if (!lane.wanted) {
        lane.wanted = true;
        wanted_.notify_one();
      }
      awaited_ = &lane;
      decoded_.wait(lock, [&] { return lane.count != 0; });
      awaited_ = nullptr;
      lane.held = true;
    }
    return lane.part(0); // which stays where it is while others come behind it
  }
  void drop(Lane& lane) {
    {
      const std::lock_guard lock{mutex_};
      lane.first = (lane.first + 1) % most_parts;
      --lane.count;
    }
    lane.held = false;
    lane.taken = 0;
    wanted_.notify_one();
  }
  // Returns the lane that has the fewest parts ahead, if one is to be decoded; of those that have
  // as few the one whose turn comes first.
  Lane* choose() noexcept {
    Lane* best = nullptr;
    for (std::size_t i = 0; i != lanes_.size(); ++i) {
      Lane& lane = lanes_[(looks_at_ + i) % lanes_.size()];
      if (lane.wanted && !lane.busy && !lane.ended && lane.count < most_parts &&
          (!best || lane.count < best->count)) {
        best = &lane;
      }
    }
    return best;
  }
  // Returns whether a thread stays with its lane, whose window it has in its caches.
  bool goes_on(const Lane* lane) const noexcept {
    return lane && !lane->busy && !lane->ended && lane->count < most_parts &&
           !(awaited_ && awaited_->count == 0 && !awaited_->busy);
  }
  template <class Open> void decode(const Open& open) {
    std::unique_lock lock{mutex_};
    for (Lane* lane = nullptr;;) {
      if (!goes_on(lane)) {
        lane = nullptr;
        wanted_.wait(lock, [&] { return ended_ || (lane = choose()); });
      }
      if (ended_) {
        return;
      }
      lane->busy = true;
      StreamPart& part = lane->part(lane->count);
      lock.unlock();
      part.clear();
      decode(*lane, part, open);
      lock.lock();
      lane->busy = false;
      lane->ended = part.last || part.failure;
      ++lane->count;
      if (lane == awaited_) {
        decoded_.notify_one();
      }
    }
  }
  template <class Open> void decode(Lane& lane, StreamPart& part, const Open& open) const {
    const auto number = static_cast<std::size_t>(&lane - lanes_.data());
    try {
      while (part.records == 0) {
        if (!lane.records) {
          lane.records = open(number, lane.files++, lane.fruitless++);
        }
        if (!lane.records) {
          part.last = true;
          return;
        }
        lane.records->next(part);
        lane.fruitless = part.records == 0 ? lane.fruitless : 0;
        if (part.last) { // the file's
          lane.records = {};
          part.last = false;
        }
      }
    } catch (...) {
      part.failure = std::current_exception();
      lane.records = {};
    }
  }
  void end() {
    {
      const std::lock_guard lock{mutex_};
      ended_ = true;
    }
    wanted_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  const Lanes its_;
  std::uint64_t at_{};
  std::size_t turn_{};             // of turns_
  std::uint64_t left_;             // of its turn
  std::vector<std::size_t> turns_; // the lanes that have not ended
  std::mutex mutex_;               // guards what follows, and what threads look at in lanes
  std::condition_variable wanted_;
  std::condition_variable decoded_;
  bool ended_{};
  std::size_t looks_at_{}; // the turn, as it was when the thread that takes waited last
  const Lane* awaited_{};
  std::vector<Lane> lanes_;
  std::vector<std::thread> threads_;
};

} // namespace penstock::detail
