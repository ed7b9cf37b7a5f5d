// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "corpus.hpp"
#include "feed.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/windows.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#else
#include <penstock/host/algorithm.hpp>
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace transformer {

/// What a token of a file is called in the model: a byte of a text has an id, and other tokens are
/// ids.
/// @{
template <class T> struct Ids {
  std::int64_t operator()(T token) const noexcept { return token; }
};
template <> struct Ids<std::uint8_t> {
  std::array<std::uint8_t, 256> of;
  std::uint8_t operator()(std::uint8_t byte) const noexcept { return of[byte]; }
};
/// @}

/// For a Decoder: tokenises a window of text by bytes.
struct Tokenise {
  Ids<std::uint8_t> ids;
  void operator()(penstock::Row<const penstock::Window<std::uint8_t>> in,
                  penstock::Row<penstock::Window<std::uint8_t>> out) const {
    const auto bytes = penstock::get<"tokens">(in);
    const auto tokens = penstock::get<"tokens">(out);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      tokens[i] = ids(bytes[i]);
    }
  }
};
/// For a Decoder: makes pairs of a window.
template <class T> struct MakePairs {
  Ids<T> ids;
  void operator()(penstock::Row<const penstock::Window<T>> in,
                  penstock::Row<PairWindow> out) const {
    const auto tokens = penstock::get<"tokens">(in);
    const auto pairs = penstock::get<"pairs">(out);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      pairs[i] = {ids(tokens[i]), ids(tokens[i + 1])};
    }
  }
};

/// Enqueues what fills inputs and targets from a batch.
/// @{
template <class S, class T>
void split(S& stream, const penstock::Batch<const penstock::Window<T>, penstock::Device>& batch,
           std::size_t context, const FeedInto& into) {
  penstock::for_each(
      stream, batch.size() * context,
      SplitWindows<T>{penstock::get<"tokens">(batch).data(), context, into.inputs, into.targets});
}
template <class S>
void split(S& stream, const penstock::Batch<const PairWindow, penstock::Device>& batch,
           std::size_t context, const FeedInto& into) {
  penstock::for_each(stream, batch.size() * context,
                     SplitPairs{penstock::get<"pairs">(batch).data(), into.inputs, into.targets});
}
/// @}

/// A feed whose batches a pipeline has read, decoded and copied in advance.
template <penstock::AnyDevice D, class Pipeline> class PipelineFeed final : public Feed<D> {
 public:
  /// Reads the first batches when each() is called; opens all now. Throws what prepare() throws.
  PipelineFeed(Pipeline pipeline, const FeedOptions& options, const FeedInto& into)
      : data_{std::move(pipeline)}, context_{options.context}, into_{into} {
    data_.prepare();
  }

  void each(penstock::Stream<D> stream, const penstock::Position& from,
            const typename Feed<D>::Step& step) override {
    for (auto batch : data_.on(stream, {.from = from})) {
      split(stream, batch, context_, into_);
      if (!step(batch.position())) {
        break;
      }
    }
  }
  double waited_s() const override { return data_.report().waited_s; }
  std::optional<penstock::Report> report() const override { return data_.report(); }

 private:
  Pipeline data_;
  std::size_t context_;
  FeedInto into_;
};

/// Makes a feed with a pipeline over windows. Throws what prepare() throws, such as for windows
/// that are fewer than a batch.
template <penstock::AnyDevice D, class T>
std::unique_ptr<Feed<D>> pipeline_feed(D& device, const TokenWindows<T>& windows, const Ids<T>& ids,
                                       const FeedOptions& options, const FeedInto& into) {
  namespace ps = penstock;
  const Events& events = options.events;
  const unsigned workers = events.workers ? 0 : 1; // 0: as many as are usual here
  const std::size_t depth = events.prefetch ? 0 : 2;
  const ps::ReaderOptions reading{
      .workers = workers,
      .depth = depth,
      .epochs = options.epochs,
      .order = {.shuffle = options.seed, .ranks = options.ranks, .records = options.records},
      .drop_last = true};
  const ps::DecoderOptions decoding{.workers = workers, .depth = depth};
  const ps::CopierOptions copying{.batch = options.batch, .depth = events.prefetch ? 3U : 2U};
  const auto feed = [&](auto pipeline) -> std::unique_ptr<Feed<D>> {
    return std::make_unique<PipelineFeed<D, decltype(pipeline)>>(std::move(pipeline), options,
                                                                 into);
  };
  if (!events.layout) {
    ps::DecoderOptions pairs = decoding;
    pairs.extents = {options.context};
    return feed(ps::Reader{windows, reading} |
                ps::Decoder{MakePairs<T>{ids}, ps::to_pinned, pairs} |
                ps::AsyncCopier{device, copying});
  }
  if constexpr (sizeof(T) == 1) {
    ps::DecoderOptions tokens = decoding;
    tokens.extents = {options.context + 1};
    return feed(ps::Reader{windows, reading} | ps::Decoder{Tokenise{ids}, ps::to_pinned, tokens} |
                ps::AsyncCopier{device, copying});
  } else {
    return feed(ps::Reader{windows, ps::to_pinned, reading} | ps::AsyncCopier{device, copying});
  }
}

} // namespace transformer
