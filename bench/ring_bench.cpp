// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does a slot's way through a ring cost, one thread to one? penstock's Ring against queues
// that others would take:
//
// - recycle: the producer needs a free slot of a pool, fills it and hands it over; the consumer
//   reads it and gives it back. That is what a Ring is; with queues it takes two, one for full
//   slots and one for free ones.
// - index: the numbers themselves go through one queue; a Ring's go in its slots.
//
// The producer's time a slot, in steady state, with a consumer that checks that each number comes,
// in order. To be run with --benchmark_enable_random_interleaving=true
// --benchmark_repetitions=5.

#include <penstock/ring.hpp>

#include <benchmark/benchmark.h>
#include <boost/lockfree/spsc_queue.hpp>
#if __has_include(<readerwriterqueue/readerwriterqueue.h>)
#include <readerwriterqueue/readerwriterqueue.h>
#define HAVE_MOODYCAMEL
#endif

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace {

namespace ps = penstock;

struct alignas(64) Slot {
  std::uint64_t number;
};

class RingChannel {
 public:
  explicit RingChannel(std::size_t slots) : ring_{slots, ps::Side::one, ps::Side::one} {}
  void put(std::uint64_t number) {
    auto claim = ring_.claim();
    claim.slot() = number;
    claim.publish();
  }
  std::uint64_t take() {
    const auto taken = ring_.take();
    return taken.slot();
  }

 private:
  ps::Ring<std::uint64_t> ring_;
};

struct Boost {
  explicit Boost(std::size_t capacity) : queue{capacity} {}
  bool push(std::uint64_t number) { return queue.push(number); }
  bool pop(std::uint64_t& number) { return queue.pop(number); }
  boost::lockfree::spsc_queue<std::uint64_t> queue;
};
#if defined(HAVE_MOODYCAMEL)
struct Moodycamel {
  explicit Moodycamel(std::size_t capacity) : queue{capacity} {}
  bool push(std::uint64_t number) { return queue.try_enqueue(number); }
  bool pop(std::uint64_t& number) { return queue.try_dequeue(number); }
  moodycamel::ReaderWriterQueue<std::uint64_t> queue;
};
#endif

template <class Queue> void push(Queue& queue, std::uint64_t number) {
  while (!queue.push(number)) {
    ps::SpinThenFutex::pause();
  }
}
template <class Queue> std::uint64_t pop(Queue& queue) {
  std::uint64_t number = 0;
  while (!queue.pop(number)) {
    ps::SpinThenFutex::pause();
  }
  return number;
}

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
  explicit Recycle(std::size_t slots) : full_{slots}, free_{slots}, slots_(slots) {
    for (std::size_t i = 0; i < slots; ++i) {
      push(free_, i);
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

template <class Channel> void one_to_one(benchmark::State& state) {
  constexpr std::uint64_t stop = ~std::uint64_t{0};
  Channel channel{static_cast<std::size_t>(state.range(0))};
  std::uint64_t taken = 0;
  bool in_order = true;
  std::thread taker{[&] {
    for (std::uint64_t number = channel.take(); number != stop; number = channel.take()) {
      in_order = in_order && number == taken;
      ++taken;
    }
  }};
  std::uint64_t put = 0;
  for (auto _ : state) {
    channel.put(put++);
  }
  channel.put(stop);
  taker.join();
  if (!in_order || taken != put) {
    state.SkipWithError("a number was lost, or came out of turn");
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(put));
}

template <class Channel> void add(const char* name) {
  benchmark::RegisterBenchmark(name, one_to_one<Channel>)
      ->Arg(64)
      ->Arg(1024)
      ->Arg(65536)
      ->UseRealTime();
}

} // namespace

int main(int argc, char** argv) {
  add<RingChannel>("penstock");
  add<Index<Boost>>("index/boost");
  add<Recycle<Boost>>("recycle/boost");
#if defined(HAVE_MOODYCAMEL)
  add<Index<Moodycamel>>("index/moodycamel");
  add<Recycle<Moodycamel>>("recycle/moodycamel");
#endif
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
