// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace ps = penstock;

constexpr std::size_t batch_size = 256;

struct AddTo {
  const float* batch;
  double* sums;
  PENSTOCK_HD void operator()(std::size_t i) const { sums[i] += batch[i]; }
};

/// What stands for the work on a batch: record i goes to sum i.
template <class D, class Batch>
void add(const Batch& batch, ps::DeviceArray<double, D>& sums, ps::Stream<D> stream) {
  ps::for_each(stream, batch.size(), AddTo{batch.data(), sums.data()});
}

struct Trained {
  std::vector<double> training;
  std::vector<double> validation;
  std::size_t validations;
  ps::Report report;
};

/// Two epochs; after every 100 batches a look at all of the validation data.
template <ps::AnyDevice D>
Trained train(D& device, const std::string& training, const std::string& validation) {
  // One Reader has all processors but two by default: here two have them together.
  const unsigned readers = std::clamp(ps::usable_processors(), 4U, 16U) - 2;
  const unsigned for_checks = std::max(readers / 4, 1U);
  auto data = ps::Reader{ps::records<float>(training),
                         ps::to_pinned,
                         {.workers = readers - for_checks, .epochs = 2}} |
              ps::AsyncCopier{device, {.batch = batch_size}};
  auto checks = ps::Reader{ps::records<float>(validation),
                           ps::to_pinned,
                           {.workers = for_checks, .depth = 8}} |
                ps::AsyncCopier{device, {.batch = batch_size}};
  checks.prepare(); // else the first validation would make threads and memory amid training

  auto stream = device.stream();
  auto trained = ps::device_array<double>(device, batch_size);
  auto checked = ps::device_array<double>(device, batch_size);
  std::size_t batches = 0;
  for (auto batch : data.on(stream)) {
    add<D>(batch, trained, stream);
    if (++batches % 100 == 0) {
      // Meanwhile `data` reads ahead, until its rings are full.
      for (auto check : checks.on(stream)) {
        add<D>(check, checked, stream);
      }
    }
  }
  return {trained.read(stream), checked.read(stream), batches / 100, data.report()};
}

/// A batch of each file in every step, as long as both have one: record i of either goes to sum i.
template <ps::AnyDevice D>
std::vector<double> add_both(D& device, const std::string& one, const std::string& other) {
  auto ones = ps::Reader{ps::records<float>(one), ps::to_pinned} |
              ps::AsyncCopier{device, {.batch = batch_size}};
  auto others = ps::Reader{ps::records<float>(other), ps::to_pinned} |
                ps::AsyncCopier{device, {.batch = batch_size}};
  auto stream = device.stream();
  auto sums = ps::device_array<double>(device, batch_size);
  auto second = others.on(stream);
  auto at = second.begin();
  for (auto batch : ones.on(stream)) {
    if (at == second.end()) {
      break;
    }
    add<D>(batch, sums, stream);
    add<D>(*at, sums, stream); // its lease dies here
    ++at;
  }
  return sums.read(stream);
}
