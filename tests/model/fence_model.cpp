// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Proves what a timeline hands from thread to thread: a thread that is told that a fence was
// recorded may ask its event, and a thread that is told that it was reached may use what the work
// before it used.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <penstock/device/fence.hpp>

#include "scenario.hpp"

namespace penstock::model {
namespace {

struct EventState {
  rl::var<int> recorded{0}; // the first time: a device orders later ones itself
  RelacyAtomic<std::uint32_t> work{0};
};

// A device whose work, counted from 1, is done when the model says so. Each recording comes after
// one piece of work. It fails if asked about an event that was not recorded.
struct ModelDevice {
  struct event_type {
    std::unique_ptr<EventState> state = std::make_unique<EventState>();
  };
  struct stream_type {
    operator int() const { return 0; }
  };
  using stream_argument = int;

  std::string name() const { return "model"; }
  int attach() { return 0; }
  stream_type stream() { return {}; }
  event_type event() { return {}; }
  void* allocate(std::size_t) { return nullptr; }
  void deallocate(void*, std::size_t) noexcept {}
  void* allocate_pinned(std::size_t) { return nullptr; }
  void deallocate_pinned(void*, std::size_t) noexcept {}
  void copy_to_device(void*, const void*, std::size_t, int) {}
  void copy_to_host(void*, const void*, std::size_t, int) {}
  void record(event_type& event, int) {
    if (event.state->work.load(rl::mo_relaxed) == 0) {
      event.state->recorded(at()) = 1;
    }
    event.state->work.store(++works, rl::mo_relaxed);
  }
  void wait(int, event_type& event) { RL_ASSERT(event.state->recorded(at()) == 1); }
  bool is_done(event_type& event) {
    RL_ASSERT(event.state->recorded(at()) == 1);
    return done.load(rl::mo_acquire) >= event.state->work.load(rl::mo_relaxed);
  }
  void sync(event_type&) {}
  void sync(int) {}

  std::uint32_t works{}; // the recording thread's
  RelacyAtomic<std::uint32_t> done{0};
};

// Thread 0 records, and is the device as well, whose work uses the bytes. Thread 1 asks, and
// thereby tells thread 2, which never asks, that the bytes are free.
struct AskAndTell : Scenario {
  ModelDevice device;
  Timeline<ModelDevice, ModelPolicy<>> line{device, 1};
  rl::var<int> bytes{0};

  void thread(unsigned id) override {
    if (id == 0) {
      RL_ASSERT(line.record(0) == 1);
      bytes(at()) = 1;
      device.done.store(1, rl::mo_release);
    } else if (id == 1) {
      while (!line.reached(1)) {
        rl::yield(1, at());
      }
    } else {
      while (!line.seen(1)) {
        rl::yield(1, at());
      }
      bytes(at()) = 2;
    }
  }
};

// Two threads ask for two fences, and come back with their answers in any order: a fence that one
// thread was told is reached stays reached.
struct NeverGoesBack : Scenario {
  ModelDevice device;
  Timeline<ModelDevice, ModelPolicy<>> line{device, 2};

  NeverGoesBack() {
    for (int serial = 1; serial <= 2; ++serial) {
      line.record(0);
    }
    device.done.store(2, rl::mo_relaxed);
  }
  void thread(unsigned id) override {
    const std::uint64_t serial = id + 1;
    RL_ASSERT(line.reached(serial));
    RL_ASSERT(line.seen(serial));
  }
  void after() override { RL_ASSERT(line.seen(2)); }
};

// Of two events each is for two uses in turn. While they are recorded, another thread asks about
// the first use and the second, which share an event. Each use has bytes of its own.
struct SharedEvent : Scenario {
  static constexpr unsigned uses = 3;
  ModelDevice device;
  Timeline<ModelDevice, ModelPolicy<>> line{device, 2, 3};
  rl::var<int> bytes[uses]{{0}, {0}, {0}};

  void thread(unsigned id) override {
    if (id == 0) {
      for (unsigned use = 0; use != uses; ++use) {
        RL_ASSERT(line.record(0) == use + 1);
        bytes[use](at()) = 1;
        device.done.store(use + 1, rl::mo_release);
      }
      RL_ASSERT(line.answer(1) == line.answer(2) && line.answer(2) != line.answer(3));
    } else {
      for (unsigned use = 0; use != 2; ++use) {
        while (!line.reached(use + 1)) {
          rl::yield(1, at());
        }
        bytes[use](at()) = 2;
      }
    }
  }
};

// More uses are outstanding than the timeline was made for: another event answers for the first.
struct AnotherAnswers : Scenario {
  ModelDevice device;
  Timeline<ModelDevice, ModelPolicy<>> line{device, 2, 1};
  rl::var<int> bytes{0};

  void thread(unsigned id) override {
    if (id == 0) {
      line.record(0);
      bytes(at()) = 1;
      device.done.store(1, rl::mo_release);
      line.record(0);
      device.done.store(2, rl::mo_release);
    } else {
      while (!line.reached(1)) {
        rl::yield(1, at());
      }
      bytes(at()) = 2;
    }
  }
};

// Another stream is told to wait for the newest fence there was.
struct WaitForNewest : Scenario {
  ModelDevice device;
  Timeline<ModelDevice, ModelPolicy<>> line{device, 1};

  void thread(unsigned id) override {
    if (id == 0) {
      line.record(0);
    } else if (const std::uint64_t newest = line.was_recorded()) {
      line.wait(0, newest);
    }
  }
};

template <class S> std::unique_ptr<Scenario> make() {
  return std::make_unique<S>();
}

} // namespace
} // namespace penstock::model

int main(int count, char** arguments) {
  using namespace penstock::model;
  const auto three = Search::switches(3), full = Search::full();
  const auto random = Search::random(100'000);
  return run(
      {
          {"asked and told", 3, make<AskAndTell>, {three, random}},
          {"no fence goes back", 2, make<NeverGoesBack>, {full, random}},
          {"two share an event", 2, make<SharedEvent>, {three, random}},
          {"another answers", 2, make<AnotherAnswers>, {three, random}},
          {"the newest is waited for", 2, make<WaitForNewest>, {full}},
      },
      count, arguments);
}
