// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A pipeline on a GPU as a guest: launches that fail in callables, errors that the surrounding
// program has pending, streams that are null, and graphs that others capture. The including file
// defines plus_one(stream, in, out, n), which makes each number one larger, refused_launch(stream),
// which CUDA refuses with refused_launch_code, count_all(stream, count, n), which sets a count, and
// captures_beside(), how many graphs others are to capture.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/outcome.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <penstock/callables/deferred.hpp>
#include <penstock/callables/scratch.hpp>
#include <penstock/cuda.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace suite {

namespace ps = penstock;
namespace tests = penstock::tests;
using tests::Came;
using tests::Outcome;
using tests::outcome_of;
using U = std::uint32_t;
using In = ps::Batch<const U, ps::Device>;
using Out = ps::Batch<U, ps::Device>;

inline constexpr std::size_t batch_size = 1000;
inline constexpr std::size_t batch_count = 40;
inline const std::vector<U>& numbers() {
  static const auto all = [] {
    std::vector<U> from_zero(batch_count * batch_size - 123);
    std::iota(from_zero.begin(), from_zero.end(), 0U);
    return from_zero;
  }();
  return all;
}

inline auto to_device(ps::CudaDevice& gpu, std::size_t depth = 3) {
  return ps::Reader{ps::memory(std::span{numbers()}), ps::to_pinned, {.workers = 2}} |
         ps::AsyncCopier{gpu, {.batch = batch_size, .depth = depth}};
}

/// Counts the records that came home right, each `more` than it was.
struct Right {
  U more;
  std::uint64_t* right;
  void operator()(ps::Batch<const U, ps::Pinned> batch) const {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      *right += batch.data()[i] == batch.index() + i + more;
    }
  }
};

/// Counts the calls of a callable, on any thread; the launch of one of them is refused.
struct Launches {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> refused{~std::uint64_t{0}};

  void operator()(In in, U* out, cudaStream_t stream) {
    if (calls++ == refused) {
      refused_launch(stream);
    } else {
      plus_one(stream, in.data(), out, in.size());
    }
  }
};

inline void is_a_refused_launch(const Outcome& out, const char* stage, std::uint64_t batch) {
  CAPTURE(out);
  CHECK(out.came == Came::stage_error);
  CHECK(out.cause == Came::device_error);
  CHECK(out.stage == stage);
  CHECK(out.record == batch * batch_size);
  CHECK(out.code == refused_launch_code);
  CHECK(out.says("a launch"));
  CHECK_FALSE(out.sticky);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("a launch refused in a Kernel's callable ends the run, and its Writer commits nothing") {
  const tests::TempDir dir;
  const std::string path = dir.write("out.bin", std::string{"as it was"});
  ps::CudaDevice gpu;
  for (const unsigned streams : {1U, 3U}) {
    for (const std::uint64_t refused : {0, 1, 17}) {
      CAPTURE(streams, refused);
      Launches launches;
      launches.refused = refused;
      auto pipeline =
          to_device(gpu) |
          ps::Kernel{[&](In in, Out out, cudaStream_t stream) { launches(in, out.data(), stream); },
                     {.streams = streams}} |
          ps::AsyncCopier{ps::to_host} | ps::Writer{path};
      is_a_refused_launch(outcome_of([&] { pipeline.run(); }), "Kernel", refused);
      CHECK(tests::content_of(path) == "as it was");
    }
  }
}

TEST_CASE("the same in place, counted, and replayed, and the next run is well") {
  ps::CudaDevice gpu;
  auto ones = ps::device_array<std::uint64_t>(gpu, 1);
  const auto one = [&](auto kernel, std::uint64_t first_refused, std::uint64_t at,
                       Launches& count) {
    std::uint64_t right = 0;
    auto pipeline = to_device(gpu) | std::move(kernel) | ps::AsyncCopier{ps::to_host} |
                    ps::Consumer{Right{1, &right}};
    pipeline.prepare();
    count.calls = 0;
    count.refused = first_refused;
    is_a_refused_launch(outcome_of([&] { pipeline.run(); }), "Kernel", at);
    CHECK_FALSE(pipeline.report().error.empty());
    count.refused = ~std::uint64_t{0};
    right = 0;
    CHECK(pipeline.run().error.empty());
    CHECK(right == numbers().size());
  };
  Launches count;
  one(ps::Kernel{[&](Out batch, cudaStream_t stream) { count(In{batch}, batch.data(), stream); }},
      5, 5, count);
  using Counted = ps::Batch<ps::Counted<U>, ps::Device>;
  one(ps::Kernel{[&](In in, Counted out, cudaStream_t stream) {
        count(in, out.data(), stream);
        count_all(stream, out.count(), in.size());
      }},
      7, 7, count);
  // The short last batch is enqueued by the callable.
  one(ps::Kernel{ps::replayed(
          [&](ps::FrozenBatch<const U> in, ps::FrozenBatch<U> out, cudaStream_t stream) {
            if (count.calls++ == count.refused) {
              refused_launch(stream);
            } else {
              plus_one(stream, in.data(), out.data(), in.size());
            }
          })},
      0, batch_count - 1, count);
}

TEST_CASE("a launch refused while it is captured leaves the batches to the callable") {
  ps::CudaDevice gpu;
  for (const bool consumer : {false, true}) {
    CAPTURE(consumer);
    std::atomic<bool> refuse{true};
    std::uint64_t right = 0;
    const auto call = [&](ps::FrozenBatch<const U> in, ps::FrozenBatch<U> out,
                          cudaStream_t stream) {
      refuse ? refused_launch(stream) : plus_one(stream, in.data(), out.data(), in.size());
    };
    auto kernel = to_device(gpu) | ps::Kernel{ps::replayed(call)} | ps::AsyncCopier{ps::to_host} |
                  ps::Consumer{Right{1, &right}};
    auto end = to_device(gpu) |
               ps::Consumer{ps::replayed([&](ps::FrozenBatch<const U>, cudaStream_t stream) {
                 if (refuse) {
                   refused_launch(stream);
                 }
               })};
    const auto check = [&](auto& pipeline, const char* stage, std::size_t at) {
      pipeline.prepare();
      CHECK(cudaPeekAtLastError() == cudaSuccess);
      CHECK(pipeline.report().stages[at].note.find("not replayed") != std::string::npos);
      // Called in a run they are errors too, and not 40 batches of old contents.
      is_a_refused_launch(outcome_of([&] { pipeline.run(); }), stage, 0);
      refuse = false;
      CHECK(pipeline.run().records == numbers().size());
      refuse = true;
    };
    if (consumer) {
      check(end, "Consumer", 2);
    } else {
      check(kernel, "Kernel", 2);
      CHECK(right == numbers().size());
    }
  }
}

TEST_CASE("a launch refused in a Consumer's callable ends the run, and is cleared") {
  ps::CudaDevice gpu;
  auto sink = ps::device_array<U>(gpu, batch_size);
  for (const std::uint64_t refused : {0, 1, 39}) {
    CAPTURE(refused);
    Launches launches;
    launches.refused = refused;
    auto pipeline = to_device(gpu) | ps::Consumer{[&](In in, cudaStream_t stream) {
                      launches(in, sink.data(), stream);
                    }};
    is_a_refused_launch(outcome_of([&] { pipeline.run(); }), "Consumer", refused);
    launches.refused = ~std::uint64_t{0};
    CHECK(pipeline.run().records == numbers().size());
  }
}

TEST_CASE("what a callable throws counts, and not what it has left latched besides") {
  ps::CudaDevice gpu;
  bool throws = true;
  auto pipeline = to_device(gpu) | ps::Consumer{[&](In, cudaStream_t stream) {
                    if (throws) {
                      refused_launch(stream);
                      throw std::runtime_error{"I have seen it myself"};
                    }
                  }};
  const Outcome out = outcome_of([&] { pipeline.run(); });
  CHECK(out.says("I have seen it myself"));
  throws = false;
  CHECK(pipeline.run().records == numbers().size());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("a launch refused in a loop's body is told by its next step, the last one's by the end") {
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  auto pipeline = to_device(gpu);
  for (const std::uint64_t refused : {0, 1, 38, 39}) {
    CAPTURE(refused);
    std::uint64_t batches = 0;
    is_a_refused_launch(outcome_of([&] {
                          for (auto batch : pipeline.on(stream)) {
                            if (batches++ == refused) {
                              refused_launch(stream);
                            }
                          }
                        }),
                        "loop", refused);
    CHECK(batches == refused + 1);
  }
  std::uint64_t records = 0;
  for (auto batch : pipeline.on(stream)) {
    records += batch.size();
  }
  CHECK(records == numbers().size());
}

TEST_CASE("a launch refused in a body that is left is in the Report, and the next run throws it") {
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  auto pipeline = to_device(gpu);
  for (const bool by_exception : {false, true}) {
    CAPTURE(by_exception);
    std::uint64_t batches = 0;
    try {
      for (auto batch : pipeline.on(stream)) {
        if (batches++ == 3) {
          refused_launch(stream);
          if (by_exception) {
            throw 3;
          }
          break;
        }
      }
      CHECK_FALSE(by_exception);
    } catch (int) {
      CHECK(by_exception);
    }
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK(pipeline.report().stopped);
    CHECK(pipeline.report().error.find("loop failed at record 3000") != std::string::npos);
    is_a_refused_launch(outcome_of([&] {
                          for (auto batch : pipeline.on(stream)) {
                            FAIL("batch " << batch.index());
                          }
                        }),
                        "loop", 3);
    std::uint64_t records = 0;
    for (auto batch : pipeline.on(stream)) {
      records += batch.size();
    }
    CHECK(records == numbers().size());
    CHECK(pipeline.report().error.empty());
  }
}

TEST_CASE("an error that was pending before is nobody's fault here, and stays pending") {
  ps::CudaDevice gpu;
  REQUIRE(cudaSetDevice(99) == cudaErrorInvalidDevice);
  {
    ps::CudaDevice another;
    CHECK(ps::CudaDevice::count() > 0);
    CHECK_THROWS_AS(ps::CudaDevice{99}, ps::CudaError);
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
    auto values = ps::device_array<U>(gpu, 100);
    auto kept = ps::deferred<U>(gpu);
    ps::Scratch scratch{gpu, 4096};
    auto stream = gpu.stream();
    auto event = gpu.event();
    std::uint64_t right = 0;
    auto there = to_device(gpu) | ps::Kernel{[](In in, Out out, cudaStream_t on) {
                   plus_one(on, in.data(), out.data(), in.size());
                 }} |
                 ps::AsyncCopier{ps::to_host} | ps::Consumer{Right{1, &right}};
    CHECK(there.run().records == numbers().size());
    CHECK(right == numbers().size());
    auto replayed =
        to_device(gpu) | ps::Consumer{ps::replayed([&](ps::FrozenBatch<const U>, cudaStream_t) {})};
    CHECK(replayed.run().records == numbers().size());
    auto loop = to_device(gpu);
    for (auto batch : loop.on(stream)) {
      kept.put(values.data(), stream);
      gpu.record(event, stream);
      gpu.is_done(event);
      stream.is_done();
    }
    kept.clear();
    values.read(stream);
  }
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  cudaGetLastError();
}

/// Captures a graph on `stream` in global mode; returns how the capture ended.
inline cudaError_t capture_on(cudaStream_t stream, const std::function<void()>& meanwhile) {
  cudaGraph_t graph = nullptr;
  cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  if (status == cudaSuccess) {
    try {
      meanwhile();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      throw;
    }
    status = cudaStreamEndCapture(stream, &graph);
  }
  if (graph != nullptr) {
    cudaGraphDestroy(graph);
  }
  return status;
}

TEST_CASE("a launch refused between two calls of next() ends the run") {
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  auto pipeline = to_device(gpu);
  for (int times = 0; times < 2; ++times) {
    auto run = pipeline.on(stream);
    for (int batch = 0; batch < 5; ++batch) {
      CHECK(run.next());
    }
    refused_launch(stream.get());
    is_a_refused_launch(outcome_of([&] { (void)run.next(); }), "loop", 4);
    CHECK_FALSE(run);
  }
}

TEST_CASE("AnyBatches keeps a stream's handle, and not the variable that held it") {
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  auto other = gpu.stream();
  cudaStream_t handle = stream.get();
  ps::AnyBatches<In> data{to_device(gpu), handle};
  handle = other.get();
  std::uint64_t records = 0;
  CHECK(capture_on(other.get(), [&] { // a loop on it would be refused
          for (auto batch : data.batches()) {
            records += batch.size();
          }
        }) == cudaSuccess);
  CHECK(records == numbers().size());
}

/// Captures one graph after the other, in global mode, while it lives.
class Capturer {
 public:
  explicit Capturer(ps::CudaDevice& gpu) : stream_{gpu.stream()}, thread_{[this] { serve(); }} {
    while (captures == 0) {
      std::this_thread::yield();
    }
  }
  ~Capturer() {
    over_ = true;
    thread_.join();
    cudaGetLastError();
  }
  std::atomic<std::uint64_t> captures{0};
  std::atomic<std::uint64_t> broken{0};

 private:
  void serve() {
    while (!over_) {
      const cudaError_t status = capture_on(stream_, [&] {
        ++captures;
        for (int i = 0; i < 20; ++i) {
          std::this_thread::sleep_for(std::chrono::microseconds{20});
        }
      });
      broken += status != cudaSuccess;
    }
  }

  ps::CudaStream stream_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST_CASE("who captures beside a pipeline has his graph, and the pipeline its run") {
  const tests::Watchdog watchdog{"captures beside a pipeline"};
  ps::CudaDevice gpu;
  const std::size_t most = captures_beside();
  Capturer capturer{gpu};
  std::uint64_t runs = 0;
  // The whole life of a pipeline, and of the objects that callables use, again and again.
  while (capturer.captures < most) {
    std::uint64_t right = 0;
    auto values = ps::device_array<U>(gpu, 100);
    auto kept = ps::deferred<U>(gpu);
    ps::Scratch scratch{gpu, 4096};
    auto stream = gpu.stream();
    auto event = gpu.event();
    auto there = to_device(gpu) | ps::Kernel{[](In in, Out out, cudaStream_t on) {
                   plus_one(on, in.data(), out.data(), in.size());
                 }} |
                 ps::AsyncCopier{ps::to_host} | ps::Consumer{Right{1, &right}};
    CHECK(there.run().records == numbers().size());
    CHECK(right == numbers().size());
    auto loop = to_device(gpu);
    for (auto batch : loop.on(stream)) {
      kept.put(values.data(), stream).ready();
      gpu.record(event, stream);
      gpu.is_done(event);
      gpu.sync(event);
    }
    kept[0].get();
    values.read(stream);
    auto replayed =
        to_device(gpu) | ps::Consumer{ps::replayed([&](ps::FrozenBatch<const U>, cudaStream_t) {})};
    CHECK(replayed.run().records == numbers().size());
    CHECK(replayed.report().stages[2].note.empty());
    ++runs;
  }
  CHECK(capturer.broken == 0);
  CHECK(runs > 0);
}

TEST_CASE("a loop's body may capture a graph, on its stream and on another, also over many steps") {
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  auto other = gpu.stream();
  auto pipeline = to_device(gpu);
  for (const bool own : {true, false}) {
    CAPTURE(own);
    std::uint64_t records = 0;
    std::uint64_t good = 0;
    for (auto batch : pipeline.on(stream)) {
      good += capture_on(own ? stream : other, [&] {
                std::this_thread::sleep_for(std::chrono::microseconds{200});
              }) == cudaSuccess;
      records += batch.size();
    }
    CHECK(good == batch_count);
    CHECK(records == numbers().size());
  }
  std::uint64_t records = 0;
  auto kept = ps::deferred<U>(gpu);
  auto values = ps::device_array<U>(gpu, 1);
  CHECK(capture_on(other, [&] {
          for (auto batch : pipeline.on(stream)) {
            kept.put(values.data(), stream).ready();
            records += batch.size();
          }
        }) == cudaSuccess);
  CHECK(records == numbers().size());
}

TEST_CASE("a batch that is to change hands on a stream that captures is one error that names it") {
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  auto other = gpu.stream();
  auto pipeline = to_device(gpu);
  cudaGraph_t graph = nullptr;
  const auto ended = [&](cudaStream_t on) {
    const cudaError_t status = cudaStreamEndCapture(on, &graph);
    cudaGraphDestroy(std::exchange(graph, nullptr));
    return status;
  };
  const auto is_named = [](const Outcome& out, std::uint64_t batch) {
    CAPTURE(out);
    CHECK(out.came == Came::stage_error);
    CHECK(out.stage == "loop");
    CHECK(out.record == batch * batch_size);
    CHECK(out.says("captures a graph"));
    CHECK(out.says("end the capture"));
  };
  const auto runs = [&] {
    std::uint64_t records = 0;
    for (auto batch : pipeline.on(stream)) {
      records += batch.size();
    }
    CHECK(records == numbers().size());
  };

  std::uint64_t batches = 0;
  is_named(outcome_of([&] {
             for (auto batch : pipeline.on(stream)) {
               if (batches++ == 2) {
                 REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) ==
                         cudaSuccess);
               }
             }
           }),
           2);
  CHECK(batches == 3);
  CHECK(ended(stream) == cudaSuccess);
  runs();

  // The loop is left early, so nobody can be thrown the error: the Report has it.
  for (auto batch : pipeline.on(stream)) {
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    break;
  }
  CHECK(pipeline.report().error.find("captures a graph") != std::string::npos);
  CHECK(ended(stream) == cudaSuccess);
  runs();

  // The error of the last body and that of a batch not given back are two errors of one run, not of
  // two runs.
  is_a_refused_launch(outcome_of([&] {
                        for (auto batch : pipeline.on(stream)) {
                          refused_launch(stream);
                          REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) ==
                                  cudaSuccess);
                        }
                      }),
                      "loop", 0);
  ended(stream);
  runs();

  // A loop that begins in a capture.
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  is_named(outcome_of(runs), 0);
  CHECK(ended(stream) == cudaSuccess);
  runs();

  auto kept = ps::deferred<U>(gpu);
  auto values = ps::device_array<U>(gpu, 1);
  REQUIRE(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal) == cudaSuccess);
  for (auto batch : pipeline.on(stream)) {
    CHECK(outcome_of([&] { batch.used_on(other); }).says("captures a graph"));
    CHECK(outcome_of([&] { kept.put(values.data(), other); }).says("captures a graph"));
    CHECK(outcome_of([&] { values.read(other); }).says("captures a graph"));
  }
  CHECK(ended(other) == cudaSuccess);
  CHECK(kept.size() == 0);
  runs();
  CHECK(cudaPeekAtLastError() == cudaSuccess);

  // A callable that leaves its capture open.
  for (const bool consumer : {true, false}) {
    cudaStream_t left = nullptr;
    const auto leave_open = [&](cudaStream_t on) {
      if (left == nullptr) {
        left = on;
        cudaStreamBeginCapture(on, cudaStreamCaptureModeRelaxed);
      }
    };
    auto end = to_device(gpu) | ps::Consumer{[&](In, cudaStream_t on) { leave_open(on); }};
    auto kernel = to_device(gpu) | ps::Kernel{[&](Out, cudaStream_t on) { leave_open(on); }} |
                  ps::Consumer{[](In, cudaStream_t) {}};
    const Outcome out = outcome_of([&] { consumer ? end.run() : kernel.run(); });
    CAPTURE(out, consumer);
    CHECK(out.stage == (consumer ? "Consumer" : "Kernel"));
    CHECK(out.record == 0);
    CHECK(out.says("captures a graph"));
    ended(left);
    cudaGetLastError();
  }
}

TEST_CASE("a loop on the default stream runs on a thread that has called nothing of CUDA's") {
  ps::CudaDevice gpu;
  auto pipeline = to_device(gpu);
  pipeline.prepare();
  std::uint64_t records = 0;
  std::string error;
  std::thread{[&] {
    try {
      for (auto batch : pipeline.on(0)) {
        records += batch.size();
      }
    } catch (const std::exception& e) {
      error = e.what();
    }
  }}.join();
  CHECK(error.empty());
  CHECK(records == numbers().size());
}

TEST_CASE("null is a stream: the loop's, a second one, a Deferred's") {
  ps::CudaDevice gpu;
  auto stream = gpu.stream();
  auto pipeline = to_device(gpu);
  const auto used_on = [&](auto use) {
    std::uint64_t records = 0;
    for (auto batch : pipeline.on(stream)) {
      use(batch);
      CHECK_THROWS_AS(batch.used_on(gpu.stream()), ps::OptionError); // a third stream
      records += batch.size();
    }
    CHECK(records == numbers().size());
  };
  used_on([](auto& batch) { batch.used_on(0); });
  used_on([](auto& batch) { batch.used_on(nullptr); });
  used_on([](auto& batch) {
    batch.used_on(cudaStream_t{});
    batch.used_on(0); // says nothing new
  });
  used_on([](auto& batch) { batch.used_on(cudaStreamLegacy); });
  auto kept = ps::deferred<U>(gpu);
  auto values = ps::device_array<U>(gpu, 1);
  std::uint64_t records = 0;
  const cudaStream_t null{};
  for (auto batch : pipeline.on(null)) {
    kept.put(values.data(), nullptr);
    batch.used_on(stream);
    records += batch.size();
  }
  for (auto batch : pipeline.on(nullptr)) {
    kept.put(values.data(), stream);
    records += batch.size();
  }
  CHECK(records == 2 * numbers().size());
  CHECK(kept.size() == 2 * batch_count);
  CHECK(kept[kept.size() - 1].get() == 0);
  for (auto batch : pipeline.on(0)) {
    records += batch.size();
  }
  using Given = ps::Batch<const U, ps::Device>;
  ps::AnyBatches<Given> any{to_device(gpu), 0};
  for (auto batch : any.batches()) {
    records += batch.size();
  }
  any = ps::AnyBatches<Given>{to_device(gpu), nullptr};
  for (auto batch : any.batches()) {
    records += batch.size();
  }
  CHECK(records == 5 * numbers().size());
}

} // namespace suite
