// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/stop_gate.hpp>
#include <penstock/error.hpp>
#include <penstock/report.hpp>
#include <penstock/ring.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Work on a device that is not known to be done: of which stage, and from which record on. No
/// stage: there is none.
struct OpenWork {
  std::string stage;
  std::uint64_t record{};
};

/// How one run ends: by itself, by a stop, or by the first error in time, which closes every ring
/// in both directions. Any thread; the lock is taken only where an error or a skip is noted, and
/// where a run begins or ends.
class Control {
 public:
  /// Before the run: the rings to close.
  template <class R> void watch(R& ring) {
    rings_.push_back({&ring, [](void* r, Flow flow) noexcept {
                        flow == Flow::failed ? static_cast<R*>(r)->fail()
                                             : static_cast<R*>(r)->stop();
                      }});
  }

  /// Before the run: whom to ask what work was queued on the device when that was lost, in the
  /// order of the stages.
  void on_lost(std::function<OpenWork()> ask) { asks_.push_back(std::move(ask)); }

  /// When all rings are reset: from now on stop() stops.
  void begin() noexcept { gate_.open(); }
  /// When all workers rest. A stop() that is closing rings has then closed them all, and none of
  /// the next run.
  void end() noexcept { gate_.close(); }
  /// Nothing happens if nothing runs. Async-signal-safe: no lock is taken, here and in the rings.
  void stop() noexcept {
    if (gate_.enter()) {
      const int error = errno; // of what a signal handler interrupts
      close(Flow::stopped);
      errno = error;
      gate_.leave();
    }
  }
  bool stopped() const noexcept { return gate_.was_entered(); }

  /// To be called inside a catch block: the exception in flight is the cause. Later ones are
  /// dropped. When it returns, every ring is closed, whoever began to close them.
  void fail(const std::string& stage, std::uint64_t record) noexcept {
    const bool lost = is_sticky();
    const bool first = is_first();
    if (!first && !lost) {
      // The first may not have come to it yet, and who calls drops the slot that he has.
      close(Flow::failed);
      return;
    }
    // Stays as it is if there is no memory to describe it.
    std::exception_ptr error = std::current_exception();
    try {
      error = describe(stage, record);
    } catch (...) {
    }
    {
      const std::scoped_lock lock{mutex_};
      if (lost && (first || !lost_)) {
        lost_ = error;
      }
      if (first) {
        error_ = std::move(error);
      }
    }
    close(Flow::failed);
  }

  /// To be called inside a catch block: notes the exception in flight as the reason why `records`
  /// records were left out. If there is no memory for that they are left out all the same.
  void note_skip(const std::string& stage, std::uint64_t record, std::uint64_t records) noexcept {
    try {
      SkippedItem item = skipped_item();
      item.stage = stage;
      item.record = record;
      item.records = records;
      const std::scoped_lock lock{mutex_};
      if (skips_.size() < most_skips) {
        skips_.push_back(std::move(item));
      }
    } catch (...) {
    }
  }
  /// None, if there is no memory for them.
  void copy_skips(std::vector<SkippedItem>& to) const noexcept {
    const std::scoped_lock lock{mutex_};
    try {
      to = skips_;
    } catch (...) {
      to.clear();
    }
  }

  /// Whether an error has left the device unusable: it is not to be waited for.
  bool device_lost() const noexcept {
    const std::scoped_lock lock{mutex_};
    return lost_ != nullptr;
  }
  /// Throws the run's error, if there was one.
  void rethrow() const {
    const std::scoped_lock lock{mutex_};
    if (error_) {
      std::rethrow_exception(error_);
    }
  }
  /// Before a run. Throws what the device was lost by: it cannot run any more.
  void reset() {
    const std::scoped_lock lock{mutex_};
    skips_.clear();
    failed_ = false;
    error_ = lost_;
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  struct Watched {
    void* ring;
    void (*close)(void*, Flow) noexcept;
  };

  static constexpr std::size_t most_skips = 1000;

  static SkippedItem skipped_item() {
    try {
      throw;
    } catch (const SourceError& e) {
      return {{}, 0, 0, e.file(), e.offset(), e.what()};
    } catch (const std::exception& e) {
      return {{}, 0, 0, {}, 0, e.what()};
    } catch (...) {
      return {{}, 0, 0, {}, 0, "something that is no std::exception was thrown"};
    }
  }
  // Before it is described, which takes time.
  bool is_first() noexcept {
    const std::scoped_lock lock{mutex_};
    return !std::exchange(failed_, true);
  }
  static bool is_sticky() noexcept {
    try {
      throw;
    } catch (const DeviceError& e) {
      return e.sticky();
    } catch (...) {
      return false;
    }
  }
  std::exception_ptr describe(const std::string& stage, std::uint64_t record) const {
    const std::string where = "penstock: " + stage + " failed at record ";
    try {
      throw;
    } catch (const SourceError& e) {
      return error(where, stage, e.record(), e.what(), e.file(), e.offset());
    } catch (const SinkError& e) {
      return error(where, stage, record, e.what(), e.file(), e.offset());
    } catch (const DeviceError& e) {
      std::string what = e.what();
      std::string enqueued_by;
      for (std::size_t i = 0; e.sticky() && i < asks_.size(); ++i) {
        if (const OpenWork open = asks_[i](); !open.stage.empty()) {
          what += (enqueued_by.empty() ? " Still queued was what " : " And what ") + open.stage +
                  " enqueued from record " + std::to_string(open.record) + " on.";
          enqueued_by = enqueued_by.empty() ? open.stage : enqueued_by;
        }
      }
      return error(where, stage, record, what, {}, 0, enqueued_by);
    } catch (const std::exception& e) {
      return error(where, stage, record, e.what());
    } catch (...) {
      return error(where, stage, record, "something that is no std::exception was thrown");
    }
  }
  static std::exception_ptr error(const std::string& where, const std::string& stage,
                                  std::uint64_t record, std::string cause,
                                  const std::string& file = {}, std::uint64_t offset = 0,
                                  const std::string& enqueued_by = {}) {
    if (cause.starts_with("penstock: ")) {
      cause.erase(0, 10);
    }
    try {
      throw StageError{
          where + std::to_string(record) + ": " + cause, stage, record, file, offset, enqueued_by};
    } catch (const StageError&) {
      return std::current_exception();
    }
  }
  void close(Flow flow) noexcept {
    for (const Watched& watched : rings_) {
      watched.close(watched.ring, flow);
    }
  }

  std::vector<Watched> rings_;
  std::vector<std::function<OpenWork()>> asks_;
  mutable std::mutex mutex_;
  std::exception_ptr error_;
  std::exception_ptr lost_;
  std::vector<SkippedItem> skips_;
  bool failed_{};
  StopGate<> gate_;
};

} // namespace penstock::detail
