// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/engine/batch_source.hpp>
#include <penstock/detail/engine/engine.hpp>
#include <penstock/lease.hpp>
#include <penstock/run_options.hpp>

#include <cstddef>
#include <iterator>
#include <utility>

namespace penstock {

/// One run of an open pipeline, as a range of leases: what `pipeline.on(stream)` gives. begin()
/// starts the run. Each step blocks until the next batch, and throws a StageError if the run has
/// failed. At the end, the last step blocks until every batch that was given back is used up.
/// Leaving the loop early, by `break`, `return` or an exception, stops the run, and blocks in the
/// same way. For one thread, and one loop at a time; the pipeline must stay where it is.
template <class B> class Batches {
 public:
  /// For the pipeline.
  Batches(detail::Engine& engine, detail::BatchSource<B>& source, RunOptions options,
          detail::StreamHandle stream = {})
      : engine_{engine}, source_{source}, options_{std::move(options)}, stream_{stream} {}
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;
  ~Batches() {
    if (running_ && engine_.is_here()) {
      engine_.stop();
      end_run(true);
    }
  }

  /// An iterator that gives each lease once.
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

  /// Starts the run and blocks until its first batch.
  iterator begin() {
    engine_.start(options_);
    running_ = true;
    source_.enter(stream_);
    advance();
    return iterator{this};
  }
  /// Returns the sentinel that an iterator equals when the run is over.
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  void advance() {
    current_ = {};
    current_ = source_.next();
    if (!current_) {
      end_run(false);
      engine_.result();
    }
  }
  void end_run(bool early) noexcept {
    current_ = {};
    source_.leave(early);
    engine_.finish();
    running_ = false;
  }

  detail::Engine& engine_;
  detail::BatchSource<B>& source_;
  RunOptions options_;
  detail::StreamHandle stream_;
  Lease<B> current_;
  bool running_{};
};

} // namespace penstock
