// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a Deferred promises in a pipeline, on any device.

#include "support/catch.hpp"

#include <penstock/callables/deferred.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace ps = penstock;

struct AddUp {
  const std::uint32_t* in;
  std::size_t n;
  std::uint64_t* out;
  PENSTOCK_HD void operator()(std::size_t) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      sum += in[i];
    }
    *out = sum;
  }
};

inline std::vector<std::uint32_t> numbers(std::size_t n) {
  std::vector<std::uint32_t> all(n);
  std::iota(all.begin(), all.end(), 1u);
  return all;
}

template <class D> auto batches_of(D& device, const std::vector<std::uint32_t>& all,
                                   std::size_t batch, std::uint64_t epochs = 1) {
  return ps::Reader{ps::memory(all), ps::to_pinned, {.epochs = epochs}} |
         ps::AsyncCopier{device, {.batch = batch}};
}

template <class D> void values_of_each_batch(D& device) {
  const auto all = numbers(1050);
  auto pipeline = batches_of(device, all, 100);
  auto stream = device.stream();
  const auto sum = ps::device_array<std::uint64_t>(device, 1);
  auto sums =
      ps::deferred<std::uint64_t>(device, {.results = std::size_t(pipeline.batches_a_run())});
  for (int run = 0; run < 3; ++run) {
    sums.clear();
    for (auto lease : pipeline.on(stream)) {
      const ps::Batch<const std::uint32_t, ps::Device> batch = lease;
      ps::for_each(stream, 1, AddUp{batch.data(), batch.size(), sum.data()});
      sums.put(sum.data(), stream);
    }
    REQUIRE(sums.size() == 11);
    CHECK(sums.dropped() == 0);
    for (std::uint64_t i = 0; i < 11; ++i) {
      const std::uint64_t n = i < 10 ? 100 : 50;
      CHECK(sums[i].get() == n * (100 * i) + n * (n + 1) / 2);
    }
  }
}

template <class D> void values_without_room(D& device) {
  const auto all = numbers(1000);
  const auto sum = ps::device_array<std::uint64_t>(device, 1);
  auto sums = ps::deferred<std::uint64_t>(device, {.results = 4});
  ps::Result<std::uint64_t, D> last;
  auto pipeline =
      batches_of(device, all, 100) |
      ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Device> batch, ps::Stream<D> stream) {
        ps::for_each(stream, 1, AddUp{batch.data(), batch.size(), sum.data()});
        last = sums.put(sum.data(), stream);
      }};
  CHECK(pipeline.run().records == 1000);
  CHECK(sums.size() == 4);
  CHECK(sums.dropped() == 6);
  CHECK(sums[0].get() == 5050);
  try {
    last.get();
    FAIL("nothing was thrown");
  } catch (const ps::Error& e) {
    const std::string what = e.what();
    CHECK(what.find("value number 9 was asked for, and of 10 values only 4 had room") !=
          std::string::npos);
  }
  sums.clear();
  CHECK(sums.size() == 0);
  CHECK(sums.dropped() == 0);
}

template <class D> void batches_a_run(D& device) {
  const auto all = numbers(1050);
  CHECK(batches_of(device, all, 100).batches_a_run() == 11);
  CHECK(batches_of(device, all, 105).batches_a_run() == 10);
  CHECK(batches_of(device, all, 100, 3).batches_a_run() == 33);
  const std::vector<std::uint32_t> none;
  CHECK(batches_of(device, none, 100).batches_a_run() == 0);
  auto back = batches_of(device, all, 100) | ps::AsyncCopier{ps::to_host, {.batch = 500}};
  CHECK(back.batches_a_run() == 3);
}
