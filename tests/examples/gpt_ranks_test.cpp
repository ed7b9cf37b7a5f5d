// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The training of examples/gpt/ by several ranks, which are threads here, with a host device each.
// tools/check_gpt_ranks.py has processes.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/environment.hpp"
#include "support/temp_dir.hpp"

#include "../../examples/gpt/config.hpp"
#include "../../examples/gpt/dropout.hpp"
#include "../../examples/gpt/host_ops.hpp"
#include "../../examples/gpt/host_reducer.hpp"
#include "../../examples/gpt/reducers.hpp"
#include "../../examples/gpt/training.hpp"
#include "../../examples/support/meeting.hpp"

#include <penstock/data/float16.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/error.hpp>
#include <penstock/host/device.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace transformer;
using ps::tests::caught;
using ps::tests::Environment;
using ps::tests::TempDir;

namespace {

constexpr Config smallest{.layers = 2, .width = 16, .heads = 2, .context = 8, .vocabulary = 40};

constexpr std::chrono::seconds patience{60};

/// Calls f(meeting) for each rank, all at a time, and returns what each returns.
template <class F> auto on_ranks(std::uint32_t world, F f) {
  const TempDir folder;
  const Environment environment{"MEETING=" + folder.path()};
  std::vector<std::future<std::invoke_result_t<F&, Meeting&>>> running;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    running.push_back(std::async(std::launch::async, [&f, rank, world] {
      Meeting meeting{{rank, world, rank, world}};
      return f(meeting);
    }));
  }
  std::vector<std::invoke_result_t<F&, Meeting&>> results;
  for (auto& one : running) {
    results.push_back(one.get());
  }
  return results;
}

/// What a rank has computed.
struct Outcome {
  std::vector<double> losses; // of steps
  double evaluated{};
  std::vector<float> masters;
  std::vector<float> means;

  bool operator==(const Outcome&) const = default;
};

constexpr std::size_t samples = 12; // of a step
constexpr std::size_t steps = 6;

/// Trains a rank with its part of each step's samples.
template <class T> Outcome trained(Meeting& meeting, TrainingOptions options) {
  const ps::Ranks& ranks = meeting.ranks();
  options.ranks = ranks;
  options.batch = samples / ranks.world / options.micro_batches;
  ps::HostDevice device;
  const auto reducer = make_reducer<Wide<T>>(device, meeting, patience);
  Training<HostOps<T>> training{device, smallest, options};
  if (reducer) {
    training.reduce_by(*reducer);
  }
  const auto fill = [&](std::uint64_t pass, std::uint64_t salt) {
    for (std::size_t i = 0; i < training.inputs().size(); ++i) {
      const std::size_t row = i % smallest.context;
      const std::uint64_t sample =
          (pass * options.batch + i / smallest.context) * ranks.world + ranks.rank;
      const auto token = [&](std::size_t place) {
        return static_cast<std::int32_t>(mixed(salt + sample * 100 + place / 2) %
                                         smallest.vocabulary);
      };
      training.inputs().data()[i] = token(row);
      training.targets().data()[i] = token(row + 1);
    }
  };
  const auto loss = [&] {
    device.sync(training.stream());
    return static_cast<double>(*training.loss());
  };
  Outcome outcome;
  for (std::size_t pass = 0; pass < steps * options.micro_batches; ++pass) {
    fill(pass, 0);
    const bool whole = training.pass();
    const double now = loss();
    if (whole) {
      outcome.losses.push_back(now);
    }
  }
  for (int again = 0; again < 3; ++again) { // and from a graph
    outcome.evaluated = 0;
    for (std::size_t pass = 0; pass < options.micro_batches; ++pass) {
      fill(pass, 99);
      training.evaluate();
      outcome.evaluated += loss() / static_cast<double>(options.micro_batches);
    }
  }
  TrainingState state = training.state();
  outcome.masters = std::move(state.masters);
  outcome.means = std::move(state.means);
  return outcome;
}

/// Returns how far apart two arrays are, as a share of all.
double off(const std::vector<float>& found, const std::vector<float>& wanted) {
  double difference = 0;
  double all = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference += std::abs(double(found.at(i)) - double(wanted[i]));
    all += std::abs(double(wanted[i]));
  }
  return difference / all;
}

} // namespace

TEST_CASE("sums of ranks are in the order of the ranks, on all the same") {
  const auto value = [](std::uint32_t rank, std::size_t i) {
    return static_cast<float>(mixed(rank * 1'000'000 + i) % 1000) / 7 - 50;
  };
  for (const std::uint32_t world : {2U, 3U}) {
    for (const std::size_t count : {1UL, 65'536UL, 65'537UL, 200'000UL}) {
      const auto found = on_ranks(world, [&](Meeting& meeting) {
        ps::HostDevice device;
        auto stream = device.stream();
        HostReducer<float> reducer{meeting, patience};
        std::vector<float> values(count);
        for (int again = 0; again < 3; ++again) {
          for (std::size_t i = 0; i < count; ++i) {
            values[i] = value(meeting.ranks().rank, i);
          }
          reducer.sum(stream, values.data(), count);
          device.sync(stream);
        }
        return values;
      });
      std::vector<float> wanted(count);
      for (std::size_t i = 0; i < count; ++i) {
        wanted[i] = value(0, i);
        for (std::uint32_t rank = 1; rank < world; ++rank) {
          wanted[i] += value(rank, i);
        }
      }
      CHECK(found == std::vector<std::vector<float>>(world, wanted));
    }
  }
}

TEST_CASE("ranks make the steps of one process, and all have the same bits") {
  const auto check = [](TrainingOptions options, std::uint32_t world) {
    INFO(world << " ranks, " << options.micro_batches << " micro-batches, graph " << options.graph);
    options.adamw.rate = 0.01F;
    options.adamw.epsilon = 1e-3F; // a gradient of nearly 0 has no sign to go by
    options.dropout = 0.1F;
    Meeting one{{}};
    TrainingOptions plain = options;
    plain.micro_batches = 1;
    const Outcome alone = trained<float>(one, plain);
    const std::vector<Outcome> all =
        on_ranks(world, [&](Meeting& meeting) { return trained<float>(meeting, options); });
    for (const Outcome& rank : all) {
      CHECK(rank == all[0]);
    }
    for (std::size_t step = 0; step < steps; ++step) {
      CHECK(std::abs(all[0].losses[step] - alone.losses[step]) < 1e-5 * alone.losses[step]);
    }
    CHECK(std::abs(all[0].evaluated - alone.evaluated) < 1e-5 * alone.evaluated);
    CHECK(off(all[0].masters, alone.masters) < 1e-5);
    CHECK(off(all[0].means, alone.means) < 1e-4);
    return all[0];
  };
  for (const std::uint32_t world : {2U, 3U}) {
    const Outcome loose = check({.adamw = {.clip = 1}}, world);
    CHECK(check({.graph = true, .adamw = {.clip = 1}}, world) == loose);
    CHECK(check({.way = StepWay::each_tensor, .adamw = {.clip = 1}}, world) == loose);
    check({.micro_batches = 2, .group = 1, .adamw = {.clip = 1}}, world);
    const Outcome uncut = check({.micro_batches = 2}, world);
    CHECK(check({.micro_batches = 2, .graph = true}, world) == uncut);
    CHECK(check({.micro_batches = 2, .way = StepWay::beside_backward}, world) == uncut);
  }
}

TEST_CASE("ranks add up in floats what is trained in bf16") {
  const std::vector<Outcome> all = on_ranks(2, [&](Meeting& meeting) {
    return trained<ps::BFloat16>(meeting, {.adamw = {.rate = 0.01F}});
  });
  CHECK(all[0] == all[1]);
  CHECK(all[0].losses.back() < all[0].losses.front());
}

TEST_CASE("one rank needs nothing that adds up, and several do") {
  ps::HostDevice device;
  Meeting one{{}};
  CHECK(make_reducer<float>(device, one, patience) == nullptr);
  Training<HostOps<float>> training{
      device, smallest, {.batch = 1, .ranks = {.rank = 1, .world = 4}}};
  CHECK(std::string{caught<ps::Error>([&] { training.pass(); }).what()} ==
        "nothing adds up the gradients of 4 ranks: call reduce_by() before the first pass");
}

TEST_CASE("ranks on several hosts cannot share memory") {
  const TempDir folder;
  const Environment environment{"MEETING=" + folder.path()};
  Meeting meeting{{1, 2, 0, 1}};
  CHECK(
      std::string{
          caught<std::runtime_error>([&] { HostReducer<float>{meeting, patience}; }).what()} ==
      "of 2 ranks only 1 are on this host, and without GPUs ranks share memory: start all of them "
      "on one host, or give --device cuda");
}

TEST_CASE("a sum that another rank has no part in ends with an error") {
  const auto said = on_ranks(2, [](Meeting& meeting) {
    ps::HostDevice device;
    auto stream = device.stream();
    HostReducer<float> reducer{meeting, std::chrono::seconds{1}};
    float value = 1;
    if (meeting.ranks().rank == 0) {
      return std::string{"gone"};
    }
    reducer.sum(stream, &value, 1);
    return std::string{caught<ps::DeviceError>([&] { reducer.sync(stream); }).what()};
  });
  CHECK(said[1].find("rank 1 of 2 has waited 1 s for the others: one is gone, or stopped.") !=
        std::string::npos);
}
