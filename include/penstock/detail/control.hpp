// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/error.hpp>
#include <penstock/report.hpp>
#include <penstock/ring.hpp>

#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// How one run ends: by itself, by a stop, or by the first error in time, which closes every ring
/// in both directions. Any thread; the lock is taken only where a run begins or ends.
class Control {
 public:
  /// Before the run: the rings to close.
  template <class R> void watch(R& ring) {
    rings_.push_back({&ring, [](void* r, Flow flow) noexcept {
                        flow == Flow::failed ? static_cast<R*>(r)->fail()
                                             : static_cast<R*>(r)->stop();
                      }});
  }

  /// When all rings are reset: from now on stop() stops.
  void begin() noexcept {
    const std::scoped_lock lock{mutex_};
    stopped_ = false;
    running_ = true;
  }
  /// When all workers rest. A stop() that is closing rings has then closed them all, and none of
  /// the next run.
  void end() noexcept {
    const std::scoped_lock lock{mutex_};
    running_ = false;
  }
  /// Nothing happens if nothing runs.
  void stop() noexcept {
    const std::scoped_lock lock{mutex_};
    if (running_) {
      stopped_ = true;
      close(Flow::stopped);
    }
  }
  bool stopped() const noexcept {
    const std::scoped_lock lock{mutex_};
    return stopped_;
  }

  /// To be called inside a catch block: the exception in flight is the cause. Later ones are
  /// dropped.
  void fail(const std::string& stage, std::uint64_t record) noexcept {
    // Stays as it is if there is no memory to describe it.
    std::exception_ptr error = std::current_exception();
    const bool lost = is_sticky();
    try {
      error = describe(stage, record);
    } catch (...) {
    }
    {
      const std::scoped_lock lock{mutex_};
      if (lost && !lost_) {
        lost_ = error;
      }
      if (error_) {
        return;
      }
      error_ = std::move(error);
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
  void copy_skips(std::vector<SkippedItem>& to) const {
    const std::scoped_lock lock{mutex_};
    to = skips_;
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
  static bool is_sticky() noexcept {
    try {
      throw;
    } catch (const DeviceError& e) {
      return e.sticky();
    } catch (...) {
      return false;
    }
  }
  static std::exception_ptr describe(const std::string& stage, std::uint64_t record) {
    const std::string where = "penstock: " + stage + " failed at record ";
    try {
      throw;
    } catch (const SourceError& e) {
      return error(where, stage, e.record(), e.what(), e.file(), e.offset());
    } catch (const std::exception& e) {
      return error(where, stage, record, e.what());
    } catch (...) {
      return error(where, stage, record, "something that is no std::exception was thrown");
    }
  }
  static std::exception_ptr error(const std::string& where, const std::string& stage,
                                  std::uint64_t record, std::string cause,
                                  const std::string& file = {}, std::uint64_t offset = 0) {
    if (cause.starts_with("penstock: ")) {
      cause.erase(0, 10);
    }
    try {
      throw StageError{where + std::to_string(record) + ": " + cause, stage, record, file, offset};
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
  mutable std::mutex mutex_;
  std::exception_ptr error_;
  std::exception_ptr lost_;
  std::vector<SkippedItem> skips_;
  bool running_{};
  bool stopped_{};
};

} // namespace penstock::detail
