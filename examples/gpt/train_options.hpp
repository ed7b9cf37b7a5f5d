// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command_line.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace transformer {

/// The options of `train`, with what they are if they are not given. Where there is a choice to
/// make for the configuration, none stands for it.
struct TrainOptions {
  std::string data;
  std::string val; ///< Empty: the last tenth of `data`.
  std::string config = "tiny";
  std::uint64_t steps = 1000;
  std::optional<std::uint64_t> batch;
  std::uint64_t micro_batches = 1;
  std::optional<std::uint64_t> context;
  std::string events = "fastest";
  std::string device = "auto";
  std::optional<float> dropout;
  std::optional<float> rate;
  std::uint64_t warmup = 100;
  std::uint64_t decay_steps = 0; ///< 0: the rate stays.
  float clip = 1;
  float decay = 0.1F;
  std::uint64_t seed = 1;
  std::uint64_t eval_every = 250;
  std::uint64_t eval_batches = 20;
  std::string checkpoint;
  std::uint64_t checkpoint_every = 0; ///< 0: only at the end.
  std::string resume;
  std::string dump_gradients;
  std::string csv;
  std::string svg;
  std::uint64_t stall = 60; ///< Seconds that a rank waits for the others; 0: for ever.
  bool profile = false;
  bool json = false;
  bool help = false;

  /// Reads the arguments. Throws std::invalid_argument, whose text is one line.
  TrainOptions(int argc, char** argv) {
    CommandLine line = command_line();
    help = !line.parse(argc, argv);
    given_ = line.given();
    if (help) {
      return;
    }
    if (data.empty()) {
      line.fail("there is nothing to train on: give --data a file of text or of tokens");
    }
    if (checkpoint_every != 0 && checkpoint.empty()) {
      line.fail("--checkpoint-every needs --checkpoint and a file");
    }
    if (!dump_gradients.empty() && micro_batches != 1) {
      line.fail("--dump-gradients writes a step of one pass: leave out --micro-batches");
    }
    check_files(line);
    if (batch && *batch % micro_batches != 0) {
      line.fail("--batch is " + std::to_string(*batch) + ", which no " +
                std::to_string(micro_batches) + " equal micro-batches make up");
    }
  }

  /// Takes values of the training that goes on, by the options' names, where the arguments had
  /// none. Throws std::invalid_argument for a value that cannot be.
  void go_on_with(const std::map<std::string, std::string>& before) {
    std::vector<std::string> words{"train"};
    for (const auto& [name, value] : before) {
      if (std::ranges::find(given_, name) == given_.end()) {
        words.push_back(name + '=' + value);
      }
    }
    std::vector<char*> arguments;
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    command_line().parse(static_cast<int>(arguments.size()), arguments.data());
  }
  /// Returns the options of a rank beside the first, which writes files and prints for all.
  TrainOptions beside_first() const {
    TrainOptions beside = *this;
    beside.csv.clear();
    beside.svg.clear();
    beside.checkpoint.clear();
    beside.dump_gradients.clear();
    beside.profile = beside.json = false;
    return beside;
  }
  /// Returns a line for each option.
  std::string usage() { return command_line().usage(); }

 private:
  // What is written takes the place of what lay there.
  void check_files(const CommandLine& line) const {
    struct Named {
      const char* option;
      const std::string* path;
    };
    const std::vector<Named> written{{"--checkpoint", &checkpoint},
                                     {"--dump-gradients", &dump_gradients},
                                     {"--csv", &csv},
                                     {"--svg", &svg}};
    std::vector<Named> others{{"--data", &data}, {"--val", &val}, {"--resume", &resume}};
    for (const Named& file : written) {
      for (const Named& other : others) {
        const bool goes_on = file.path == &checkpoint && other.path == &resume;
        if (!goes_on && !file.path->empty() && same_file(*file.path, *other.path)) {
          line.fail(std::string{file.option} + " would be written over " + other.option + ", " +
                    *other.path + ": name another file");
        }
      }
      others.push_back(file);
    }
  }
  static bool same_file(const std::string& a, const std::string& b) {
    std::error_code none;
    return a == b || std::filesystem::equivalent(a, b, none);
  }

  CommandLine command_line() {
    constexpr Range<std::uint64_t> counts{0, 1'000'000'000};
    constexpr Range<std::uint64_t> sizes{1, 1'000'000};
    CommandLine line{"train", "train --data FILE [OPTION...]: trains a small GPT."};
    line.text("--data", data, "FILE", "what to train on: text, or uint16 tokens (.bin)");
    line.text("--val", val, "FILE", "what to take the validation loss of; else data's last tenth");
    line.choice("--config", config, {"tiny", "small", "124M"}, "the model's size; tiny");
    line.number("--steps", steps, Range<std::uint64_t>{1, counts.most},
                "steps to train, those before --resume included; 1000");
    line.number("--batch", batch, sizes, "a rank's sequences of a step; the configuration's own");
    line.number("--micro-batches", micro_batches, Range<std::uint64_t>{1, 4096},
                "parts of a step, whose gradients add up; 1");
    line.number("--context", context, sizes, "tokens of a sequence; the configuration's own");
    line.text("--events", events, "LIST",
              "cures to use: none, all, fastest, or names with commas; fastest");
    line.choice("--device", device, {"auto", "cuda", "host"}, "where to compute; auto");
    line.number("--dropout", dropout, Range<float>{0, 0.9F},
                "share of values left out; the configuration's own");
    line.number("--rate", rate, Range<float>{0, 1},
                "the highest learning rate; the configuration's own");
    line.number("--warmup", warmup, counts, "steps until the rate is at its highest; 100");
    line.number("--decay-steps", decay_steps, counts,
                "step at which the rate has fallen to a tenth; 0: it stays");
    line.number("--clip", clip, Range<float>{0, 1e6F},
                "most that gradients' norm may be; 1; 0: any");
    line.number("--decay", decay, Range<float>{0, 1}, "decay of matrices; 0.1");
    line.number("--seed", seed, Range<std::uint64_t>{0, ~std::uint64_t{0}},
                "of first weights, order and dropout; 1");
    line.number("--eval-every", eval_every, counts, "steps between validations; 250; 0: none");
    line.number("--eval-batches", eval_batches, sizes, "batches of a validation; 20");
    line.text("--checkpoint", checkpoint, "FILE", "where to keep the model and all of its state");
    line.number("--checkpoint-every", checkpoint_every, counts,
                "steps between checkpoints; 0: one at the end");
    line.text("--resume", resume, "FILE", "a checkpoint to go on from, or weights of llm.c");
    line.text("--dump-gradients", dump_gradients, "FILE",
              "write the first step's loss and gradients, and stop");
    line.text("--csv", csv, "FILE", "write losses as they come; goes on at --resume");
    line.text("--svg", svg, "FILE", "draw the losses at the end");
    line.number("--stall", stall, Range<std::uint64_t>{0, 1'000'000},
                "seconds to wait for other ranks, then it is an error; 60; 0: any");
    line.flag("--profile", profile, "print which kernels took the time (GPU)");
    line.flag("--json", json, "print one line at the end, as JSON");
    return line;
  }

  std::vector<std::string> given_;
};

} // namespace transformer
