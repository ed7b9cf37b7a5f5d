// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "adamw_step.hpp"
#include "curve.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace transformer {

/// The losses of a run as they become known, step by step, and the rows that they are in a curve.
class LossRows {
 public:
  /// Goes on behind step `first`, with the rows in the file `path`; without a file if that is
  /// empty. Throws what Curve throws.
  LossRows(const std::string& path, std::uint64_t first, const AdamWOptions& adamw)
      : curve_{path, first}, adamw_{adamw}, step_{first} {}

  /// Takes the next step's loss. Its row waits for the next one, since an evaluation may follow.
  void add(double loss) {
    flush();
    ++step_;
    losses_.push_back(loss);
    const double rate = static_cast<double>(adamw_.rate * adamw_.schedule.at(step_ - 1));
    row_ = {.step = step_,
            .loss = loss,
            .val_loss = {},
            .rate = rate,
            .seconds = std::chrono::duration<double>(Clock::now() - began_).count()};
  }
  /// Takes the loss on what is held out, behind that step.
  void add_held_out(double loss) {
    val_loss_ = loss;
    if (row_) {
      row_->val_loss = loss;
    }
  }
  /// Puts the last row into the curve.
  void flush() {
    if (row_) {
      curve_.add(*row_);
      row_.reset();
    }
  }

  const Curve& curve() const noexcept { return curve_; }
  /// Returns the losses of this run's steps.
  const std::vector<double>& losses() const noexcept { return losses_; }
  /// Returns the last loss on what is held out.
  const std::optional<double>& val_loss() const noexcept { return val_loss_; }

 private:
  using Clock = std::chrono::steady_clock;

  Curve curve_;
  AdamWOptions adamw_;
  Clock::time_point began_ = Clock::now();
  std::uint64_t step_;
  std::optional<CurvePoint> row_;
  std::vector<double> losses_;
  std::optional<double> val_loss_;
};

} // namespace transformer
