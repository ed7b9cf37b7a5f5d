// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/row.hpp>
#include <penstock/data/schema.hpp>

#include <cstddef>

namespace penstock {

namespace detail {

/// Where an Output's records lie, for as long as there is room.
template <class S> struct Outlet {
  virtual void open(std::size_t count) = 0;
  virtual void next() = 0; // makes room for at least one more

  BatchView<S> view{};
  std::size_t at{};  // of the next record there
  std::size_t end{}; // of the room

 protected:
  Outlet() = default;
  ~Outlet() = default;
};

} // namespace detail

/// What a Decoder's callable fills that gives another number of records than it takes: as many as
/// it likes, none too. `Out` is the type of a record, or the schema of columns. The records come
/// out in the order of what they are made of, whichever worker made them.
///
/// It belongs to one call: its members are for the thread of that call, and it is not copied.
template <class Out> class Output {
  static constexpr bool of_columns = detail::HasColumns<Out>;

 public:
  /// For stages: fills what lies behind an outlet.
  explicit Output(detail::Outlet<Out>& outlet) noexcept : outlet_{&outlet} {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// States that this call gives `count` records; call it first. The records then need not be
  /// copied where the call has a group of its own, as a callable of batches has. Blocks until the
  /// calls for all that came before have stated theirs, or have returned. Throws Error if it was
  /// stated before, or records were given; if another number comes than was stated, the call fails.
  void open(std::size_t count) { outlet_->open(count); }

  /// Adds a record and returns it, to be filled until the next is added or the callable returns:
  /// Out&, for columns Row<Out>. All its bytes are to be written: what lies there is not 0. May
  /// block until a slot is free, and may throw what is not for you to catch, and what no noexcept
  /// function of yours may stop.
  decltype(auto) add() {
    detail::Outlet<Out>& to = *outlet_;
    if (to.at == to.end) {
      to.next();
    }
    if constexpr (of_columns) {
      return Row<Out>{to.view, to.at++};
    } else {
      return detail::record_at<Out&>(to.view, to.at++);
    }
  }
  /// Adds a record, as add() does. Not for records of bytes, whose length it does not know.
  void push(const Out& record) {
    static_assert(
        !of_columns && sizeof(Out) != 1,
        "penstock: push(record) is for records of one type, longer than a byte: fill what "
        "add() returns, auto row = out.add(); ps::get<\"name\">(row) = value.");
    if constexpr (!of_columns) {
      add() = record;
    }
  }

 private:
  detail::Outlet<Out>* outlet_;
};

} // namespace penstock
