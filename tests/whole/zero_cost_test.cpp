// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of steady-state costs on the host device, and tests of the counters themselves.

#include "support/interposed.hpp"

#include <penstock/penstock.hpp>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <malloc.h>
#include <pthread.h>

using penstock::tests::interposed::Inside;
using penstock::tests::interposed::Kind;

/// A HostDevice whose locks and threads are told from the library's, as a GPU's are: its calls are
/// `Inside`, and so are the threads that they start.
struct TestDevice : penstock::HostDevice {
  using HostDevice::HostDevice;
  using Event = penstock::HostEvent;
  using Stream = penstock::HostStream;

  Stream stream() {
    const Inside inside{Kind::creation};
    return HostDevice::stream();
  }
  Event event() {
    const Inside inside{Kind::creation};
    return HostDevice::event();
  }
  void* allocate(std::size_t bytes) {
    const Inside inside{Kind::creation};
    return HostDevice::allocate(bytes);
  }
  void deallocate(void* at, std::size_t bytes) noexcept {
    const Inside inside{Kind::creation};
    HostDevice::deallocate(at, bytes);
  }
  void* allocate_pinned(std::size_t bytes) {
    const Inside inside{Kind::creation};
    return HostDevice::allocate_pinned(bytes);
  }
  void deallocate_pinned(void* at, std::size_t bytes) noexcept {
    const Inside inside{Kind::creation};
    HostDevice::deallocate_pinned(at, bytes);
  }
  void copy_to_device(void* to, const void* from, std::size_t bytes, Stream& stream) {
    const Inside inside;
    HostDevice::copy_to_device(to, from, bytes, stream);
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes, Stream& stream) {
    const Inside inside;
    HostDevice::copy_to_host(to, from, bytes, stream);
  }
  void record(Event& event, Stream& stream) {
    const Inside inside;
    HostDevice::record(event, stream);
  }
  void wait(Stream& stream, const Event& event) {
    const Inside inside;
    HostDevice::wait(stream, event);
  }
  bool is_done(const Event& event) {
    const Inside inside;
    return HostDevice::is_done(event);
  }
  struct Graph {
    void launch(Stream& stream) const {
      const Inside inside;
      graph.launch(stream);
    }
    penstock::HostGraph graph;
  };
  using graph_type = Graph;
  template <class F> Graph capture(std::span<Stream> lanes, F f) {
    const Inside inside{Kind::creation};
    return {HostDevice::capture(lanes, std::move(f))};
  }
  void sync(const Event& event) {
    const Inside inside{Kind::blocking};
    HostDevice::sync(event);
  }
  void sync(Stream& stream) {
    const Inside inside{Kind::blocking};
    HostDevice::sync(stream);
  }
};
static_assert(penstock::AnyDevice<TestDevice>);

template <class D = TestDevice, class F> void for_each_device(F f) {
  for (const std::uint64_t seed : {0, 1}) {
    D device{{.late_seed = seed}};
    f(device);
  }
}

inline void work(penstock::HostStream& stream) {
  const Inside inside;
  stream.enqueue([] {});
}

#include "suite/zero_cost_suite.hpp"

namespace suite {

std::vector<Offence> device_offences(TestDevice& device) {
  const auto stream = std::make_shared<ps::HostStream>(device.stream());
  const auto event = std::make_shared<std::optional<ps::HostEvent>>();
  return {{"an event made", Kind::creation, 1, [=, &device] { event->emplace(device.event()); }},
          {"memory allocated and given back", Kind::creation, 2,
           [&device] { device.deallocate(device.allocate(64), 64); }},
          {"a stream waited for", Kind::blocking, 1, [=, &device] { device.sync(*stream); }}};
}

TEST_CASE("what the host device does within is counted as its own") {
  TestDevice device;
  Watch watch;
  CHECK(counted(device, 1, watch, pinned_chain, run) == Counts{});
  Counts own = interposed::devices();
  CHECK((own[Kind::lock] > 0) == interposed::counts);
  CHECK(own[Kind::heap] == 0);
  CHECK(own[Kind::creation] == 0);
}

TEST_CASE("every function of the C library that is stood in for counts") {
  if (!can_count()) {
    SUCCEED();
    return;
  }
  static void* volatile kept;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  const timespec past{1, 0};
  // Each call returns 0 if it succeeds.
  const auto locked = [&](int error) { return error == 0 ? pthread_mutex_unlock(&mutex) : error; };
  const auto rwlocked = [&](int error) {
    return error == 0 ? pthread_rwlock_unlock(&rwlock) : error;
  };
  const auto times_out = [&](auto wait) {
    pthread_mutex_lock(&mutex);
    const int error = wait();
    return locked(error == ETIMEDOUT ? 0 : 1);
  };
  struct Use {
    const char* name;
    Kind kind;
    std::uint64_t times;
    std::function<int()> call;
  };
  const auto freed = [](void* at) {
    kept = at;
    std::free(kept);
    return at == nullptr ? 1 : 0;
  };
  const std::vector<Use> uses{
      {"malloc", Kind::heap, 2, [&] { return freed(std::malloc(8)); }},
      {"calloc", Kind::heap, 2, [&] { return freed(std::calloc(2, 8)); }},
      {"realloc", Kind::heap, 3,
       [&] {
         kept = std::malloc(8);
         return freed(std::realloc(kept, 99));
       }},
      {"aligned_alloc", Kind::heap, 2, [&] { return freed(std::aligned_alloc(64, 64)); }},
      {"memalign", Kind::heap, 2, [&] { return freed(memalign(64, 64)); }},
      {"posix_memalign", Kind::heap, 2,
       [&] {
         void* at = nullptr;
         return posix_memalign(&at, 64, 64) + freed(at);
       }},
      {"mutex_lock", Kind::lock, 1, [&] { return locked(pthread_mutex_lock(&mutex)); }},
      {"mutex_trylock", Kind::lock, 1, [&] { return locked(pthread_mutex_trylock(&mutex)); }},
      {"mutex_timedlock", Kind::lock, 1,
       [&] { return locked(pthread_mutex_timedlock(&mutex, &past)); }},
      {"mutex_clocklock", Kind::lock, 1,
       [&] { return locked(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &past)); }},
      {"rwlock_rdlock", Kind::lock, 1, [&] { return rwlocked(pthread_rwlock_rdlock(&rwlock)); }},
      {"rwlock_tryrdlock", Kind::lock, 1,
       [&] { return rwlocked(pthread_rwlock_tryrdlock(&rwlock)); }},
      {"rwlock_timedrdlock", Kind::lock, 1,
       [&] { return rwlocked(pthread_rwlock_timedrdlock(&rwlock, &past)); }},
      {"rwlock_wrlock", Kind::lock, 1, [&] { return rwlocked(pthread_rwlock_wrlock(&rwlock)); }},
      {"rwlock_trywrlock", Kind::lock, 1,
       [&] { return rwlocked(pthread_rwlock_trywrlock(&rwlock)); }},
      {"rwlock_timedwrlock", Kind::lock, 1,
       [&] { return rwlocked(pthread_rwlock_timedwrlock(&rwlock, &past)); }},
      {"cond_timedwait", Kind::lock, 2,
       [&] {
         return times_out([&] { return pthread_cond_timedwait(&condition, &mutex, &past); });
       }},
      {"cond_clockwait", Kind::lock, 2,
       [&] {
         return times_out(
             [&] { return pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &past); });
       }},
  };
  for (const Use& use : uses) {
    CAPTURE(use.name);
    Counts expected;
    expected[use.kind] = use.times;
    int failed = use.call(); // the first call looks up the function, which allocates
    CHECK(failed == 0);
    interposed::arm();
    failed = use.call();
    interposed::disarm();
    CHECK(failed == 0);
    CHECK(interposed::ours() == expected);
    CHECK(interposed::devices() == Counts{});
    interposed::arm();
    {
      const Inside inside;
      failed = use.call();
    }
    interposed::disarm();
    CHECK(failed == 0);
    CHECK(interposed::ours() == Counts{});
    CHECK(interposed::devices() == expected);
  }
}

TEST_CASE("a thread that is started counts, and one that a device starts is the device's") {
  if (!can_count()) {
    SUCCEED();
    return;
  }
  const auto count_a_thread = [] {
    std::mutex mutex;
    std::condition_variable changed;
    bool ready = false;
    interposed::arm();
    std::unique_lock lock{mutex};
    std::thread other{[&] {
      const std::lock_guard there{mutex};
      ready = true;
      changed.notify_one();
    }};
    changed.wait(lock, [&] { return ready; });
    lock.unlock();
    other.join();
    interposed::disarm();
  };
  count_a_thread();
  Counts ours = interposed::ours();
  CHECK(ours[Kind::thread] == 1);
  CHECK(ours[Kind::lock] >= 3);
  {
    const Inside inside;
    count_a_thread();
  }
  CHECK(interposed::ours() == Counts{});
  Counts devices = interposed::devices();
  CHECK(devices[Kind::thread] == 1);
  CHECK(devices[Kind::lock] >= 3);
}

} // namespace suite
