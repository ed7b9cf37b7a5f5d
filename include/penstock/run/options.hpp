// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

namespace penstock {

/// How far prepare() is with the files of a source.
struct Preparation {
  /// Files opened and measured.
  std::uint64_t files{};
  /// Files found: more and more, and all of them when the first is opened.
  std::uint64_t files_in_all{};
};

namespace detail {

/// A callable that prepare() calls from time to time, or none.
class OpeningCallback {
 public:
  OpeningCallback(std::nullptr_t = nullptr) {}
  /// Takes what std::function takes.
  template <class F>
    requires(std::is_invocable_v<F&, const Preparation&> && !std::is_same_v<F, OpeningCallback>)
  OpeningCallback(F f) : call_{std::move(f)} {}

  explicit operator bool() const noexcept { return static_cast<bool>(call_); }
  void operator()(const Preparation& now) const {
    threw_ = true;
    call_(now);
    threw_ = false;
  }
  /// Returns whether the last call has thrown.
  bool threw() const noexcept { return threw_; }

 private:
  std::function<void(const Preparation&)> call_;
  mutable bool threw_{};
};

} // namespace detail

/// Options of prepare(): `pipeline.prepare({.progress = f})`.
struct PrepareOptions {
  /// `void(const Preparation&)`, called while files are found and opened, on the thread that called
  /// prepare(), and once more when the last is open. What it throws, prepare() throws, and is then
  /// as if it had not been called. Never called for a source without files.
  detail::OpeningCallback progress = {};
  /// How often progress is called; 0: after each file that the thread which called prepare() has
  /// looked at or opened.
  std::chrono::milliseconds every{100};
};

} // namespace penstock
