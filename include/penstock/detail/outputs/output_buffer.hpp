// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/memory.hpp>
#include <penstock/data/output.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/error.hpp>
#include <penstock/host/device.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace penstock::detail {

/// Holds the records that a worker makes until it knows where they go. Its memory, in chunks, grows
/// to the most that it held so far, and stays. For one thread.
template <class S> class OutputBuffer {
  static constexpr bool ragged = schema_traits<S>::ragged;

 public:
  /// A place in it, which copy() moves on.
  struct Cursor {
    std::size_t chunk{};
    std::size_t at{};
  };
  /// How full it was.
  struct Mark {
    Cursor end;
    std::size_t before;
  };

  /// Chunks are as `layout` says. With Ragged columns, a chunk has room for the values of a slot,
  /// and for as many more: see next().
  explicit OutputBuffer(Layout layout) : layout_{std::move(layout)} {}

  /// Empties it, and has an outlet ask for room.
  void clear(Outlet<S>& outlet) noexcept { back_to(outlet, {{}, 0}); }
  /// Makes room for a record.
  void next(Outlet<S>& outlet) {
    check_last(outlet);
    const bool full = used_ == 0 || outlet.at == layout_.units;
    if (full || (ragged && half_full(outlet.at))) {
      if (used_ != 0) {
        chunks_[used_ - 1].records = outlet.at;
        before_ += outlet.at;
      }
      if (used_++ == chunks_.size()) {
        chunks_.push_back({RingMemory::in<Pageable>(no_device, 1, layout_, "Decoder"), 0});
      }
      outlet.at = 0;
      show(outlet);
    }
    outlet.end = ragged ? outlet.at + 1 : layout_.units;
    if constexpr (ragged) {
      open_ragged(memory(), 0, outlet.at + 1, outlet.at);
    }
  }
  /// Throws Error if the last record has a Ragged column that was not put, or that no slot holds.
  void check_last(const Outlet<S>& outlet) const {
    if constexpr (ragged) {
      if (outlet.at != 0) {
        check_ragged(memory(), 0, outlet.at, before_, outlet.at - 1);
        check_room(outlet.at - 1);
      }
    }
  }

  /// Returns how many records it has.
  std::size_t size(const Outlet<S>& outlet) const noexcept { return before_ + outlet.at; }
  Mark mark(const Outlet<S>& outlet) const noexcept { return {{used_, outlet.at}, before_}; }
  /// Forgets what came after a mark.
  void back_to(Outlet<S>& outlet, const Mark& mark) noexcept {
    used_ = mark.end.chunk;
    before_ = mark.before;
    outlet.at = mark.end.at;
    outlet.end = ragged || used_ == 0 ? outlet.at : layout_.units;
    if (used_ != 0) {
      show(outlet);
    }
  }

  /// Says that all is there, before copy().
  void seal(const Outlet<S>& outlet) noexcept {
    if (used_ != 0) {
      chunks_[used_ - 1].records = outlet.at;
    }
  }
  /// Copies `count` records from a place on into record `unit`, and those after it, of a place of a
  /// ring; only moves the place on if `to` is null. Throws Error if the values of a Ragged column
  /// do not fit.
  void copy(Cursor& from, std::size_t count, const RingMemory* to, std::size_t place,
            std::size_t unit) const {
    while (count != 0) {
      const Chunk& chunk = chunks_[from.chunk];
      const std::size_t some = std::min(count, chunk.records - from.at);
      for (std::size_t part = 0; to && part != layout_.parts.size(); ++part) {
        copy(chunk.memory, from.at, some, *to, place, unit, part);
      }
      count -= some;
      unit += some;
      from.at += some;
      if (from.at == chunk.records) {
        from = {from.chunk + 1, 0};
      }
    }
  }

 private:
  struct Chunk {
    RingMemory memory;
    std::size_t records; // known when it is full, or all is there
  };
  static constexpr HostDevice* no_device = nullptr;

  const RingMemory& memory() const noexcept { return chunks_[used_ - 1].memory; }
  void show(Outlet<S>& outlet) const noexcept {
    outlet.view = memory().template view<S>(0, layout_.units, 0, before_);
  }
  // A chunk has room for the values of two slots.
  void check_room(std::size_t record) const {
    for (std::size_t part = 0; part + 1 < layout_.parts.size(); ++part) {
      if (layout_.parts[part].kind == Array::offsets) {
        const std::int64_t* const offsets = offsets_of(memory(), 0, part);
        const Array& values = layout_.parts[part + 1];
        const auto count = static_cast<std::size_t>(offsets[record + 1] - offsets[record]);
        const std::size_t room = values.stride / 2 / values.each;
        if (count > room) {
          throw_error<Error>({"penstock: Decoder: a record has ", count,
                              " values of a Ragged column, and a batch has room for ", room,
                              ": give the Decoder more .value_bytes, such as ", count * values.each,
                              "."});
        }
      }
    }
  }
  // Returns whether the values of a whole slot may not fit any more.
  bool half_full(std::size_t records) const noexcept {
    bool any = false;
    for (std::size_t part = 1; part < layout_.parts.size(); ++part) {
      const Array& array = layout_.parts[part];
      any = any ||
            (array.kind == Array::values && memory().used(0, part, records) > array.stride / 2);
    }
    return any;
  }
  static void copy(const RingMemory& from, std::size_t first, std::size_t count,
                   const RingMemory& to, std::size_t place, std::size_t unit, std::size_t part) {
    const Array& array = from.layout().parts[part];
    if (array.kind == Array::records) {
      std::memcpy(to.data(place, part) + unit * array.each, from.data(0, part) + first * array.each,
                  count * array.each);
    } else if (array.kind == Array::offsets) {
      copy_values(from, first, count, to, place, unit, part);
    }
  }
  static void copy_values(const RingMemory& from, std::size_t first, std::size_t count,
                          const RingMemory& to, std::size_t place, std::size_t unit,
                          std::size_t part) {
    const std::int64_t* const read = offsets_of(from, 0, part) + first;
    std::int64_t* const write = offsets_of(to, place, part) + unit;
    write[0] = unit == 0 ? 0 : write[0];
    const Array& values = to.layout().parts[part + 1];
    const auto used = static_cast<std::size_t>(write[0]);
    const auto more = static_cast<std::size_t>(read[count] - read[0]);
    const std::size_t room = values.stride / values.each;
    if (more > room - used) {
      const std::size_t mean = (used + more + unit + count - 1) / (unit + count);
      throw SlotFull{joined({"penstock: a batch of ", to.layout().units, " records can hold ", room,
                             " values of a Ragged column, and these have more: give the Decoder "
                             "more .value_bytes, or the Reader a smaller .batch."}),
                     unit, std::max(mean, more / count) * values.each};
    }
    for (std::size_t i = 0; i != count; ++i) {
      write[i + 1] = write[0] + (read[i + 1] - read[0]);
    }
    std::memcpy(to.data(place, part + 1) + used * values.each,
                from.data(0, part + 1) + static_cast<std::size_t>(read[0]) * values.each,
                more * values.each);
  }

  Layout layout_;
  Vector<Chunk> chunks_;
  std::size_t used_{};   // chunks
  std::size_t before_{}; // records in those before the last used one
};

} // namespace penstock::detail
