// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared by the loops by hand, on the host: places in memory that threads fill and empty in turn.
// Of penstock they use only the pause of a spinning thread.

#include "support/file.hpp"

#include <penstock/parking.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <thread>
#include <vector>

namespace penstock_bench {

/// Spins until `done()`; returns false if the loop is given up before.
template <class F> bool spin_until(const std::stop_token& given_up, F done) {
  while (!done()) {
    if (given_up.stop_requested()) {
      return false;
    }
    penstock::SpinThenFutex::pause();
  }
  return true;
}

/// Places that are filled and emptied in turn: number n lies where number n - count() lay. Any
/// thread may fill or empty each, in any order.
class Places {
 public:
  Places(std::uint8_t* memory, std::size_t bytes, std::size_t place_bytes)
      : memory_{memory}, place_bytes_{place_bytes}, words_(bytes / place_bytes) {}

  /// Makes all places empty. Nobody may use them.
  void reset() {
    for (Word& word : words_) {
      word.filled = word.emptied = -1;
    }
  }
  std::size_t count() const { return words_.size(); }
  std::size_t place_bytes() const { return place_bytes_; }
  std::uint8_t* at(std::int64_t number) { return memory_ + index(number) * place_bytes_; }

  bool is_empty(std::int64_t number) const {
    const auto before = number - static_cast<std::int64_t>(count());
    return before < 0 || words_[index(number)].emptied.load(std::memory_order_acquire) == before;
  }
  bool is_full(std::int64_t number) const {
    return words_[index(number)].filled.load(std::memory_order_acquire) == number;
  }
  void fill(std::int64_t number) {
    words_[index(number)].filled.store(number, std::memory_order_release);
  }
  void empty(std::int64_t number) {
    words_[index(number)].emptied.store(number, std::memory_order_release);
  }

 private:
  struct alignas(64) Word {
    std::atomic<std::int64_t> filled{-1};
    std::atomic<std::int64_t> emptied{-1};
  };
  std::size_t index(std::int64_t number) const {
    return static_cast<std::size_t>(number) % words_.size();
  }

  std::uint8_t* memory_;
  std::size_t place_bytes_;
  std::vector<Word> words_;
};

/// Threads that read a file into places, in pieces of a place. Joined when it dies.
class FileReaders {
 public:
  FileReaders(const OpenFile& file, std::uint64_t bytes, unsigned threads, Places& into) {
    for (unsigned i = 0; i < threads; ++i) {
      threads_.emplace_back([this, &file, bytes, &into](std::stop_token given_up) {
        for (std::int64_t n = next_++; at(n, into) < bytes; n = next_++) {
          if (!spin_until(given_up, [&] { return into.is_empty(n); })) {
            return;
          }
          const std::uint64_t size =
              std::min<std::uint64_t>(into.place_bytes(), bytes - at(n, into));
          file.read(at(n, into), {into.at(n), static_cast<std::size_t>(size)});
          into.fill(n);
        }
      });
    }
  }

 private:
  static std::uint64_t at(std::int64_t number, const Places& places) {
    return static_cast<std::uint64_t>(number) * places.place_bytes();
  }

  std::atomic<std::int64_t> next_{0};
  std::vector<std::jthread> threads_;
};

} // namespace penstock_bench
