// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whether the recipe of senders does what docs/handover.md says. Exits with 1 if not.

#include "stdexec.hpp"

#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include <exec/repeat_until.hpp>
#include <exec/single_thread_context.hpp>
#include <exec/static_thread_pool.hpp>

namespace {

bool failed = false;
void check(bool holds, const char* what) {
  if (!holds) {
    std::printf("wrong: %s\n", what);
    failed = true;
  }
}

std::vector<std::int32_t> numbers() {
  std::vector<std::int32_t> all(100'000);
  std::iota(all.begin(), all.end(), 0);
  return all;
}
constexpr std::int64_t sum_of_all = 4'999'950'000;

void two_side_by_side() {
  const std::vector<std::int32_t> all = numbers();
  std::int64_t sums[2]{};
  const auto summing = [&](std::int64_t& sum) {
    return ps::Reader{ps::memory(all)} |
           ps::Consumer{[&sum](ps::Batch<const std::int32_t, ps::Pageable> batch) {
             sum = std::accumulate(batch.data(), batch.data() + batch.size(), sum);
           }};
  };
  auto first = summing(sums[0]);
  auto second = summing(sums[1]);
  exec::static_thread_pool pool{2};
  auto both = stdexec::when_all(stdexec::starts_on(pool.get_scheduler(), run_of(first)),
                                stdexec::starts_on(pool.get_scheduler(), run_of(second)));
  const auto reports = *stdexec::sync_wait(std::move(both));
  check(std::get<0>(reports).records == all.size(), "the report of a sender");
  check(sums[0] == sum_of_all && sums[1] == sum_of_all, "two sums");
}

void batch_by_batch() {
  const std::vector<std::int32_t> all = numbers();
  ps::HostDevice device;
  auto open = ps::Reader{ps::memory(all), {.batch = 1000}} | ps::PinnedStager{device};
  auto run = open.batches();
  std::int64_t sum = 0;
  exec::single_thread_context loop;
  auto step = next_of(run) | stdexec::then([&sum](auto batch) {
                for (std::size_t i = 0; i != batch.size(); ++i) {
                  sum += batch.data()[i];
                }
                return !batch;
              }) |
              exec::repeat_until();
  stdexec::sync_wait(stdexec::starts_on(loop.get_scheduler(), std::move(step)));
  check(sum == sum_of_all, "the sum of a loop");
}

void error() {
  auto missing = ps::Reader{ps::records<int>("/no/such/file")} |
                 ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  const auto seen = stdexec::sync_wait(run_of(missing) | stdexec::then([](auto&&) { return 0; }) |
                                       stdexec::upon_error([](std::exception_ptr) { return 7; }));
  check(std::get<0>(*seen) == 7, "an error");
}

} // namespace

int main() {
  two_side_by_side();
  batch_by_batch();
  error();
  return failed ? 1 : 0;
}
