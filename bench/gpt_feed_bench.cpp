// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How fast is the GPT of examples/gpt fed, without a model? A run is --batches batches of 64
// windows of 1024 tokens, shuffled, from a file in the page cache; on the device each becomes
// 32-bit inputs and targets. items_per_second are tokens of these inputs.
//
// gpt_feed/DATA/WAY, where DATA is a file of 16-bit tokens, or a text, whose bytes become tokens in
// a Decoder. Ways, by the events of examples/gpt that are cured:
//
//   in_turn           none: read, make pairs of 64-bit numbers, copy, one after the other
//   in_turn_narrow    layout: the same with tokens as they lie
//   one_thread        pinned, prefetch, layout: the pipeline, with one thread a stage
//   pairs             pinned, prefetch, workers: the pipeline; a Decoder makes the pairs
//   pipeline          pinned, prefetch, workers, layout
//
// Each is checked first: what is fed is compared with a plain loop over the file's tokens. The file
// has --tokens tokens. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true. With nvcc it is built for a GPU, else for the host
// device.

#include "support/contender.hpp"

#include "../examples/gpt/events.hpp"
#include "../examples/gpt/feeds.hpp"
#include "../examples/support/temporary_file.hpp"

#include <penstock/order/permutation.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/windows.hpp>
#include <penstock/with_device.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using namespace transformer;

constexpr std::size_t context = 1024;
constexpr std::size_t batch = 64;

struct Options {
  std::size_t tokens = std::size_t{128} << 20;
  std::uint64_t batches = 2000;

  Options(int argc, char** argv) {
    for (const std::string_view argument :
         std::span{argv, static_cast<std::size_t>(argc)}.subspan(1)) {
      if (argument.starts_with("--tokens=")) {
        tokens = std::max<std::size_t>(std::stoull(std::string{argument.substr(9)}), 1 << 17);
      } else if (argument.starts_with("--batches=")) {
        batches = std::max(std::stoull(std::string{argument.substr(10)}), 1ULL);
      } else {
        throw std::runtime_error{"unknown option " + std::string{argument} +
                                 "; there are --tokens=N, --batches=N and Google Benchmark's"};
      }
    }
  }
};

template <class T> std::vector<T> random_tokens(std::size_t count) {
  std::vector<T> tokens(count);
  std::uint64_t state = 1;
  for (T& token : tokens) {
    state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    token = static_cast<T>(sizeof(T) == 1 ? ' ' + (state >> 58) : state >> 48);
  }
  return tokens;
}

/// A file of made tokens, and what a run over it should feed.
class Data {
 public:
  template <class T>
  Data(const std::vector<T>& tokens, std::uint64_t batches)
      : file_{{reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T)}},
        corpus_{file_.path(), {}, sizeof(T) == 1 ? DataFormat::text : DataFormat::tokens},
        batches_{batches}, expected_{sum_of(tokens)} {}

  const Corpus& corpus() const noexcept { return corpus_; }
  std::uint64_t batches() const noexcept { return batches_; }
  std::uint64_t expected() const noexcept { return expected_; }

  /// Returns a number for inputs, or for targets, at their places in a batch.
  static std::uint64_t sum(std::span<const std::int32_t> ids) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      sum += static_cast<std::uint64_t>(ids[i]) * (i + 1);
    }
    return sum;
  }

 private:
  std::uint64_t id_of(std::uint16_t token) const { return token; }
  std::uint64_t id_of(std::uint8_t byte) const { return corpus_.vocabulary().id(byte); }
  template <class T> std::uint64_t sum_of(const std::vector<T>& tokens) const {
    const FeedOptions options;
    const auto trained = std::span{tokens}.first(corpus_.trained());
    const auto windows = ps::windows(trained, {.length = context + 1, .seed = options.seed});
    std::uint64_t sum = 0;
    std::uint64_t fed = 0;
    for (std::uint64_t epoch = 0; fed != batches_; ++epoch) {
      const ps::Permutation order{windows.size(), options.seed, epoch};
      for (std::uint64_t first = 0; first + batch <= windows.size() && fed != batches_;
           first += batch, ++fed) {
        for (std::size_t window = 0; window < batch; ++window) {
          const auto begin = windows.offset_of(order(first + window), epoch);
          for (std::size_t i = 0; i < context; ++i) {
            sum += (window * context + i + 1) *
                   (id_of(trained[begin + i]) + 2 * id_of(trained[begin + i + 1]));
          }
        }
      }
    }
    return sum;
  }

  TemporaryFile file_;
  Corpus corpus_;
  std::uint64_t batches_;
  std::uint64_t expected_;
};

template <ps::AnyDevice D> class Fed : public Contender {
 public:
  Fed(D& device, const Data& data, const std::string& events, bool checked)
      : device_{device}, data_{data}, checked_{checked},
        feed_{make_feed(device, data.corpus(), PartName::trained,
                        {.batch = batch, .context = context, .events = parse_events(events)},
                        {inputs_.data(), targets_.data()})} {}

  std::uint64_t run() override {
    std::uint64_t sum = 0;
    std::uint64_t left = data_.batches();
    feed_->each(stream_, {}, [&](const ps::Position&) {
      if (checked_) {
        sum += Data::sum(inputs_.read(stream_)) + (Data::sum(targets_.read(stream_)) << 1);
      }
      return --left != 0;
    });
    device_.sync(stream_);
    return sum;
  }
  std::string label() const override {
    const auto report = feed_->report();
    return report ? "held back by " + report->limiting_stage : "";
  }

 private:
  D& device_;
  const Data& data_;
  bool checked_;
  typename D::stream_type stream_ = device_.stream();
  ps::DeviceArray<std::int32_t, D> inputs_{device_, batch* context};
  ps::DeviceArray<std::int32_t, D> targets_{device_, batch* context};
  std::unique_ptr<Feed<D>> feed_; // dies first
};

template <ps::AnyDevice D> void add_ways(D& device, const std::string& name, const Data& data) {
  const std::pair<const char*, const char*> ways[] = {
      {"in_turn", "none"},
      {"in_turn_narrow", "layout"},
      {"one_thread", "pinned,prefetch,layout"},
      {"pairs", "pinned,prefetch,workers"},
      {"pipeline", "pinned,prefetch,workers,layout"},
  };
  for (const auto& [way, events] : ways) {
    const auto make = [&device, &data, events = std::string{events}](bool checked) {
      return std::make_unique<Fed<D>>(device, data, events, checked);
    };
    const auto checked = std::make_shared<Checked>(make, [&data] { return data.expected(); });
    add_contender("gpt_feed/" + name + '/' + way, checked,
                  [&data](benchmark::State& state, Contender& contender) {
                    for (auto _ : state) {
                      state.SetIterationTime(seconds_of_run(contender));
                    }
                    state.SetItemsProcessed(
                        static_cast<std::int64_t>(data.batches() * batch * context));
                  });
  }
}

} // namespace

int main(int argc, char** argv) {
  return program<Options>(argc, argv, [](const Options& options) {
    const Data tokens{random_tokens<std::uint16_t>(options.tokens), options.batches};
    const Data text{random_tokens<std::uint8_t>(options.tokens), options.batches};
    return ps::with_device("auto", [&](auto& device) {
      const auto attached = device.attach();
      add_ways(device, "tokens", tokens);
      add_ways(device, "text", text);
      return run_all();
    });
  });
}
