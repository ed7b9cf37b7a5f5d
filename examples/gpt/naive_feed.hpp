// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "corpus.hpp"
#include "feed.hpp"
#include "pipeline_feed.hpp"

#include <penstock/device/device_array.hpp>
#include <penstock/error.hpp>
#include <penstock/order/permutation.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace transformer {

/// The feed that one writes first: the loop's own thread reads a batch into a std::vector, window
/// by window, converts it and copies it, and waits for the copy. It has the batches of
/// PipelineFeed, in the same order, and the same positions.
template <penstock::AnyDevice D, class T> class NaiveFeed final : public Feed<D> {
 public:
  /// Throws std::invalid_argument for windows that are fewer than a batch.
  NaiveFeed(D& device, const TokenPart<T>& part, const TokenWindows<T>& windows, const Ids<T>& ids,
            const FeedOptions& options, const FeedInto& into)
      : device_{device}, part_{part}, windows_{windows}, ids_{ids}, options_{options}, into_{into},
        records_{options.records != 0 ? options.records : windows.size()},
        on_device_{device, options.batch * window_bytes()}, like_{first_position()} {
    if (turns(0) < options.batch) {
      throw std::invalid_argument{"an epoch has " + std::to_string(turns(0)) +
                                  " windows, fewer than the " + std::to_string(options.batch) +
                                  " of a batch: make the batch or the context smaller"};
    }
  }

  void each(penstock::Stream<D> stream, const penstock::Position& from,
            const typename Feed<D>::Step& step) override {
    waited_ = {};
    if (from && from.identity() != like_.identity()) {
      throw penstock::OptionError{"the position " + from.text() +
                                  " is one of other data, of another context or another seed: "
                                  "resume with what it was saved with"};
    }
    if (from.step() > records_ || from.epoch() >= options_.epochs) {
      throw penstock::OptionError{"the position " + from.text() + " lies behind the " +
                                  std::to_string(records_) + " windows of an epoch, or behind " +
                                  std::to_string(options_.epochs) +
                                  " epochs: its text was changed, and is worth nothing"};
    }
    // Steps are dealt out to ranks from where the run begins.
    std::uint64_t first = from.step();
    const std::uint64_t steps = options_.batch * std::uint64_t{options_.ranks.world};
    for (std::uint64_t epoch = from.epoch(); epoch < options_.epochs; ++epoch) {
      const penstock::Permutation order{windows_.size(), options_.seed, epoch};
      for (; turns(first) >= options_.batch; first += steps) {
        fill(stream, order, first, epoch);
        if (!step(behind(epoch, first + steps))) {
          return;
        }
      }
      first = 0;
    }
  }
  double waited_s() const override { return std::chrono::duration<double>(waited_).count(); }
  std::optional<penstock::Report> report() const override { return std::nullopt; }

 private:
  using Clock = std::chrono::steady_clock;

  /// Returns how many windows this rank has from a step of an epoch on: as many as all others.
  std::uint64_t turns(std::uint64_t from) const { return (records_ - from) / options_.ranks.world; }
  std::size_t length() const { return options_.context + 1; }
  std::size_t window_bytes() const {
    return options_.events.layout ? length() * sizeof(T) : options_.context * sizeof(Pair);
  }
  /// Returns a position of the pipeline that has these batches, for what tells it from others.
  penstock::Position first_position() const {
    const penstock::ReaderOptions reading{
        .workers = 1,
        .depth = 2,
        .order = {.shuffle = options_.seed, .records = options_.records},
        .batch = 1};
    penstock::Pipeline pipeline{std::tuple{penstock::Reader{windows_, reading}}};
    auto run = pipeline.batches();
    return run.next().position();
  }

  penstock::Position behind(std::uint64_t epoch, std::uint64_t step) const {
    return turns(step) == 0 ? penstock::Position{like_.identity(), epoch + 1, 0, {}}
                            : penstock::Position{like_.identity(), epoch, step, {}};
  }

  void fill(penstock::Stream<D> stream, const penstock::Permutation& order, std::uint64_t first,
            std::uint64_t epoch) {
    const auto begin = Clock::now();
    tokens_.resize(options_.batch * length());
    for (std::size_t i = 0; i < options_.batch; ++i) {
      const std::uint64_t turn = first + i * options_.ranks.world + options_.ranks.rank;
      const auto window = std::span{tokens_}.subspan(i * length(), length());
      part_.read_bytes(windows_.offset_of(order(turn), epoch) * sizeof(T),
                       std::as_writable_bytes(window));
    }
    const std::size_t count = options_.batch * options_.context;
    if (options_.events.layout) {
      std::ranges::transform(tokens_, tokens_.begin(),
                             [this](T token) { return static_cast<T>(ids_(token)); });
    } else {
      make_pairs();
    }
    waited_ += Clock::now() - begin;
    const auto copied = Clock::now();
    const void* const from = options_.events.layout ? static_cast<const void*>(tokens_.data())
                                                    : static_cast<const void*>(pairs_.data());
    device_.copy_to_device(on_device_.data(), from, on_device_.size(), stream);
    device_.sync(stream); // the next batch comes into the same memory
    if (!options_.events.prefetch) {
      waited_ += Clock::now() - copied; // else most of it is a wait for the step before
    }
    const auto* const at = on_device_.data();
    if (options_.events.layout) {
      penstock::for_each(stream, count,
                         SplitWindows<T>{reinterpret_cast<const T*>(at), options_.context,
                                         into_.inputs, into_.targets});
    } else {
      penstock::for_each(
          stream, count,
          SplitPairs{reinterpret_cast<const Pair*>(at), into_.inputs, into_.targets});
    }
  }
  void make_pairs() {
    pairs_.clear();
    for (std::size_t i = 0; i < options_.batch; ++i) {
      const T* const token = tokens_.data() + i * length();
      for (std::size_t k = 0; k < options_.context; ++k) {
        pairs_.push_back({ids_(token[k]), ids_(token[k + 1])});
      }
    }
  }

  D& device_;
  TokenPart<T> part_;
  TokenWindows<T> windows_;
  Ids<T> ids_;
  FeedOptions options_;
  FeedInto into_;
  std::uint64_t records_;
  penstock::DeviceArray<std::byte, D> on_device_;
  penstock::Position like_;
  std::vector<T> tokens_;
  std::vector<Pair> pairs_;
  Clock::duration waited_{};
};

} // namespace transformer
