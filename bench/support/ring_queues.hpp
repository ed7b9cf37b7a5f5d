// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Common queues that could take the place of a Ring, behind one interface. HAVE_... says which of
// them this machine has.

#include <penstock/parking.hpp>

#include <boost/lockfree/spsc_queue.hpp>
#if __has_include(<readerwriterqueue/readerwriterqueue.h>)
#include <readerwriterqueue/readerwriterqueue.h>
#define HAVE_READER_WRITER
#endif
#if __has_include(<concurrentqueue/concurrentqueue.h>)
#include <concurrentqueue/concurrentqueue.h>
#define HAVE_CONCURRENT
#endif
#if defined(HAVE_TBB) // and its library
#include <tbb/concurrent_queue.h>
#endif

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

namespace penstock_bench {

/// Queues for one thread and one other.
/// @{
struct Boost {
  explicit Boost(std::size_t capacity) : queue{capacity} {}
  bool push(std::uint64_t number) { return queue.push(number); }
  bool pop(std::uint64_t& number) { return queue.pop(number); }
  boost::lockfree::spsc_queue<std::uint64_t> queue;
};
#if defined(HAVE_READER_WRITER)
struct ReaderWriter {
  explicit ReaderWriter(std::size_t capacity) : queue{capacity} {}
  bool push(std::uint64_t number) { return queue.try_enqueue(number); }
  bool pop(std::uint64_t& number) { return queue.try_dequeue(number); }
  moodycamel::ReaderWriterQueue<std::uint64_t> queue;
};
/// Asked for a power of two up to 1024 the queue has about twice the room; asked for one less, just
/// that.
struct ReaderWriterLess : ReaderWriter {
  explicit ReaderWriterLess(std::size_t capacity) : ReaderWriter{capacity - 1} {}
};
#endif
/// @}

/// Spin until there is room, or a number.
/// @{
template <class Queue> void push(Queue& queue, std::uint64_t number) {
  while (!queue.push(number)) {
    penstock::SpinThenFutex::pause();
  }
}
template <class Queue> std::uint64_t pop(Queue& queue) {
  std::uint64_t number = 0;
  while (!queue.pop(number)) {
    penstock::SpinThenFutex::pause();
  }
  return number;
}
/// @}

/// Queues for many threads; each thread has an End of its own.
/// @{
#if defined(HAVE_CONCURRENT)
class Concurrent {
  using Queue = moodycamel::ConcurrentQueue<std::uint64_t>;

 public:
  explicit Concurrent(std::size_t capacity) : queue_{capacity * 2} {}
  class End {
   public:
    explicit End(Concurrent& of) : queue_{of.queue_}, producer_{queue_}, consumer_{queue_} {}
    void push(std::uint64_t number) { queue_.enqueue(producer_, number); }
    std::uint64_t pop() {
      std::uint64_t number = 0;
      while (!queue_.try_dequeue(consumer_, number)) {
        penstock::SpinThenFutex::pause();
      }
      return number;
    }

   private:
    Queue& queue_;
    moodycamel::ProducerToken producer_;
    moodycamel::ConsumerToken consumer_;
  };

 private:
  Queue queue_;
};
#endif
#if defined(HAVE_TBB)
class Tbb {
  using Queue = tbb::concurrent_bounded_queue<std::uint64_t>;

 public:
  explicit Tbb(std::size_t capacity) { queue_.set_capacity(static_cast<std::ptrdiff_t>(capacity)); }
  class End {
   public:
    explicit End(Tbb& of) : queue_{of.queue_} {}
    void push(std::uint64_t number) { queue_.push(number); }
    std::uint64_t pop() {
      std::uint64_t number = 0;
      queue_.pop(number);
      return number;
    }

   private:
    Queue& queue_;
  };

 private:
  Queue queue_;
};
#endif
/// It holds no more numbers than there are slots, since a slot is in one place at a time.
class Deque {
 public:
  explicit Deque(std::size_t /*capacity*/) {}
  class End {
   public:
    explicit End(Deque& of) : of_{of} {}
    void push(std::uint64_t number) {
      {
        const std::lock_guard lock{of_.mutex_};
        of_.numbers_.push_back(number);
      }
      of_.more_.notify_one();
    }
    std::uint64_t pop() {
      std::unique_lock lock{of_.mutex_};
      of_.more_.wait(lock, [&] { return !of_.numbers_.empty(); });
      const std::uint64_t number = of_.numbers_.front();
      of_.numbers_.pop_front();
      return number;
    }

   private:
    Deque& of_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::uint64_t> numbers_;
};
/// @}

} // namespace penstock_bench
