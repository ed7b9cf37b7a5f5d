// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does a slot's way through a ring cost? Compares penstock's Ring with common queues.
// Ownership of a slot moves there and back, and the taking side checks that each number comes, in
// order. QUESTION/CONTENDER/SLOTS:
//
//   recycle        one thread to one; a slot has 64 bytes. With queues it takes two, one for full
//                  slots and one for free ones.
//   index          the same, but numbers themselves go through one queue; a Ring's go in slots of
//                  8 bytes
//   round_trip     one thread sends a number through one queue or Ring, and waits until another has
//                  sent it back through a second
//   many_to_one_W  W workers draw tickets and fill slots of 64 bytes; one thread takes them in the
//                  order of the tickets. With queues: an atomic counter for the tickets, a window
//                  of SLOTS tickets that may be open, and a ring of those that came too early.
//   one_to_many_W  one thread fills slots in turn, W workers take them and give them back in
//                  whatever order. With queues it takes two; who fills keeps those that came back
//                  too early.
//
// by_hand is the limit: the cost if nobody can sleep, stop or give back late
// (support/ring_by_hand.hpp). tickets are W threads that draw as many tickets and do nothing else.
// Each contender has room for SLOTS. moodycamel's queue for one thread and one other rounds up:
// asked for one less, it has one less (at 65536 nine hundred more); moodycamel_2x, asked for SLOTS,
// has about twice as much.
//
// Each thread keeps its counts to itself until the end, in no cache line that others read. A run is
// all slots of `one_way`, `trips` or `fan`, threads started and joined; bytes_per_second counts 8
// bytes a slot. Contenders are checked before they are timed, and made anew and warmed by a run for
// each repetition. A contender that needs more threads than there are processors is left out. To be
// run with --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true.

#include "support/contender.hpp"
#include "support/ring_by_hand.hpp"
#include "support/ring_queues.hpp"
#include "support/threads.hpp"

#include <penstock/ring/ring.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::uint64_t one_way = 2'000'000;
constexpr std::uint64_t trips = 200'000;
constexpr std::uint64_t fan = 200'000;
constexpr std::uint64_t stop = ~std::uint64_t{0};

struct alignas(64) Slot {
  std::uint64_t number;
};
struct Number {
  std::uint64_t number;
};

template <class Of> class RingChannel {
 public:
  explicit RingChannel(std::size_t slots) : ring_{slots, ps::Side::one, ps::Side::one} {}
  void put(std::uint64_t number) {
    auto claim = ring_.claim();
    claim.slot().number = number;
    claim.publish();
  }
  std::uint64_t take() {
    const auto taken = ring_.take();
    return taken.slot().number;
  }

 private:
  ps::Ring<Of> ring_;
};

template <class Queue> class Index {
 public:
  explicit Index(std::size_t slots) : queue_{slots} {}
  void put(std::uint64_t number) { push(queue_, number); }
  std::uint64_t take() { return pop(queue_); }

 private:
  Queue queue_;
};
template <class Queue> class Recycle {
 public:
  explicit Recycle(std::size_t slots) : full_{slots}, free_{slots} {
    // As many as there is room for.
    while (slots_.size() < slots && free_.push(slots_.size())) {
      slots_.emplace_back();
    }
  }
  void put(std::uint64_t number) {
    const std::uint64_t at = pop(free_);
    slots_[at].number = number;
    push(full_, at);
  }
  std::uint64_t take() {
    const std::uint64_t at = pop(full_);
    const std::uint64_t number = slots_[at].number;
    push(free_, at);
    return number;
  }

 private:
  Queue full_;
  Queue free_;
  std::vector<Slot> slots_;
};

void require(bool good) {
  if (!good) {
    throw std::runtime_error{"a number was lost, or came out of turn"};
  }
}

template <class Channel> class OneToOne final : public Contender {
 public:
  explicit OneToOne(std::size_t slots) : channel_{slots} {}
  std::uint64_t run() override {
    std::uint64_t right = 0;
    std::thread taker{[&] {
      std::uint64_t own = 0;
      for (std::uint64_t i = 0; i < one_way; ++i) {
        own += channel_.take() == i ? 1 : 0;
      }
      right = own;
    }};
    for (std::uint64_t i = 0; i < one_way; ++i) {
      channel_.put(i);
    }
    taker.join();
    require(right == one_way);
    return right;
  }

 private:
  Channel channel_;
};

template <class Channel> class RoundTrip final : public Contender {
 public:
  explicit RoundTrip(std::size_t slots) : there_{slots}, back_{slots} {}
  std::uint64_t run() override {
    std::thread other{[&] {
      for (std::uint64_t i = 0; i < trips; ++i) {
        back_.put(there_.take());
      }
    }};
    std::uint64_t right = 0;
    for (std::uint64_t i = 0; i < trips; ++i) {
      there_.put(i);
      right += back_.take() == i ? 1 : 0;
    }
    other.join();
    require(right == trips);
    return right;
  }

 private:
  Channel there_;
  Channel back_;
};

/// Tickets that arrive in any order and leave in their own.
class Reordered {
 public:
  explicit Reordered(std::size_t slots) : here_(slots) {}
  template <class End> void await(std::uint64_t ticket, End& end) {
    while (!here_[ticket % here_.size()]) {
      here_[end.pop() % here_.size()] = true;
    }
    here_[ticket % here_.size()] = false;
  }

 private:
  std::vector<char> here_;
};

class RingManyToOne final : public Contender {
 public:
  RingManyToOne(std::size_t slots, std::size_t workers)
      : ring_{slots, ps::Side::many, ps::Side::one}, workers_{workers} {}
  std::uint64_t run() override {
    ring_.reset();
    ring_.end_at(fan);
    std::uint64_t next = 0;
    std::thread taker{[&] {
      std::uint64_t own = 0;
      while (const auto taken = ring_.take()) {
        own += taken.slot().number == own ? 1 : 0;
      }
      next = own;
    }};
    on_threads(workers_, [&](std::size_t) {
      while (auto claim = ring_.claim()) {
        claim.slot().number = claim.ticket();
        claim.publish();
      }
    });
    taker.join();
    require(next == fan);
    return next;
  }

 private:
  ps::Ring<Number> ring_; // it gives each slot 64 bytes itself
  std::size_t workers_;
};
template <class Queue> class ManyToOne final : public Contender {
 public:
  ManyToOne(std::size_t slots, std::size_t workers)
      : queue_{slots}, slots_(slots), workers_{workers} {}
  std::uint64_t run() override {
    tickets_ = 0;
    delivered_ = 0;
    std::uint64_t next = 0;
    std::thread taker{[&] {
      typename Queue::End end{queue_};
      Reordered order{slots_.size()};
      std::uint64_t own = 0;
      for (std::uint64_t i = 0; i < fan; ++i) {
        order.await(i, end);
        own += slots_[i % slots_.size()].number == i ? 1 : 0;
        delivered_.store(i + 1, std::memory_order_release);
      }
      next = own;
    }};
    on_threads(workers_, [&](std::size_t) {
      typename Queue::End end{queue_};
      for (;;) {
        const std::uint64_t ticket = tickets_.fetch_add(1, std::memory_order_relaxed);
        if (ticket >= fan) {
          return;
        }
        while (ticket >= delivered_.load(std::memory_order_acquire) + slots_.size()) {
          ps::SpinThenFutex::pause();
        }
        slots_[ticket % slots_.size()].number = ticket;
        end.push(ticket);
      }
    });
    taker.join();
    require(next == fan);
    return next;
  }

 private:
  Queue queue_;
  std::vector<Slot> slots_;
  std::size_t workers_;
  alignas(64) std::atomic<std::uint64_t> tickets_{0};
  alignas(64) std::atomic<std::uint64_t> delivered_{0};
};

class ByHandManyToOne final : public Contender {
 public:
  ByHandManyToOne(std::size_t slots, std::size_t workers) : cells_{slots}, workers_{workers} {}
  std::uint64_t run() override {
    cells_.reset();
    std::uint64_t next = 0;
    std::thread taker{[&] {
      std::uint64_t own = 0;
      for (std::uint64_t i = 0; i < fan; ++i) {
        own += cells_.take(i) == i ? 1 : 0;
      }
      next = own;
    }};
    on_threads(workers_, [&](std::size_t) { cells_.put_all(fan); });
    taker.join();
    require(next == fan);
    return next;
  }

 private:
  ByHandTickets cells_;
  std::size_t workers_;
};
/// The cost of the tickets alone: threads that only draw them.
class Tickets final : public Contender {
 public:
  Tickets(std::size_t slots, std::size_t workers) : tickets_{slots}, workers_{workers} {}
  std::uint64_t run() override {
    tickets_.reset();
    std::atomic<std::uint64_t> drawn{0};
    on_threads(workers_, [&](std::size_t) {
      std::uint64_t own = 0;
      while (tickets_.draw() < fan) {
        ++own;
      }
      drawn += own;
    });
    require(drawn == fan);
    return drawn;
  }

 private:
  ByHandTickets tickets_;
  std::size_t workers_;
};

/// What a worker got: whether it came in order, and how many.
struct alignas(64) Given {
  std::uint64_t after = 0; // the number after the last one
  std::uint64_t right = 0;

  void note(std::uint64_t ticket, std::uint64_t number) {
    right += ticket + 1 > after && number == ticket ? 1 : 0;
    after = ticket + 1;
  }
};
std::uint64_t sum(const std::vector<Given>& given) {
  std::uint64_t right = 0;
  for (const Given& one : given) {
    right += one.right;
  }
  require(right == fan);
  return right;
}

class RingOneToMany final : public Contender {
 public:
  RingOneToMany(std::size_t slots, std::size_t workers)
      : ring_{slots, ps::Side::one, ps::Side::many}, workers_{workers} {}
  std::uint64_t run() override {
    ring_.reset();
    std::vector<Given> given(workers_);
    std::thread filler{[&] {
      for (std::uint64_t i = 0; i < fan; ++i) {
        auto claim = ring_.claim();
        claim.slot().number = i;
        claim.publish();
      }
      ring_.end();
    }};
    on_threads(workers_, [&](std::size_t worker) {
      while (const auto taken = ring_.take()) {
        given[worker].note(taken.ticket(), taken.slot().number);
      }
    });
    filler.join();
    return sum(given);
  }

 private:
  ps::Ring<Number> ring_; // it gives each slot 64 bytes itself
  std::size_t workers_;
};
template <class Queue> class OneToMany final : public Contender {
 public:
  OneToMany(std::size_t slots, std::size_t workers)
      : full_{slots + workers}, free_{slots}, slots_(slots), workers_{workers} {}
  std::uint64_t run() override {
    std::vector<Given> given(workers_);
    std::thread filler{[&] {
      typename Queue::End full{full_};
      typename Queue::End free{free_};
      Reordered order{slots_.size()};
      for (std::uint64_t i = 0; i < fan; ++i) {
        if (i >= slots_.size()) {
          order.await(i, free);
        }
        slots_[i % slots_.size()].number = i;
        full.push(i);
      }
      for (std::uint64_t i = fan; i < fan + slots_.size(); ++i) {
        order.await(i, free);
      }
      for (std::size_t i = 0; i < workers_; ++i) {
        full.push(stop);
      }
    }};
    on_threads(workers_, [&](std::size_t worker) {
      typename Queue::End full{full_};
      typename Queue::End free{free_};
      for (std::uint64_t ticket = full.pop(); ticket != stop; ticket = full.pop()) {
        given[worker].note(ticket, slots_[ticket % slots_.size()].number);
        free.push(ticket);
      }
    });
    filler.join();
    return sum(given);
  }

 private:
  Queue full_;
  Queue free_;
  std::vector<Slot> slots_;
  std::size_t workers_;
};

template <class Channel> void add(const std::string& name, std::size_t slots) {
  penstock_bench::add(
      name + "/" + std::to_string(slots), 8 * one_way, [] { return one_way; },
      [slots](bool) { return std::make_unique<OneToOne<Channel>>(slots); });
}
template <class Channel> void add_round_trip(const char* contender, std::size_t slots) {
  penstock_bench::add(
      std::string{"round_trip/"} + contender + "/" + std::to_string(slots), 8 * trips,
      [] { return trips; }, [slots](bool) { return std::make_unique<RoundTrip<Channel>>(slots); });
}
template <class Of> void add(const std::string& question, const char* contender,
                             std::size_t workers, std::size_t slots) {
  penstock_bench::add(
      question + "_" + std::to_string(workers) + "/" + contender + "/" + std::to_string(slots),
      8 * fan, [] { return fan; }, [=](bool) { return std::make_unique<Of>(slots, workers); });
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    for (const std::size_t slots : {64, 1024, 65536}) {
      add<RingChannel<Number>>("index/penstock", slots);
      add<ByHand<Number>>("index/by_hand", slots);
      add<Index<Boost>>("index/boost", slots);
      add<RingChannel<Slot>>("recycle/penstock", slots);
      add<ByHand<Slot>>("recycle/by_hand", slots);
      add<Recycle<Boost>>("recycle/boost", slots);
#if defined(HAVE_READER_WRITER)
      add<Index<ReaderWriterLess>>("index/moodycamel", slots);
      add<Recycle<ReaderWriterLess>>("recycle/moodycamel", slots);
      if (slots <= 1024) {
        add<Index<ReaderWriter>>("index/moodycamel_2x", slots);
        add<Recycle<ReaderWriter>>("recycle/moodycamel_2x", slots);
      }
#endif
    }
    for (const std::size_t slots : {64, 1024}) {
      add_round_trip<RingChannel<Number>>("penstock", slots);
      add_round_trip<ByHand<Number>>("by_hand", slots);
      add_round_trip<Index<Boost>>("boost", slots);
#if defined(HAVE_READER_WRITER)
      add_round_trip<Index<ReaderWriterLess>>("moodycamel", slots);
#endif
    }
    for (const std::size_t workers : {2, 4, 8}) {
      if (workers + 1 > std::thread::hardware_concurrency()) {
        std::cerr << "ring_bench: left out what needs " << workers + 1 << " processors\n";
        continue;
      }
      add<Tickets>("many_to_one", "tickets", workers, 1024);
      for (const std::size_t slots : {64, 1024}) {
        add<RingManyToOne>("many_to_one", "penstock", workers, slots);
        add<ByHandManyToOne>("many_to_one", "by_hand", workers, slots);
        add<ManyToOne<Deque>>("many_to_one", "deque", workers, slots);
        add<RingOneToMany>("one_to_many", "penstock", workers, slots);
        add<OneToMany<Deque>>("one_to_many", "deque", workers, slots);
#if defined(HAVE_CONCURRENT)
        add<ManyToOne<Concurrent>>("many_to_one", "moodycamel", workers, slots);
        add<OneToMany<Concurrent>>("one_to_many", "moodycamel", workers, slots);
#endif
#if defined(HAVE_TBB)
        add<ManyToOne<Tbb>>("many_to_one", "tbb", workers, slots);
        add<OneToMany<Tbb>>("one_to_many", "tbb", workers, slots);
#endif
      }
    }
    return run_all();
  });
}
