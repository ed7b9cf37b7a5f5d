// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/meeting.hpp"
#include "corpus.hpp"
#include "curve_picture.hpp"
#include "feeds.hpp"
#include "loss_log.hpp"
#include "loss_rows.hpp"
#include "operations.hpp"
#include "reducers.hpp"
#include "step_clock.hpp"
#include "summary.hpp"
#include "train_files.hpp"
#include "train_options.hpp"
#include "train_plan.hpp"
#include "training.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace transformer {

/// A training from its first step, or a checkpoint, to its last: batches come from a feed, losses
/// go into a curve, and from time to time what is held out is evaluated, and a checkpoint written.
/// With several ranks all must have the same plan, and losses are those of all; files are written
/// by the ranks whose options name some.
template <class Ops> class TrainLoop {
 public:
  using D = typename Ops::device_type;
  using Loss = Wide<typename Ops::value_type>;

  /// Makes model and feeds, and loads `from` if there is one. `ops_options` go to Ops. Blocks, also
  /// until all ranks are here.
  template <class... OpsOptions>
  TrainLoop(D& device, Meeting& meeting, const TrainOptions& options, const TrainPlan& plan,
            const Corpus& corpus, const Checkpoint<>* from, OpsOptions... ops_options)
      : device_{device}, options_{options}, plan_{plan},
        reducer_{make_reducer<Loss>(device, meeting, std::chrono::seconds{options.stall})},
        training_{device, plan.config, plan.training, ops_options...},
        characters_{corpus.vocabulary().characters()}, files_{device, training_},
        held_out_losses_{device, plan.held_out.records / plan.held_out.batch} {
    if (reducer_) {
      training_.reduce_by(*reducer_);
    }
    const FeedInto into{training_.inputs().data(), training_.targets().data()};
    trained_ = make_feed(device, corpus, PartName::trained, plan.trained, into);
    if (options.eval_every != 0) {
      held_out_ = make_feed(device, corpus, PartName::held_out, plan.held_out, into);
    }
    if (from != nullptr) {
      files_.load(*from);
      if (from->state()) {
        position_ = penstock::Position{from->state()->position};
      }
    }
    if (training_.steps() >= options.steps) {
      throw std::invalid_argument{
          "--steps is " + std::to_string(options.steps) + ", and " + options.resume + " has done " +
          std::to_string(training_.steps()) + ": give more, since those before count too"};
    }
  }

  TrainLoop(const TrainLoop&) = delete;
  TrainLoop& operator=(const TrainLoop&) = delete;
  /// Waits for the work that an error has left on the stream: its memory dies now.
  ~TrainLoop() {
    for (const bool ranks : {true, false}) {
      try {
        ranks ? wait_for_ranks() : device_.sync(stream());
      } catch (const std::exception&) { // a rank, or the device, is lost, and its work with it
      }
    }
  }

  /// Trains. Prints what comes to `out`.
  TrainSummary run(std::ostream& out) {
    const std::uint64_t first = training_.steps();
    const std::uint64_t steps = options_.steps - first;
    // The first steps are longer: memory is touched, graphs are made.
    const std::uint64_t timed_from = first + std::min<std::uint64_t>(10, steps / 2);
    LossRows rows{options_.csv, first, plan_.training.adamw};
    LossLog<Loss, D> losses{device_, steps};
    const auto tell = [&rows](Loss loss) { rows.add(static_cast<double>(loss)); };
    StepClock<D> clock{device_, *trained_, options_.profile};
    if (timed_from == first) {
      start(clock);
    }
    trained_->each(stream(), position_, [&](const penstock::Position& position) {
      const bool whole = training_.pass(); // inputs and targets have been filled
      keep_pace();
      position_ = position;
      if (!whole) {
        return true;
      }
      const std::uint64_t done = training_.steps();
      const bool last = done == options_.steps;
      note_loss(losses, tell);
      if (done == timed_from) {
        start(clock);
      }
      if (last || is_multiple(done, options_.eval_every) ||
          is_multiple(done, options_.checkpoint_every)) {
        const bool timing = clock.runs();
        wait_for_ranks();
        clock.pause(stream());
        losses.take_all(tell);
        pause(rows, last, out);
        if (timing && !last) {
          clock.start(stream());
        }
      }
      return !last;
    });
    if (training_.steps() < options_.steps) {
      throw std::runtime_error{"the data ended behind step " + std::to_string(training_.steps()) +
                               " of " + std::to_string(options_.steps) + ": their epochs were " +
                               std::to_string(plan_.trained.epochs)};
    }
    times_ = clock.stop(stream());
    if (!options_.svg.empty()) {
      write_picture(options_.svg, rows.curve().points());
    }
    return summary(rows, (options_.steps - timed_from) * plan_.training.micro_batches *
                             plan_.training.batch * plan_.training.ranks.world *
                             plan_.config.context);
  }
  /// Trains one pass, and writes its loss and gradients.
  void dump_gradients() {
    trained_->each(stream(), position_, [&](const penstock::Position&) {
      training_.pass();
      files_.save_gradients(options_.dump_gradients);
      return false;
    });
  }
  const StepTimes& times() const noexcept { return times_; }
  /// Returns what the model was used for in that time, and in the pauses.
  ModelUse used() const {
    return {.tokens = plan_.config.context,
            .trained = (training_.passes() - passes_before_) * plan_.training.batch,
            .validated = evaluated_ * plan_.training.batch,
            .group = plan_.training.group,
            .fused_attention = plan_.fused_attention};
  }
  /// Returns what the pipeline did, if there was one.
  std::optional<penstock::Report> report() const { return trained_->report(); }

 private:
  typename D::stream_type& stream() noexcept { return training_.stream(); }
  static bool is_multiple(std::uint64_t step, std::uint64_t of) {
    return of != 0 && step % of == 0;
  }

  /// Are called before other waits for the device: these end with an error if a rank is gone.
  /// @{
  void keep_pace() {
    if (reducer_) {
      reducer_->keep_pace(stream());
    }
  }
  void wait_for_ranks() {
    if (reducer_) {
      reducer_->sync(stream());
    }
  }
  /// @}

  void start(StepClock<D>& clock) {
    wait_for_ranks();
    clock.start(stream());
    passes_before_ = training_.passes();
    evaluated_ = 0;
  }
  /// Waits for the loss of a step or an evaluation, or lets it come later.
  template <class F> void note_loss(LossLog<Loss, D>& losses, F tell) {
    if (plan_.events.prefetch) {
      losses.put(training_.loss(), stream(), tell);
      losses.take(tell);
    } else {
      tell(loss_now());
    }
  }
  Loss loss_now() {
    Loss loss{};
    wait_for_ranks();
    device_.copy_to_host(&loss, training_.loss(), sizeof loss, stream());
    device_.sync(stream());
    return loss;
  }

  /// What happens between steps: all losses are known, and the device has nothing to do.
  void pause(LossRows& rows, bool last, std::ostream& out) {
    const std::uint64_t done = training_.steps();
    if (held_out_ && (last || is_multiple(done, options_.eval_every))) {
      rows.add_held_out(evaluate());
      out << "step " << done << ": loss " << rows.losses().back() << ", held out "
          << *rows.val_loss() << std::endl;
    }
    rows.flush();
    if (!options_.checkpoint.empty() && (last || is_multiple(done, options_.checkpoint_every))) {
      auto kept = plan_.fixed;
      kept.insert(plan_.kept.begin(), plan_.kept.end());
      files_.save(options_.checkpoint, {.steps = done,
                                        .passes = training_.passes(),
                                        .seed = plan_.training.seed,
                                        .dropout = plan_.training.dropout,
                                        .position = position_.text(),
                                        .characters = characters_,
                                        .options = std::move(kept)});
    }
  }
  /// Returns the mean loss of a number of batches that are held out.
  double evaluate() {
    double sum = 0;
    const std::uint64_t before = evaluated_;
    const auto tell = [&sum](Loss loss) { sum += static_cast<double>(loss); };
    held_out_->each(stream(), {}, [&](const penstock::Position&) {
      training_.evaluate();
      keep_pace();
      note_loss(held_out_losses_, tell);
      ++evaluated_;
      return true;
    });
    wait_for_ranks();
    held_out_losses_.take_all(tell);
    held_out_losses_.clear();
    return sum / static_cast<double>(evaluated_ - before);
  }

  TrainSummary summary(const LossRows& rows, std::uint64_t tokens) const {
    const double wait_share = times_.seconds > 0 ? times_.waited_s / times_.seconds : 0;
    TrainSummary summary{.losses = rows.losses(),
                         .val_loss = rows.val_loss(),
                         .tokens_per_s =
                             times_.seconds > 0 ? static_cast<double>(tokens) / times_.seconds : 0,
                         .wait_share = std::clamp(wait_share, 0.0, 1.0),
                         .syncs = times_.syncs,
                         .launches = times_.launches,
                         .events = names_of(plan_.events),
                         .position = position_.text()};
    if (times_.watched) {
      summary.idle = times_.watched->gpu.idle_share();
    } else if (requires(D& device) { device.counts(); }) {
      summary.idle = summary.wait_share; // a host device idles where it has no batch
    }
    return summary;
  }

  D& device_;
  const TrainOptions& options_;
  const TrainPlan& plan_;
  std::unique_ptr<Reducer<Loss, D>> reducer_; // null for one rank
  Training<Ops> training_;
  std::string characters_;
  TrainFiles<Ops> files_;
  LossLog<Loss, D> held_out_losses_; // of an evaluation
  std::unique_ptr<Feed<D>> trained_;
  std::unique_ptr<Feed<D>> held_out_; // none if nothing is evaluated
  penstock::Position position_;
  std::uint64_t passes_before_ = 0; // the clock
  std::uint64_t evaluated_ = 0;     // batches, since then
  StepTimes times_;
};

} // namespace transformer
