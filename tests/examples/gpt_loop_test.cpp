// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What the training loop of examples/gpt/ is made of: its plan, its losses, its clock, its files.
// Whole trainings run in tools/examples/train.py.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/temp_dir.hpp"

#include "../../examples/gpt/checkpoint.hpp"
#include "../../examples/gpt/corpus.hpp"
#include "../../examples/gpt/host_ops.hpp"
#include "../../examples/gpt/loss_log.hpp"
#include "../../examples/gpt/loss_rows.hpp"
#include "../../examples/gpt/step_clock.hpp"
#include "../../examples/gpt/train_files.hpp"
#include "../../examples/gpt/train_loop.hpp"
#include "../../examples/gpt/train_options.hpp"
#include "../../examples/gpt/train_plan.hpp"
#include "../../examples/gpt/training.hpp"
#include "../../examples/support/meeting.hpp"

#include <penstock/error.hpp>
#include <penstock/penstock.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace transformer;
using ps::tests::caught;
using ps::tests::TempDir;

namespace {

TrainOptions options(std::vector<std::string> words) {
  words.insert(words.begin(), {"train", "--data", "a"});
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  return {static_cast<int>(arguments.size()), arguments.data()};
}
TrainPlan plan(const std::vector<std::string>& words, std::uint64_t held_out = 1'000'000,
               const ps::Ranks& ranks = {}) {
  return make_plan(options(words), 65, held_out, ranks);
}
std::string refused(const std::vector<std::string>& words, std::uint64_t held_out = 1'000'000) {
  return caught<std::invalid_argument>([&] { plan(words, held_out); }).what();
}
bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find('\n') == text.npos);
  return text.find(part) != text.npos;
}

/// A feed that has waited for so long.
struct Waited final : Feed<ps::HostDevice> {
  void each(ps::HostStream&, const ps::Position&, const Step&) override {}
  double waited_s() const override { return seconds; }
  std::optional<ps::Report> report() const override { return std::nullopt; }
  double seconds = 0;
};

} // namespace

TEST_CASE("the plan of a training follows from options, events and data") {
  const TrainPlan usual = plan({"--config", "small", "--events", "none"});
  CHECK(usual.config ==
        Config{.layers = 6, .width = 384, .heads = 6, .context = 256, .vocabulary = 65});
  CHECK(usual.training.batch == 64);
  CHECK(usual.training.micro_batches == 1);
  CHECK(usual.training.dropout == 0.2F);
  CHECK(usual.training.group == 0);
  CHECK_FALSE(usual.training.graph);
  CHECK(usual.training.way == StepWay::each_tensor);
  CHECK_FALSE(usual.fused_attention);
  CHECK(usual.trained.batch == 64);
  CHECK(usual.trained.context == 256);
  CHECK(usual.trained.shifted);
  CHECK(usual.trained.records == 0);
  CHECK(usual.held_out.records == 20 * 64);
  CHECK_FALSE(usual.held_out.shifted);
  CHECK(usual.held_out.epochs == 1);

  const TrainPlan other = plan({"--config", "small", "--events", "all", "--batch", "12",
                                "--micro-batches", "3", "--dropout", "0", "--rate", "0.5",
                                "--warmup", "3", "--decay-steps", "9", "--seed", "5"},
                               5 * 256);
  CHECK(other.training.batch == 4);
  CHECK(other.trained.batch == 4);
  CHECK(other.training.micro_batches == 3);
  CHECK(other.training.dropout == 0);
  CHECK(other.training.adamw.rate == 0.5F);
  CHECK(other.training.adamw.schedule.steps == 9);
  CHECK(other.training.group == 1);
  CHECK(other.training.graph);
  CHECK(other.training.way == StepWay::all);
  CHECK(other.fused_attention);
  CHECK(other.trained.seed == 5);
  CHECK(other.trained.events == all_events);
  CHECK(other.held_out.records == 4); // of four windows: the last one lacks its last target
  CHECK(plan({"--config", "tiny", "--events", "all"}).fused_attention == false);
  CHECK(plan({"--config", "small", "--context", "100"}).fused_attention == false);
  CHECK(plan({"--events", "optimiser=overlapped", "--clip", "0"}).training.way ==
        StepWay::beside_backward);
}

TEST_CASE("ranks share a batch, and what is held out") {
  const std::vector<std::string> words{"--batch",        "6", "--micro-batches", "3",
                                       "--eval-batches", "9"};
  const ps::Ranks second{.rank = 1, .world = 2, .local_rank = 1, .local_world = 2};
  const TrainPlan shared = plan(words, 1'000'000, second);
  CHECK(shared.training.ranks == second);
  CHECK(shared.training.batch == 2);
  CHECK(shared.trained.ranks == second);
  CHECK(shared.held_out.ranks == second);
  CHECK(shared.held_out.records == 9 * 6 * 2);
  CHECK(shared.fixed == plan({"--batch", "12", "--micro-batches", "6"}).fixed);
  CHECK(plan(words, 11 * 64 + 1, second).held_out.records == 8); // the last batch is not whole
  CHECK(has(caught<std::invalid_argument>([&] { plan(words, 3 * 64 + 1, second); }).what(),
            "3 windows of 64, and a batch has 4"));
}

TEST_CASE("a plan that cannot be is refused with the cure") {
  CHECK(has(refused({"--events", "workers"}), "pinned,workers"));
  CHECK(has(refused({"--events", "optimiser=overlapped"}), "--clip 0"));
  CHECK(has(refused({"--events", "graph,optimiser=overlapped", "--clip", "0"}), "leave out graph"));
  CHECK(has(refused({"--warmup", "9", "--decay-steps", "9"}),
            "--decay-steps is 9, and until step 9 the rate grows"));
  CHECK(plan({"--warmup", "8", "--decay-steps", "9"}).training.adamw.schedule.steps == 9);
  CHECK(has(refused({"--micro-batches", "3"}), "a batch of 8 sequences is not made up of 3"));
  CHECK(has(refused({}, 8 * 64), "held out are 512 tokens, 7 windows of 64, and a batch has 8"));
  CHECK(has(refused({}, 0), "--val FILE"));
  CHECK(plan({}, 8 * 64 + 1).held_out.records == 8);
  CHECK(plan({"--eval-every", "0"}, 0).held_out.records == 0);
}

TEST_CASE("a plan that goes on is the one before, but for what is given anew") {
  const TrainPlan before = plan({"--rate", "0.3", "--warmup", "7", "--decay-steps", "1000",
                                 "--clip", "0.7", "--decay", "0.01"});
  std::map<std::string, std::string> saved = before.fixed;
  saved.insert(before.kept.begin(), before.kept.end());
  const std::map<std::string, std::string> kept = kept_in({.dropout = 0.35F, .options = saved});
  CHECK_FALSE(kept.contains("--batch")); // it cannot be another
  TrainOptions anew = options({"--clip", "0.9"});
  anew.go_on_with(kept);
  const TrainPlan after = make_plan(anew, 65, 1'000'000);
  CHECK(after.training.dropout == 0.35F);
  CHECK(after.training.adamw.rate == 0.3F);
  CHECK(after.training.adamw.schedule.warm_up == 7);
  CHECK(after.training.adamw.schedule.steps == 1000);
  CHECK(after.training.adamw.decay == 0.01F);
  CHECK(after.training.adamw.clip == 0.9F);
  CHECK(kept_in({}).size() == 1); // a state that lacks them
}

TEST_CASE("a checkpoint never has a model that has diverged") {
  const TempDir folder;
  ps::HostDevice device;
  constexpr Config config{.layers = 1, .width = 8, .heads = 2, .context = 4, .vocabulary = 9};
  Training<HostOps<float>> training{device, config, {.batch = 1}};
  TrainFiles<HostOps<float>> files{device, training};
  const std::string path = folder / "model";
  files.save(path, {});
  const auto size = std::filesystem::file_size(path);
  for (float* const array : {training.adamw().master(), training.adamw().square()}) {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      const float good = std::exchange(array[5], bad); // a host device's memory
      CHECK(has(caught<std::runtime_error>([&] { files.save(path, {.steps = 3}); }).what(),
                "after step 3 the model has values that are no numbers, so " + path));
      array[5] = good;
    }
  }
  CHECK(std::filesystem::file_size(path) == size);
  CHECK(Checkpoint<>{path}.state()->steps == 0);
  CHECK(std::distance(std::filesystem::directory_iterator{folder.path()}, {}) == 1);
}

TEST_CASE("whether a file can be made is known before, and nothing is left there") {
  const TempDir folder;
  CHECK_NOTHROW(check_can_be_made(folder / "new"));
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(has(caught<ps::SinkError>([&] { check_can_be_made(folder / "no/new"); }).what(),
            "cannot create " + (folder / "no/new")));
  CHECK_THROWS_AS(check_can_be_made(folder.path()), ps::SinkError);
}

TEST_CASE("a training whose data end too early has not succeeded") {
  const TempDir folder;
  const Corpus corpus{folder.write("text", "a text for a hundred tokens, more or less")};
  const TrainOptions some = options({"--batch", "1", "--context", "8", "--eval-every", "0"});
  TrainPlan plan = make_plan(some, corpus.ids(), corpus.held_out());
  plan.trained.epochs = 1;
  ps::HostDevice device;
  Meeting alone{{}};
  TrainLoop<HostOps<float>> loop{device, alone, some, plan, corpus, nullptr};
  std::ostringstream out;
  CHECK(has(caught<std::runtime_error>([&] { loop.run(out); }).what(),
            "the data ended behind step 3 of 1000"));
}

TEST_CASE("blocks are recomputed in groups that need the least memory") {
  CHECK(least_group(1) == 1);
  CHECK(least_group(12) == 1);
  CHECK(least_group(48) == 2);
  for (const std::size_t layers : {7, 36, 64, 100}) {
    CHECK(layers % least_group(layers) == 0);
  }
}

TEST_CASE("losses come in their order, and wait only where there is no room") {
  ps::HostDevice device;
  auto stream = device.stream();
  auto loss = ps::device_array<float>(device, 1);
  for (const std::size_t room : {1U, 2U, 100U}) {
    INFO(room);
    LossLog<float, ps::HostDevice> log{device, 10, room};
    for (int round = 0; round < 2; ++round) {
      std::vector<float> taken;
      const auto take = [&](float value) { taken.push_back(value); };
      for (int step = 0; step < 10; ++step) {
        stream.enqueue([at = loss.data(), step] { *at = static_cast<float>(step); });
        log.put(loss.data(), stream, take);
        if (step % 3 == 0) {
          log.take(take);
        }
      }
      log.take_all(take);
      CHECK(taken == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
      log.take_all(take);
      CHECK(taken.size() == 10);
      log.clear();
    }
  }
}

TEST_CASE("a row waits for an evaluation, and the next step's loss ends that") {
  const TempDir folder;
  LossRows rows{folder / "losses", 7, {.rate = 0.5F, .schedule = {.warm_up = 15}}};
  rows.add(4);
  rows.add(3);
  CHECK(rows.curve().points().size() == 1);
  rows.add_held_out(3.5);
  rows.add(2);
  rows.flush();
  rows.flush();
  const std::vector<CurvePoint>& points = rows.curve().points();
  REQUIRE(points.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(points[i].step == 8 + i);
    CHECK(points[i].loss == 4.0 - static_cast<double>(i));
    CHECK(points[i].rate == 0.5 * (8.0 + static_cast<double>(i)) / 16);
    CHECK(points[i].val_loss == (i == 1 ? std::optional{3.5} : std::nullopt));
  }
  CHECK(points[2].seconds >= points[0].seconds);
  CHECK(rows.losses() == std::vector<double>{4, 3, 2});
  CHECK(rows.val_loss() == 3.5);
}

TEST_CASE("a clock counts what happens between its starts and pauses, and nothing else") {
  ps::HostDevice device;
  auto stream = device.stream();
  Waited feed;
  StepClock<ps::HostDevice> clock{device, feed, false};
  const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds{30}); };
  const auto step = [&] {
    stream.enqueue(nap);
    stream.enqueue([] {});
    device.sync(stream);
    feed.seconds += 1;
  };
  step();
  clock.pause(stream); // does not run
  clock.start(stream);
  CHECK(clock.runs());
  step();
  clock.pause(stream);
  CHECK_FALSE(clock.runs());
  step();
  clock.start(stream);
  step();
  stream.enqueue(nap); // waited for, too
  const StepTimes times = clock.stop(stream);
  CHECK(times.launches == 5);
  CHECK(times.syncs == 2);
  CHECK(times.waited_s == 2);
  CHECK(times.seconds >= 3 * 0.03);
  CHECK_FALSE(times.watched);
}
