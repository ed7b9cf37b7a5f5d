// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/detail/reading/slot_ranges.hpp>
#include <penstock/order/detail/ordered_numbers.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::detail {

/// Reads records by their turns in a run, wherever they lie in the source, into slots where they
/// lie one behind the other. Any number of threads.
template <Source From, class Where> class OrderedReads {
  using T = typename From::schema;

 public:
  OrderedReads(const From& source, const RunOrder& order, const RingMemory& memory) noexcept
      : source_{source}, order_{order}, memory_{memory} {}

  /// Reads the records of `count` turns from `turn` on into a place, from its record `at` on.
  /// Returns how many it read: fewer only if the run ends. Throws what the source throws.
  std::size_t records(std::size_t place, std::size_t at, std::uint64_t epoch, std::uint64_t turn,
                      std::size_t count, const Patience& patience) const {
    if constexpr (HearsWhatComes<From>) {
      if (mixes_windows(order_.order())) {
        each_block_ahead(
            order_, epoch, turn, count,
            [this](std::uint64_t first, std::uint64_t some) { source_.will_read(first, some); });
      }
    }
    std::uint64_t numbers[256];
    std::size_t done = 0;
    while (done != count) {
      const std::size_t some = std::min(count - done, std::size(numbers));
      order_.numbers(epoch, turn + done, some, numbers);
      const Batch<T, Where> into{
          memory_.template view_of_part<T>(place, at + done, some, numbers[0], numbers[0])};
      const Filled got = read_numbered(source_, std::span{numbers}.first(some), into, patience);
      const bool ends = got.count < some && patience.stop_requested();
      if (!ends && (!got.for_now || got.count > some)) {
        const std::size_t last = std::min(got.count, some - 1);
        check_count(got.count, some, numbers[last] - last, true); // the one that is missing
      }
      done += got.count;
      if (ends) {
        return done;
      }
    }
    return count;
  }
  /// Reads the bytes of records in pieces: `count` of them, from byte `at` of all turns' records
  /// back to back, into `to`.
  void pieces(std::byte* to, std::uint64_t epoch, std::uint64_t at, std::size_t count) const
    requires ReadsBytes<From>
  {
    const std::uint64_t record = memory_.layout().units_a_record;
    for (std::size_t done = 0; done != count;) {
      const std::uint64_t within = (at + done) % record;
      const std::size_t part =
          static_cast<std::size_t>(std::min<std::uint64_t>(count - done, record - within));
      const std::uint64_t number = order_.visit(epoch, (at + done) / record).record;
      source_.read_bytes(number * record + within, std::span{to + done, part});
      done += part;
    }
  }

 private:
  const From& source_;
  const RunOrder& order_;
  const RingMemory& memory_;
};

} // namespace penstock::detail
