// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <string>

namespace penstock::detail {

/// The gate that every call on a HostDevice, its streams and events passes first: it throws where
/// CUDA would return an error, and fails where a test asked it to. Any thread.
///
/// It counts with relaxed atomics and takes no lock on the good path. A lock here would order all
/// threads that use the device, and so hide from ThreadSanitizer what they forgot to order.
class CallGate {
 public:
  static constexpr int out_of_memory = 2;
  /// CUDA's code for an illegal instruction, which a trap in a kernel is.
  static constexpr int trapped = 715;
  /// CUDA's code for a call to a stream that is captured.
  static constexpr int captured = 900;

  /// Counts a call. Throws DeviceError; `bytes` goes into its text.
  void pass(const char* call, std::optional<std::size_t> bytes = {});
  /// Checks a call that is not counted: throws only if the device has broken down.
  void check(const char* call, std::optional<std::size_t> bytes = {});
  /// Fails a call that failed on its own: latches the code, as CUDA does, and throws.
  [[noreturn, gnu::cold]] void fail(const char* call, int code, const std::string& what);
  [[gnu::cold]] static std::string text(const char* call, std::optional<std::size_t> bytes,
                                        int code, const std::string& why);

  /// Makes every later call throw. The first reason stays.
  void break_down(const char* why, int code) noexcept;
  bool is_broken() const noexcept;
  /// Returns the latched code, 0 if there is none, and clears it; a sticky one stays.
  int last_error() noexcept;

  /// Makes the `k`-th counted call from now fail (1 is the next, 0 takes the fault away).
  void arm(std::uint64_t k, bool persistent, bool sticky, int code) noexcept;
  bool fired() const noexcept { return fired_.load(StdAtomics::relaxed); }
  std::uint64_t calls() const noexcept { return calls_.load(StdAtomics::relaxed); }

 private:
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  [[gnu::cold]] void fail_as_asked(const char* call, std::optional<std::size_t> bytes);
  [[noreturn, gnu::cold]] void throw_broken(const char* call, std::optional<std::size_t> bytes);

  // Calls of other threads may pass the number while arm() sets it: the next call then fails, and
  // takes the fault away unless it is persistent.
  bool is_due(std::uint64_t number) noexcept;

  StdAtomics::Atomic<std::uint64_t> calls_{0};
  StdAtomics::Atomic<std::uint64_t> fail_at_{never};
  StdAtomics::Atomic<bool> persistent_{false};
  StdAtomics::Atomic<bool> fault_sticky_{false};
  StdAtomics::Atomic<int> fault_code_{0};
  StdAtomics::Atomic<bool> fired_{false};
  StdAtomics::Atomic<int> last_error_{0};
  StdAtomics::Atomic<bool> broken_{false};
  std::mutex mutex_;
  int broken_code_{0};
  std::string broken_why_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE void CallGate::pass(const char* call, std::optional<std::size_t> bytes) {
  const std::uint64_t number = calls_.fetch_add(1, StdAtomics::relaxed) + 1;
  if (is_due(number)) {
    fail_as_asked(call, bytes);
  }
  check(call, bytes);
}

PENSTOCK_INLINE void CallGate::check(const char* call, std::optional<std::size_t> bytes) {
  if (is_broken()) {
    throw_broken(call, bytes);
  }
}

PENSTOCK_NOINLINE void CallGate::fail(const char* call, int code, const std::string& what) {
  last_error_.store(code, StdAtomics::relaxed);
  // The next thread to ask must not be told of what is thrown here.
  last_error();
  throw DeviceError{what, call, code, false};
}

PENSTOCK_NOINLINE std::string CallGate::text(const char* call, std::optional<std::size_t> bytes,
                                             int code, const std::string& why) {
  const std::string of = bytes ? joined({" of ", *bytes, " bytes"}) : std::string{};
  const auto number = static_cast<unsigned>(code);
  return joined({"penstock: host: ", call, of, " failed with code ", code < 0 ? "-" : "",
                 code < 0 ? 0 - number : number, ": ", why, "."});
}

PENSTOCK_INLINE void CallGate::break_down(const char* why, int code) noexcept {
  const std::lock_guard lock{mutex_};
  if (is_broken()) {
    return;
  }
  broken_code_ = code;
  try {
    broken_why_.append(why); // was empty
  } catch (const std::bad_alloc&) {
    broken_why_.clear();
  }
  broken_.store(true, StdAtomics::release); // pairs with is_broken()
}

PENSTOCK_INLINE bool CallGate::is_broken() const noexcept {
  return broken_.load(StdAtomics::acquire); // pairs with break_down()
}

PENSTOCK_INLINE int CallGate::last_error() noexcept {
  if (is_broken()) {
    const std::lock_guard lock{mutex_};
    return broken_code_;
  }
  return last_error_.exchange(0, StdAtomics::relaxed);
}

PENSTOCK_INLINE void CallGate::arm(std::uint64_t k, bool persistent, bool sticky,
                                   int code) noexcept {
  fail_at_.store(never, StdAtomics::relaxed);
  fired_.store(false, StdAtomics::relaxed);
  persistent_.store(persistent, StdAtomics::relaxed);
  fault_sticky_.store(sticky, StdAtomics::relaxed);
  fault_code_.store(code, StdAtomics::relaxed);
  fail_at_.store(k == 0 ? never : calls() + k, StdAtomics::release); // pairs with is_due()
}

PENSTOCK_NOINLINE void CallGate::fail_as_asked(const char* call, std::optional<std::size_t> bytes) {
  constexpr const char* why = "as fail_call() asked";
  const int code = fault_code_.load(StdAtomics::relaxed);
  fired_.store(true, StdAtomics::relaxed);
  if (!fault_sticky_.load(StdAtomics::relaxed)) {
    fail(call, code, text(call, bytes, code, why));
  }
  break_down(why, code);
}

PENSTOCK_NOINLINE void CallGate::throw_broken(const char* call, std::optional<std::size_t> bytes) {
  const std::lock_guard lock{mutex_};
  throw DeviceError{joined({text(call, bytes, broken_code_, broken_why_),
                            " The device cannot be used any more: mend that, and make a new "
                            "one."}),
                    call, broken_code_, true};
}

PENSTOCK_INLINE bool CallGate::is_due(std::uint64_t number) noexcept {
  std::uint64_t at = fail_at_.load(StdAtomics::acquire); // pairs with arm()
  return number >= at && (persistent_.load(StdAtomics::relaxed) ||
                          fail_at_.compare_exchange_strong(at, never, StdAtomics::relaxed));
}
#endif

} // namespace penstock::detail
