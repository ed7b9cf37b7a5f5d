// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pipelines that feed several GPUs at once.

#include "support/several/data.hpp"
#include "support/several/devices.hpp"
#include "support/several/row.hpp"
#include "support/threads.hpp"

#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace penstock_bench {

/// How data is read for several GPUs.
struct How {
  unsigned workers = 0; ///< Of each pipeline; 0: as the library decides.
  bool same = false;    ///< All get all of it; else each gets its share, several times.
  unsigned rounds = 1;  ///< How often each gets as many bytes as there are.
};

/// Reads what a rank gets, as many bytes as there are in each round, into pinned memory.
template <class Source>
auto reader(const Source& source, const How& how, const penstock::Ranks& ranks) {
  penstock::ReaderOptions options{.workers = how.workers, .epochs = how.rounds};
  if (!how.same) {
    options.epochs *= ranks.world;
    options.order = {.ranks = ranks, .uneven = penstock::Uneven::keep};
  }
  return penstock::Reader{source, penstock::to_pinned, options};
}
/// Does that, and copies it to the device.
template <class Source>
auto open_pipeline(Gpu& device, const Source& source, const How& how,
                   const penstock::Ranks& ranks) {
  constexpr std::size_t blocks = 4 * MiB / sizeof(Block);
  return reader(source, how, ranks) | penstock::AsyncCopier{device, {.batch = blocks}};
}
/// Does that, and adds it to `sum`, unless that is null.
template <class Source>
auto fed(Gpu& device, const Source& source, const How& how, const penstock::Ranks& ranks,
         Sum* sum) {
  return open_pipeline(device, source, how, ranks) |
         penstock::Consumer{
             [sum](penstock::Batch<const Block, penstock::Device> batch, GpuStream stream) {
               if (sum) {
                 sum->add(batch.data(), batch.size_bytes(), stream);
               }
             }};
}

/// What a run says of its workers.
struct Workers {
  unsigned readers{};
  double depth_in_use{};
  explicit Workers(const penstock::Report& report)
      : readers{report.stages.at(0).workers}, depth_in_use{report.stages.at(0).depth_in_use} {}
  void count(benchmark::State& state) const {
    state.counters["workers"] = readers;
    state.counters["slots_in_use"] = depth_in_use;
  }
};

/// Feeds one GPU all that a source has for it, to a Consumer that does nothing, unless checked.
template <class Source> class Feeding {
 public:
  Feeding(Gpu& device, const Source& source, const How& how, const penstock::Ranks& ranks,
          bool checked)
      : device_{device}, sum_{checked ? std::make_unique<Sum>(device) : nullptr},
        pipeline_{fed(device, source, how, ranks, sum_.get())} {
    const auto attached = device_.attach();
    pipeline_.prepare();
  }

  void run() {
    const auto attached = device_.attach();
    pipeline_.run();
  }
  /// Returns the sum of what has come since it was last asked; 0 if it is not checked.
  std::uint64_t sum() {
    if (!sum_) {
      return 0;
    }
    const std::uint64_t all = sum_->get();
    return all - std::exchange(before_, all);
  }
  penstock::Report report() const { return pipeline_.report(); }

 private:
  Gpu& device_;
  std::unique_ptr<Sum> sum_;
  std::uint64_t before_{};
  decltype(fed(std::declval<Gpu&>(), std::declval<const Source&>(), {}, {}, nullptr)) pipeline_;
};

/// A pipeline and a thread for each GPU.
template <class Source> class Pipelines : public Row {
 public:
  Pipelines(const Devices& devices, std::size_t gpus, const Source& source, const How& how,
            bool checked) {
    feeding_.resize(gpus);
    on_threads(gpus, [&, this](std::size_t i) {
      feeding_[i] = std::make_unique<Feeding<Source>>(
          devices[i], source, how,
          penstock::Ranks{.rank = static_cast<std::uint32_t>(i),
                          .world = static_cast<std::uint32_t>(gpus)},
          checked);
    });
  }
  std::uint64_t run() override {
    on_threads(feeding_.size(), [this](std::size_t i) { feeding_[i]->run(); });
    std::uint64_t sum = 0;
    for (const auto& one : feeding_) {
      sum += one->sum();
    }
    return sum;
  }
  std::string label() const override {
    return "held back by " + feeding_.at(0)->report().limiting_stage;
  }
  void count(benchmark::State& state) const override {
    Workers{feeding_.at(0)->report()}.count(state);
  }

 private:
  std::vector<std::unique_ptr<Feeding<Source>>> feeding_;
};

/// One thread that takes a batch of each GPU's pipeline in turn.
template <class Source> class InTurn : public Row {
 public:
  InTurn(const Devices& devices, std::size_t gpus, const Source& source, const How& how,
         bool checked)
      : devices_{devices} {
    for (std::size_t i = 0; i != gpus; ++i) {
      loops_.push_back(
          std::make_unique<Loop>(devices[i], source, how,
                                 penstock::Ranks{.rank = static_cast<std::uint32_t>(i),
                                                 .world = static_cast<std::uint32_t>(gpus)},
                                 checked));
    }
  }
  std::uint64_t run() override {
    std::vector<Run> runs;
    for (const auto& loop : loops_) {
      runs.push_back(loop->pipeline.on(loop->stream));
    }
    for (bool any = true; any;) {
      any = false;
      for (std::size_t i = 0; i != runs.size(); ++i) {
        const auto attached = devices_[i].attach();
        if (const auto batch = runs[i].next()) {
          any = true;
          if (loops_[i]->sum) {
            loops_[i]->sum->add(batch.data(), batch.size_bytes(), loops_[i]->stream);
          }
        }
      }
    }
    std::uint64_t sum = 0;
    for (const auto& loop : loops_) {
      if (loop->sum) {
        const std::uint64_t all = loop->sum->get();
        sum += all - std::exchange(loop->before, all);
      }
    }
    return sum;
  }
  void count(benchmark::State& state) const override {
    Workers{loops_.at(0)->pipeline.report()}.count(state);
  }

 private:
  using Open = decltype(open_pipeline(std::declval<Gpu&>(), std::declval<const Source&>(), {}, {}));
  using Run = decltype(std::declval<Open&>().on(std::declval<OwnStream&>()));
  struct Loop {
    Loop(Gpu& device, const Source& source, const How& how, const penstock::Ranks& ranks,
         bool checked)
        : stream{device.stream()}, sum{checked ? std::make_unique<Sum>(device) : nullptr},
          pipeline{open_pipeline(device, source, how, ranks)} {
      const auto attached = device.attach();
      pipeline.prepare();
    }
    OwnStream stream;
    std::unique_ptr<Sum> sum;
    std::uint64_t before{};
    Open pipeline; // dies first
  };

  const Devices& devices_;
  std::vector<std::unique_ptr<Loop>> loops_;
};

/// One Reader for all GPUs, each of which gets all that it reads, and a thread for each GPU.
template <class Source> class FromOneReader : public Row {
 public:
  FromOneReader(const Devices& devices, std::size_t gpus, const Source& source, How how,
                bool checked)
      : gpus_{devices.first(gpus)},
        blocks_{reader(source, how, {}), gpus_, {.batch = 4 * MiB / sizeof(Block)}} {
    for (Gpu* const gpu : gpus_) {
      sides_.push_back(std::make_unique<Side>(*gpu, checked));
    }
  }
  std::uint64_t run() override {
    on_threads(sides_.size(), [this](std::size_t i) {
      const auto attached = gpus_[i]->attach();
      Side& side = *sides_[i];
      for (auto batch : blocks_.on(i, side.stream)) {
        if (side.sum) {
          side.sum->add(batch.data(), batch.size_bytes(), side.stream);
        }
      }
    });
    std::uint64_t sum = 0;
    for (const auto& side : sides_) {
      if (side->sum) {
        const std::uint64_t all = side->sum->get();
        sum += all - std::exchange(side->before, all);
      }
    }
    return sum;
  }
  std::string label() const override { return "held back by " + blocks_.report().limiting_stage; }
  void count(benchmark::State& state) const override { Workers{blocks_.report()}.count(state); }

 private:
  struct Side {
    Side(Gpu& gpu, bool checked)
        : stream{gpu.stream()}, sum{checked ? std::make_unique<Sum>(gpu) : nullptr} {}
    OwnStream stream;
    std::unique_ptr<Sum> sum;
    std::uint64_t before{};
  };

  std::vector<Gpu*> gpus_;
  std::vector<std::unique_ptr<Side>> sides_;
  penstock::FanOut<Block, Gpu> blocks_; // dies first
};

} // namespace penstock_bench
