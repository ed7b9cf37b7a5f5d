// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of endings and reports on the host device.

#include "support/caught.hpp"
#include "support/sanitizer.hpp"
#include "support/test_devices.hpp"

#include <penstock/penstock.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using TestDevice = penstock::HostDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  for (const std::uint64_t seed : {0, 1}) {
    D device{{.late_seed = seed}};
    f(device);
  }
}

inline std::uint64_t pinned_bytes(const TestDevice& device) {
  return device.counts().pinned_bytes;
}

inline void delay(penstock::HostStream& stream, std::chrono::microseconds time) {
  stream.enqueue([time] { std::this_thread::sleep_for(time); });
}

// A copy takes a third of the suite's `slow` for each MiB, and as long again each time it is
// repeated.
template <class F> void for_each_slow_device(F f) {
  penstock::tests::SlowCopies<TestDevice> device{
      {.copy_ns_per_kib = penstock::tests::under_tsan ? 5000U : 500U}};
  f(device, 1);
}

#include "suite/control_suite.hpp"

namespace {

// A ring whose first closer is held up.
struct SlowToClose {
  std::atomic<int> closers{0};
  std::atomic<bool> let_go{false};
  void fail() {
    const bool first = closers++ == 0;
    while (first && !let_go) {
      std::this_thread::yield();
    }
  }
  void stop() {}
};

// A ring that is interrupted while it is closed, by a handler that stops too and spoils errno.
struct Interrupted {
  penstock::detail::RunControl* control{};
  int closed = 0;
  void fail() {}
  void stop() {
    if (++closed == 1) {
      control->stop();
    }
    errno = EINTR;
  }
};

} // namespace

TEST_CASE("a stop() that interrupts another closes all too, and both leave errno as it was") {
  penstock::detail::RunControl control;
  Interrupted interrupted{&control};
  penstock::Ring<int> ring{2};
  control.watch(interrupted);
  control.watch(ring);
  control.stop();
  CHECK(interrupted.closed == 0);
  control.begin();
  errno = ENOENT;
  control.stop();
  const int error = errno;
  CHECK(error == ENOENT);
  CHECK(interrupted.closed == 2);
  CHECK(ring.state() == penstock::Flow::stopped);
  control.end();
  CHECK(control.stopped());
  control.stop();
  CHECK(interrupted.closed == 2);
}

TEST_CASE("a run ends behind a stop() that is closing rings, which closes none of the next") {
  // A ring that is still being stopped while the run ends.
  struct SlowToStop {
    std::atomic<bool> closing{false}, let_go{false};
    std::atomic<int> closed{0};
    void fail() {}
    void stop() {
      closing = true;
      while (!let_go) {
        std::this_thread::yield();
      }
      ++closed;
    }
  } slow;
  penstock::detail::RunControl control;
  control.watch(slow);
  control.begin();
  std::thread stopper{[&] { control.stop(); }};
  while (!slow.closing) {
    std::this_thread::yield();
  }
  std::atomic<bool> ended{false};
  std::thread runner{[&] {
    control.end();
    ended = true;
    CHECK(slow.closed == 1);
    control.begin();
    CHECK_FALSE(control.stopped());
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
  CHECK_FALSE(ended);
  slow.let_go = true;
  stopper.join();
  runner.join();
  control.end();
  CHECK(slow.closed == 1);
}

TEST_CASE("who fails second finds every ring closed, though the first is still at it") {
  SlowToClose slow;
  penstock::Ring<int> ring{2};
  penstock::detail::RunControl control;
  control.watch(slow);
  control.watch(ring);
  control.begin();
  const auto fail = [&](std::uint64_t record) {
    try {
      throw std::runtime_error{"on purpose"};
    } catch (...) {
      control.fail({.stage = "Reader", .record = record});
    }
  };
  std::thread first{[&] { fail(2); }};
  while (slow.closers == 0) {
    std::this_thread::yield();
  }
  fail(0);
  CHECK(ring.state() == penstock::Flow::failed);
  slow.let_go = true;
  first.join();
  try {
    control.rethrow();
    CHECK(false);
  } catch (const penstock::StageError& e) {
    CHECK(e.record() == 2);
  }
}

namespace {

// A source that fails from record 500 on, with an error that names record `named`.
struct Failing {
  using schema = std::uint64_t;
  std::optional<std::uint64_t> named;
  std::uint64_t size() const { return 1000; }
  template <class Where> std::size_t read(penstock::Batch<std::uint64_t, Where> into) const {
    if (into.index() >= 500) {
      throw penstock::SourceError{"penstock: the store said 503.", "s3://x/y", 4000, named};
    }
    return into.size();
  }
};

} // namespace

TEST_CASE("a SourceError tells the record where it names one and is the source's") {
  namespace ps = penstock;
  using In = ps::Batch<const std::uint64_t, ps::Pageable>;
  using Out = ps::Batch<std::uint64_t, ps::Pageable>;
  const ps::ReaderOptions options{.workers = 1, .batch = 100};
  const auto record_of = [](auto pipeline, const std::string& stage) {
    const auto error = ps::tests::caught<ps::StageError>([&] { pipeline.run(); });
    CHECK(error.stage() == stage);
    CHECK(error.file() == "s3://x/y");
    CHECK(error.offset() == 4000);
    CHECK(std::string{error.what()}.find("at record " + std::to_string(error.record()) + ":") !=
          std::string::npos);
    return error.record();
  };
  const auto run = [&](std::optional<std::uint64_t> named) {
    return record_of(ps::Reader{Failing{named}, options} | ps::Consumer{[](In) {}}, "Reader");
  };
  CHECK(run({}) == 500);
  CHECK(run(523) == 523);
  CHECK(run(0) == 0);

  // The error is that of another source, which a callable reads.
  const std::vector<std::uint64_t> data(1000);
  const auto reads_on = [](const In& in) {
    if (in.index() == 700) {
      throw ps::SourceError{"penstock: no such label.", "s3://x/y", 4000, 7};
    }
  };
  CHECK(record_of(ps::Reader{ps::memory(data), options} |
                      ps::Consumer{[&](In in) { reads_on(in); }, {.workers = 1}},
                  "Consumer") == 700);
  CHECK(record_of(ps::Reader{ps::memory(data), options} |
                      ps::Decoder{[&](In in, Out) { reads_on(in); }, {.workers = 1}} |
                      ps::Consumer{[](In) {}},
                  "Decoder") == 700);

  const ps::SourceError silent{"penstock: no.", {}, 0};
  CHECK_FALSE(silent.record());
}
