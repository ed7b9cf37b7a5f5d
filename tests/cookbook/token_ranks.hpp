// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/tokens.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/windows.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ps = penstock;

/// Calls step(windows) for eight windows of 1025 tokens at a time, those of this rank, beginning at
/// `from`, until it returns false. Returns the position behind the last. What step() does with
/// them, it enqueues on the stream.
template <ps::AnyDevice D, class Step>
ps::Position train_on(D& device, ps::Stream<D> stream, const std::vector<std::string>& files,
                      const ps::Ranks& me, const ps::Position& from, Step step) {
  auto windows = ps::windows(ps::tokens<std::uint16_t>(files), {.length = 1025, .seed = 1337});
  auto data = ps::Reader{windows,
                         ps::to_pinned,
                         {.order = {.shuffle = 1337, .ranks = me}, .drop_last = true}} |
              ps::AsyncCopier{device, {.batch = 8}};
  ps::Position stands = from;
  for (auto batch : data.on(stream, {.from = from})) {
    stands = batch.position();
    if (!step(batch)) {
      break;
    }
  }
  return stands;
}
