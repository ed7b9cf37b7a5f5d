// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/splitmix.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/reading/slot_source.hpp>
#include <penstock/error.hpp>
#include <penstock/order/detail/run_order.hpp>
#include <penstock/order/order.hpp>
#include <penstock/order/permutation.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <thread>

namespace penstock::detail {

/// Refuses skips of records that the source has in order only.
[[gnu::cold]] void check_skips(const OnError& on_error, const SlotSource& source);
/// Refuses an order that the source cannot be read in.
[[gnu::cold]] void check_order(const Order& order, const SlotSource& of);

/// Returns the order of a Reader's runs, which check_order() has let pass. It asks `of`, a source
/// of these extents, if that mixes. `numbers`: see RunOrder.
[[gnu::cold]] Shared<RunOrder> make_order(const Order& asked, const SlotSource& of,
                                          std::span<const std::size_t> extents,
                                          std::uint64_t epochs, RunOrder::Numbers* numbers);

enum class SourceFlaw { none, read_not_const, one_space, other };

/// Returns why S is no source, if it is none.
template <class S> consteval SourceFlaw source_flaw() {
  if constexpr (Source<S>) {
    return SourceFlaw::none;
  } else if constexpr (!requires { typename S::schema; } ||
                       (Fills<const S, Pageable> && Fills<const S, Pinned>)) {
    return SourceFlaw::other;
  } else if constexpr (Fills<S, Pageable> && Fills<S, Pinned>) {
    return SourceFlaw::read_not_const;
  } else {
    return Fills<S, Pageable> || Fills<S, Pinned> ? SourceFlaw::one_space : SourceFlaw::other;
  }
}

/// How many records a slot holds, and how many bytes of each Ragged column's values.
struct RaggedRoom {
  std::size_t records;
  std::size_t value_bytes;
};

/// Returns the room of slots of `records` records, or fewer unless that many are `fixed`. A source
/// that tells how long its records are gets room for any of them: `value_bytes` is what the user
/// asked for, or 0. Each record may stand in a slot `times`.
[[gnu::cold]] RaggedRoom ragged_room(const SlotSource& source, std::size_t records, bool fixed,
                                     std::size_t value_bytes, std::uint64_t times);

/// Opens a copy of `source`, and another one if that fails, up to `retries` times, and returns it.
/// Blocks, and pauses in between. What progress throws is no failure of the source's, and what an
/// option forbids stays forbidden.
template <Source From>
[[gnu::cold]] From opened(const From& source, const PrepareOptions& preparing, unsigned retries) {
  for (unsigned failures = 0;; ++failures) {
    try {
      From copy = source;
      open_source(copy, preparing);
      return copy;
    } catch (const OptionError&) {
      throw;
    } catch (const ThreadEnd&) {
      throw;
    } catch (...) {
      if (preparing.progress.threw() || failures == retries) {
        throw;
      }
      std::this_thread::sleep_for(retry_pause(failures));
    }
  }
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE void check_skips(const OnError& on_error, const SlotSource& source) {
  if (on_error.skips != 0 && source.in_order()) {
    throw OptionError{"penstock: Reader: the records of this source come in order only, so skips "
                      "cannot say which it left out: let a Decoder leave out bad ones."};
  }
}

PENSTOCK_INLINE void check_order(const Order& order, const SlotSource& of) {
  const bool mixes = of.abilities().says_order;
  const std::uint64_t size = of.size();
  const bool ordered = order.shuffle || order.ranks.world != 1 || order.records != 0 || mixes;
  if (order.window > 1 && (!order.shuffle || order.block < 2)) {
    throw_error<OptionError>(
        {"penstock: Reader: order.window is ", order.window,
         ", which mixes blocks that are shuffled: give .shuffle, and .block of "
         "at least 2, too."});
  }
  const bool anywhere = of.abilities().anywhere;
  if ((ordered && !anywhere && of.in_order()) || (order.shuffle && anywhere)) {
    throw_error<OptionError>(
        {"penstock: Reader: the records of this source come in order only, so nothing can shuffle "
         "them",
         anywhere ? ": leave out order.shuffle. interleaved() has a .shuffle for its files."
                  : ", share them among ranks, or say how many there are: leave out .order."});
  }
  if (ordered && size == RunOrder::unknown) {
    throw_error<OptionError>(
        {"penstock: Reader: the source does not know its size, so nothing can shuffle its records, "
         "or share them among ranks: leave out .order, or give ",
         anywhere ? "interleaved() .records." : "it a size()."});
  }
  if (order.shuffle && size > Permutation::max_size) {
    throw_error<OptionError>({"penstock: Reader: the source has ", size, " records, and at most ",
                              Permutation::max_size, " can be shuffled."});
  }
  if (mixes && (order.records == 0 || order.block != 0)) {
    throw OptionError{
        order.records == 0
            ? "penstock: Reader: a mix has no end of its own: say how many records an epoch has, "
              "such as .order = {.records = 100000}."
            : "penstock: Reader: a mix mixes groups of its own: leave out order.block."};
  }
  const std::uint64_t records = order.records != 0 ? order.records : size;
  if (order.uneven == Uneven::drop && records != 0 && records < order.ranks.world) {
    throw_error<OptionError>({"penstock: Reader: order.ranks.world is ", order.ranks.world,
                              ", an epoch has fewer records, ", records,
                              ", and Uneven::drop would leave out all: start fewer ranks, or take "
                              "Uneven::repeat."});
  }
  if (!mixes && order.records > size) {
    throw_error<OptionError>({"penstock: Reader: order.records is ", order.records,
                              ", and the source has ", size,
                              ": give it at most so many, or more .epochs."});
  }
}

PENSTOCK_INLINE Shared<RunOrder> make_order(const Order& asked, const SlotSource& of,
                                            std::span<const std::size_t> extents,
                                            std::uint64_t epochs, RunOrder::Numbers* numbers) {
  constexpr std::size_t a_read = std::size_t{1} << 20;
  constexpr std::uint64_t usual_ragged = 256;
  const bool mixes = of.abilities().says_order;
  const std::size_t record_bytes = std::max<std::size_t>(of.fixed_bytes(extents), 1);
  Order order = asked;
  order.records = asked.records != 0 ? asked.records : of.size();
  if (asked.block == 0) {
    order.block = mixes           ? of.group()
                  : asked.shuffle ? 1
                  : of.ragged()   ? usual_ragged
                                  : std::max<std::uint64_t>(a_read / record_bytes, 1);
  }
  std::uint64_t schema = splitmix(record_bytes, of.ragged() ? 1 : 0);
  for (const std::size_t extent : extents) {
    schema = splitmix(schema ^ extent, 1);
  }
  RunOrder::MixedRecord* mix = nullptr;
  if (mixes) {
    mix = [](const void* from, std::uint64_t visit, Seed shuffle) {
      return static_cast<const SlotSource*>(from)->record_of(visit, shuffle);
    };
  }
  auto made = new_shared<RunOrder>(order, of.size(), epochs, schema, of.identity(), mix,
                                   of.in_order() && !of.abilities().anywhere, numbers);
  made->mix_from(&of);
  return made;
}

PENSTOCK_INLINE RaggedRoom ragged_room(const SlotSource& source, std::size_t records, bool fixed,
                                       std::size_t value_bytes, std::uint64_t times) {
  const std::size_t enough = usual_values(value_bytes);
  if (source.value_bytes(1) == unknown_size) {
    return {records, enough};
  }
  const auto room = [&](std::size_t some) {
    const std::uint64_t each = source.value_bytes((some + times - 1) / times);
    const std::uint64_t most = std::numeric_limits<std::ptrdiff_t>::max() / times;
    return std::size_t{std::min(each, most) * times};
  };
  // Slots of few records take long. Where few records are far longer than the rest, slots that are
  // mostly empty are the better choice.
  const std::uint64_t all = source.size();
  const std::uint64_t in_all = value_bytes != 0 ? unknown_size : source.value_bytes(all);
  const std::uint64_t usual = all == 0 || in_all == unknown_size ? unknown_size : in_all / all;
  const auto fits = [&](std::size_t some_records) {
    const std::size_t bytes = room(some_records);
    return bytes <= enough || (bytes <= 8 * enough && usual <= enough / some_records);
  };
  std::size_t some = fixed ? records : 1;
  while (some < records && fits(std::min(2 * some, records))) {
    some = std::min(2 * some, records);
  }
  return {some, value_bytes != 0 ? value_bytes : std::max(enough, room(some))};
}
#endif

} // namespace penstock::detail
