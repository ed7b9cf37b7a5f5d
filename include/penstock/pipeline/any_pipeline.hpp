// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/chain/chain.hpp>
#include <penstock/detail/chain/refused.hpp>
#include <penstock/error.hpp>
#include <penstock/pipeline/pipeline.hpp>
#include <penstock/run/options.hpp>
#include <penstock/run/report.hpp>
#include <penstock/run/run_options.hpp>

#include <stop_token>
#include <type_traits>
#include <utility>

namespace penstock {

/// A pipeline that ends in a Consumer or a Writer, without its type: a function's result, or a
/// member of a class. `AnyPipeline conversion(path) { return Reader{…} | … | Writer{…}; }`. Movable
/// while it does not run; one without a pipeline, or moved away, is empty. Like the pipeline, it is
/// driven by one thread; any thread may call report() and stop(). An AnyBatches holds an open
/// pipeline.
class AnyPipeline {
  struct Held {
    virtual ~Held() = default;
    virtual const Report& run(const RunOptions& options) = 0;
    virtual void prepare(const PrepareOptions& options) = 0;
    virtual void stop() noexcept = 0;
    virtual Report report() const = 0;
  };
  template <class P> struct Model final : Held {
    explicit Model(P p) : pipeline{std::move(p)} {}
    const Report& run(const RunOptions& options) override { return pipeline.run(options); }
    void prepare(const PrepareOptions& options) override { pipeline.prepare(options); }
    void stop() noexcept override { pipeline.stop(); }
    Report report() const override { return pipeline.report(); }
    P pipeline;
  };

 public:
  /// Is empty: run() and prepare() throw.
  AnyPipeline() = default;
  /// Takes a pipeline.
  template <class... Stages, class Gives = typename detail::chain<Pipeline<Stages...>>::gives>
  AnyPipeline(Pipeline<Stages...> pipeline) {
    constexpr bool complete = std::is_void_v<Gives>;
    static_assert(complete, "penstock: an AnyPipeline runs by itself, so its last stage keeps what "
                            "it takes: end the pipeline with a Consumer or a Writer, or hold it in "
                            "an AnyBatches.");
    if constexpr (complete) {
      held_ = detail::Owned<Held>{new Model<Pipeline<Stages...>>{std::move(pipeline)}};
    }
  }
  /// Says nothing more of a pipeline that `|` has refused.
  AnyPipeline(const Refused&) {}

  /// Returns whether it has a pipeline.
  explicit operator bool() const noexcept { return static_cast<bool>(held_); }
  /// Runs to the source's end, or until it is asked to stop. Blocks, and throws, as Pipeline::run()
  /// does, and Error if it is empty. The Report is valid until the next run.
  const Report& run(const RunOptions& options = {}) { return held().run(options); }
  /// Runs with a stop token and no other option.
  const Report& run(std::stop_token token) { return run(RunOptions{.stop = std::move(token)}); }
  /// Opens the source, makes memory and threads. Blocks, and throws, as Pipeline::prepare() does,
  /// and Error if it is empty.
  void prepare(const PrepareOptions& options = {}) { held().prepare(options); }
  /// Ends the current run early. Any thread, and any signal handler; never blocks. Has no effect
  /// while nothing runs.
  void stop() noexcept {
    if (held_) {
      held_->stop();
    }
  }
  /// Returns what the run has done so far, or what the last one did. Any thread. Empty if this is.
  Report report() const { return held_ ? held_->report() : Report{}; }

 private:
  Held& held() const {
    if (!held_) {
      throw Error{
          "penstock: this AnyPipeline is empty: it never had a pipeline, or was moved away. "
          "Assign one to it: any = Reader{...} | ... | Consumer{...}."};
    }
    return *held_;
  }

  detail::Owned<Held> held_;
};

} // namespace penstock
