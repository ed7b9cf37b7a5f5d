// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model_layout.hpp"
#include "on_device.hpp"
#include "ops.hpp"
#include "sum.hpp"

#include <penstock/config.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace transformer {

/// The losses of a step's passes so far.
struct LossSum {
  double sum;
  std::uint64_t rows;
};

/// Adds a pass to the losses, and computes their mean.
template <class W> struct AddLoss {
  LossSum* to;
  const double* of_pass;
  std::uint64_t rows;
  bool first; ///< Whether this is a step's first pass.
  W* mean;
  PENSTOCK_HD void operator()(std::size_t) const {
    to->sum = (first ? 0 : to->sum) + *of_pass;
    to->rows = (first ? 0 : to->rows) + rows;
    *mean = static_cast<W>(to->sum / static_cast<double>(to->rows));
  }
};

/// From the last norm's output to the loss, and back. All logits of a batch would be larger than
/// all else: it takes so many rows at a time that their logits fit into some bytes.
template <class Ops> class LossHead {
 public:
  using T = typename Ops::value_type;
  using D = typename Ops::device_type;

  /// `weight` is the token embedding. Throws OptionError if one row's logits do not fit.
  LossHead(D& device, Ops& ops, const Config& config, const T* weight, Wide<T>* d_weight,
           std::size_t bytes)
      : ops_{ops}, columns_{config.padded_vocabulary()}, vocabulary_{config.vocabulary},
        rows_{ops.shape().rows()}, chunk_{checked_rows(rows_, bytes / (columns_ * sizeof(T)))},
        weight_{weight}, d_weight_{d_weight}, logits_{device, chunk_ * columns_},
        losses_{device, rows_}, sum_{device, rows_}, trained_{device, 1}, evaluated_{device, 1},
        mean_{device, 1} {}

  /// Returns the mean loss of the latest step's passes so far, or of the latest evaluation; in
  /// device memory.
  const Wide<T>* loss() const noexcept { return mean_.data(); }
  /// Returns how many rows are worked on at once.
  std::size_t chunk() const noexcept { return chunk_; }

  /// Computes the loss of all rows.
  void evaluate(const T* in, const std::int32_t* targets) {
    each_chunk(
        [&](std::size_t begin, std::size_t rows) { losses(in, targets, begin, rows, false); });
    add_up(evaluated_.data(), true);
  }
  /// Computes the loss of all rows, and the gradients of its mean: those of `in` take its place,
  /// those of the weight are added. `first`: whether this is a step's first pass.
  void train(T* in, const std::int32_t* targets, bool first) {
    each_chunk([&](std::size_t begin, std::size_t rows) {
      losses(in, targets, begin, rows, true);
      T* const of_chunk = in + begin * ops_.shape().width;
      ops_.logits_backward(
          {logits_.data(), of_chunk, weight_, of_chunk, d_weight_, rows, columns_});
    });
    add_up(trained_.data(), first);
  }
  /// Computes the logits of some rows, chunk() at most, and returns where in device memory they
  /// will be until the next pass: for each row, those of the padded vocabulary.
  const T* logits(const T* in, std::size_t begin, std::size_t rows) {
    if (rows > chunk_ || begin + rows > rows_) {
      throw penstock::OptionError{"there are logits for " + std::to_string(chunk_) +
                                  " rows at once of " + std::to_string(rows_) + ", not for rows " +
                                  std::to_string(begin) + " to " + std::to_string(begin + rows)};
    }
    ops_.logits({in + begin * ops_.shape().width, weight_, logits_.data(), rows, columns_});
    return logits_.data();
  }

 private:
  // Products are fastest with a multiple of 128 rows.
  static std::size_t checked_rows(std::size_t rows, std::size_t most) {
    if (most == 0) {
      throw penstock::OptionError{
          "the bytes for logits do not hold those of one row: allow for more"};
    }
    return std::min(rows, most < 128 ? most : most / 128 * 128);
  }
  template <class F> void each_chunk(F f) {
    for (std::size_t begin = 0; begin < rows_; begin += chunk_) {
      f(begin, std::min(chunk_, rows_ - begin));
    }
  }
  void losses(const T* in, const std::int32_t* targets, std::size_t begin, std::size_t rows,
              bool backward) {
    logits(in, begin, rows);
    ops_.cross_entropy({logits_.data(), targets + begin, losses_.data() + begin, rows, columns_,
                        vocabulary_, 1 / static_cast<float>(rows_), backward});
  }
  void add_up(LossSum* to, bool first) {
    const double* const sum = sum_(ops_.stream(), Number<Wide<T>>{losses_.data()});
    penstock::for_each(ops_.stream(), 1, AddLoss<Wide<T>>{to, sum, rows_, first, mean_.data()});
  }

  Ops& ops_;
  std::size_t columns_;
  std::size_t vocabulary_;
  std::size_t rows_;
  std::size_t chunk_;
  const T* weight_;
  Wide<T>* d_weight_;
  penstock::DeviceArray<T, D> logits_;
  penstock::DeviceArray<Wide<T>, D> losses_;
  Sum<D> sum_;
  penstock::DeviceArray<LossSum, D> trained_, evaluated_;
  penstock::DeviceArray<Wide<T>, D> mean_;
};

} // namespace transformer
