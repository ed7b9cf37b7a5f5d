// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/engine/engine.hpp>
#include <penstock/detail/engine/loops.hpp>
#include <penstock/error.hpp>
#include <penstock/lease.hpp>
#include <penstock/run/options.hpp>

#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

namespace penstock {

template <class B> class Epoch;
template <class B> class Epochs;

/// One run of an open pipeline, which hands out its batches as leases: what `pipeline.on(stream)`
/// gives. Walk it, `for (auto batch : run)`, or ask it for one batch after the other,
/// `while (auto batch = run.next())`; you may change from one to the other, since whoever asks gets
/// the batch that nobody has got yet.
///
/// The first batch asked for starts the run. Each step blocks until the next batch, and throws a
/// StageError if the run has failed. At the end, the last step blocks until every batch that was
/// given back is used up. A loop left early, by `break`, `return` or an exception, may go on later.
/// If the object dies while the run goes on, it stops the run, and blocks in the same way.
///
/// Movable, also while the run goes on. Until the run is over it keeps the memory and the threads
/// of its pipeline, even if the pipeline dies.
///
/// A run belongs to the thread that asks for its first batch, until it is over: only that thread
/// may ask for more, and destroy the object while the run goes on. To ask on another is an Error.
template <class B> class Batches {
 public:
  /// Has no run.
  Batches() = default;
  /// For the pipeline.
  Batches(detail::Shared<detail::Engine> engine, detail::BatchSource<B>& source, RunOptions options,
          detail::StreamHandle stream = {})
      : engine_{std::move(engine)}, source_{&source}, options_{std::move(options)},
        stream_{stream} {}
  /// Moves the run; `other` then has none.
  Batches(Batches&& other) noexcept
      : engine_{std::move(other.engine_)}, source_{other.source_},
        options_{std::move(other.options_)}, stream_{other.stream_},
        current_{std::move(other.current_)}, thread_{other.thread_},
        running_{std::exchange(other.running_, false)} {}
  /// First ends the run that it had, as the destructor does.
  Batches& operator=(Batches&& other) noexcept {
    if (this != &other) {
      std::destroy_at(this);
      std::construct_at(this, std::move(other));
    }
    return *this;
  }
  ~Batches() {
    if (running_ && engine_->is_here() && !engine_->is_inside()) {
      engine_->stop();
      end_run(true);
    }
  }

  /// Returns whether a run goes on or may begin: false without a run, and when it is over.
  explicit operator bool() const noexcept { return static_cast<bool>(engine_); }

  /// Returns the next batch, and starts the run if it has not begun. Blocks until the batch is
  /// there. The lease is empty if there are no more batches, and if there is no run. Throws the
  /// run's StageError, and the run is over. Throws what keeps the run from starting, and the next
  /// call tries again. Throws Error on a thread that did not begin the run, which then goes on.
  [[nodiscard]] Lease<B> next() {
    check_thread();
    if (!current_) {
      advance();
    }
    return std::move(current_);
  }

  /// An iterator that gives each lease once. It stays with the object that gave it.
  class iterator {
   public:
    using iterator_concept = std::input_iterator_tag; ///< One pass.
    using value_type = Lease<B>;                      ///< What a step gives.
    using difference_type = std::ptrdiff_t;           ///< Not used.

    /// For begin().
    explicit iterator(Batches* batches) : batches_{batches} {}
    /// Returns the lease and moves it out: call it once a step.
    Lease<B> operator*() const { return std::move(batches_->current_); }
    /// Blocks until the next batch. Throws the run's StageError.
    iterator& operator++() {
      batches_->advance();
      return *this;
    }
    /// Goes on to the next batch, as the prefix form does.
    void operator++(int) { ++*this; }
    /// Returns whether the run is over.
    bool operator==(std::default_sentinel_t) const noexcept { return !batches_->running_; }

   private:
    Batches* batches_;
  };

  /// Starts the run, or goes on with it, and blocks until the next batch. Throws what next() does,
  /// and Error if there is no run, or it is over: each loop needs a Batches of its own.
  iterator begin() {
    if (!engine_) {
      throw Error{"penstock: this loop has no run: that is over, or was moved away, or was never "
                  "there. Ask the pipeline for another: pipeline.on(stream) or "
                  "pipeline.batches()."};
    }
    if (!current_) {
      advance();
    }
    return iterator{this};
  }
  /// Returns the sentinel that an iterator equals when the run is over.
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend Epoch<B>;
  friend Epochs<B>;

  // Goes on to the next batch, past one that nobody has got.
  void advance() {
    if (!engine_) {
      return;
    }
    check_thread();
    if (!running_) {
      engine_->check_here();
      if (!detail::Loops::enter(source_->loops(), source_, options_.stop,
                                [this] { engine_->start(options_); })) {
        engine_ = nullptr;
        return;
      }
      running_ = true;
      thread_ = std::this_thread::get_id();
      source_->enter(stream_, options_.lease_wait);
    }
    engine_->check_here();
    current_ = {};
    current_ = source_->next();
    if (!current_) {
      const std::exception_ptr error = end_run(false);
      engine_ = nullptr;
      if (error) {
        std::rethrow_exception(error);
      }
    }
  }
  void check_thread() const {
    if (running_ && thread_ != std::this_thread::get_id()) {
      throw Error{"penstock: this run began on another thread, and belongs to it until it is over: "
                  "ask for its batches there, or begin another run here."};
    }
  }
  // Returns the run's error. Once this loop has left, another may begin the next run.
  std::exception_ptr end_run(bool early) noexcept {
    current_ = {};
    source_->leave(early);
    std::exception_ptr error = engine_->error();
    detail::Loops::leave(source_->loops(), source_, [&] {
      engine_->finish();
      error = engine_->error();
    });
    running_ = false;
    return error;
  }

  detail::Shared<detail::Engine> engine_; // null without a run
  detail::BatchSource<B>* source_{};
  RunOptions options_;
  detail::StreamHandle stream_;
  Lease<B> current_;
  std::thread::id thread_; // that began the run
  bool running_{};
};

} // namespace penstock
