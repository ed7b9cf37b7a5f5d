// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Trains a small GPT on a text or on tokens, fed by a pipeline. What blocks a GPU, page by page in
// docs/blocking_events/, has a cure, and --events lists those in use: with none it is the program
// that one writes first, with fastest nothing is left that costs time.
//
//   train --data FILE [--config tiny|small|124M] [--steps N] [--events LIST] [--checkpoint FILE]
//         [--resume FILE] [--json] ...
//
// train --help names all options. The loop is in train_loop.hpp, the pipelines in
// pipeline_feed.hpp. Started as several ranks, such as by examples/run_ranks, these train one model
// together; the first one writes files and prints.

#include "../support/devices.hpp"
#include "../support/meeting.hpp"
#include "../support/require_same.hpp"
#include "corpus.hpp"
#include "host_ops.hpp"
#include "summary.hpp"
#include "train_files.hpp"
#include "train_loop.hpp"
#include "train_options.hpp"
#include "train_plan.hpp"
#if defined(__CUDACC__)
#include "gpu_ops.cuh"
#include "profile.hpp"
#endif

#include <penstock/data/float16.hpp>
#include <penstock/order/ranks.hpp>
#include <penstock/penstock.hpp>
#include <penstock/with_device.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

namespace ps = penstock;
using namespace transformer;

struct Task {
  Meeting& meeting;
  const TrainOptions& options;
  const TrainPlan& plan;
  const Corpus& corpus;
  const Checkpoint<>* from; // or null
};

void print(const TrainSummary& summary, const TrainOptions& options) {
  if (options.json) {
    std::cout << to_json(summary).text() << '\n';
  } else {
    std::cout << "last loss " << summary.losses.back() << ", " << summary.tokens_per_s
              << " tokens a second, " << 100 * summary.wait_share
              << " % of the time without data\n";
  }
  if (!std::cout.flush()) {
    throw std::runtime_error{"cannot write to standard output: it is closed, or its disk is full"};
  }
}

/// Returns a line: what is trained, on what, and where.
std::string about(const Task& task, const std::string& device) {
  const Corpus& corpus = task.corpus;
  std::ostringstream line;
  line << task.options.data << ", "
       << (corpus.is_text() ? "a text of " + std::to_string(corpus.ids()) + " different bytes"
                            : "tokens below " + std::to_string(corpus.ids()))
       << ": " << corpus.trained() << " to train on, " << corpus.held_out() << " held out; "
       << task.options.config << ", " << ModelLayout{task.plan.config}.size() << " parameters; on "
       << device;
  return line.str();
}

/// Trains with some operations. Returns what the program returns.
template <class Ops, class... OpsOptions>
int train(typename Ops::device_type& device, const Task& task, OpsOptions... ops_options) {
  TrainLoop<Ops> loop{device,      task.meeting, task.options,  task.plan,
                      task.corpus, task.from,    ops_options...};
  task.meeting.end(); // what ranks tell each other from now on, the loop does
  if (!task.options.dump_gradients.empty()) {
    loop.dump_gradients();
    return 0;
  }
  const bool is_first = task.meeting.ranks().rank == 0;
  std::ostream nowhere{nullptr};
  if (is_first) {
    std::cout << about(task, device.name()) << std::endl;
  }
  const TrainSummary summary = loop.run(is_first ? std::cout : nowhere);
  if (!is_first) {
    return 0;
  }
  if (task.options.profile) {
    if (const auto report = loop.report()) {
      std::cout << *report;
    }
#if defined(__CUDACC__)
    if (const auto& watched = loop.times().watched) {
      Profile{*watched, operations_of(task.plan.config, loop.used())}.print(std::cout);
    }
#endif
  }
  print(summary, task.options);
  return 0;
}

/// Tensor cores are a GPU's: on the host device the operations are the same with and without them.
int train_on(ps::HostDevice& device, const Task& task) {
  return train<HostOps<float>>(device, task);
}
#if defined(__CUDACC__)
int train_on(ps::CudaDevice& gpu, const Task& task) {
  if (task.plan.events.tensor_cores) {
    return train<GpuOps<ps::BFloat16>>(gpu, task, GpuOptions{.fused = task.plan.fused_attention});
  }
  return train<GpuOps<float>>(gpu, task, GpuOptions{});
}
#endif

/// Calls `f(device)` with this rank's device, and returns what it returns.
template <class F> int with_device_of(const ps::Ranks& ranks, const std::string& which, F f) {
#if defined(__CUDACC__)
  const int gpus = ps::CudaDevice::count();
  if (ranks.world > 1 && which != "host" && gpus > 0) {
    ps::CudaDevice gpu{gpu_of(static_cast<int>(ranks.local_rank), gpus)};
    return f(gpu);
  }
#else
  static_cast<void>(ranks);
#endif
  return ps::with_device(which, f);
}

/// Throws unless this rank can write what it is to write: before anything is read or made.
void check_written(const TrainOptions& options, const ps::Ranks& ranks) {
  if (ranks.world > 1 && !options.dump_gradients.empty()) {
    throw std::invalid_argument{"--dump-gradients writes what one process computes, and here are " +
                                std::to_string(ranks.world) + " ranks: start one"};
  }
  for (const std::string& path : {options.checkpoint, options.svg, options.dump_gradients}) {
    if (!path.empty()) {
      check_can_be_made(path);
    }
  }
}

int run(Meeting& meeting, TrainOptions options, const std::string& arguments) {
  check_written(options, meeting.ranks());
  std::optional<Checkpoint<>> from;
  if (!options.resume.empty()) {
    from.emplace(options.resume);
    if (from->state()) {
      options.go_on_with(kept_in(*from->state()));
    }
  }
  const bool has_characters = from && from->state() && !from->state()->characters.empty();
  const Corpus corpus{options.data, options.val, DataFormat::automatic,
                      has_characters ? Vocabulary{from->state()->characters} : Vocabulary{}};
  if (has_characters && !corpus.is_text()) {
    throw std::invalid_argument{options.resume + " was trained on a text, and " + options.data +
                                " has tokens: resume with the text that it was trained on"};
  }
  // A model may know more tokens than occur here.
  const std::size_t known = from && !corpus.is_text() ? from->config().vocabulary : 0;
  const TrainPlan plan =
      make_plan(options, std::max(corpus.ids(), known), corpus.held_out(), meeting.ranks());
  if (from) {
    require_same(*from, plan.config);
    require_same(*from, plan.fixed, meeting.ranks().world);
  }
  require_same(meeting,
               arguments + std::to_string(corpus.trained()) + ' ' +
                   std::to_string(corpus.held_out()) + ' ' + std::to_string(corpus.crc()) + ' ' +
                   std::to_string(plan.config.vocabulary) +
                   (from && from->state() ? from->state()->text() : ""),
               "the options, the data or the checkpoint");
  return with_device_of(meeting.ranks(), options.device, [&](auto& device) {
    const auto attached = device.attach();
    return train_on(device, {meeting, options, plan, corpus, from ? &*from : nullptr});
  });
}

} // namespace

int main(int argc, char** argv) try {
  TrainOptions options{argc, argv};
  if (options.help) {
    std::cout << options.usage();
    return 0;
  }
  std::string arguments;
  for (int i = 1; i < argc; ++i) {
    arguments += std::string{argv[i]} + '\n';
  }
  Meeting meeting{ps::ranks()};
  const TrainOptions mine = meeting.ranks().rank == 0 ? options : options.beside_first();
  return run(meeting, mine, arguments);
} catch (const std::exception& error) {
  std::cerr << std::string{"train: "} + error.what() +
                   '\n'; // at once: other ranks write there, too
  return 1;
}
