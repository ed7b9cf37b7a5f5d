// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whether the recipe of libtorch does what docs/handover.md says. Exits with 1 if not.

#include "libtorch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <thread>
#include <utility>
#include <vector>

struct Point : ps::Columns<ps::Field<"at", float, 3>, ps::Field<"label", std::int32_t>> {};
using Four = std::array<float, 4>;

namespace {

bool failed = false;
void check(bool holds, const char* what) {
  if (!holds) {
    std::printf("wrong: %s\n", what);
    failed = true;
  }
}

ps::Report take_columns() {
  const std::vector<std::int32_t> numbers = [] {
    std::vector<std::int32_t> made(1000);
    for (std::size_t i = 0; i != made.size(); ++i) {
      made[i] = static_cast<std::int32_t>(i);
    }
    return made;
  }();
  auto points = ps::Reader{ps::memory(numbers), {.batch = 50}} |
                ps::Decoder{[](const std::int32_t& number, ps::Row<Point> point) {
                              for (float& value : get<"at">(point)) {
                                value = static_cast<float>(number);
                              }
                              get<"label">(point) = number;
                            },
                            {.depth = 4}};
  std::int64_t labels = 0;
  double sum = 0;
  std::vector<std::thread> threads;
  for (auto batch : points.batches()) {
    const auto shared = batch.share();
    at::Tensor at = tensor_of<"at">(shared, {ps::dl::cpu, 0});
    const at::Tensor label = tensor_of<"label">(shared, {ps::dl::cpu, 0});
    check(at.sizes() == at::IntArrayRef{static_cast<std::int64_t>(shared.size()), 3}, "sizes");
    labels += label.sum().item<std::int64_t>();
    sum += at.to(at::kDouble).sum().item<double>();
    threads.emplace_back([kept = std::move(at)]() mutable { kept.reset(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  check(labels == 499'500 && sum == 3 * 499'500.0, "sums of columns");
  return points.report();
}

void take_blobs() {
  const std::vector<Four> rows(100, Four{1, 2, 3, 4});
  at::Tensor last;
  {
    ps::HostDevice device;
    auto data = ps::Reader{ps::memory(rows), {.batch = 10}} | ps::PinnedStager{device};
    double sum = 0;
    for (auto batch : data.batches()) {
      const auto count = static_cast<std::int64_t>(batch.size());
      last = tensor_of_floats(batch.share(), {count, 4}, at::kFloat);
      sum += last.sum().item<double>();
    }
    check(sum == 1000, "sum of blobs");
    last = last.clone(); // the device dies here, and tensors must not outlive it
  }
  check(last.select(1, 3).sum().item<double>() == 40, "a copy outlives all");
}

} // namespace

int main() {
  check(take_columns().records == 1000, "records");
  take_blobs();
  return failed ? 1 : 0;
}
