// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/chain/assembly.hpp>
#include <penstock/detail/chain/chain.hpp>
#include <penstock/detail/chain/fit.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>
#include <penstock/pipeline/batches.hpp>
#include <penstock/pipeline/pipeline.hpp>
#include <penstock/run/options.hpp>
#include <penstock/run/report.hpp>

#include <cstddef>
#include <memory>
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

/// An open pipeline behind a type that names only what it gives, not its stages. Use it as a member
/// of a class that is handed its data. `AnyBatches<Batch<const Sample, Device>>
/// data{std::move(pipeline), stream}`, then `for (auto batch : data.batches())`. Movable, also
/// while a Batches of it runs; one without a pipeline, or moved away, is empty. Like the pipeline,
/// it is driven by one thread; any thread may call report() and stop(), which has no effect while
/// nothing runs.
template <class B> class AnyBatches {
  struct Held {
    virtual ~Held() = default;
    virtual Batches<B> batches(RunOptions options) = 0;
    virtual void prepare(const PrepareOptions& options) = 0;
    virtual void stop() noexcept = 0;
    virtual Report report() const = 0;
  };
  template <class P> struct Model : Held {
    explicit Model(P p) : pipeline{std::move(p)} {}
    void prepare(const PrepareOptions& options) override { pipeline.prepare(options); }
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
  template <class P, class On> struct OnStream final : Model<P> {
    OnStream(P p, Stream<On> s) : Model<P>{std::move(p)}, stream{s} {}
    Batches<B> batches(RunOptions options) override {
      return this->pipeline.on(stream, std::move(options));
    }
    Stream<On> stream;
  };

 public:
  /// Is empty: batches() and prepare() throw.
  AnyBatches() = default;
  /// Takes a pipeline that ends in host memory.
  template <class P, class Gives = typename detail::chain<P>::gives>
  explicit AnyBatches(P pipeline) {
    using End = detail::batch_of<Gives>;
    constexpr bool gives_these = is_given<Gives>();
    constexpr bool on_the_host = !gives_these || End::host;
    static_assert(gives_these,
                  "penstock: AnyBatches<B> is made of an open pipeline that gives B, and this one "
                  "gives another, see Gives: make B ps::Batch<const T, Where> of its T and Where.");
    static_assert(on_the_host,
                  "penstock: this pipeline ends on a device, so its batches come on a stream: "
                  "AnyBatches<B>{std::move(pipeline), stream}.");
    if constexpr (gives_these && on_the_host) {
      held_ = std::make_unique<OnHost<P>>(std::move(pipeline));
    }
  }
  /// Takes a pipeline that ends on a device. The stream, see Pipeline::on(), must outlive this
  /// object; a HostStream must also stay where it is.
  template <class P, class S, class Gives = typename detail::chain<P>::gives,
            class On = typename detail::chain<P>::device>
  AnyBatches(P pipeline, S& stream) {
    using End = detail::batch_of<Gives>;
    constexpr bool gives_these = is_given<Gives>();
    constexpr bool on_a_device = !gives_these || End::device;
    constexpr bool own_stream = !gives_these || !on_a_device || detail::is_stream_of<On, S&>();
    static_assert(gives_these,
                  "penstock: AnyBatches<B> is made of an open pipeline that gives B, and this one "
                  "gives another, see Gives: make B ps::Batch<const T, Where> of its T and Where.");
    static_assert(on_a_device,
                  "penstock: this pipeline ends in host memory, so its batches need no stream: "
                  "AnyBatches<B>{std::move(pipeline)}.");
    static_assert(own_stream,
                  "penstock: this stream does not belong to the pipeline's device: pass a "
                  "CudaStream or cudaStream_t for a CudaDevice, a HostStream for a HostDevice.");
    if constexpr (gives_these && on_a_device && own_stream) {
      held_ =
          std::make_unique<OnStream<P, On>>(std::move(pipeline), detail::given_stream<On>(stream));
    }
  }

  /// Takes a pipeline that ends on a device, for CUDA's default stream, written 0 or nullptr.
  template <class P>
  AnyBatches(P pipeline, std::nullptr_t) : AnyBatches{std::move(pipeline), default_stream} {}

  /// Returns whether it has a pipeline.
  explicit operator bool() const noexcept { return held_ != nullptr; }
  /// Returns one run as a range, as Pipeline::on() and Pipeline::batches() do. Throws Error if it
  /// is empty.
  [[nodiscard]] Batches<B> batches(RunOptions options = {}) {
    return held().batches(std::move(options));
  }
  /// Returns the same, epoch by epoch, as Pipeline::epochs() does.
  [[nodiscard]] Epochs<B> epochs(RunOptions options = {}) {
    return Epochs{batches(std::move(options))};
  }
  /// Opens the source, makes memory and threads. Blocks, and throws, as Pipeline::prepare() does,
  /// and Error if it is empty.
  void prepare(const PrepareOptions& options = {}) { held().prepare(options); }
  /// Ends the loop's run early. Any thread, and any signal handler; never blocks. Has no effect
  /// while nothing runs.
  void stop() noexcept {
    if (held_) {
      held_->stop();
    }
  }
  /// Returns what the run has done so far, or what the last one did. Any thread. Empty if this is.
  Report report() const { return held_ ? held_->report() : Report{}; }

 private:
  // A null that converts to any kind of stream that is a pointer.
  struct DefaultStream {
    template <class S>
      requires std::is_pointer_v<S>
    operator S() const noexcept {
      return nullptr;
    }
  };
  static constexpr DefaultStream default_stream{};

  // Whether B is the read-only batch that loops over such a pipeline give.
  template <class Gives> static consteval bool is_given() {
    using End = detail::batch_of<Gives>;
    if constexpr (End::host || End::device) {
      return std::is_same_v<B, Batch<const typename End::schema, typename End::space>>;
    } else {
      return false;
    }
  }

  Held& held() const {
    if (!held_) {
      throw Error{"penstock: this AnyBatches is empty: it never had a pipeline, or was moved away. "
                  "Give it an open one: AnyBatches<B>{std::move(pipeline)}."};
    }
    return *held_;
  }

  std::unique_ptr<Held> held_;
};

} // namespace penstock
