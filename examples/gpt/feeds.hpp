// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "corpus.hpp"
#include "feed.hpp"
#include "naive_feed.hpp"
#include "pipeline_feed.hpp"

#include <penstock/sources/windows.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace transformer {

/// Which part of a corpus a feed is of.
enum class PartName : std::uint8_t { trained, held_out };

/// Makes the feed of a part of the corpus that the events ask for. Blocks until the first batch can
/// be asked for. Throws std::invalid_argument or penstock's Error if there are too few tokens.
template <penstock::AnyDevice D>
std::unique_ptr<Feed<D>> make_feed(D& device, const Corpus& corpus, PartName name,
                                   const FeedOptions& options, const FeedInto& into) {
  return corpus.visit([&](const auto& parts) {
    const auto& part = name == PartName::trained ? parts.trained : parts.held_out;
    using T = typename std::remove_cvref_t<decltype(part)>::schema;
    if (part.size() < options.context + 1) {
      throw std::invalid_argument{
          std::string{name == PartName::trained ? "there are " : "held out are "} +
          std::to_string(part.size()) + " tokens, fewer than a window of " +
          std::to_string(options.context + 1) +
          (name == PartName::trained ? ": give more data, or a smaller --context"
                                     : ": give more data, or a smaller --context, or --val FILE")};
    }
    TokenWindows<T> windows = penstock::windows(
        part, {.length = options.context + 1,
               .seed = options.shifted ? penstock::Seed{options.seed} : penstock::Seed{}});
    windows.open();
    Ids<T> ids{};
    if constexpr (sizeof(T) == 1) {
      ids.of = corpus.vocabulary().ids();
    }
    if (options.events.pinned) {
      return pipeline_feed(device, windows, ids, options, into);
    }
    return std::unique_ptr<Feed<D>>{
        std::make_unique<NaiveFeed<D, T>>(device, part, windows, ids, options, into)};
  });
}

} // namespace transformer
