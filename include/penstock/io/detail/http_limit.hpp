// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/interrupt.hpp>
#include <penstock/io/http_options.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace penstock::detail {

/// How many requests may be made at once, by all threads, and what became of them. Each server that
/// says it has too much to do halves the number; from then on it grows by one at a time, back to
/// where it began. Any thread.
class HttpLimit {
  using Clock = std::chrono::steady_clock;

 public:
  explicit HttpLimit(unsigned most) : most_{most} { counts_.limit = most; }

  /// Takes some of `wanted`, at least one: as many as leave others their share. Blocks until one is
  /// free. Throws ReadEnded if this thread's run ends before.
  unsigned take(unsigned wanted) {
    std::unique_lock lock{mutex_};
    ++users_;
    while (taken_ >= counts_.limit) {
      if (InterruptHere::raised()) {
        --users_;
        throw ReadEnded{};
      }
      freed_.wait_for(lock, std::chrono::milliseconds{50});
    }
    const unsigned share = std::max(counts_.limit / users_, 1U);
    const unsigned got = std::min({wanted, share, counts_.limit - taken_});
    taken_ += got;
    counts_.connections = std::max(counts_.connections, taken_);
    return got;
  }
  void give_back(unsigned taken) noexcept {
    const std::scoped_lock lock{mutex_};
    taken_ -= taken;
    --users_;
    freed_.notify_all();
  }

  void count_request(bool again) {
    const std::scoped_lock lock{mutex_};
    ++counts_.requests;
    counts_.retries += again ? 1U : 0U;
  }
  /// Counts an answer, or what there was of one.
  void count_answer(std::uint64_t bytes, std::chrono::microseconds first_byte, bool too_much) {
    const std::scoped_lock lock{mutex_};
    counts_.bytes += bytes;
    first_bytes_ += first_byte;
    ++answers_;
    if (too_much) {
      const Clock::time_point now = Clock::now();
      if (now - cut_ > std::chrono::seconds{1}) { // many say so of the same moment
        counts_.limit = std::max(counts_.limit / 2, 1U);
        cut_ = now;
      }
      good_ = 0;
    } else if (counts_.limit != most_ && ++good_ >= answers_a_step * counts_.limit) {
      ++counts_.limit;
      good_ = 0;
      freed_.notify_all();
    }
  }

  HttpCounts counts() const {
    const std::scoped_lock lock{mutex_};
    HttpCounts now = counts_;
    now.first_byte = answers_ == 0 ? first_bytes_ : first_bytes_ / answers_;
    return now;
  }

 private:
  static constexpr unsigned answers_a_step = 8;

  const unsigned most_;
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  HttpCounts counts_; // .limit is the present one
  std::chrono::microseconds first_bytes_{};
  std::int64_t answers_{};
  unsigned users_{}; // that have some, or wait
  unsigned taken_{};
  unsigned good_{}; // answers since the limit changed
  Clock::time_point cut_{};
};

} // namespace penstock::detail
