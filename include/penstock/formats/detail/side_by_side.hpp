// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/threads.hpp>
#include <penstock/formats/detail/stream_records.hpp>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Decodes many files side by side on threads of its own, and takes their records in turn: `block`
/// of each of `at_once` files, and so on; the next file takes the place of one that ended. Which
/// record comes when depends on nothing else. One thread at a time, besides its own.
template <class Records> class SideBySide {
 public:
  /// `open(file)` returns an Owned<Records>, or throws; it is called by the threads.
  template <class Open>
  SideBySide(std::size_t files, std::size_t at_once, std::uint64_t block, unsigned threads,
             Open open)
      : files_{files}, places_(std::min(files, at_once)), block_{block}, left_{block} {
    for (std::size_t& place : places_) {
      place = next_file_++;
    }
    lanes_.resize(files);
    allow();
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

  /// Calls take(part, first, count) with records of a part, at least one and at most `most`, from
  /// its number `first` on, whose bytes begin at `byte`; waits for them. Returns how many, and 0 if
  /// no file has any left. Throws what is wrong with the file whose turn it is.
  template <class Take> std::size_t next(std::size_t most, Take take) {
    while (!places_.empty()) {
      Lane& lane = *lanes_[places_[turn_]];
      StreamPart* const part = await(lane);
      if (lane.taken != part->records && left_ != 0) {
        const auto count = static_cast<std::size_t>(
            std::min<std::uint64_t>({most, left_, part->records - lane.taken}));
        lane.byte += take(*part, lane.taken, count, lane.byte);
        lane.taken += count;
        left_ -= count;
        return count;
      }
      if (left_ == 0) {
        pass();
      } else if (part->failure) {
        std::rethrow_exception(part->failure);
      } else if (part->last) {
        replace();
      } else {
        drop(lane);
      }
    }
    return 0;
  }

 private:
  static constexpr std::size_t most_parts = 4; // of a file, ahead
  // A file that is decoded, and its parts that were not taken yet.
  struct Lane {
    // In a ring, so that a thread that decodes allocates nothing where it could not say so.
    std::array<StreamPart, most_parts> ring;
    std::size_t first{};
    std::size_t count{};
    Owned<Records> records;
    bool busy{};  // a thread decodes it
    bool ended{}; // nothing comes behind the parts
    // Of the first part, for the thread that takes.
    std::size_t taken{};
    std::size_t byte{};

    StreamPart& part(std::size_t i) noexcept { return ring[(first + i) % most_parts]; }
  };
  static constexpr std::size_t more_files = 2; // ahead of their turn

  StreamPart* await(Lane& lane) {
    std::unique_lock lock{mutex_};
    decoded_.wait(lock, [&] { return lane.count != 0; });
    return &lane.part(0); // which stays where it is while others come behind it
  }
  void drop(Lane& lane) {
    {
      const std::lock_guard lock{mutex_};
      lane.part(0) = {};
      lane.first = (lane.first + 1) % most_parts;
      --lane.count;
    }
    lane.taken = lane.byte = 0;
    wanted_.notify_one();
  }
  void pass() {
    const std::lock_guard lock{mutex_}; // choose() looks at the turn
    turn_ = (turn_ + 1) % places_.size();
    left_ = block_;
  }
  // Puts the next file in the place of one that has ended, whose turn goes on.
  void replace() {
    {
      const std::lock_guard lock{mutex_};
      lanes_[places_[turn_]] = {};
      if (next_file_ != files_) {
        places_[turn_] = next_file_++;
      } else {
        places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(turn_));
        turn_ = places_.empty() ? 0 : turn_ % places_.size();
      }
      allow();
    }
    left_ = block_;
    wanted_.notify_all();
  }
  // Makes lanes for all files whose turn it is, and some more.
  void allow() {
    for (; allowed_ != std::min(files_, next_file_ + more_files); ++allowed_) {
      lanes_[allowed_] = Owned<Lane>{new Lane};
    }
  }
  // Returns the file that has the fewest parts ahead, if one is to be decoded: of those whose turn
  // comes, from the one whose turn it is on, then of others.
  std::optional<std::size_t> choose() const {
    std::optional<std::size_t> best;
    const auto look = [&](std::size_t file) {
      const Lane& lane = *lanes_[file];
      if (!lane.busy && !lane.ended && lane.count < most_parts &&
          (!best || lane.count < lanes_[*best]->count)) {
        best = file;
      }
    };
    for (std::size_t i = 0; i != places_.size(); ++i) {
      look(places_[(turn_ + i) % places_.size()]);
    }
    for (std::size_t file = next_file_; !best && file != allowed_; ++file) {
      look(file);
    }
    return best;
  }
  template <class Open> void decode(const Open& open) {
    std::unique_lock lock{mutex_};
    for (;;) {
      std::optional<std::size_t> file;
      wanted_.wait(lock, [&] { return ended_ || (file = choose()); });
      if (ended_) {
        return;
      }
      Lane& lane = *lanes_[*file];
      lane.busy = true;
      lock.unlock();
      StreamPart part = decoded(lane, *file, open);
      lock.lock();
      lane.busy = false;
      lane.ended = part.last || part.failure;
      lane.part(lane.count++) = std::move(part);
      if (lane.ended) {
        lane.records = {};
      }
      decoded_.notify_one();
    }
  }
  template <class Open> static StreamPart decoded(Lane& lane, std::size_t file, const Open& open) {
    try {
      if (!lane.records) {
        lane.records = open(file);
      }
      return lane.records->next();
    } catch (...) {
      StreamPart failed;
      failed.failure = std::current_exception();
      return failed;
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

  const std::size_t files_;
  std::vector<std::size_t> places_; // the files whose records are taken in turn
  const std::uint64_t block_;
  std::size_t turn_{}; // a place
  std::uint64_t left_; // of its turn
  std::size_t next_file_{};
  std::size_t allowed_{};
  std::mutex mutex_; // guards all that threads look at, which only the taking one changes but parts
  std::condition_variable wanted_;
  std::condition_variable decoded_;
  bool ended_{};
  std::vector<Owned<Lane>> lanes_;
  std::vector<std::thread> threads_;
};

} // namespace penstock::detail
