// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/origin.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/parking.hpp>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <stop_token>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

namespace penstock::detail {

/// Tells threads that wait outside of the rings that a run ends: those that sleep here, and, once
/// connected, those that poll a descriptor or hold a stop token. Any thread.
class Interrupt {
 public:
  using Clock = std::chrono::steady_clock;

  Interrupt() = default;
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  /// Makes what await_readable() and token() need, before the first run. Throws Error.
  [[gnu::cold]] void connect();
  /// Forgets the last run, before the next, while nobody is inside.
  [[gnu::cold]] void reset();

  /// Wakes all who wait, to be called when all rings are closed. Async-signal-safe.
  void raise() noexcept;
  /// Does so, and asks those who hold a token to stop, whose callbacks run here: not for a signal
  /// handler.
  void request_stop() noexcept;

  /// Pairs with raise(): who sees it raised finds the rings closed.
  bool raised() const noexcept { return word_.load(StdAtomics::acquire) != 0; }
  std::stop_token token() const noexcept;

  /// Blocks until `wake`, and returns true; or until it is raised, and returns false.
  bool sleep_until(Clock::time_point wake) const noexcept;
  /// Blocks until `fd` can be read, has hung up or has failed, and returns true; or until `limit`,
  /// or until it is raised, and returns false. Without `limit` if that is max().
  bool await_readable(int fd, Clock::time_point limit) const noexcept;

 private:
  // Those who hold a token. Only a program that connects them compiles what a token takes.
  struct Listeners {
    virtual ~Listeners() = default;
    virtual void request_stop() noexcept = 0;
    virtual void renew() = 0;
  };
  struct Tokens final : Listeners {
    void request_stop() noexcept override { source.request_stop(); }
    PENSTOCK_INLINE void renew() override;
    // g++ 12 warns of the constructor where it is inlined.
    [[gnu::cold, gnu::noinline]] static std::stop_source new_source() { return {}; }

    std::stop_source source = new_source();
  };

  const Origin origin_;
  mutable SpinThenFutex::Word word_{0};
  int raised_fd_{-1};
  Owned<Listeners> tokens_; // null unless connected
};

/// The run for which this thread works: null outside of one.
inline constinit thread_local const Interrupt* interrupt_here = nullptr;

/// While it lives, what waits deep inside a source on this thread, without a Patience, hears of the
/// end of this run.
class [[nodiscard]] InterruptHere {
 public:
  explicit InterruptHere(const Interrupt& run) noexcept
      : before_{std::exchange(interrupt_here, &run)} {}
  InterruptHere(const InterruptHere&) = delete;
  InterruptHere& operator=(const InterruptHere&) = delete;
  ~InterruptHere() { interrupt_here = before_; }

  /// Returns whether this thread's run ends; false outside of one.
  static bool raised() noexcept { return interrupt_here && interrupt_here->raised(); }

 private:
  const Interrupt* const before_;
};

/// Ends a read that was given up since its run ends, which is no error.
class [[gnu::visibility("default")]] ReadEnded : public Error {
 public:
  ReadEnded() : Error{"penstock: a read was given up, since the run ends."} {}
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Interrupt::~Interrupt() {
  if (raised_fd_ >= 0) {
    ::close(raised_fd_);
  }
}

PENSTOCK_INLINE void Interrupt::connect() {
  raised_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (raised_fd_ < 0) {
    throw_error<Error>({"penstock: Reader: no descriptor could be had by which a source that "
                        "waits hears of the run's end: ",
                        std::generic_category().message(errno),
                        ": close some that you no longer need, or raise the limit (ulimit -n)."});
  }
  tokens_ = Owned<Listeners>{new Tokens{}};
}

PENSTOCK_INLINE void Interrupt::reset() {
  word_.store(0, StdAtomics::relaxed);
  if (raised_fd_ >= 0) {
    std::uint64_t raises = 0;
    static_cast<void>(!::read(raised_fd_, &raises, sizeof raises));
  }
  if (tokens_) {
    tokens_->renew();
  }
}

PENSTOCK_INLINE void Interrupt::raise() noexcept {
  word_.store(1, StdAtomics::release); // pairs with raised()
  SpinThenFutex::wake(word_);
  // A forked child, which may call stop() in a handler that it inherited, shares the descriptor.
  if (raised_fd_ >= 0 && origin_.is_here()) {
    const std::uint64_t once = 1;
    static_cast<void>(!::write(raised_fd_, &once, sizeof once));
  }
}

PENSTOCK_INLINE void Interrupt::request_stop() noexcept {
  raise();
  if (tokens_) {
    tokens_->request_stop();
  }
}

PENSTOCK_INLINE std::stop_token Interrupt::token() const noexcept {
  return tokens_ ? static_cast<const Tokens&>(*tokens_).source.get_token() : std::stop_token{};
}

PENSTOCK_INLINE bool Interrupt::sleep_until(Clock::time_point wake) const noexcept {
  while (!raised()) {
    const auto left = wake - Clock::now();
    if (left <= left.zero()) {
      return true;
    }
    SpinThenFutex::sleep(word_, 0, left);
  }
  return false;
}

PENSTOCK_INLINE bool Interrupt::await_readable(int fd, Clock::time_point limit) const noexcept {
  if (fd < 0) {
    return !raised(); // poll() would pass it over
  }
  pollfd either[]{{fd, POLLIN, 0}, {raised_fd_, POLLIN, 0}};
  while (!raised()) {
    timespec time{};
    if (limit != Clock::time_point::max()) {
      const std::chrono::nanoseconds left = limit - Clock::now();
      if (left > left.zero()) {
        time.tv_sec = left.count() / 1'000'000'000;
        time.tv_nsec = left.count() % 1'000'000'000;
      }
    }
    const int ready =
        ::ppoll(either, 2, limit == Clock::time_point::max() ? nullptr : &time, nullptr);
    if (ready >= 0) {
      return either[0].revents != 0 && !raised();
    }
  }
  return false;
}

PENSTOCK_INLINE void Interrupt::Tokens::renew() {
  if (source.stop_requested()) {
    source = new_source();
  }
}
#endif

} // namespace penstock::detail
