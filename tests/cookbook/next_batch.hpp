// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <cstdint>
#include <string>

namespace ps = penstock;

struct Sample {
  float x[8];
  float y;
};

/// Samples of a file for a training loop that asks for them, epoch after epoch, each in another
/// order. Can be moved at any time.
template <ps::AnyDevice D> class TrainingData {
 public:
  using Samples = ps::Batch<const Sample, ps::Device>;

  /// `stream` is for the work on the batches.
  TrainingData(D& device, ps::Stream<D> stream, const std::string& path, std::size_t batch)
      : data_{ps::Reader{ps::records<Sample>(path),
                         ps::to_pinned,
                         {.epochs = 1'000'000, .order = {.shuffle = 1337}, .drop_last = true}} |
                  ps::AsyncCopier{device, {.batch = batch}},
              stream} {}

  /// Good for work that is enqueued on the stream before the next call. Throws an OptionError if
  /// the file has too few samples for a batch, and is empty if it has none.
  Samples next_batch() {
    batch_ = {}; // its place goes back
    if (!run_) { // before the first batch, and behind an error
      run_ = data_.batches({.from = data_.report().position});
    }
    batch_ = run_.next();
    epochs_ = batch_ ? batch_.epoch() + 1 : epochs_;
    return batch_;
  }
  /// How many epochs it has begun.
  std::uint64_t epochs() const { return epochs_; }

 private:
  ps::AnyBatches<Samples> data_;
  ps::Batches<Samples> run_;
  ps::Lease<Samples> batch_;
  std::uint64_t epochs_{};
};
