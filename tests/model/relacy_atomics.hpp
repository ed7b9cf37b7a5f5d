// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/ring/ring.hpp>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <source_location>
#include <type_traits>

// Included last: it redefines words such as new, delete and free.
#include <relacy/relacy.hpp>

namespace penstock::model {

/// Returns the caller's place, for the checker's reports.
inline rl::debug_info at(std::source_location place = std::source_location::current()) {
  return {place.function_name(), place.file_name(), place.line()};
}

/// An atomic whose every use is a choice of the model checker, under the names of std::atomic. It
/// also knows the threads that sleep on it, as the kernel does for a futex.
template <class T> class RelacyAtomic {
  using Number = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  using Where = std::source_location;
  using Order = rl::memory_order;

 public:
  RelacyAtomic(T value) : value_{number_of(value)} {}

  T load(Order order, Where where = Where::current()) const {
    return value_of(value_.load(order, at(where)));
  }
  void store(T value, Order order, Where where = Where::current()) {
    value_.store(number_of(value), order, at(where));
  }
  T exchange(T value, Order order, Where where = Where::current()) {
    return value_of(value_.exchange(number_of(value), order, at(where)));
  }
  bool compare_exchange_strong(T& expected, T value, Order success, Order failure,
                               Where where = Where::current()) {
    Number number = number_of(expected);
    const bool done = value_.compare_exchange_strong(number, number_of(value), success, at(where),
                                                     failure, at(where));
    expected = value_of(number);
    return done;
  }
  T fetch_add(T value, Order order, Where where = Where::current()) {
    return value_.fetch_add(value, order, at(where));
  }
  T fetch_sub(T value, Order order, Where where = Where::current()) {
    return value_.fetch_sub(value, order, at(where));
  }
  T fetch_or(T value, Order order, Where where = Where::current()) {
    return value_.fetch_or(value, order, at(where));
  }
  T fetch_xor(T value, Order order, Where where = Where::current()) {
    return value_.fetch_xor(value, order, at(where));
  }
  T fetch_and(T value, Order order, Where where = Where::current()) {
    return value_.fetch_and(value, order, at(where));
  }

  /// FUTEX_WAIT: compares and falls asleep in one step. It compares the value of now, and neither
  /// this nor being woken orders anything in memory: the ring must not rely on that.
  void sleep(T seen, Where where = Where::current()) {
    rl::context& checker = rl::ctx();
    checker.sched();
    if (static_cast<T>(value_.debug_value()) == seen) {
      sleepers_.park_current(checker, false, false, false, at(where));
    } else {
      checker.yield(1, at(where));
    }
  }
  /// FUTEX_WAKE: wakes every thread that sleeps at this moment.
  void wake(Where where = Where::current()) {
    rl::context& checker = rl::ctx();
    checker.sched();
    sleepers_.unpark_all(checker, at(where));
  }

 private:
  static constexpr rl::thread_id_t most_threads = 8;

  static Number number_of(T value) {
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<Number>(value);
    } else {
      return static_cast<Number>(value);
    }
  }
  static T value_of(Number number) {
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<T>(number);
    } else {
      return static_cast<T>(number);
    }
  }

  rl::atomic<Number> value_;
  rl::waitset<most_threads> sleepers_;
};

/// The ring's atomics, in the model.
struct RelacyAtomics {
  template <class T> using Atomic = RelacyAtomic<T>;
  static constexpr auto relaxed = rl::mo_relaxed;
  static constexpr auto acquire = rl::mo_acquire;
  static constexpr auto release = rl::mo_release;
  static constexpr auto acq_rel = rl::mo_acq_rel;
};

/// The ring's atomics with every order seq_cst, so that a thread that looks for sleepers misses
/// none.
struct RelacySequential : RelacyAtomics {
  static constexpr auto relaxed = rl::mo_seq_cst;
  static constexpr auto acquire = rl::mo_seq_cst;
  static constexpr auto release = rl::mo_seq_cst;
  static constexpr auto acq_rel = rl::mo_seq_cst;
};

/// How a sleep with a limit ends: at once, as it may, or never by itself.
enum class Naps : bool { never_end, end };

/// The ring's parking, in the model. If time limits never pass, a lost wake-up is a deadlock, which
/// the checker reports.
template <int Spins, Naps Limited = Naps::never_end> struct RelacyParking {
  using Word = RelacyAtomic<std::uint32_t>;
  static constexpr bool sleeps = true;
  static constexpr int spins = Spins;

  static void pause(std::source_location where = std::source_location::current()) {
    rl::yield(1, at(where));
  }
  static void sleep(Word& word, std::uint32_t seen,
                    std::chrono::nanoseconds limit = std::chrono::nanoseconds{-1}) {
    if (Limited == Naps::end && limit.count() >= 0) {
      pause();
    } else {
      word.sleep(seen);
    }
  }
  static void wake(Word& word) { word.wake(); }
};

/// Waiters that never sleep: the ring then publishes by a plain store.
struct RelacySpinning : RelacyParking<0> {
  static constexpr bool sleeps = false;
};

/// The policy of the model's rings: laps wrap after four. A ring that counts relies on the end of a
/// nap, except for changes of its state: see WaitWord::rouse().
template <class Waiting = RelacyParking<0, Naps::end>, class Orders = RelacyAtomics>
struct ModelPolicy {
  using Atomics = Orders;
  using Parking = Waiting;
  static constexpr unsigned lap_bits = 2;
};

} // namespace penstock::model
