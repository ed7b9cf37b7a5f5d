// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/memory.hpp>
#include <penstock/data/output.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/links/layout.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/error.hpp>
#include <penstock/host/device.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace penstock::detail {

/// Holds the records that a worker makes until it knows where they go. Its memory, in chunks, grows
/// to the most that it held so far, and stays. For one thread.
///
/// With Ragged columns an outlet shows one record at a time, which has room for as many values as
/// a slot: put() refuses the record that no slot holds, and no other.
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

  /// Chunks are as `layout` says, but have room for the values of two slots: see next().
  explicit OutputBuffer(Layout layout) : layout_{with_twice_the_room(std::move(layout), false)} {}

  /// Empties it, and has an outlet ask for room.
  void clear(Outlet<S>& outlet) noexcept { back_to(outlet, {{}, 0}); }
  /// Makes room for a record behind those that are closed; errors call it `number`.
  void next(Outlet<S>& outlet, std::uint64_t number) {
    if (used_ == 0 || first_ + outlet.at == layout_.units || half_full()) {
      add_chunk(outlet);
      outlet.view = memory().template view<S>(0, layout_.units, 0, before_);
    }
    outlet.end = ragged ? 1 : layout_.units;
    if constexpr (ragged) {
      outlet.view = memory().template view_of_part<S>(0, first_, 1, 0, number);
      each_ragged([&](std::size_t part) {
        offsets_of(memory(), 0, part)[0] = 0;
        put_[part] = {0, -1};
        outlet.view.parts[part] = put_[part].data();
        outlet.view.parts[part + 1] =
            memory().data(0, part + 1) + memory().used(0, part + 1, first_);
      });
    }
  }
  /// Closes the last record. Throws Error if it has a Ragged column that was not put.
  void close(Outlet<S>& outlet) {
    if constexpr (ragged) {
      if (std::exchange(outlet.at, 0) != 0) {
        each_ragged([&](std::size_t part) {
          std::int64_t* const offsets = offsets_of(memory(), 0, part) + first_;
          offsets[1] = put_[part][1] == -1 ? -1 : offsets[0] + put_[part][1];
        });
        check_ragged(memory(), 0, first_ + 1, outlet.view.source_index - first_, first_);
        ++first_;
      }
      outlet.end = 0;
    }
  }
  /// Has fill(view) fill `units` records, the only ones, and again with more room while a slot's
  /// does not suffice. Throws Error if it does not put all, or one that no slot holds; `number` is
  /// that of the first.
  template <class Fill>
  void fill_whole(Outlet<S>& outlet, std::size_t units, std::uint64_t number, Fill fill) {
    add_chunk(outlet);
    for (bool fits = false; !fits;) {
      open_ragged(memory(), 0, units);
      try {
        fill(memory().template view<S>(0, units, 0, number));
        fits = true;
      } catch (const SlotFull&) {
        chunks_[used_ - 1].memory = RingMemory::in<Pageable>(
            no_device, 1, with_twice_the_room(memory().layout(), true), "Decoder");
      }
    }
    check_ragged(memory(), 0, units, number);
    each_ragged([&](std::size_t part) { check_room(part, units, number); });
    first_ = units;
  }

  /// Returns how many records it has.
  std::size_t size(const Outlet<S>& outlet) const noexcept { return before_ + first_ + outlet.at; }
  Mark mark(const Outlet<S>& outlet) const noexcept {
    return {{used_, first_ + outlet.at}, before_};
  }
  /// Forgets what came after a mark.
  void back_to(Outlet<S>& outlet, const Mark& mark) noexcept {
    used_ = mark.end.chunk;
    before_ = mark.before;
    first_ = ragged ? mark.end.at : 0;
    outlet.at = mark.end.at - first_;
    outlet.end = ragged || used_ == 0 ? outlet.at : layout_.units;
    if (used_ != 0) {
      outlet.view = memory().template view<S>(0, layout_.units, 0, before_);
    }
  }

  /// Says that all is there, before what follows.
  void seal(const Outlet<S>& outlet) noexcept {
    if (used_ != 0) {
      chunks_[used_ - 1].records = first_ + outlet.at;
    }
  }
  /// Returns how many records from a place on, up to `most`, can be laid out at once from record
  /// `unit` of a place of a ring on, behind the values of those before it.
  std::size_t fits(const Cursor& from, std::size_t most, const RingMemory& to, std::size_t place,
                   std::size_t unit) const noexcept {
    const Chunk& chunk = chunks_[from.chunk];
    std::size_t count = std::min(most, chunk.records - from.at);
    each_ragged([&](std::size_t part) {
      const std::int64_t* const read = offsets_of(chunk.memory, 0, part) + from.at;
      const Array& values = to.layout().parts[part + 1];
      const std::size_t used = unit == 0 ? 0 : to.values(place, part, unit);
      const auto room = static_cast<std::int64_t>(values.stride / values.each - used);
      count = static_cast<std::size_t>(std::upper_bound(read, read + count + 1, read[0] + room) -
                                       read - 1);
    });
    return count;
  }
  /// Says in such a place where the values of `count` such records go.
  void lay_out(const Cursor& from, std::size_t count, const RingMemory& to, std::size_t place,
               std::size_t unit) const noexcept {
    each_ragged([&](std::size_t part) {
      const std::int64_t* const read = offsets_of(chunks_[from.chunk].memory, 0, part) + from.at;
      std::int64_t* const write = offsets_of(to, place, part) + unit;
      write[0] = unit == 0 ? 0 : write[0];
      for (std::size_t i = 0; i != count; ++i) {
        write[i + 1] = write[0] + (read[i + 1] - read[0]);
      }
    });
  }
  /// Copies `count` records from a place on into record `unit`, and those after it, of a place of a
  /// ring, where those of Ragged columns are laid out; only moves the place on if `to` is null.
  void copy(Cursor& from, std::size_t count, const RingMemory* to, std::size_t place,
            std::size_t unit) const noexcept {
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

  // For the values of Ragged columns; a batch is told of it, or is not.
  static Layout with_twice_the_room(Layout layout, bool told) {
    std::size_t size = 0;
    if constexpr (ragged) {
      for (Array& array : layout.parts) {
        array.stride *= array.kind == Array::values ? 2 : 1;
      }
      [&]<class... Fields>(Columns<Fields...>*) {
        const auto one = [&]<class Field>() {
          if constexpr (column_traits<Field>::ragged) {
            layout.sizes[size] *= told ? 2 : 1;
          }
          size += column_traits<Field>::sizes;
        };
        (one.template operator()<Fields>(), ...);
      }(static_cast<typename columns_of<S>::type*>(nullptr));
    }
    return layout;
  }
  // Calls f(number of the array of offsets) for each Ragged column; its values are the next array.
  template <class F> void each_ragged(F f) const {
    for (std::size_t part = 0; ragged && part != layout_.parts.size(); ++part) {
      if (layout_.parts[part].kind == Array::offsets) {
        f(part);
      }
    }
  }

  const RingMemory& memory() const noexcept { return chunks_[used_ - 1].memory; }
  void add_chunk(Outlet<S>& outlet) {
    if (used_ != 0) {
      seal(outlet);
      before_ += first_ + outlet.at;
    }
    if (used_ == chunks_.size()) {
      chunks_.push_back({RingMemory::in<Pageable>(no_device, 1, layout_, "Decoder"), 0});
    }
    ++used_;
    first_ = outlet.at = 0;
  }
  // Returns whether the values of a whole slot may not fit any more.
  bool half_full() const noexcept {
    bool any = false;
    each_ragged([&](std::size_t part) {
      any = any || memory().used(0, part + 1, first_) > layout_.parts[part + 1].stride / 2;
    });
    return any;
  }
  void check_room(std::size_t part, std::size_t records, std::uint64_t number) const {
    const std::int64_t* const offsets = offsets_of(memory(), 0, part);
    const Array& values = layout_.parts[part + 1];
    const std::size_t room = values.stride / 2 / values.each;
    for (std::size_t i = 0; i != records; ++i) {
      const auto count = static_cast<std::size_t>(offsets[i + 1] - offsets[i]);
      if (count > room) {
        throw_error<Error>({"penstock: record ", number + i, " has ", count,
                            " values of a Ragged column, and a slot has room for ", room,
                            ": give the Decoder .value_bytes = ", count * values.each, "."});
      }
    }
  }
  static void copy(const RingMemory& from, std::size_t first, std::size_t count,
                   const RingMemory& to, std::size_t place, std::size_t unit, std::size_t part) {
    const Array& array = from.layout().parts[part];
    if (array.kind == Array::records) {
      std::memcpy(to.data(place, part) + unit * array.each, from.data(0, part) + first * array.each,
                  count * array.each);
    } else if (array.kind == Array::values) {
      const std::size_t begin = from.values(0, part - 1, first);
      std::memcpy(to.data(place, part) + to.values(place, part - 1, unit) * array.each,
                  from.data(0, part) + begin * array.each,
                  (from.values(0, part - 1, first + count) - begin) * array.each);
    }
  }

  Layout layout_;
  Vector<Chunk> chunks_;
  std::size_t used_{};   // chunks
  std::size_t before_{}; // records in those before the last used one
  std::size_t first_{};  // records in that which the outlet does not show: with Ragged columns
  std::array<std::array<std::int64_t, 2>, schema_traits<S>::parts> put_{}; // offsets of the last
};

} // namespace penstock::detail
