// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The model of examples/gpt/ and its gradients, in plain loops on the host device.

#include "support/catch.hpp"

#include "../../examples/gpt/config.hpp"
#include "../../examples/gpt/dropout.hpp"
#include "../../examples/gpt/host_ops.hpp"
#include "../../examples/gpt/initial.hpp"
#include "../../examples/gpt/model.hpp"
#include "../../examples/gpt/model_layout.hpp"
#include "../../examples/gpt/shape.hpp"

#include <penstock/device/device_array.hpp>
#include <penstock/error.hpp>
#include <penstock/host/device.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace ps = penstock;
using namespace transformer;

namespace {

constexpr Config smallest{.layers = 2, .width = 12, .heads = 2, .context = 6, .vocabulary = 11};
constexpr std::size_t batch = 3;

/// Random numbers from -1 to 1, the same for each seed.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : seed_{mixed(seed)} {}
  double operator()() { return static_cast<double>(mixed(seed_ + count_++) >> 11) * 0x1p-52 - 1; }

 private:
  std::uint64_t seed_;
  std::uint64_t count_{};
};

/// A model on a device of its own, with parameters that make all of it matter.
template <class T> struct Trial {
  using W = Wide<T>;

  explicit Trial(const ModelOptions& options = {}, const Config& config = smallest)
      : ops{device, config.shape(batch)}, layout{config}, parameters{device, layout.size()},
        gradients{device, layout.size()}, tokens{device, ops.shape().rows()},
        targets{device, ops.shape().rows()},
        model{device, ops, config, parameters.data(), gradients.data(), options} {
    const std::vector<float> initial = initial_parameters(config, 1);
    Numbers number{2};
    for (const Place& place : layout.places()) {
      for (std::size_t i = place.begin; i < place.begin + place.count(); ++i) {
        parameters.data()[i] = static_cast<T>(W(initial[i]) + W(0.3 * number()));
      }
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens.data()[i] = static_cast<std::int32_t>(mixed(i) % config.vocabulary);
      targets.data()[i] = static_cast<std::int32_t>(mixed(i + 1000) % config.vocabulary);
    }
  }

  /// Computes the gradients of the training pass with this number, and returns its loss.
  double train(std::uint64_t pass = 5) {
    device.sync(ops.stream());
    *model.passes() = pass;
    model.clear_gradients();
    model.train(tokens.data(), targets.data());
    device.sync(ops.stream());
    return static_cast<double>(*model.loss());
  }
  double evaluate() {
    model.evaluate(tokens.data(), targets.data());
    device.sync(ops.stream());
    return static_cast<double>(*model.loss());
  }
  std::vector<double> all_gradients() const {
    return {gradients.data(), gradients.data() + gradients.size()};
  }
  /// Returns the slope of the loss along `direction`, by central differences. The gradients are
  /// other ones then.
  double slope(const std::vector<double>& direction, double step) {
    const std::vector<T> before{parameters.data(), parameters.data() + parameters.size()};
    const auto moved = [&](double by) {
      for (std::size_t i = 0; i < before.size(); ++i) {
        parameters.data()[i] = static_cast<T>(static_cast<double>(before[i]) + by * direction[i]);
      }
      return train();
    };
    const double difference = moved(step) - moved(-step);
    std::copy(before.begin(), before.end(), parameters.data());
    return difference / (2 * step);
  }

  ps::HostDevice device;
  HostOps<T> ops;
  ModelLayout layout;
  ps::DeviceArray<T, ps::HostDevice> parameters;
  ps::DeviceArray<W, ps::HostDevice> gradients;
  ps::DeviceArray<std::int32_t, ps::HostDevice> tokens, targets;
  Model<HostOps<T>> model;
};

double along(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}
double length(const std::vector<double>& a) {
  return std::sqrt(along(a, a));
}
std::vector<double> unit(std::vector<double> a) {
  const double by = 1 / length(a);
  std::transform(a.begin(), a.end(), a.begin(), [=](double x) { return x * by; });
  return a;
}
double off(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> d(a.size());
  std::transform(a.begin(), a.end(), b.begin(), d.begin(),
                 [](double x, double y) { return x - y; });
  return length(d) / length(b);
}

/// Checks slopes along the gradient, and along random directions.
template <class T> void check_slopes(const ModelOptions& options, double step, double limit) {
  Trial<T> trial{options};
  trial.train();
  const std::vector<double> gradient = trial.all_gradients();
  std::vector<std::vector<double>> directions{unit(gradient)};
  for (std::uint64_t seed = 10; seed < 14; ++seed) {
    std::vector<double> direction(gradient.size());
    std::generate(direction.begin(), direction.end(), Numbers{seed});
    directions.push_back(unit(direction));
  }
  for (std::size_t i = 0; i < directions.size(); ++i) {
    INFO("direction " << i);
    const double wanted = trial.slope(directions[i], step);
    CHECK(std::abs(along(gradient, directions[i]) - wanted) < limit * length(gradient));
  }
}

} // namespace

TEST_CASE("a model's gradients are those of central differences") {
  check_slopes<double>({}, 1e-4, 1e-7);
  check_slopes<float>({}, 1e-2, 1e-3);
}

TEST_CASE("with dropout too, gradients are those of central differences") {
  check_slopes<double>({.dropout = 0.3F, .seed = 3}, 1e-4, 1e-7);
}

TEST_CASE("in each tensor, the greatest component of the gradient is that of central differences") {
  for (const float dropout : {0.0F, 0.3F}) {
    Trial<double> trial{{.dropout = dropout, .seed = 3}};
    trial.train();
    const std::vector<double> gradient = trial.all_gradients();
    for (const Place& place : trial.layout.places()) {
      INFO(place.name << ", dropout " << dropout);
      std::size_t at = place.begin;
      for (std::size_t i = place.begin; i < place.begin + place.count(); ++i) {
        at = std::abs(gradient[i]) > std::abs(gradient[at]) ? i : at;
      }
      std::vector<double> direction(gradient.size());
      direction[at] = 1;
      const double wanted = trial.slope(direction, 1e-4);
      CHECK(wanted != 0);
      CHECK(std::abs(gradient[at] - wanted) < 1e-6 * std::abs(wanted));
    }
  }
}

TEST_CASE("a head in chunks gives the loss and the gradients of one piece") {
  Trial<float> whole;
  const double loss = whole.train();
  const double evaluated = whole.evaluate();
  for (const std::size_t rows : {1, 5, 17}) { // of 18
    INFO("chunks of " << rows << " rows");
    Trial<float> trial{{.logit_bytes = rows * smallest.padded_vocabulary() * sizeof(float)}};
    CHECK(trial.train() == loss);
    CHECK(off(trial.all_gradients(), whole.all_gradients()) < 1e-6);
    CHECK(trial.evaluate() == evaluated);
  }
  CHECK(evaluated == loss); // nothing is dropped
  CHECK_THROWS_AS(Trial<float>{{.logit_bytes = 100}}, ps::OptionError);
}

TEST_CASE("padded tokens have no part in the loss, and no gradients") {
  Trial<float> trial;
  const double loss = trial.train();
  const std::size_t begin = smallest.vocabulary * smallest.width;
  const std::size_t end = smallest.padded_vocabulary() * smallest.width;
  const float* const d = trial.gradients.data();
  CHECK(std::all_of(d + begin, d + end, [](float value) { return value == 0; }));
  CHECK(std::none_of(d, d + begin, [](float value) { return value == 0; }));
  std::fill(trial.parameters.data() + begin, trial.parameters.data() + end, 50.0F);
  CHECK(trial.train() == loss);
}

TEST_CASE("the loss is what the logits say") {
  const Config config = smallest;
  Trial<float> trial{{.logit_bytes = 8 * config.padded_vocabulary() * sizeof(float)}};
  const double loss = trial.evaluate();
  trial.model.forward(trial.tokens.data());
  double sum = 0;
  const std::size_t rows = trial.ops.shape().rows();
  for (std::size_t begin = 0; begin < rows; begin += 6) {
    const float* const logits = trial.model.logits(begin, 6);
    trial.device.sync(trial.ops.stream());
    for (std::size_t row = 0; row < 6; ++row) {
      const float* const of_row = logits + row * config.padded_vocabulary();
      double all = 0;
      for (std::size_t i = 0; i < config.vocabulary; ++i) {
        all += std::exp(double(of_row[i]));
      }
      const auto target = static_cast<std::size_t>(trial.targets.data()[begin + row]);
      sum += std::log(all) - double(of_row[target]);
    }
  }
  CHECK(std::abs(sum / static_cast<double>(rows) - loss) < 1e-5);
  CHECK_THROWS_AS(trial.model.logits(0, 9), ps::OptionError);
  CHECK_THROWS_AS(trial.model.logits(rows - 1, 2), ps::OptionError);
}

TEST_CASE("a model without gradients computes the logits of one that trains") {
  Trial<float> trial;
  Model<HostOps<float>> model{trial.device, trial.ops, smallest, trial.parameters.data(), nullptr};
  const std::size_t count = trial.ops.shape().rows() * smallest.padded_vocabulary();
  std::vector<std::vector<float>> found;
  for (Model<HostOps<float>>* one : {&trial.model, &model}) {
    one->forward(trial.tokens.data());
    const float* const logits = one->logits(0, trial.ops.shape().rows());
    trial.device.sync(trial.ops.stream());
    found.emplace_back(logits, logits + count);
  }
  CHECK(found[0] == found[1]);
}

TEST_CASE("dropout drops its share, and nothing tells from one row what another drops") {
  std::uint64_t pass = 7;
  const Dropout dropout{.rate = 0.2F, .seed = 1, .pass = &pass};
  constexpr std::size_t rows = 400;
  constexpr std::uint32_t columns = 600;
  const auto mask = [&](const Drops& drops, std::size_t first_row = 0) {
    std::vector<bool> kept;
    for (std::size_t row = first_row; row < first_row + rows; ++row) {
      const DropRow of_row = drops.row(row);
      for (std::uint32_t column = 0; column < columns; ++column) {
        kept.push_back(of_row.keeps(column));
      }
    }
    return kept;
  };
  const std::vector<bool> one = mask(dropout.project(2));
  CHECK(mask(dropout.project(2)) == one);
  // How often both masks keep a value, or the value and the one `further` on: independent ones do
  // so in 0.8 * 0.8 of the cases.
  const auto both = [&](const std::vector<bool>& other, std::size_t further = 0) {
    double count = 0;
    for (std::size_t i = 0; i + further < one.size(); ++i) {
      count += one[i] && other[i + further] ? 1 : 0;
    }
    return count / static_cast<double>(one.size() - further);
  };
  constexpr double limit = 0.005; // five deviations
  CHECK(std::abs(both(one) - 0.8) < limit);
  for (const std::size_t further : {1, 2, 7, 8, 16, 64, 600, 1200}) {
    INFO(further);
    CHECK(std::abs(both(one, further) - 0.64) < limit);
  }
  CHECK(std::abs(both(mask(dropout.down(2))) - 0.64) < limit);
  CHECK(std::abs(both(mask(dropout.project(3))) - 0.64) < limit);
  CHECK(std::abs(both(mask(Dropout{0.2F, 2, &pass}.project(2))) - 0.64) < limit);
  ++pass;
  CHECK(std::abs(both(mask(dropout.project(2))) - 0.64) < limit);
  CHECK(std::abs(double(dropout.project(2).scale()) - 1.25) < 1e-4);
  CHECK_FALSE(Dropout{}.embeddings());
}

TEST_CASE("a sample loses the same values however ranks and passes share a step") {
  const Shape whole{.layers = 1, .width = 8, .heads = 2, .tokens = 3, .batch = 12};
  std::uint64_t pass = 4;
  const Dropout alone{.rate = 0.2F, .seed = 1, .pass = &pass, .shape = whole};
  const auto key = [](const Drops& drops, std::size_t rows_of_sample, std::size_t sample,
                      std::size_t row) { return drops.row(sample * rows_of_sample + row).key; };
  std::set<std::uint64_t> keys;
  std::size_t shared = 0;
  for (const std::uint32_t world : {1U, 2U, 3U}) {
    for (const std::size_t passes : {1U, 2U}) {
      Shape part = whole;
      part.batch = 12 / world / passes;
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        for (std::uint64_t i = 0; i < 12 / world; ++i) {
          std::uint64_t of_rank = 4 * passes + i / part.batch;
          const Dropout some{.rate = 0.2F,
                             .seed = 1,
                             .pass = &of_rank,
                             .shape = part,
                             .ranks = {.rank = rank, .world = world}};
          for (std::size_t row = 0; row < 3; ++row) {
            const std::uint64_t found = key(some.project(0), 3, i % part.batch, row);
            CHECK(found == key(alone.project(0), 3, i * world + rank, row));
            keys.insert(found);
            ++shared;
          }
          for (std::size_t row = 0; row < 6; ++row) {
            CHECK(key(some.attention(0), 6, i % part.batch, row) ==
                  key(alone.attention(0), 6, i * world + rank, row));
          }
        }
      }
    }
  }
  CHECK(shared == 6 * 36);
  CHECK(keys.size() == 36); // no two rows have the same
}

TEST_CASE("dropout changes each training pass, and no evaluation") {
  Trial<float> plain;
  const double loss = plain.train();
  Trial<float> trial{{.dropout = 0.2F}};
  const double first = trial.train(0);
  CHECK(first != loss);
  CHECK(*trial.model.passes() == 1);
  CHECK(trial.train(1) != first);
  CHECK(trial.train(0) == first);
  CHECK(trial.evaluate() == loss);
  CHECK(*trial.model.passes() == 1);
  CHECK(Trial<float>{{.dropout = 0.2F, .seed = 1}}.train(0) != first);
  CHECK_THROWS_AS(Trial<float>{{.dropout = 1.0F}}, ps::OptionError);
  CHECK_THROWS_AS(Trial<float>{{.dropout = -0.1F}}, ps::OptionError);
}

TEST_CASE("recomputed activations drop what those that were kept did") {
  Trial<float> kept{{.dropout = 0.2F}};
  kept.train();
  Trial<float> trial{{.group = 1, .dropout = 0.2F}};
  trial.train();
  CHECK(trial.all_gradients() == kept.all_gradients());
  CHECK(trial.model.activation_bytes() < kept.model.activation_bytes());
}

TEST_CASE("places have all tensors, in order and apart") {
  for (const Config& config : {smallest, presets::gpt2_124M}) {
    const ModelLayout layout{config};
    const std::vector<Place> places = layout.places();
    REQUIRE(places.size() == 4 + tensors * config.layers);
    std::size_t end = 0;
    std::map<std::string, const Place*> named;
    for (const Place& place : places) {
      INFO(place.name);
      CHECK(place.begin >= end);
      CHECK(place.begin - end < Layout::grain);
      CHECK(place.begin % Layout::grain == 0);
      CHECK(place.decays == (place.rows > 1));
      end = place.begin + place.count();
      named[place.name] = &place;
    }
    CHECK(layout.size() >= end);
    CHECK(named.size() == places.size());
    const std::size_t c = config.width;
    CHECK(named.at("wte")->rows == config.padded_vocabulary());
    CHECK(named.at("wpe")->rows == config.context);
    CHECK(named.at("block1.qkv_weight")->rows == 3 * c);
    CHECK(named.at("block1.down_weight")->rows == c);
    CHECK(named.at("block1.down_weight")->columns == 4 * c);
    CHECK(named.at("block0.up_bias")->columns == 4 * c);
    CHECK(named.at("norm_bias")->begin == layout.norm_bias());
  }
}

TEST_CASE("the smallest GPT-2 has as many parameters as its authors' model") {
  std::size_t count = 0;
  const Config config = presets::named("124M");
  for (const Place& place : ModelLayout{config}.places()) {
    count += place.name == "wte" ? config.vocabulary * config.width : place.count();
  }
  CHECK(count == 124'439'808);
  CHECK(config.padded_vocabulary() == 50304);
  CHECK(presets::named("tiny") == presets::tiny);
  CHECK(presets::named("small") == presets::small);
  CHECK_THROWS_AS(presets::named("large"), ps::OptionError);
}

TEST_CASE("the first parameters are normal, with GPT-2's deviations") {
  const ModelLayout layout{presets::tiny};
  Config config = presets::tiny;
  config.vocabulary = 200; // padded to 256
  const std::vector<float> values = initial_parameters(config, 1);
  CHECK(initial_parameters(config, 1) == values);
  CHECK(initial_parameters(config, 2) != values);
  // Numbers of a large tensor are made piece by piece, and each piece has others.
  Config large = config;
  large.vocabulary = 40'000;
  const std::vector<float> many = initial_parameters(large, 1);
  constexpr std::size_t piece = std::size_t{1} << 20;
  CHECK(std::equal(many.begin(), many.begin() + 200 * 64, values.begin()));
  CHECK(!std::equal(many.begin(), many.begin() + 1000, many.begin() + piece));
  CHECK(std::count(many.begin(), many.begin() + 40'000 * 64, 0.0F) < 10);
  for (const Place& place : layout.places()) {
    INFO(place.name);
    const float* const at = values.data() + place.begin;
    const std::size_t count = place.name == "wte" ? 200 * config.width : place.count();
    if (!place.decays) {
      const bool is_scale = place.name.find("norm") != std::string::npos &&
                            place.name.find("weight") != std::string::npos;
      CHECK(std::all_of(at, at + count, [&](float x) { return x == (is_scale ? 1.0F : 0.0F); }));
      continue;
    }
    CHECK(std::all_of(at + count, at + place.count(), [](float x) { return x == 0; }));
    double sum = 0;
    double squares = 0;
    double within = 0; // one deviation
    const bool adds = place.name.ends_with("project_weight") || place.name.ends_with("down_weight");
    const double deviation = adds ? 0.02 / std::sqrt(6.0) : 0.02;
    for (std::size_t i = 0; i < count; ++i) {
      sum += double(at[i]);
      squares += double(at[i]) * double(at[i]);
      within += std::abs(double(at[i])) < deviation ? 1 : 0;
    }
    const auto n = static_cast<double>(count);
    CHECK(std::abs(sum / n) < 5 * deviation / std::sqrt(n));
    CHECK(std::abs(std::sqrt(squares / n) / deviation - 1) < 5 / std::sqrt(2 * n));
    CHECK(std::abs(within / n - 0.6827) < 2.5 / std::sqrt(n));
  }
}
