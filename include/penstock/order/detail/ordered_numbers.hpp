// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/order/detail/sequence.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Numbers the records of an order that is not plain: see RunOrder::numbers(). Only what may ask
/// for such an order compiles it.
void ordered_numbers(const RunOrder& order, std::uint64_t epoch, std::uint64_t turn,
                     std::size_t count, std::uint64_t* to);

bool mixes_windows(const Order& order) noexcept;
/// Calls f(first, count) for records that lie together and are soon to be read: where one of
/// `count` turns is the first of its window, for the blocks of the next. The order mixes windows.
template <class F>
[[gnu::cold]] void each_block_ahead(const RunOrder& order, std::uint64_t epoch, std::uint64_t turn,
                                    std::size_t count, F f) {
  const Sequence sequence{order.order(), order.size(), epoch};
  const std::uint64_t first = epoch == order.first_epoch() ? order.first_turn() : 0;
  for (std::size_t i = 0; i != count; ++i) {
    const std::uint64_t window = sequence.window_of(order.step(epoch, turn + i));
    if (turn + i == first) {
      sequence.each_block(window, f);
    }
    if (turn + i == first || sequence.window_of(order.step(epoch, turn + i - 1)) != window) {
      sequence.each_block(window + 1, f);
    }
  }
}

#if PENSTOCK_BODIES
PENSTOCK_NOINLINE void ordered_numbers(const RunOrder& order, std::uint64_t epoch,
                                       std::uint64_t turn, std::size_t count, std::uint64_t* to) {
  const Sequence sequence{order.order(), order.size(), epoch};
  for (std::size_t i = 0; i != count; ++i) {
    const std::uint64_t step = order.step(epoch, turn + i);
    to[i] = order.mixes() ? order.mixed(epoch, step) : sequence(step);
  }
}

PENSTOCK_INLINE bool mixes_windows(const Order& order) noexcept {
  return order.window > 1 && order.block > 1;
}
#endif

} // namespace penstock::detail
