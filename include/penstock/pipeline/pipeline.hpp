// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/thread_end.hpp>
#include <penstock/detail/base/threads.hpp>
#include <penstock/detail/chain/assembly.hpp>
#include <penstock/detail/chain/chain.hpp>
#include <penstock/detail/chain/fit.hpp>
#include <penstock/detail/ends/device_loop.hpp>
#include <penstock/detail/ends/host_loop.hpp>
#include <penstock/detail/engine/engine.hpp>
#include <penstock/pipeline/batches.hpp>
#include <penstock/pipeline/epochs.hpp>
#include <penstock/pipeline/pipe_operator.hpp>
#include <penstock/run/options.hpp>
#include <penstock/run/report.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// Calls f again and again on a thread of its own, for as long as it lives. f does not throw.
class PeriodicThread {
 public:
  [[gnu::cold]] PeriodicThread(std::chrono::milliseconds every, Job f)
      : thread_{start_thread([this, every, f = std::move(f)] {
          std::unique_lock lock{mutex_};
          while (!changed_.wait_for(lock, every, [this] { return over_; })) {
            lock.unlock();
            f();
            lock.lock();
          }
        })} {}
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;
  [[gnu::cold]] ~PeriodicThread() {
    {
      const std::scoped_lock lock{mutex_};
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_{};
  std::thread thread_; // last, since it uses the others
};

/// Looks at a run from time to time, and reports its progress and its stalls. One thread.
class Observer {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Observer(RunOptions options, Clock::time_point now = Clock::now())
      : options_{std::move(options)}, told_{now}, moved_{now} {
    // A time too long to be added to another would look like none.
    options_.every = std::min(options_.every, longest);
    options_.stall_limit = std::min(options_.stall_limit, longest);
  }

  /// Returns how often to look.
  std::chrono::milliseconds period() const {
    constexpr std::chrono::milliseconds least{1};
    const auto limit = options_.stall_limit / 4;
    return std::max(least, !options_.stalled    ? options_.every
                           : !options_.progress ? limit
                                                : std::min(options_.every, limit));
  }

  [[gnu::cold]] void look(const Report& report, Clock::time_point now = Clock::now()) {
    if (options_.progress && now - told_ >= options_.every) {
      told_ = now;
      options_.progress(report);
    }
    if (!options_.stalled) {
      return;
    }
    std::uint64_t sum = 0;
    for (const StageReport& stage : report.stages) {
      sum += stage.records + stage.bytes + stage.skipped + stage.retries;
    }
    if (sum != sum_) {
      sum_ = sum;
      moved_ = now;
      reported_ = false;
    } else if (!reported_ && now - moved_ >= options_.stall_limit) {
      reported_ = true;
      options_.stalled(describe(report, std::chrono::duration<double>(now - moved_).count()));
    }
  }

 private:
  // The last stage that is at work holds up the rest; if none is at work, time is lost at the last
  // stage that waits for room.
  [[gnu::cold]] static Stall describe(const Report& report, double seconds) {
    Stall stall{report.stages.front().name, "waits for what comes in", seconds, report};
    for (const StageReport& stage : report.stages) {
      if (stage.blocked_now != 0) {
        stall.stage = stage.name;
        stall.reason = "waits for room after it";
      }
    }
    for (const StageReport& stage : report.stages) {
      if (stage.busy_now != 0) {
        stall.stage = stage.name;
        stall.reason = stage.kind == StageKind::loop && stage.records == 0
                           ? "has asked for no batch"
                           : "is at work and has not come back";
      }
    }
    return stall;
  }

  static constexpr std::chrono::milliseconds longest = std::chrono::hours{24 * 365};

  RunOptions options_;
  Clock::time_point told_;
  Clock::time_point moved_;
  std::uint64_t sum_{};
  bool reported_{};
};

/// Shows a run to the application from time to time, on a thread of its own.
class PeriodicMonitor final : public RunMonitor {
 public:
  PeriodicMonitor(const RunOptions& options, Engine& engine)
      : observer_{options}, thread_{observer_.period(), [this, &engine] { look(engine); }} {}

 private:
  [[gnu::cold]] void look(Engine& engine) {
    const auto f = [&] { observer_.look(engine.report()); };
    caught(f, [&] { engine.fail("progress"); });
  }

  Observer observer_;
  PeriodicThread thread_; // last, since its thread uses the observer
};

[[gnu::cold]] inline RunMonitor* start_monitor(const RunOptions& options, Engine& engine) {
  try {
    return new PeriodicMonitor{options, engine};
  } catch (const std::system_error& e) {
    throw_error<Error>({"penstock: no thread could be started to watch the run: ", e.what(),
                        ": leave out progress and stalled, or raise the limit on threads."});
  }
}

} // namespace penstock::detail

namespace penstock {

/// Stages joined by `|`: `Reader{…} | … | Consumer{…}`, or, without a Consumer, an open pipeline
/// whose batches your own loop takes. Movable. It is a description until prepare(), which makes
/// rings, memory and threads; the pipeline keeps them until it dies, and then a Batches does that
/// still has a run. One thread drives it, and any thread may stop it. Its device must outlive both.
template <class... Stages> class Pipeline {
  using Assembly = detail::Assembly<Stages...>;
  using Gives = typename Assembly::Gives;
  using On = typename Assembly::On;

 public:
  /// For `|`: makes a pipeline of its stages.
  explicit Pipeline(std::tuple<Stages...> stages) : stages_{std::move(stages)} {}

  /// Opens the source, allocates all memory and starts all threads; the first run() does it if you
  /// did not. Blocks. Throws OptionError, SourceError, DeviceError, Error or what progress throws,
  /// and is then as if it had not been called.
  template <class Named = On> void prepare(const PrepareOptions& options = {}) {
    constexpr bool pinned_by_a_device = !Assembly::pins() || AnyDevice<Named>;
    static_assert(
        pinned_by_a_device,
        "penstock: pinned memory is pinned for a device, and this pipeline has none: name "
        "it, PinnedStager{device}, add an AsyncCopier{device}, or leave out what pins.");
    if constexpr (pinned_by_a_device) {
      if (!engine_.get()) {
        const detail::NoCancellation whole;
        engine_.set(Assembly::make(stages_, options));
      }
    }
  }

  /// Runs to the source's end, or until you ask it to stop, which is no error: the Report says that
  /// it stopped. The last stage's callable runs on the calling thread. Blocks until the last batch
  /// is used up. The first error ends the run; when all workers rest, run() throws it as a
  /// StageError, the cause nested. You may run the pipeline again. A second run allocates nothing.
  /// The Report is valid until the next run.
  /// @{
  template <class StillGives = Gives, class Named = On> const Report& run() {
    constexpr bool complete = std::is_void_v<StillGives>;
    static_assert(complete, "penstock: run() needs a last stage that keeps what it takes: end the "
                            "pipeline with a Consumer, or drive it yourself, for (auto batch : "
                            "pipeline.on(stream)).");
    constexpr bool pinned_by_a_device = !Assembly::pins() || AnyDevice<Named>;
    static_assert(
        pinned_by_a_device,
        "penstock: pinned memory is pinned for a device, and this pipeline has none: name "
        "it, PinnedStager{device}, add an AsyncCopier{device}, or leave out what pins.");
    if constexpr (complete && pinned_by_a_device) {
      prepare();
    }
    engine_.get()->start();
    return engine_.get()->run();
  }
  template <class StillGives = Gives, class Named = On>
  const Report& run(const RunOptions& options) {
    if constexpr (std::is_void_v<StillGives> && (!Assembly::pins() || AnyDevice<Named>)) {
      prepare();
      engine_.get()->start(options);
      return engine_.get()->run();
    } else {
      return run<StillGives, Named>(); // which says what is wrong
    }
  }
  /// @}
  /// Runs with a stop token and no other option.
  template <class StillGives = Gives> const Report& run(std::stop_token token) {
    return run<StillGives>(RunOptions{.stop = std::move(token)});
  }

  /// Returns the batches of an open pipeline that ends on its device, for a loop of your own:
  /// `for (auto batch : pipeline.on(stream))`. Each is a Lease that is ready when `stream`, of that
  /// device, reaches it. What gives such a stream by get(), as cuda::stream_ref does, is as good.
  /// The loop runs on the calling thread: two device calls a batch. See Batches.
  template <class S, class StillGives = Gives, class Named = On>
    requires(!std::is_same_v<S, int>)
  [[nodiscard]] auto on(S&& stream, RunOptions options = {}) & {
    constexpr bool open = !std::is_void_v<StillGives>;
    constexpr bool on_a_device = !open || detail::batch_of<StillGives>::device;
    constexpr bool own_stream = !open || !on_a_device || detail::is_stream_of<Named, S>();
    static_assert(open,
                  "penstock: this pipeline has a last stage that keeps what it takes, so there "
                  "is nothing for on() to hand out: call run(), or leave that stage out.");
    static_assert(on_a_device,
                  "penstock: on(stream) hands out device batches, and this pipeline ends "
                  "in host memory: add an AsyncCopier{device}, or walk it by batches().");
    static_assert(own_stream,
                  "penstock: this stream does not belong to the pipeline's device: pass a "
                  "cudaStream_t for a CudaDevice, a HostStream& for a HostDevice.");
    if constexpr (open && on_a_device && own_stream) {
      using T = typename detail::batch_of<StillGives>::schema;
      prepare();
      auto& loop = static_cast<detail::DeviceLoop<T, Named>&>(engine_.get()->last());
      Stream<Named> taken = detail::given_stream<Named>(std::forward<S>(stream));
      return Batches<Batch<const T, Device>>{engine_.share(), loop, std::move(options),
                                             detail::StreamHandle::of(taken)};
    } else {
      return Refused::Range{};
    }
  }
  /// Returns the batches for a loop on CUDA's default stream, written 0 or nullptr.
  [[nodiscard]] auto on(std::nullptr_t stream, RunOptions options = {}) & {
    return on<std::nullptr_t&>(stream, std::move(options));
  }
  /// Refused: a number is no stream.
  [[nodiscard]] auto on(detail::Number stream, RunOptions options = {}) & {
    return on<detail::Number&>(stream, std::move(options));
  }
  /// Returns the batches of an open pipeline that ends in host memory, for a loop of your own:
  /// `for (auto batch : pipeline.batches())`.
  template <class StillGives = Gives> [[nodiscard]] auto batches(RunOptions options = {}) & {
    constexpr bool open = !std::is_void_v<StillGives>;
    constexpr bool on_the_host = !open || detail::batch_of<StillGives>::host;
    static_assert(open,
                  "penstock: this pipeline has a last stage that keeps what it takes, so there "
                  "is nothing for batches() to hand out: call run(), or leave that stage out.");
    static_assert(on_the_host,
                  "penstock: batches() hands out host batches, and this pipeline ends on "
                  "a device: for (auto batch : pipeline.on(stream)).");
    if constexpr (open && on_the_host) {
      using T = typename detail::batch_of<StillGives>::schema;
      using Where = typename detail::batch_of<StillGives>::space;
      prepare();
      auto& loop = static_cast<detail::HostLoop<T, Where>&>(engine_.get()->last());
      return Batches<Batch<const T, Where>>{engine_.share(), loop, std::move(options)};
    } else {
      return Refused::Range{};
    }
  }
  /// Returns what on() does, or batches(), epoch by epoch: `for (auto epoch :
  /// pipeline.epochs(stream))`, and in it `for (auto batch : epoch)`. See Epochs.
  /// @{
  template <class S> [[nodiscard]] auto epochs(S&& stream, RunOptions options = {}) & {
    return Epochs{on(std::forward<S>(stream), std::move(options))};
  }
  template <class StillGives = Gives> [[nodiscard]] auto epochs(RunOptions options = {}) & {
    return Epochs{batches<StillGives>(std::move(options))};
  }
  /// @}
  /// Refused for a temporary, as on() and batches() are.
  /// @{
  template <class S> Refused::Ranges epochs(S&& stream, RunOptions = {}) && {
    return std::move(*this).on(stream);
  }
  template <class StillGives = Gives> Refused::Ranges epochs(RunOptions = {}) && {
    return std::move(*this).template batches<StillGives>();
  }
  /// @}
  /// Refused for a temporary: the message names the cure.
  template <class S> Refused::Range on(S&&, RunOptions = {}) && {
    constexpr bool named = !sizeof(S);
    static_assert(named, "penstock: this pipeline is a temporary and would be gone before the loop "
                         "starts: give it a name first, auto pipeline = ...; for (auto batch : "
                         "pipeline.on(stream)).");
    return {};
  }
  /// Refused for a temporary: the message names the cure.
  template <class StillGives = Gives> Refused::Range batches(RunOptions = {}) && {
    constexpr bool named = std::is_same_v<StillGives, void>;
    static_assert(named, "penstock: this pipeline is a temporary and would be gone before the loop "
                         "starts: give it a name first, auto pipeline = ...; for (auto batch : "
                         "pipeline.batches()).");
    return {};
  }

  /// Returns how many batches a run gives at most, or unknown_size: for a Deferred that holds a
  /// value of each. Prepares, as prepare() does.
  std::uint64_t batches_a_run() {
    prepare();
    return engine_.get()->batches();
  }

  /// Ends the current run early, as a stop token does. Any thread, and any signal handler; never
  /// blocks. Has no effect while nothing runs: the next run goes on as if it had not been called.
  void stop() noexcept {
    if (detail::Engine* engine = engine_.get()) {
      engine->stop();
    }
  }

  /// Returns what the run has done so far; between runs, what the last one did, also if it failed.
  /// Any thread. Empty before prepare().
  Report report() const {
    const detail::Engine* engine = engine_.get();
    return engine ? engine->report() : Report{};
  }

 private:
  template <class... S, class Next>
  friend std::tuple<S..., Next> detail::stages_of(Pipeline<S...>&& pipeline, Next&& next);

  std::tuple<Stages...> stages_;
  detail::EngineOwner engine_;
};

namespace detail {
template <class... S, class Next>
std::tuple<S..., Next> stages_of(Pipeline<S...>&& pipeline, Next&& next) {
  return std::apply(
      [&](S&... stages) { return std::tuple<S..., Next>{std::move(stages)..., std::move(next)}; },
      pipeline.stages_);
}
} // namespace detail

} // namespace penstock
