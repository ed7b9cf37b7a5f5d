// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/error.hpp>
#include <penstock/ring.hpp>

#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// How one run ends: by itself, by a stop, or by the first error in time, which closes every ring
/// in both directions. Any thread; the lock is taken only when something has gone wrong.
class Control {
 public:
  /// Before the run: the rings to close.
  template <class R> void watch(R& ring) {
    rings_.push_back({&ring, [](void* r, Flow flow) noexcept {
                        flow == Flow::failed ? static_cast<R*>(r)->fail()
                                             : static_cast<R*>(r)->stop();
                      }});
  }

  void stop() noexcept {
    stopped_.store(true, StdAtomics::relaxed);
    close(Flow::stopped);
  }
  bool stopped() const noexcept { return stopped_.load(StdAtomics::relaxed); }

  /// To be called inside a catch block: the exception in flight is the cause. Later ones are
  /// dropped.
  void fail(const std::string& stage, std::uint64_t record) noexcept {
    std::exception_ptr error;
    try {
      error = describe(stage, record);
    } catch (...) {
      error = std::current_exception(); // no memory for the description
    }
    {
      const std::scoped_lock lock{mutex_};
      if (error_) {
        return;
      }
      error_ = std::move(error);
    }
    close(Flow::failed);
  }

  /// Whether the error was one that leaves the device unusable: it is not to be waited for.
  bool device_lost() const {
    const std::scoped_lock lock{mutex_};
    return device_lost_;
  }
  bool failed() const {
    const std::scoped_lock lock{mutex_};
    return error_ != nullptr;
  }
  void rethrow() const {
    const std::scoped_lock lock{mutex_};
    if (error_) {
      std::rethrow_exception(error_);
    }
  }
  void reset() noexcept {
    error_ = nullptr;
    stopped_.store(false, StdAtomics::relaxed);
  }

 private:
  struct Watched {
    void* ring;
    void (*close)(void*, Flow) noexcept;
  };

  std::exception_ptr describe(const std::string& stage, std::uint64_t record) {
    const std::string where = "penstock: " + stage + " failed at record ";
    try {
      throw;
    } catch (const SourceError& e) {
      return error(where, stage, e.record(), e.what(), e.file(), e.offset());
    } catch (const DeviceError& e) {
      const std::scoped_lock lock{mutex_};
      device_lost_ = device_lost_ || e.sticky();
      return error(where, stage, record, e.what());
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
    } catch (...) {
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
  bool device_lost_{};
  StdAtomics::Atomic<bool> stopped_{false};
};

} // namespace penstock::detail
