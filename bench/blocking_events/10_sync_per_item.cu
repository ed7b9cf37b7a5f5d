// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does it cost to wait for the GPU, and to allocate, once for each item?
//
// Each of 3000 items, of 64 KiB, gets a score: a sum over its values. The sum of all scores, each
// times the number of its item, is checked.
//
//   item             a function that allocates, copies, launches, copies back, waits and frees
//   no_allocations   item with buffers that are kept
//   pinned           no_allocations with items and score in page-locked memory
//   deferred         a loop that waits once, when the scores are read at the end
//   batched          deferred, with 64 items a copy and a launch
//   pipeline_1       a pipeline from pageable memory, an item a batch, scores deferred
//   pipeline_64      such a pipeline, 64 items a batch
//
// A pipeline's run() itself waits two or three times at its end, however many items there are: for
// its own stream of copies, and for the Consumer's stream and last event. The loops therefore have
// one wait, and the pipelines three or four.

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
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

using Item = Record<std::size_t{64} << 10>;
using Items = std::span<const Item>;

/// The scores of a batch.
template <std::size_t most> struct Scores {
  std::uint64_t of[most];
};
/// For sum_records(): the score of item i of a batch.
struct Put {
  std::uint64_t* scores;
  PENSTOCK_HD void operator()(std::size_t i, const Item&, std::uint64_t sum) const {
    scores[i] = sum;
  }
};

/// The checksum of a run.
class ScoreSum {
 public:
  /// Scores come in order.
  void add(std::uint64_t score) { sum_ += ++items_ * score; }
  std::uint64_t get() const { return sum_; }

 private:
  std::uint64_t items_{};
  std::uint64_t sum_{};
};

template <ps::AnyDevice D>
std::uint64_t score(const Item& item, D& device, ps::Stream<D> stream) {
  auto* const in = static_cast<Item*>(device.allocate(sizeof(Item)));
  auto* const out = static_cast<std::uint64_t*>(device.allocate(sizeof(std::uint64_t)));
  device.copy_to_device(in, &item, sizeof(Item), stream);
  sum_records(stream, in, 1, Put{out});
  std::uint64_t result = 0;
  device.copy_to_host(&result, out, sizeof result, stream);
  device.sync(stream);
  device.deallocate(in, sizeof(Item));
  device.deallocate(out, sizeof(std::uint64_t));
  return result;
}
// page: end

/// Calls score() in a loop.
template <class D> class OneByOne : public Way {
 public:
  OneByOne(D& device, Items items) : device_{device}, items_{items}, stream_{device.stream()} {}

  std::uint64_t run() override {
    ScoreSum sum;
    for (const Item& item : items_) {
      sum.add(score(item, device_, stream_));
    }
    return sum.get();
  }

 private:
  D& device_;
  Items items_;
  typename D::stream_type stream_;
};

/// Does what score() does with memory that is kept. `pinned`: the score comes back into page-locked
/// memory too.
template <class D> class Kept : public Way {
 public:
  Kept(D& device, Items items, bool pinned)
      : device_{device}, items_{items}, in_{device, 1}, out_{device, 1}, pinned_{device, 1},
        result_{pinned ? pinned_.data() : &pageable_}, stream_{device.stream()} {}

  std::uint64_t run() override {
    ScoreSum sum;
    for (const Item& item : items_) {
      device_.copy_to_device(in_.data(), &item, sizeof(Item), stream_);
      sum_records(stream_, in_.data(), 1, Put{out_.data()});
      device_.copy_to_host(result_, out_.data(), sizeof *result_, stream_);
      device_.sync(stream_);
      sum.add(*result_);
    }
    return sum.get();
  }

 private:
  D& device_;
  Items items_;
  ps::DeviceArray<Item, D> in_;
  ps::DeviceArray<std::uint64_t, D> out_;
  PinnedArray<std::uint64_t, D> pinned_;
  std::uint64_t pageable_{};
  std::uint64_t* result_;
  typename D::stream_type stream_;
};

/// The scores of a run, a value for each batch of up to `most` items.
template <class D, std::size_t most> class DeferredScores {
 public:
  DeferredScores(D& device, std::size_t items)
      : items_{items}, values_{device, {.results = (items + most - 1) / most}} {}

  ps::Deferred<Scores<most>, D>& values() { return values_; }
  /// Blocks once, for the last score, and thereby for all.
  std::uint64_t read() {
    values_[values_.size() - 1].get();
    ScoreSum sum;
    for (std::size_t i = 0; i < items_; i += most) {
      const Scores<most> batch = values_[i / most].get();
      for (std::size_t k = 0; k < std::min(most, items_ - i); ++k) {
        sum.add(batch.of[k]);
      }
    }
    return sum.get();
  }

 private:
  std::size_t items_;
  ps::Deferred<Scores<most>, D> values_;
};

/// A loop by hand over page-locked items, `most` at a time.
template <class D, std::size_t most> class Loop : public Way {
 public:
  Loop(D& device, Items items)
      : device_{device}, items_{items}, in_{device, most}, out_{device, 1},
        scores_{device, items.size()}, stream_{device.stream()} {}

  std::uint64_t run() override {
    auto& scores = scores_.values();
    scores.clear();
    for (std::size_t first = 0; first < items_.size(); first += most) {
      const Items batch = items_.subspan(first, std::min(most, items_.size() - first));
      device_.copy_to_device(in_.data(), batch.data(), batch.size_bytes(), stream_);
      sum_records(stream_, in_.data(), batch.size(), Put{out_.data()->of});
      scores.put(out_.data(), stream_); // enqueues a copy, and waits for nothing
    }
    return scores_.read(); // waits once, for the last
    // page: end
  }

 private:
  D& device_;
  Items items_;
  ps::DeviceArray<Item, D> in_;
  ps::DeviceArray<Scores<most>, D> out_;
  DeferredScores<D, most> scores_;
  typename D::stream_type stream_;
};

template <class D, std::size_t most>
auto make_pipeline(D& device, Items items, Scores<most>* out,
                   ps::Deferred<Scores<most>, D>& scores) {
  // page: pipeline
  return ps::Reader{ps::memory(items), ps::to_pinned} | ps::AsyncCopier{device, {.batch = most}} |
         ps::Consumer{
             [out, &scores](ps::Batch<const Item, ps::Device> batch, ps::Stream<D> stream) {
               sum_records(stream, batch.data(), batch.size(), Put{out->of});
               scores.put(out, stream);
             }};
  // page: end
}

template <class D, std::size_t most> class Piped : public Way {
 public:
  Piped(D& device, Items items)
      : out_{device, 1}, scores_{device, items.size()},
        pipeline_{make_pipeline<D, most>(device, items, out_.data(), scores_.values())} {
    pipeline_.prepare();
  }

  std::uint64_t run() override {
    scores_.values().clear();
    pipeline_.run();
    return scores_.read();
  }

 private:
  using Pipeline = decltype(make_pipeline<D, most>(std::declval<D&>(), Items{}, nullptr,
                                                   std::declval<ps::Deferred<Scores<most>, D>&>()));

  ps::DeviceArray<Scores<most>, D> out_;
  DeferredScores<D, most> scores_;
  Pipeline pipeline_;
};

void fill(std::span<Item> items) {
  std::uint32_t state = 1;
  for (Item& item : items) {
    for (std::uint32_t& value : item.values) {
      state = state * 1664525 + 1013904223;
      value = state >> 8;
    }
  }
}

std::uint64_t expected(Items items) {
  ScoreSum sum;
  for (const Item& item : items) {
    sum.add(sum_of(item));
  }
  return sum.get();
}

} // namespace

int main(int argc, char** argv) {
  return event_on_any_device(argc, argv, []<class D>(D& device, const EventOptions& options) {
    const std::size_t count = options.pick(3000, 100);
    std::vector<Item> in_pageable(count);
    fill(in_pageable);
    const PinnedArray<Item, D> in_pinned{device, count};
    std::copy(in_pageable.begin(), in_pageable.end(), in_pinned.data());
    const Items items{in_pageable};
    const Items pinned{in_pinned.span()};

    const double ceiling_s = static_cast<double>(items.size_bytes()) / napkin::link;
    const Event event{
        "10_sync_per_item", options, {count, ceiling_s}, [items] { return expected(items); }};
    event.add("item", [=, &device] { return std::make_unique<OneByOne<D>>(device, items); });
    event.add("no_allocations",
              [=, &device] { return std::make_unique<Kept<D>>(device, items, false); });
    event.add("pinned", [=, &device] { return std::make_unique<Kept<D>>(device, pinned, true); });
    event.add("deferred", [=, &device] { return std::make_unique<Loop<D, 1>>(device, pinned); });
    event.add("batched", [=, &device] { return std::make_unique<Loop<D, 64>>(device, pinned); });
    event.add("pipeline_1", [=, &device] { return std::make_unique<Piped<D, 1>>(device, items); });
    event.add("pipeline_64",
              [=, &device] { return std::make_unique<Piped<D, 64>>(device, items); });
    return run_all();
  });
}
