// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What do batches of a few records cost, and what helps if they must stay small?
//
// 65536 records of 4 KiB, 256 MiB, go from page-locked memory to the device, where each is summed
// up. Each record contains its own number, and its sum belongs at that place. All sums, each times
// a factor for its place, are added up and checked.
//
//   by_hand_1, _8, _64    one stream: a copy and a launch for each batch of so many records
//   pipeline_1, _64       batches of 1 or 64: copies merged, kernels launched one by one
//   replayed_1_in_order   batches of one, whose kernels are launched in groups, each after the last
//   replayed_1            batches of one in 16 lanes, side by side
//   replayed_64           batches of 64 in 4 lanes
//   sized                 4096 records a batch, launched one by one
//
// The ways by hand have all records in page-locked memory from the start. The pipelines' source
// writes into a slot only the numbers of the records, which alone differ from the records there
// before: the comparison is about launches and copies, not about how fast memory is filled.

#include "add.hpp"
#include "event.hpp"
#include "pinned_array.hpp"
#include "records.cuh"

#include <penstock/callables/deferred.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

using Sample = Record<4096>;
using Samples = std::span<const Sample>;

/// For ps::generate: writes records from number `first` on into memory that is zero or has held
/// some.
struct MakeSamples {
  void operator()(std::span<Sample> out, std::uint64_t first) const {
    for (Sample& sample : out) {
      if (sample.values[Sample::size - 1] == 0) {
        for (std::size_t i = 1; i < Sample::size; ++i) {
          sample.values[i] = static_cast<std::uint32_t>(1 + i * i % 251);
        }
      }
      sample.values[0] = static_cast<std::uint32_t>(first++);
    }
  }
};

/// For sum_records(). A record that comes twice counts twice.
struct AddByNumber {
  std::uint64_t* sums;
  PENSTOCK_HD void operator()(std::size_t, const Sample& sample, std::uint64_t sum) const {
    sums[sample.values[0]] += sum;
  }
};

PENSTOCK_HD std::uint64_t factor_of(std::size_t place) {
  return 1 + place % 7;
}
struct Weigh {
  std::uint64_t* sums;
  std::uint64_t* weighed;
  PENSTOCK_HD void operator()(std::size_t place) const {
    weighed[place] = sums[place] * factor_of(place);
    sums[place] = 0; // for the next run
  }
};

/// The sums of a run.
template <ps::AnyDevice D> class Sums {
 public:
  Sums(D& device, std::size_t records)
      : sums_{device, records}, weighed_{device, records}, total_{device, 1}, workspace_{device},
        read_{device, {.results = 1}} {}

  AddByNumber adder() const { return AddByNumber{sums_.data()}; }
  /// Waits for the work enqueued on `stream`, and returns the total; for one run.
  std::uint64_t total(ps::Stream<D> stream) {
    ps::for_each(stream, sums_.size(), Weigh{sums_.data(), weighed_.data()});
    ps::reduce(stream, weighed_.data(), weighed_.size(), total_.data(), std::uint64_t{0}, Add{},
               workspace_);
    read_.clear();
    return read_.put(total_.data(), stream).get();
  }

 private:
  ps::DeviceArray<std::uint64_t, D> sums_, weighed_, total_;
  ps::Workspace<D> workspace_;
  ps::Deferred<std::uint64_t, D> read_;
};

template <ps::AnyDevice D> class ByHand : public Way {
 public:
  ByHand(D& device, Samples samples, std::size_t batch_size)
      : device_{device}, samples_{samples}, batch_size_{batch_size}, sums_{device, samples.size()},
        in_{device, batch_size}, stream_{device.stream()} {}

  std::uint64_t run() override {
    for (std::size_t first = 0; first < samples_.size(); first += batch_size_) {
      const Samples batch = samples_.subspan(first, batch_size_);
      device_.copy_to_device(in_.data(), batch.data(), batch.size_bytes(), stream_);
      sum_records(stream_, in_.data(), batch.size(), sums_.adder());
    }
    return sums_.total(stream_); // the first wait
    // page: end
  }

 private:
  D& device_;
  Samples samples_;
  std::size_t batch_size_;
  Sums<D> sums_;
  ps::DeviceArray<Sample, D> in_;
  typename D::stream_type stream_;
};

template <ps::AnyDevice D>
auto launched(D& device, std::size_t records, std::size_t batch_size, AddByNumber add) {
  return ps::Reader{ps::generate<Sample>(records, MakeSamples{}), ps::to_pinned} |
         ps::AsyncCopier{device, {.batch = batch_size}} |
         ps::Consumer{[add](ps::Batch<const Sample, ps::Device> batch, ps::Stream<D> stream) {
           sum_records(stream, batch.data(), batch.size(), add);
         }};
}

template <ps::AnyDevice D>
auto replayed(D& device, std::size_t records, std::size_t batch_size, AddByNumber add,
              unsigned lanes) {
  return ps::Reader{ps::generate<Sample>(records, MakeSamples{}), ps::to_pinned} |
         ps::AsyncCopier{device, {.batch = batch_size}} |
         // page: replayed
         ps::Consumer{ps::replayed(
             [add](ps::FrozenBatch<const Sample> batch, ps::Stream<D> stream) {
               sum_records(stream, batch.data(), batch.size(), add);
             },
             {.lanes = lanes})};
  // page: end
}

/// make(add) returns the pipeline.
template <ps::AnyDevice D, class Make> class Piped : public Way {
 public:
  Piped(D& device, std::size_t records, const Make& make)
      : sums_{device, records}, stream_{device.stream()}, pipeline_{make(sums_.adder())} {
    pipeline_.prepare();
  }

  std::uint64_t run() override {
    pipeline_.run();
    return sums_.total(stream_);
  }
  /// The notes of stages, for example that nothing could be captured.
  std::string label() const override {
    std::string notes;
    for (const ps::StageReport& stage : pipeline_.report().stages) {
      notes += stage.note.empty() ? "" : stage.name + ": " + stage.note + ' ';
    }
    return notes;
  }

 private:
  Sums<D> sums_;
  typename D::stream_type stream_;
  std::invoke_result_t<const Make&, AddByNumber> pipeline_;
};
template <ps::AnyDevice D, class Make>
std::unique_ptr<Way> piped(D& device, std::size_t records, const Make& make) {
  return std::make_unique<Piped<D, Make>>(device, records, make);
}

std::uint64_t expected(Samples samples) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    sum += sum_of(samples[i]) * factor_of(i);
  }
  return sum;
}

} // namespace

int main(int argc, char** argv) {
  return event_on_any_device(argc, argv, []<class D>(D& device, const EventOptions& options) {
    const std::size_t records = options.pick(65536, 256);
    const PinnedArray<Sample, D> in_pinned{device, records};
    MakeSamples{}(in_pinned.span(), 0);
    const Samples samples{in_pinned.span()};

    const double ceiling_s = static_cast<double>(samples.size_bytes()) / napkin::link;
    const Event event{
        "09_small_batches", options, {records, ceiling_s}, [samples] { return expected(samples); }};
    const auto by_hand = [&](std::size_t batch_size) {
      return [=, &device] { return std::make_unique<ByHand<D>>(device, samples, batch_size); };
    };
    const auto by_pipeline = [&](std::size_t batch_size) {
      return [=, &device] {
        return piped(device, records, [=, &device](AddByNumber add) {
          return launched(device, records, batch_size, add);
        });
      };
    };
    const auto by_replay = [&](std::size_t batch_size, unsigned lanes) {
      return [=, &device] {
        return piped(device, records, [=, &device](AddByNumber add) {
          return replayed(device, records, batch_size, add, lanes);
        });
      };
    };
    event.add("by_hand_1", by_hand(1));
    event.add("by_hand_8", by_hand(8));
    event.add("by_hand_64", by_hand(64));
    event.add("pipeline_1", by_pipeline(1));
    event.add("pipeline_64", by_pipeline(64));
    event.add("replayed_1_in_order", by_replay(1, 1));
    event.add("replayed_1", by_replay(1, 16));
    event.add("replayed_64", by_replay(64, 4));
    event.add("sized", by_pipeline(4096));
    return run_all();
  });
}
