// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/chain/fit.hpp>
#include <penstock/pipeline/batches.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

namespace penstock {

/// The batches of one epoch of a run: what a step of Epochs gives. Walk it, `for (auto batch :
/// epoch)`; its batches are Leases, and each step blocks and throws as that of Batches does. A loop
/// left early may go on later, until the Epochs steps on: the epoch then has no more batches.
/// Refers to its Epochs, which must stay where it is.
template <class B> class Epoch {
 public:
  /// For Epochs.
  explicit Epoch(Batches<B>& run) noexcept : run_{&run}, number_{run.current_.epoch()} {}

  /// Returns its number, from 0.
  std::uint64_t number() const noexcept { return number_; }

  /// What an iterator equals when there are no more batches of the epoch.
  struct sentinel {
    const Epoch* epoch; ///< Whose end it is.
    /// Returns whether the run is over, or at a later epoch.
    bool operator==(const typename Batches<B>::iterator&) const noexcept {
      return epoch->is_over();
    }
  };
  /// Goes on with the epoch, and blocks until its next batch. Throws what Batches::next() does.
  typename Batches<B>::iterator begin() {
    return is_over() ? typename Batches<B>::iterator{run_} : run_->begin();
  }
  /// Returns what an iterator equals at the end.
  sentinel end() const noexcept { return {this}; }

 private:
  bool is_over() const noexcept {
    return !run_->running_ || (run_->current_ && run_->current_.epoch() != number_);
  }

  Batches<B>* run_;
  std::uint64_t number_;
};

/// One run of an open pipeline, epoch by epoch: `for (auto epoch : data.epochs(stream))`, and in it
/// `for (auto batch : epoch)`. It is one run, with one Report: batches, their order and their
/// Positions are those of one loop over all. An epoch of which no batch came is passed over.
///
/// The first epoch asked for starts the run. The next one begins when its first batch is there, so
/// the pipeline reads ahead across the end of an epoch. What is left of an epoch whose loop was
/// left early is read, and given to nobody. Leaving the outer loop, by `break`, `return` or an
/// exception, stops the run if the object dies with it, as a Batches does, whose rules on threads
/// hold here.
template <class B> class Epochs {
 public:
  /// Takes a run that has not begun: `ps::Epochs{fan_out.on(0, stream)}`.
  explicit Epochs(Batches<B> run) noexcept : run_{std::move(run)} {}

  /// An iterator that gives each epoch once. It stays with the object that gave it.
  class iterator {
   public:
    using iterator_concept = std::input_iterator_tag; ///< One pass.
    using value_type = Epoch<B>;                      ///< What a step gives.
    using difference_type = std::ptrdiff_t;           ///< Not used.

    /// For begin().
    explicit iterator(Batches<B>& run) noexcept : epoch_{run}, run_{&run} {}
    /// Returns the epoch.
    Epoch<B> operator*() const noexcept { return epoch_; }
    /// Blocks until the next epoch's first batch. Throws the run's StageError.
    iterator& operator++() {
      while (*this != std::default_sentinel &&
             (!run_->current_ || run_->current_.epoch() == epoch_.number())) {
        run_->advance();
      }
      epoch_ = Epoch<B>{*run_};
      return *this;
    }
    /// Goes on to the next epoch, as the prefix form does.
    void operator++(int) { ++*this; }
    /// Returns whether the run is over.
    bool operator==(std::default_sentinel_t) const noexcept { return !run_->running_; }

   private:
    Epoch<B> epoch_;
    Batches<B>* run_;
  };

  /// Starts the run, or goes on with it, and blocks until the next batch. Throws what
  /// Batches::begin() does.
  iterator begin() {
    static_cast<void>(run_.begin());
    return iterator{run_};
  }
  /// Returns the sentinel that an iterator equals when the run is over.
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  Batches<B> run_;
};
/// Says nothing more of a loop that was refused.
template <> class Epochs<Refused> : public Refused::Ranges {
 public:
  using Refused::Ranges::Ranges; ///< Takes what was refused.
};
/// Deduces that.
Epochs(Refused::Range) -> Epochs<Refused>;

} // namespace penstock
