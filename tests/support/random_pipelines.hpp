// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/simulated_run.hpp"

#include <penstock/diagnose/verdict.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

// Pipelines at random, and what becomes of them if a stage is faster or advice is followed.
namespace penstock::tests {

/// Returns the pipeline with all that a stage takes divided by `factor`.
inline SimulatedPipeline sped_up(SimulatedPipeline pipeline, std::size_t at, double factor) {
  SimulatedStage& stage = pipeline.stages[at];
  for (double* time : {&stage.cpu_s, &stage.sleep_s, &stage.device_s, &stage.launch_s,
                       &stage.wait_s, &stage.allocation_s, &stage.pageable_s}) {
    *time /= factor;
  }
  stage.store_rate *= factor;
  if (stage.kind == StageKind::copy_to_device || stage.kind == StageKind::copy_to_host) {
    stage.bus_factor *= factor;
  }
  return pipeline;
}

/// Returns the first number behind `text`; 0 if it is not there.
inline double number_behind(const std::string& change, const std::string& text,
                            std::size_t from = 0) {
  const std::size_t at = change.find(text, from);
  return at != std::string::npos ? std::atof(change.c_str() + at + text.size()) : 0;
}

/// Returns the pipeline with advice followed: its options, or what it says of the work.
inline SimulatedPipeline advised(SimulatedPipeline pipeline, const Report& report,
                                 const Verdict& verdict, const Advice& advice) {
  const auto stage_of = [&](const std::string& name) -> std::size_t {
    for (std::size_t i = 0; i != report.stages.size(); ++i) {
      if (report.stages[i].name == name) {
        return i;
      }
    }
    return report.stages.size();
  };
  const std::size_t blamed = stage_of(verdict.stage);
  bool options = false;
  std::size_t named = blamed;
  std::string rest = advice.change;
  while (!rest.empty()) {
    const std::size_t end = rest.find("; ");
    const std::string one = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 2);
    named = one.front() == '.' ? named : stage_of(one.substr(0, one.find(':')));
    const std::size_t at = named;
    if (at == report.stages.size()) {
      continue;
    }
    SimulatedStage& stage = pipeline.stages[at];
    const std::size_t arrow = one.find(" -> ");
    const double to = number_behind(one, " -> ");
    if (arrow == std::string::npos) {
      continue;
    }
    options = true;
    if (one.find(".workers") != std::string::npos) {
      stage.workers = static_cast<unsigned>(to);
    } else if (one.find(".depth") != std::string::npos) {
      stage.depth = static_cast<std::size_t>(to);
    } else if (one.find(".batch") != std::string::npos && at == 0) {
      const double factor = number_behind(one, ".batch ") / to;
      pipeline.slots = static_cast<std::uint64_t>(static_cast<double>(pipeline.slots) * factor);
      pipeline.slot_bytes =
          static_cast<std::size_t>(static_cast<double>(pipeline.slot_bytes) / factor);
      for (SimulatedStage& each : pipeline.stages) {
        each.cpu_s /= factor;
        each.sleep_s /= factor;
      }
    } else {
      stage.batch = static_cast<std::size_t>(to) * pipeline.record_bytes;
    }
  }
  if (options || blamed == report.stages.size()) {
    return pipeline;
  }
  SimulatedStage& stage = pipeline.stages[blamed];
  if (advice.change == "twice the processors") {
    pipeline.processors *= 2;
  } else if (advice.change.find("half the work") != std::string::npos) {
    pipeline.stages[stage_of(advice.change.substr(0, advice.change.find(':')))].cpu_s /= 2;
  } else if (advice.change.find("no wait") != std::string::npos) {
    stage.waits = 0;
  } else if (advice.change.find("allocate before") != std::string::npos) {
    stage.allocation_s = 0;
  } else if (advice.change.find("page-locked") != std::string::npos) {
    stage.pageable_s = 0;
  } else if (advice.change.find("fewer kernels") != std::string::npos) {
    stage.launches = std::max(stage.launches / 10, 1U);
  } else if (advice.change.find("a Decoder") != std::string::npos) {
    const std::size_t taken = report.stages[blamed - 1].slot_bytes;
    std::size_t copier = blamed;
    while (pipeline.stages[copier].kind != StageKind::copy_to_device) {
      --copier;
    }
    const double slots = static_cast<double>(taken) / static_cast<double>(pipeline.slot_bytes);
    const SimulatedStage decoder{.kind = StageKind::decoder,
                                 .workers = 16,
                                 .cpu_s = stage.cpu_s / slots,
                                 .sleep_s = stage.sleep_s / slots};
    stage.cpu_s = stage.sleep_s = 0;
    pipeline.stages.insert(pipeline.stages.begin() + static_cast<std::ptrdiff_t>(copier), decoder);
  } else { // half the bytes, or half the time
    return sped_up(pipeline, blamed, 2);
  }
  return pipeline;
}

/// Numbers at random, the same with every standard library.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_{seed * 0x9e3779b97f4a7c15U + 1} {}

  double uniform() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return static_cast<double>((z ^ (z >> 31U)) >> 11U) / 9007199254740992.0;
  }
  /// Even in its logarithm.
  double between(double least, double most) {
    return least * std::exp(uniform() * std::log(most / least));
  }
  unsigned whole(unsigned least, unsigned most) {
    return least + static_cast<unsigned>(uniform() * (most - least + 1));
  }
  bool one_in(unsigned n) { return whole(1, n) == 1; }

 private:
  std::uint64_t state_;
};

/// Returns a pipeline: one of five chains, of any times.
inline SimulatedPipeline random_pipeline(std::uint64_t seed) {
  Dice dice{seed};
  SimulatedPipeline pipeline;
  pipeline.seed = seed;
  pipeline.slots = dice.whole(300, 900);
  pipeline.processors = dice.whole(2, 32);
  pipeline.bus_rate = dice.between(2e9, 50e9);
  pipeline.observed = dice.one_in(2);
  const auto depth = [&] { return dice.one_in(4) ? dice.whole(2, 8) : 48U; };
  const auto vary = [&] { return dice.one_in(2) ? 0.0 : dice.between(0.05, 0.7); };
  const auto host = [&](StageKind kind, bool sleeps) {
    SimulatedStage stage;
    stage.kind = kind;
    stage.workers = dice.whole(1, 12);
    stage.depth = depth();
    const double time = dice.between(50e-6, 20e-3);
    const double part = sleeps ? dice.uniform() : 0;
    stage.cpu_s = time * (1 - part);
    stage.sleep_s = time * part;
    stage.variation = vary();
    return stage;
  };
  SimulatedStage reader = host(StageKind::reader, true);
  if (dice.one_in(3)) {
    reader.sleep_s = 0;
    reader.cpu_s = dice.between(20e-6, 300e-6);
    reader.store_rate = dice.between(0.2e9, 8e9);
  }
  const auto decoder = [&] {
    SimulatedStage stage = host(StageKind::decoder, false);
    stage.parts = stage.workers == 1 || dice.one_in(2) ? 1 : 4 * stage.workers;
    return stage;
  };
  const SimulatedStage to_device{
      .kind = StageKind::copy_to_device, .depth = 3, .batch = std::size_t{1} << dice.whole(18, 24)};
  const auto enqueuer = [&](StageKind kind) {
    SimulatedStage stage;
    stage.kind = kind;
    stage.depth = 3;
    stage.device_s = dice.between(10e-6, 5e-3);
    stage.launches = dice.one_in(4) ? dice.whole(10, 200) : dice.whole(1, 3);
    stage.waits = dice.one_in(4) ? dice.whole(1, 3) : 0;
    stage.cpu_s = dice.one_in(4) ? dice.between(1e-5, 1e-2) : 1e-6;
    stage.allocation_s = dice.one_in(6) ? dice.between(1e-5, 1e-3) : 0;
    stage.pageable_s = dice.one_in(6) ? dice.between(1e-5, 1e-2) : 0;
    stage.variation = vary();
    return stage;
  };
  const auto end = [&] { return enqueuer(dice.one_in(2) ? StageKind::consumer : StageKind::loop); };
  switch (dice.whole(0, 4)) {
  case 0:
    pipeline.stages = {reader, decoder(), host(StageKind::consumer, false)};
    pipeline.stages.back().parts =
        pipeline.stages.back().workers == 1 ? 1 : 4 * pipeline.stages.back().workers;
    break;
  case 1:
    pipeline.stages = {reader, to_device, end()};
    break;
  case 2:
    pipeline.stages = {reader, decoder(), to_device, end()};
    break;
  case 3:
    pipeline.stages = {reader, decoder(), host(StageKind::stager, false), to_device, end()};
    break;
  default: {
    SimulatedStage kernel = enqueuer(StageKind::kernel);
    kernel.cpu_s = kernel.allocation_s = kernel.pageable_s = 0;
    kernel.waits = 0;
    pipeline.stages = {reader,
                       to_device,
                       kernel,
                       {.kind = StageKind::copy_to_host, .depth = 48, .batch = 1 << 20},
                       {.kind = StageKind::writer, .store_rate = dice.between(0.3e9, 10e9)}};
    break;
  }
  }
  pipeline.stages.back().depth = 0;
  return pipeline;
}

} // namespace penstock::tests
