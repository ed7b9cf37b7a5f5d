// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How busy is the GPU if one thread takes four times as long to make its data as the GPU takes to
// work on them, and how many threads does it need?
//
// Records are lines of 64 characters, eight decimal numbers each, in memory. std::from_chars parses
// them into floats, in 64 batches of 65536 records. The model's step takes a quarter of the time
// that one thread takes to parse a batch, as measured first. The losses are checked, in their
// order.
//
//   one_thread   parse, copy, step, copy the loss back and wait for it
//   workers_N    the pipeline: N threads that parse, in place for the copy; the losses are read at
//                the end; with 1, 2, 4, 8 and 16 of them

#include "training.hpp"

#include <penstock/pipeline/pipeline.hpp>
#include <penstock/sources/memory.hpp>
#include <penstock/stages/async_copier.hpp>
#include <penstock/stages/consumer.hpp>
#include <penstock/stages/decoder.hpp>
#include <penstock/stages/reader.hpp>

#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::size_t numbers = 8;

/// For example "00123.0,04567.0,...".
struct Line {
  char text[8 * numbers];
};
struct Sample {
  float values[numbers];
};

struct Parse {
  void operator()(const Line& line, Sample& sample) const {
    const char* at = line.text;
    for (float& value : sample.values) {
      if (std::from_chars(at, at + 7, value).ec != std::errc{}) {
        throw std::runtime_error{"not a number: " + std::string{at, 7}};
      }
      at += 8;
    }
  }
};

/// Lines in memory, `batches` batches of them; a run uses them several times.
class Text {
 public:
  Text(std::size_t batch, std::size_t batches) : batch_{batch}, lines_(batch * batches) {
    sums_.resize(batches);
    for (std::size_t i = 0; i < lines_.size() * numbers; ++i) {
      const std::uint64_t value = i * 7919 % 99991;
      write(value, lines_[i / numbers].text + i % numbers * 8);
      sums_[i / (batch * numbers)] += value;
    }
  }

  const std::vector<Line>& lines() const { return lines_; }
  /// Returns batch `number` of a run.
  std::span<const Line> batch(std::size_t number) const {
    return std::span{lines_}.subspan(number % sums_.size() * batch_, batch_);
  }
  std::uint64_t checksum(std::size_t steps) const {
    LossSum sum;
    for (std::size_t i = 0; i < steps; ++i) {
      sum.add(sums_[i % sums_.size()]);
    }
    return sum.get();
  }

 private:
  static void write(std::uint64_t value, char* to) {
    for (std::size_t digit = 5; digit-- != 0; value /= 10) {
      to[digit] = static_cast<char>('0' + value % 10);
    }
    to[5] = '.';
    to[6] = '0';
    to[7] = ',';
  }

  std::size_t batch_;
  std::vector<Line> lines_;
  std::vector<std::uint64_t> sums_;
};

void parse_all(std::span<const Line> lines, std::span<Sample> samples) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Parse{}(lines[i], samples[i]);
  }
}

/// Returns how long one thread takes for a batch.
double parse_s(const Text& text, std::size_t batch) {
  constexpr std::size_t times = 8;
  std::vector<Sample> samples(batch);
  parse_all(text.batch(0), samples);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < times; ++i) {
    parse_all(text.batch(i), samples);
    benchmark::ClobberMemory();
  }
  return seconds_since(start) / times;
}

template <class D> class OneThread : public Way {
 public:
  OneThread(D& device, const Text& text, const Job& job)
      : device_{device}, text_{text}, job_{job}, samples_(job.values / numbers),
        batch_{device, job.values}, model_{device, job.values, job.rounds},
        stream_{device.stream()} {}

  std::uint64_t run() override {
    LossSum sum;
    std::uint64_t loss = 0;
    const std::size_t bytes = samples_.size() * sizeof(Sample);
    for (std::size_t i = 0; i < job_.steps; ++i) {
      parse_all(text_.batch(i), samples_);
      device_.copy_to_device(batch_.data(), samples_.data(), bytes, stream_);
      model_.step(batch_.data(), batch_.size(), stream_);
      device_.copy_to_host(&loss, model_.loss(), sizeof loss, stream_);
      device_.sync(stream_); // for the loss, and so for all before it
      sum.add(loss);
    }
    // page: end
    return sum.get();
  }

 private:
  D& device_;
  const Text& text_;
  Job job_;
  std::vector<Sample> samples_;
  ps::DeviceArray<float, D> batch_;
  Model<D> model_;
  typename D::stream_type stream_;
};

/// A pipeline with `workers` workers that parse.
template <class D>
auto parsing(D& device, const std::vector<Line>& lines, const Job& job, unsigned workers,
             Training<D>& training) {
  const std::size_t batch = job.values / numbers;
  const std::uint64_t epochs = job.steps * batch / lines.size();
  // page: workers
  return ps::Reader{ps::memory(lines), {.workers = 2, .epochs = epochs}} |
         ps::Decoder{Parse{}, ps::to_pinned, {.workers = workers}} |
         ps::AsyncCopier{device, {.batch = batch}} |
         ps::Consumer{[&](ps::Batch<const Sample, ps::Device> samples, ps::Stream<D> stream) {
           training.model.step(samples.data()->values, samples.size() * numbers, stream);
           training.losses.put(training.model.loss(), stream); // waits for nothing
         }};
  // page: end
}

} // namespace

int main(int argc, char** argv) {
  return event_on_any_device(argc, argv, []<class D>(D& device, const EventOptions& options) {
    const std::size_t batch = options.pick<std::size_t>(65536, 512);
    constexpr std::size_t batches = 16;
    constexpr std::size_t epochs = 4;
    const Text text{batch, batches};
    Job job{.values = batch * numbers, .steps = batches * epochs};
    calibrate<float>(device, options, job, parse_s(text, batch) / 4);

    const Event event{"03_too_few_loaders", options, {job.steps * batch, job.kernels_s()}, [&] {
                        return text.checksum(job.steps);
                      }};
    event.add("one_thread", [&] { return std::make_unique<OneThread<D>>(device, text, job); });
    for (const unsigned workers : {1, 2, 4, 8, 16}) {
      event.add("workers_" + std::to_string(workers), [&, workers] {
        return pipelined(device, job, [&, workers](Training<D>& training) {
          return parsing(device, text.lines(), job, workers, training);
        });
      });
    }
    return run_all();
  });
}
