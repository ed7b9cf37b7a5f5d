// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Does the GPU wait for its data if a batch takes less time to load than to work on, but only on
// average?
//
// 80 batches of 20 MiB of floats. One thread loads each by a memcpy from pageable memory; every
// 16th takes twelve times as long, like a page from the disk. The model's step takes 1.25 times as
// long as loading and copying a batch take on average, as measured first: the kernels are the limit
// if nothing stalls. The losses are checked, in their order.
//
//   in_turn        load, copy, step, wait for the loss
//   double_buffer  two buffers and two streams by hand: a batch is loaded and copied while the step
//                  before runs, and the losses are read at the end
//   pipeline_2     the pipeline, with one thread that loads, two places in pinned memory and two on
//                  the device
//   pipeline_4     with four and four
//   pipeline_8     with eight and eight

#include "pinned_array.hpp"
#include "training.hpp"

#include <penstock/pipeline/pipeline.hpp>
#include <penstock/sources/generate.hpp>
#include <penstock/stages/async_copier.hpp>
#include <penstock/stages/consumer.hpp>
#include <penstock/stages/reader.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

/// Batches in pageable memory, more than the processor's caches hold; a long run repeats them.
class Batches {
 public:
  explicit Batches(std::size_t floats) : floats_{floats}, data_(kept * floats) {
    for (std::size_t i = 0; i < data_.size(); ++i) {
      const std::uint64_t value = i * (i / floats + 3) % 1021;
      data_[i] = static_cast<float>(value);
      sums_[i / floats] += value;
    }
  }

  /// Loads batch `number` of a run. Blocks for as long as that takes.
  void load(std::size_t number, std::span<float> into) const {
    const std::size_t times = number % kept == kept - 1 ? 12 : 1;
    for (std::size_t i = 0; i < times; ++i) {
      std::memcpy(into.data(), data_.data() + number % kept * floats_, into.size_bytes());
      benchmark::ClobberMemory(); // else a compiler may leave out repeated copies
    }
  }
  /// Returns how long load() takes on average.
  double mean_load_s(std::span<float> into) const {
    load(0, into);
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < 2 * kept; ++i) {
      load(i, into);
    }
    return seconds_since(start) / (2 * kept);
  }
  std::uint64_t checksum(std::size_t steps) const {
    LossSum sum;
    for (std::size_t i = 0; i < steps; ++i) {
      sum.add(sums_[i % kept]);
    }
    return sum.get();
  }

 private:
  static constexpr std::size_t kept = 16;

  std::size_t floats_;
  std::vector<float> data_;
  std::array<std::uint64_t, kept> sums_{};
};

template <class D> class InTurn : public Way {
 public:
  InTurn(D& device, const Batches& data, const Job& job)
      : device_{device}, data_{data}, job_{job}, pinned_{device, job.values},
        batch_{device, job.values}, model_{device, job.values, job.rounds},
        stream_{device.stream()} {}

  std::uint64_t run() override {
    LossSum sum;
    const std::span<float> pinned = pinned_.span();
    std::uint64_t loss = 0;
    for (std::size_t i = 0; i < job_.steps; ++i) {
      data_.load(i, pinned);
      device_.copy_to_device(batch_.data(), pinned.data(), pinned.size_bytes(), stream_);
      model_.step(batch_.data(), batch_.size(), stream_);
      device_.copy_to_host(&loss, model_.loss(), sizeof loss, stream_);
      device_.sync(stream_);
      sum.add(loss);
    }
    // page: end
    return sum.get();
  }

 private:
  D& device_;
  const Batches& data_;
  Job job_;
  PinnedArray<float, D> pinned_;
  ps::DeviceArray<float, D> batch_;
  Model<D> model_;
  typename D::stream_type stream_;
};

template <class D> class DoubleBuffer : public Way {
 public:
  DoubleBuffer(D& device, const Batches& data, const Job& job)
      : device_{device}, data_{data}, job_{job}, training_{device, job},
        buffers_{Buffer{device, job.values}, Buffer{device, job.values}}, copying_{device.stream()},
        computing_{device.stream()} {}

  std::uint64_t run() override {
    training_.losses.clear();
    for (std::size_t i = 0; i < job_.steps; ++i) {
      Buffer& buffer = buffers_[i % 2];
      const std::span<float> pinned = buffer.pinned.span();
      device_.sync(buffer.used); // until the step before the last is done
      data_.load(i, pinned);     // while the last one runs
      device_.copy_to_device(buffer.batch.data(), pinned.data(), pinned.size_bytes(), copying_);
      device_.record(buffer.copied, copying_);
      device_.wait(computing_, buffer.copied);
      training_.model.step(buffer.batch.data(), buffer.batch.size(), computing_);
      device_.record(buffer.used, computing_);
      training_.losses.put(training_.model.loss(), computing_);
    }
    return training_.checksum();
  }

 private:
  struct Buffer {
    Buffer(D& device, std::size_t floats)
        : pinned{device, floats}, batch{device, floats}, copied{device.event()},
          used{device.event()} {}
    PinnedArray<float, D> pinned;
    ps::DeviceArray<float, D> batch;
    typename D::event_type copied, used;
  };

  D& device_;
  const Batches& data_;
  Job job_;
  Training<D> training_;
  std::array<Buffer, 2> buffers_;
  typename D::stream_type copying_, computing_;
};

/// A pipeline with room for `ahead` batches in pinned memory, and for as many on the device.
template <class D>
auto prefetching(D& device, const Batches& data, const Job& job, std::size_t ahead,
                 Training<D>& training) {
  const std::size_t batch = job.values;
  // page: pipeline
  const auto load = [&data, batch](std::span<float> out, std::uint64_t first) {
    data.load(first / batch, out);
  };
  return ps::Reader{ps::generate<float>(job.steps * batch, load),
                    ps::to_pinned,
                    {.workers = 1, .depth = ahead, .batch = batch}} |
         ps::AsyncCopier{device, {.batch = batch, .depth = ahead}} |
         ps::Consumer{[&](ps::Batch<const float, ps::Device> floats, ps::Stream<D> stream) {
           training.model.step(floats.data(), floats.size(), stream);
           training.losses.put(training.model.loss(), stream);
         }};
  // page: end
}

} // namespace

int main(int argc, char** argv) {
  return event_on_any_device(argc, argv, []<class D>(D& device, const EventOptions& options) {
    // The device has room for three copies of 12 MiB: batches smaller than 18 MiB have more than
    // two places there, whatever depth is asked for.
    Job job{.values = options.pick<std::size_t>(5 << 20, 16 << 10),
            .steps = options.pick<std::size_t>(80, 48)};
    const Batches data{job.values};
    const double bytes = 4.0 * static_cast<double>(job.values);
    const double load_s = data.mean_load_s(PinnedArray<float, D>{device, job.values}.span());
    calibrate<float>(device, options, job, 1.25 * (load_s + bytes / napkin::link));

    const Event event{"02_waiting_for_data", options, {job.steps, job.kernels_s()}, [&] {
                        return data.checksum(job.steps);
                      }};
    event.add("in_turn", [&] { return std::make_unique<InTurn<D>>(device, data, job); });
    event.add("double_buffer",
              [&] { return std::make_unique<DoubleBuffer<D>>(device, data, job); });
    for (const std::size_t ahead : {2, 4, 8}) {
      event.add("pipeline_" + std::to_string(ahead), [&, ahead] {
        return pipelined(device, job, [&, ahead](Training<D>& training) {
          return prefetching(device, data, job, ahead, training);
        });
      });
    }
    return run_all();
  });
}
