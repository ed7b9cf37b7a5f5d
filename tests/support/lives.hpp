// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small pipelines, one for each stage and way of going on, whose results are one number: for tests
// that take something away from them, such as memory.

#include "support/temp_dir.hpp"

#include <penstock/callables/deferred.hpp>
#include <penstock/formats/lines.hpp>
#include <penstock/host/algorithm.hpp>
#include <penstock/io/uring.hpp>
#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>
#include <penstock/sources/mix.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace penstock::tests::lives {

namespace ps = penstock;
using namespace std::chrono_literals;

using Number = std::uint64_t;
using OnHost = ps::Batch<const Number, ps::Pageable>;
using OnDevice = ps::Batch<const Number, ps::Device>;

constexpr Number count = 60;
constexpr std::size_t a_batch = 20;
constexpr Number sum_of_all = count * (count - 1) / 2;

struct Files {
  Files() {
    std::vector<Number> numbers(count);
    std::iota(numbers.begin(), numbers.end(), Number{0});
    for (std::size_t part = 0; part != 3; ++part) {
      paths.push_back(dir.write("numbers" + std::to_string(part),
                                std::as_bytes(std::span{numbers}.subspan(part * 20, 20))));
    }
    std::string text;
    for (const Number n : numbers) {
      text += std::to_string(n) + '\n';
    }
    lines = dir.write("lines", text);
  }
  tests::TempDir dir;
  std::vector<std::string> paths;
  std::string lines;
};

// A pipeline, with all that it needs. run() returns the sum of the records that came out.
struct Life {
  virtual ~Life() = default;
  virtual Number run() = 0;

  std::atomic<Number> sum{0};
  auto adds() {
    return [this](OnHost batch) {
      sum += std::accumulate(batch.data(), batch.data() + batch.size(), Number{0});
    };
  }
};
// One that ends in a Consumer or a Writer; `reset` and `result` lie around a run.
struct Closed : Life {
  Number run() override {
    sum = 0;
    pipeline.run();
    return sum;
  }
  ps::AnyPipeline pipeline;
};
using Make = std::function<std::unique_ptr<Life>()>;

inline ps::ReaderOptions readers(unsigned workers = 2) {
  return {.workers = workers, .depth = 4, .batch = a_batch};
}

/// Reads, and no more.
struct Read : Closed {
  template <class Io>
  Read(const Files& files, Io io, DirectReads direct = DirectReads::automatic, Order order = {}) {
    pipeline =
        ps::AnyPipeline{ps::Reader{ps::records<Number>(files.paths, {.direct = direct}, io),
                                   {.workers = 2, .depth = 4, .order = order, .batch = a_batch}} |
                        ps::Consumer{adds(), {.workers = 2}}};
  }
};
struct HostOnly : Closed {
  explicit HostOnly(const Files& files) {
    pipeline = ps::AnyPipeline{ps::Reader{ps::records<Number>(files.paths), readers()} |
                               ps::Decoder{[](const Number& in, Number& out) { out = in; },
                                           {.workers = 2, .on_error = {.retries = 1, .skips = 2}}} |
                               ps::Consumer{adds(), {.workers = 2}}};
  }
};
// Reads in a random order, all records of a world of one in two epochs, by position.
struct Shuffled : Closed {
  explicit Shuffled(const Files& files) {
    pipeline = ps::AnyPipeline{ps::Reader{ps::mix<Number>(std::vector<ps::Share<Number>>{
                                              {ps::records<Number>(files.paths), 1},
                                              {ps::records<Number>(files.paths), 1}}),
                                          {.workers = 2,
                                           .depth = 4,
                                           .order = {.shuffle = 1, .records = 2 * count},
                                           .batch = a_batch}} |
                               ps::Consumer{adds()}};
  }
  Number run() override {
    sum = 0;
    pipeline.run();
    return sum / 2;
  }
};
struct Lines : Closed {
  explicit Lines(const Files& files) {
    using Line = decltype(ps::lines(files.lines))::schema;
    pipeline =
        ps::AnyPipeline{ps::Reader{ps::lines(files.lines),
                                   {.workers = 2, .order = {.shuffle = 1}, .batch = a_batch}} |
                        ps::Decoder{[](ps::Row<const Line> in, Number& out) {
                          const auto text = ps::get<"text">(in);
                          out = std::stoull(std::string{text.data(), text.size()});
                        }} |
                        ps::Consumer{adds()}};
  }
};
struct Outputs : Closed {
  explicit Outputs(const Files& files) {
    pipeline = ps::AnyPipeline{
        ps::Reader{ps::records<Number>(files.paths), readers()} |
        ps::Decoder{[](OnHost in, ps::Output<Number>& out) {
                      for (std::size_t i = 0; i != in.size(); ++i) {
                        out.push(in.data()[i]);
                      }
                    },
                    {.workers = 2, .group = 10}} |
        ps::Consumer{ps::each_worker([this] { return [this](OnHost batch) { adds()(batch); }; },
                                     [this](auto&) { ++parts; })}};
  }
  std::atomic<int> parts{0};
};
struct Written : Closed {
  explicit Written(const Files& files) : path{files.dir / "out"} {
    pipeline = ps::AnyPipeline{ps::Reader{ps::records<Number>(files.paths), readers()} |
                               ps::Writer{path, {.workers = 2}}};
  }
  Number run() override {
    pipeline.run();
    std::ifstream file{path, std::ios::binary};
    Number all = 0;
    for (Number n = 0; file.read(reinterpret_cast<char*>(&n), sizeof n);) {
      all += n;
    }
    return all;
  }
  std::string path;
};
// One that ends in work on a device.
struct WithDevice : Closed {
  ~WithDevice() override { pipeline = {}; }
  auto adds_there() {
    return [this](OnDevice in, ps::HostStream& stream) {
      stream.enqueue(
          [this, in] { sum += std::accumulate(in.data(), in.data() + in.size(), Number{0}); });
    };
  }
  ps::HostDevice device;
};
struct Staged : WithDevice {
  explicit Staged(const Files& files) {
    pipeline = ps::AnyPipeline{
        ps::Reader{ps::records<Number>(files.paths), readers()} | ps::PinnedStager{{.workers = 2}} |
        ps::AsyncCopier{device, {.batch = a_batch}} | ps::Consumer{adds_there()}};
  }
};
struct Copied : WithDevice {
  explicit Copied(const Files& files) {
    pipeline =
        ps::AnyPipeline{ps::Reader{ps::records<Number>(files.paths), ps::to_pinned, readers()} |
                        ps::AsyncCopier{device, {.batch = a_batch}} | ps::Consumer{adds_there()}};
  }
};
struct InPlace : WithDevice {
  explicit InPlace(const Files& files) {
    pipeline = ps::AnyPipeline{
        ps::Reader{ps::records<Number>(files.paths), ps::to_pinned, readers()} |
        ps::AsyncCopier{device, {.batch = a_batch}} |
        ps::Kernel{[](ps::Batch<Number, ps::Device> batch, ps::HostStream& stream) {
          ps::for_each(stream, batch.size(), [at = batch.data()](std::size_t i) { ++at[i]; });
        }} |
        ps::Consumer{adds_there()}};
  }
  Number run() override { return Closed::run() - count; }
};
// To a device and back, through a Kernel.
struct BothWays : WithDevice {
  explicit BothWays(const Files& files) {
    pipeline =
        ps::AnyPipeline{ps::Reader{ps::records<Number>(files.paths), readers()} |
                        ps::PinnedStager{} | ps::AsyncCopier{device, {.batch = a_batch}} |
                        ps::Kernel{[](OnDevice in, ps::Batch<Number, ps::Device> out,
                                      ps::HostStream& stream) { device_copy(in, out, stream); }} |
                        ps::AsyncCopier{ps::to_host} |
                        ps::Consumer{[this](ps::Batch<const Number, ps::Pinned> batch) {
                          sum +=
                              std::accumulate(batch.data(), batch.data() + batch.size(), Number{0});
                        }}};
  }
  static void device_copy(OnDevice in, ps::Batch<Number, ps::Device> out, ps::HostStream& stream) {
    ps::for_each(stream, in.size(),
                 [from = in.data(), to = out.data()](std::size_t i) { to[i] = from[i]; });
  }
};
struct Replayed : WithDevice {
  explicit Replayed(const Files& files) {
    pipeline = ps::AnyPipeline{
        ps::Reader{ps::records<Number>(files.paths), ps::to_pinned, readers()} |
        ps::AsyncCopier{device, {.batch = a_batch}} |
        ps::Consumer{ps::replayed(
            [this](ps::FrozenBatch<const Number, ps::Device> in, ps::HostStream& stream) {
              ps::for_each(stream, in.size(),
                           [from = in.data(), to = &sum](std::size_t i) { *to += from[i]; });
            })}};
  }
};
// A loop whose sums come back as deferred values, watched from beside.
struct Loop : Life {
  explicit Loop(const Files& files)
      : stream{device.stream()}, results{ps::deferred<Number>(device, {.results = 3})},
        one{ps::device_array<Number>(device, 1)},
        data{ps::Reader{ps::records<Number>(files.paths), ps::to_pinned, readers()} |
                 ps::AsyncCopier{device, {.batch = a_batch}},
             stream} {}
  Number run() override {
    results.clear();
    for (auto batch : data.batches({.stalled = [](const ps::Stall&) {}, .stall_limit = 3600s})) {
      ps::for_each(stream, 1, [in = batch.data(), n = batch.size(), to = one.data()](std::size_t) {
        *to = std::accumulate(in, in + n, Number{0});
      });
      results.put(one.data(), stream);
    }
    Number all = 0;
    for (std::size_t i = 0; i != results.size(); ++i) {
      all += results[i].get();
    }
    return all;
  }
  ps::HostDevice device;
  ps::HostStream stream;
  ps::Deferred<Number, ps::HostDevice> results;
  ps::DeviceArray<Number, ps::HostDevice> one;
  ps::AnyBatches<OnDevice> data;
};
struct Fan : Life {
  explicit Fan(const Files& files)
      : fan{ps::FanOut{ps::Reader{ps::records<Number>(files.paths), ps::to_pinned, readers()},
                       devices,
                       {.batch = a_batch}}} {}
  Number run() override {
    sum = 0;
    std::exception_ptr errors[2];
    const auto loop = [&](std::size_t i) {
      try {
        ps::HostStream stream = devices[i].stream();
        for (auto batch : fan.on(i, stream)) {
          stream.enqueue([this, in = batch.data(), n = batch.size()] {
            sum += std::accumulate(in, in + n, Number{0});
          });
        }
        stream.sync();
      } catch (...) {
        errors[i] = std::current_exception();
      }
    };
    std::thread other{loop, std::size_t{1}};
    loop(0);
    other.join();
    for (const std::exception_ptr& error : errors) {
      if (error) {
        std::rethrow_exception(error);
      }
    }
    return sum / 2;
  }
  std::array<ps::HostDevice, 2> devices;
  ps::FanOut<Number, ps::HostDevice> fan;
};
// A source of its own that tells what it does.
struct Noted : Closed {
  struct Own {
    using schema = Number;
    std::uint64_t size() const { return count; }
    template <ps::HostSpace Where> std::size_t read(ps::Batch<Number, Where> into) const {
      std::iota(into.data(), into.data() + into.size(), into.index());
      return into.size();
    }
    void note(std::string& to) const { to += std::string(100, 'n'); }
  };
  explicit Noted(const Files&) {
    pipeline = ps::AnyPipeline{ps::Reader{Own{}, readers(1)} | ps::Consumer{adds()}};
  }
};

} // namespace penstock::tests::lives
