// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A disk that sleeps, and what reads from it and writes to it: causes of slow runs that a test
// plants, with rates that it knows. All sleep without a busy loop, and their errors do not add up,
// so a planted rate is right to within a few percent over a tenth of a second. They are too slow on
// a machine that is too busy to wake them, never too fast.

#include <penstock/host/detail/machine.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>

namespace penstock::tests {

/// Keeps the calling thread so long, as a slow callable does. Many short ones add up to what was
/// asked; a single one may be shorter by what those before took too long, 10 milliseconds at most.
inline void sleep_for(double seconds) {
  detail::sleep_on_average(std::chrono::nanoseconds{static_cast<std::int64_t>(seconds * 1e9)});
}

/// How fast a SleepingDisk is.
struct DiskSpeed {
  /// Seconds before a request begins to move bytes. Requests of several threads wait side by side.
  double latency_s = 0;
  /// Bytes a second, which all requests share: 0 for no limit.
  double bytes_per_s = 0;
};

/// A disk without data. With `n` threads that each ask for `b` bytes at a time it moves
/// min(bytes_per_s, n * b / (latency_s + b / bytes_per_s)) bytes a second, so one thread does not
/// keep it busy. A handle: copies are the same disk. Any thread.
class SleepingDisk {
  using Clock = std::chrono::steady_clock;

 public:
  explicit SleepingDisk(DiskSpeed speed) : is_{std::make_shared<Is>(speed)} {}

  /// Blocks as long as a request for so many bytes takes. Single ones may be shorter by what those
  /// before took too long in the same thread, 10 milliseconds at most.
  void ask(std::size_t bytes) const {
    constexpr Clock::duration most_made_up_for = std::chrono::milliseconds{10};
    thread_local Clock::duration too_long{};
    const auto in = [](double seconds) {
      return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>{seconds});
    };
    const DiskSpeed& speed = is_->speed;
    const Clock::time_point ready = Clock::now() - too_long + in(speed.latency_s);
    const Clock::time_point end =
        speed.bytes_per_s == 0
            ? ready
            : is_->turns.book(ready, in(static_cast<double>(bytes) / speed.bytes_per_s)).end;
    std::this_thread::sleep_until(end);
    too_long = std::min(most_made_up_for, Clock::now() - end);
    is_->requests.fetch_add(1, std::memory_order_relaxed);
    is_->bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  std::uint64_t requests() const { return is_->requests.load(std::memory_order_relaxed); }
  std::uint64_t bytes() const { return is_->bytes.load(std::memory_order_relaxed); }

 private:
  struct Is {
    explicit Is(DiskSpeed s) : speed{s} {}
    const DiskSpeed speed;
    detail::Turns turns;
    std::atomic<std::uint64_t> requests{0}, bytes{0};
  };
  std::shared_ptr<Is> is_;
};

/// A source of plain records that lie on a SleepingDisk: each read of one is a request. It has the
/// members of S, whose read() must not take a Patience.
///
///     Reader{SleepingSource{memory(numbers), SleepingDisk{{.latency_s = 0.01}}}, {.workers = 1}}
template <class S> class SleepingSource : public S {
 public:
  using schema = typename S::schema;
  static_assert(!detail::HasColumns<schema>, "the bytes of a batch of columns are not known here");

  SleepingSource(S source, SleepingDisk disk) : S{std::move(source)}, disk_{std::move(disk)} {}

  template <HostSpace Where> auto read(Batch<schema, Where> into) const {
    disk_.ask(into.size_bytes());
    return S::read(into);
  }
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const
    requires detail::ReadsBytes<S>
  {
    disk_.ask(into.size());
    S::read_bytes(at, into);
  }
  template <HostSpace Where>
  std::size_t read_at(std::span<const std::uint64_t> numbers, Batch<schema, Where> into) const
    requires detail::ReadsAt<S, Where>
  {
    disk_.ask(into.size_bytes());
    return S::read_at(numbers, into);
  }

 private:
  SleepingDisk disk_;
};

/// An Io whose files lie on a SleepingDisk: each read and each write is a request. All else is as
/// fast as Inner's.
///
///     Reader{records<float>(path, {}, SleepingIo{disk})} | … | Writer{other, {}, SleepingIo{disk}}
template <class Inner = PosixIo> class SleepingIo : public Inner {
 public:
  explicit SleepingIo(SleepingDisk disk, Inner inner = {})
      : Inner{std::move(inner)}, disk_{std::move(disk)} {}

  std::int64_t read(int fd, std::byte* into, std::size_t bytes, std::uint64_t offset) const {
    disk_.ask(bytes);
    return Inner::read(fd, into, bytes, offset);
  }
  std::int64_t write(int fd, const std::byte* from, std::size_t bytes, std::uint64_t offset) const {
    disk_.ask(bytes);
    return Inner::write(fd, from, bytes, offset);
  }

 private:
  SleepingDisk disk_;
};

} // namespace penstock::tests
