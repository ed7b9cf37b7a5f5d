// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The training of examples/gpt/, on the host device.

#include "support/catch.hpp"

#include "../../examples/gpt/adamw.hpp"
#include "../../examples/gpt/config.hpp"
#include "../../examples/gpt/dropout.hpp"
#include "../../examples/gpt/host_ops.hpp"
#include "../../examples/gpt/schedule.hpp"
#include "../../examples/gpt/training.hpp"

#include <penstock/data/float16.hpp>
#include <penstock/error.hpp>
#include <penstock/host/device.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ps = penstock;
using namespace transformer;

namespace {

constexpr Config smallest{.layers = 2, .width = 16, .heads = 2, .context = 8, .vocabulary = 40};
constexpr std::string_view text = "one fish two fish red fish blue fish, old fish new fish. ";

/// A training on a device of its own, over pieces of the text: the same at the same pass.
template <class T> struct Trial {
  explicit Trial(const TrainingOptions& options, const Config& config = smallest)
      : training{device, config, options} {}

  /// Fills the inputs and targets of the pass with this number. The stream is idle before.
  void fill(std::uint64_t pass) {
    const std::size_t tokens = training.layout().config().context;
    for (std::size_t i = 0; i < training.inputs().size(); ++i) {
      const std::size_t begin = mixed(pass * 100 + i / tokens) % text.size();
      const auto at = [&](std::size_t place) {
        return static_cast<std::int32_t>(text[place % text.size()]) %
               static_cast<std::int32_t>(training.layout().config().vocabulary);
      };
      training.inputs().data()[i] = at(begin + i % tokens);
      training.targets().data()[i] = at(begin + i % tokens + 1);
    }
  }
  /// Does the next pass, and returns the loss.
  double pass() {
    sync();
    fill(training.passes());
    training.pass();
    sync();
    return static_cast<double>(*training.loss());
  }
  std::vector<float> run(std::size_t passes) {
    for (std::size_t i = 0; i < passes; ++i) {
      pass();
    }
    return training.state().masters;
  }
  void sync() { device.sync(training.stream()); }

  ps::HostDevice device;
  Training<HostOps<T>> training;
};

} // namespace

TEST_CASE("a schedule warms up, falls along a cosine, and stays") {
  const Schedule schedule{.warm_up = 4, .steps = 104, .least = 0.1F};
  CHECK(schedule.at(0) == 0.2F);
  CHECK(schedule.at(3) == 0.8F);
  CHECK(schedule.at(4) == 1);
  CHECK(std::abs(schedule.at(29) - (0.1F + 0.9F * (0.5F + 0.5F * std::sqrt(0.5F)))) < 1e-6F);
  CHECK(std::abs(schedule.at(54) - 0.55F) < 1e-6F);
  CHECK(schedule.at(103) > 0.1F);
  CHECK(schedule.at(104) == 0.1F);
  CHECK(schedule.at(100'000) == 0.1F);
  CHECK(Schedule{}.at(0) == 1);
  CHECK(Schedule{}.at(100'000) == 1);
  CHECK(Schedule{.warm_up = 1}.at(2) == 1);
}

TEST_CASE("the optimiser's rate follows the schedule, also in graphs") {
  for (const bool graph : {false, true}) {
    const AdamWOptions adamw{.rate = 0.01F, .schedule = {.warm_up = 2, .steps = 5}};
    Trial<float> trial{{.batch = 1, .graph = graph, .adamw = adamw}};
    for (std::uint64_t step = 0; step < 7; ++step) {
      trial.pass();
      CHECK(trial.training.now()->rate == 0.01F * adamw.schedule.at(step));
      CHECK(*trial.training.adamw().steps() == step + 1);
    }
  }
}

TEST_CASE("gradients are cut to the clip's length, and shorter ones are not") {
  for (const std::size_t micro_batches : {1, 2}) {
    TrainingOptions options{.batch = 2, .micro_batches = micro_batches};
    Trial<float> plain{options};
    const std::vector<float> wanted = plain.run(micro_batches);
    const float* const gradients = plain.training.model().gradients();
    double squares = 0;
    for (std::size_t i = 0; i < plain.training.layout().size(); ++i) {
      squares += double(gradients[i]) * double(gradients[i]);
    }
    const double norm = std::sqrt(squares) / static_cast<double>(micro_batches);
    CHECK(plain.training.now()->norm == 0);

    options.adamw.clip = static_cast<float>(norm * 1.01);
    Trial<float> not_cut{options};
    CHECK(not_cut.run(micro_batches) == wanted);
    CHECK(std::abs(double(not_cut.training.now()->norm) - norm) < 1e-5 * norm);

    options.adamw.clip = static_cast<float>(norm / 10);
    Trial<float> cut{options};
    cut.run(micro_batches);
    const double scale = double(cut.training.now()->scale) * static_cast<double>(micro_batches);
    CHECK(std::abs(scale - 0.1) < 1e-6);
    // Of a first step, the mean is a tenth of the gradient.
    const std::vector<float> means = cut.training.state().means;
    const std::vector<float> longer = plain.training.state().means;
    const auto at =
        static_cast<std::size_t>(std::max_element(longer.begin(), longer.end()) - longer.begin());
    CHECK(std::abs(means[at] / longer[at] - 0.1F) < 1e-4F);
  }
}

TEST_CASE("graphs do what loose passes do, bit by bit") {
  for (const std::size_t micro_batches : {1, 2, 4}) {
    INFO(micro_batches << " micro-batches");
    TrainingOptions options{.batch = 2,
                            .micro_batches = micro_batches,
                            .group = 1,
                            .dropout = 0.2F,
                            .adamw = {.clip = 1, .schedule = {.warm_up = 3, .steps = 9}}};
    Trial<float> loose{options};
    options.graph = true;
    Trial<float> graphs{options};
    for (std::size_t pass = 0; pass < 4 * micro_batches; ++pass) {
      CHECK(graphs.pass() == loose.pass());
    }
    CHECK(graphs.training.state() == loose.training.state());
    CHECK(graphs.training.steps() == 4);
    CHECK(*graphs.training.model().passes() == 4 * micro_batches);
    CHECK(*graphs.training.adamw().steps() == 4);
  }
}

TEST_CASE("the optimiser's ways make the same step") {
  for (const std::size_t group : {0, 1}) {
    TrainingOptions options{.batch = 2, .micro_batches = 2, .group = group, .dropout = 0.1F};
    const std::vector<float> wanted = Trial<ps::BFloat16>{options}.run(6);
    for (const StepWay way : {StepWay::each_tensor, StepWay::beside_backward}) {
      options.way = way;
      CHECK(Trial<ps::BFloat16>{options}.run(6) == wanted);
    }
  }
  CHECK_THROWS_AS((Trial<float>{{.way = StepWay::beside_backward, .adamw = {.clip = 1}}}),
                  ps::OptionError);
  CHECK_THROWS_AS((Trial<float>{{.graph = true, .way = StepWay::beside_backward}}),
                  ps::OptionError);
}

TEST_CASE("micro-batches make the step of one batch, and their mean loss") {
  Trial<float> whole{{.batch = 4}};
  whole.fill(0);
  whole.training.pass();
  whole.sync();
  const double loss = double(*whole.training.loss());
  Trial<float> parts{{.batch = 1, .micro_batches = 4}};
  const std::size_t tokens = smallest.context;
  std::vector<double> losses;
  for (std::size_t i = 0; i < 4; ++i) {
    parts.sync();
    std::copy_n(whole.training.inputs().data() + i * tokens, tokens,
                parts.training.inputs().data());
    std::copy_n(whole.training.targets().data() + i * tokens, tokens,
                parts.training.targets().data());
    CHECK(parts.training.pass() == (i == 3));
    parts.sync();
    losses.push_back(double(*parts.training.loss()));
  }
  CHECK(std::abs(losses[3] - loss) < 1e-6);
  CHECK(std::abs(losses[0] - loss) > 1e-5);
  // By the mean, since a step's length hardly depends on the gradient's.
  const std::vector<float> means = parts.training.state().means;
  const std::vector<float> wanted = whole.training.state().means;
  double difference = 0;
  double all = 0;
  for (std::size_t i = 0; i < means.size(); ++i) {
    difference += std::abs(double(means[i]) - double(wanted[i]));
    all += std::abs(double(wanted[i]));
  }
  CHECK(difference < 1e-5 * all);
}

TEST_CASE("an evaluation changes nothing but the loss that is shown") {
  const TrainingOptions options{.batch = 2, .micro_batches = 2, .graph = true, .dropout = 0.1F};
  Trial<float> plain{options};
  Trial<float> evaluated{options};
  for (std::uint64_t pass = 0; pass < 6; ++pass) {
    const double loss = plain.pass();
    CHECK(evaluated.pass() == loss);
    evaluated.fill(100);
    std::vector<double> found;
    for (int again = 0; again < 3; ++again) {
      evaluated.training.evaluate();
      evaluated.sync();
      found.push_back(double(*evaluated.training.loss()));
    }
    CHECK(found[0] != loss);
    CHECK(found == std::vector<double>(3, found[0]));
  }
  CHECK(evaluated.training.state() == plain.training.state());
}

TEST_CASE("training that is restored goes on as if it had never stopped, bit by bit") {
  for (const bool graph : {false, true}) {
    const TrainingOptions options{
        .batch = 2,
        .micro_batches = 2,
        .graph = graph,
        .dropout = 0.1F,
        .adamw = {.rate = 0.01F, .clip = 1, .schedule = {.warm_up = 2, .steps = 9}}};
    Trial<ps::BFloat16> straight{options};
    straight.run(6);
    const TrainingState state = straight.training.state();
    CHECK(state.steps == 3);
    CHECK(state.passes == 6);
    std::vector<double> losses;
    for (int i = 0; i < 6; ++i) {
      losses.push_back(straight.pass());
    }
    Trial<ps::BFloat16> resumed{options};
    resumed.run(4); // graphs that exist by then must go on from the state too
    resumed.training.restore(state);
    CHECK(resumed.training.state() == state);
    for (const double loss : losses) {
      CHECK(resumed.pass() == loss);
    }
    CHECK(resumed.training.state() == straight.training.state());
    CHECK_FALSE(resumed.training.state() == state);
  }
}

TEST_CASE("a state in the middle of a step, or of another training, is refused") {
  Trial<float> trial{{.batch = 1, .micro_batches = 2}};
  TrainingState state = trial.training.state();
  trial.pass();
  CHECK_THROWS_AS(trial.training.state(), ps::Error);
  CHECK_THROWS_AS(trial.training.restore(state), ps::Error);
  trial.pass();
  state.passes = 1;
  CHECK_THROWS_AS(trial.training.restore(state), ps::Error);
  state.passes = 0;
  state.means.pop_back();
  CHECK_THROWS_AS(trial.training.restore(state), ps::Error);
  CHECK_THROWS_AS((Trial<float>{{.micro_batches = 0}}), ps::OptionError);
  CHECK_THROWS_AS((Trial<float>{{.batch = 0}}), ps::OptionError);
  CHECK_THROWS_AS((Trial<float>{{.group = 3}}), ps::OptionError);
}

TEST_CASE("a tiny model learns a text") {
  Config config = presets::tiny;
  config.layers = 2;
  config.width = 32;
  config.context = 32;
  config.vocabulary = 128;
  const auto train = [&]<class T>(Trial<T>&& trial) {
    const double first = trial.pass();
    CHECK(std::abs(first - std::log(128.0)) < 0.2); // it knows nothing
    double last = first;
    for (int i = 0; i < 60; ++i) {
      last = trial.pass();
    }
    return last;
  };
  const TrainingOptions options{
      .batch = 4, .graph = true, .adamw = {.rate = 0.01F, .beta2 = 0.99F, .clip = 1}};
  CHECK(train(Trial<float>{options, config}) < 0.8);
  CHECK(train(Trial<ps::BFloat16>{options, config}) < 0.8);
}
