// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Errors of programs that do not wait, and who finds them: not HostDevice, but ThreadSanitizer,
// whose reports are counted here and are no failure of this program.

#include "support/catch.hpp"
#include "support/sanitizer.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace ps = penstock;

namespace {

std::atomic<int> reports{0};

// Holds a stream's work back, lets it go, and tells when it is done, all by operations that order
// nothing: a lock taken meanwhile would order the threads, and so hide a missing wait.
class Gate {
 public:
  void hold(ps::HostStream& stream) {
    stream.enqueue([this] {
      store(held);
      while (state_.load(std::memory_order_relaxed) == held) {
        std::this_thread::yield();
      }
    });
  }
  void tell(ps::HostStream& stream) {
    stream.enqueue([this] { store(done); });
  }
  void await_held() { await(held); }
  void let_go() {
    store(open);
    await(done);
  }

 private:
  enum State { begun, held, open, done };
  void store(State state) { state_.store(state, std::memory_order_relaxed); }
  void await(State state) {
    while (state_.load(std::memory_order_relaxed) != state) {
      std::this_thread::yield();
    }
  }

  std::atomic<State> state_{begun};
};

struct Set {
  std::uint32_t* to;
  PENSTOCK_HD void operator()(std::size_t i) const { to[i] = 7; }
};

constexpr bool found = penstock::tests::under_tsan;

} // namespace

// ThreadSanitizer calls these for each report, and at its start.
extern "C" {
void __tsan_on_report(void* /*report*/) {
  ++reports;
}
const char* __tsan_default_options() {
  return "exitcode=0";
}
}

TEST_CASE("a batch that the host reads without waiting is old, and ThreadSanitizer reports it") {
  const std::vector<std::uint32_t> ones(1000, 1);
  for (const bool waits : {true, false}) {
    CAPTURE(waits);
    reports = 0;
    ps::HostDevice device;
    auto stream = device.stream();
    Gate gate;
    auto pipeline =
        ps::Reader{ps::memory(ones), ps::to_pinned} | ps::AsyncCopier{device} |
        ps::Kernel{[&](ps::Batch<std::uint32_t, ps::Device> batch, ps::HostStream& its) {
          gate.hold(its);
          ps::for_each(its, batch.size(), Set{batch.data()});
          gate.tell(its);
        }};
    std::uint32_t read = 0;
    for (auto batch : pipeline.on(stream)) {
      gate.await_held();
      if (waits) {
        gate.let_go();
        stream.sync();
      }
      read = batch.data()[999];
      if (!waits) {
        gate.let_go();
      }
    }
    CHECK(read == (waits ? 7U : 1U));
    CHECK((reports > 0) == (found && !waits));
  }
}

TEST_CASE("what the host reads or writes beside a queued copy, ThreadSanitizer reports") {
  const ps::HostOptions pretended{.to_device_bytes_per_s = 1e9, .kernel_s = 1e-6};
  const auto check = [](const ps::HostOptions& options, bool waits, bool writes) {
    CAPTURE(waits, writes, options.kernel_s);
    reports = 0;
    ps::HostDevice device{options};
    auto stream = device.stream();
    auto array = ps::device_array<std::uint32_t>(device, 1000);
    const auto memory = ps::detail::Allocation::in<ps::Pinned>(&device, 4096);
    auto* const pinned = reinterpret_cast<std::uint32_t*>(memory.data());
    std::fill_n(pinned, 1000, 7U);
    Gate gate;
    gate.hold(stream);
    device.copy_to_device(array.data(), pinned, 4000, stream);
    gate.tell(stream);
    gate.await_held();
    if (waits) {
      gate.let_go();
      stream.sync();
    }
    std::uint32_t read = 0;
    if (writes) {
      pinned[999] = 8;
    } else {
      read = array.data()[999];
    }
    if (!waits) {
      gate.let_go();
      stream.sync();
    }
    CHECK(array.data()[999] == (writes && !waits ? 8U : 7U));
    CHECK(read == (!writes && waits ? 7U : 0U));
    CHECK((reports > 0) == (found && !waits));
  };
  for (const bool waits : {true, false}) {
    for (const bool writes : {true, false}) {
      check({}, waits, writes);
      check(pretended, waits, writes);
    }
  }
}
