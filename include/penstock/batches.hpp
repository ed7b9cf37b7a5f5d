// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/engine.hpp>
#include <penstock/detail/loop_nodes.hpp>
#include <penstock/lease.hpp>
#include <penstock/run_options.hpp>

#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>

namespace penstock {

/// One run of an open pipeline, as a range of leases: what `pipeline.on(stream)` gives. begin()
/// starts the run, each step blocks for the next batch and throws a StageError if the run has
/// failed; at the end it blocks until every batch that was given back is used up. Leaving the loop
/// early, by `break`, `return` or an exception, stops the run, and blocks for the same. For one
/// thread, and one loop at a time; the pipeline must stay where it is.
template <class B> class Batches {
 public:
  /// For the pipeline.
  Batches(detail::Engine& engine, detail::BatchSource<B>& source, RunOptions options,
          detail::StreamHandle stream = {})
      : engine_{engine}, source_{source}, options_{std::move(options)}, stream_{stream} {}
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;
  ~Batches() {
    if (running_) {
      engine_.stop();
      end_run();
    }
  }

  /// Gives each lease once.
  class iterator {
   public:
    using iterator_concept = std::input_iterator_tag; ///< One pass.
    using value_type = Lease<B>;                      ///< What a step gives.
    using difference_type = std::ptrdiff_t;           ///< Not used.

    /// For begin().
    explicit iterator(Batches* batches) : batches_{batches} {}
    /// The lease, which is moved out: once a step.
    Lease<B> operator*() const { return std::move(batches_->current_); }
    /// Blocks for the next batch. Throws the run's StageError.
    iterator& operator++() {
      batches_->advance();
      return *this;
    }
    /// The same.
    void operator++(int) { ++*this; }
    /// Whether the run is over.
    bool operator==(std::default_sentinel_t) const noexcept { return !batches_->running_; }

   private:
    Batches* batches_;
  };

  /// Starts the run.
  iterator begin() {
    engine_.start(options_);
    running_ = true;
    source_.enter(stream_);
    advance();
    return iterator{this};
  }
  /// For the loop: an iterator is equal to it when the run is over.
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  void advance() {
    current_ = {};
    current_ = source_.next();
    if (!current_) {
      end_run();
      engine_.result();
    }
  }
  void end_run() noexcept {
    current_ = {};
    source_.leave();
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

/// Holds an open pipeline whose type need not be named, only what it gives: a member of a class
/// that is handed its data by others. `AnyBatches<Batch<const Sample, Device>>
/// data{std::move(pipeline), stream}`, then `for (auto batch : data.batches())`. Movable; as the
/// pipeline it is driven by one thread, while stop() and report() may be called from any.
template <class B> class AnyBatches {
  struct Held {
    virtual ~Held() = default;
    virtual Batches<B> batches(RunOptions options) = 0;
    virtual void prepare() = 0;
    virtual void stop() noexcept = 0;
    virtual Report report() const = 0;
  };
  template <class P> struct Model : Held {
    explicit Model(P p) : pipeline{std::move(p)} {}
    void prepare() override { pipeline.prepare(); }
    void stop() noexcept override { pipeline.stop(); }
    Report report() const override { return pipeline.report(); }
    P pipeline;
  };
  template <class P> struct OnHost final : Model<P> {
    using Model<P>::Model;
    Batches<B> batches(RunOptions options) override {
      return this->pipeline.batches(std::move(options));
    }
  };
  template <class P, class S> struct OnStream final : Model<P> {
    OnStream(P p, S& s) : Model<P>{std::move(p)}, stream{s} {}
    Batches<B> batches(RunOptions options) override {
      return this->pipeline.on(stream, std::move(options));
    }
    S& stream;
  };

 public:
  /// Of a pipeline that ends in host memory.
  template <class P>
  explicit AnyBatches(P pipeline) : held_{std::make_unique<OnHost<P>>(std::move(pipeline))} {}
  /// Of one that ends on a device. `stream` must stay.
  template <class P, class S>
  AnyBatches(P pipeline, S& stream)
      : held_{std::make_unique<OnStream<P, S>>(std::move(pipeline), stream)} {}

  /// As of the pipeline.
  Batches<B> batches(RunOptions options = {}) { return held_->batches(std::move(options)); }
  /// As of the pipeline: opens the source, makes memory and threads. Blocks, and throws as it does.
  void prepare() { held_->prepare(); }
  /// Ends the loop's run early. Any thread; never blocks.
  void stop() noexcept { held_->stop(); }
  /// What the run has done so far, or the last one. Any thread.
  Report report() const { return held_->report(); }

 private:
  std::unique_ptr<Held> held_;
};

} // namespace penstock
