// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/held_source.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What a source of records of one schema is asked for, whatever its type.
template <class Schema> struct AnyHeld : HeldSource {
  virtual AnyHeld* copy() const = 0;
  virtual void open(const PrepareOptions& preparing) = 0;
  virtual std::size_t record_bytes() const = 0;
  virtual Filled read(Batch<Schema, Pageable> into, const Patience& patience) const = 0;
  virtual Filled read(Batch<Schema, Pinned> into, const Patience& patience) const = 0;
  virtual std::size_t read_at(std::span<const std::uint64_t> numbers,
                              Batch<Schema, Pageable> into) const = 0;
  virtual std::size_t read_at(std::span<const std::uint64_t> numbers,
                              Batch<Schema, Pinned> into) const = 0;
};

template <Source S> class AnyHeldOf final : public HeldOf<S, AnyHeld<typename S::schema>> {
  using T = typename S::schema;
  using Base = HeldOf<S, AnyHeld<T>>;

 public:
  using Base::Base;

 private:
  AnyHeld<T>* copy() const override { return new AnyHeldOf{source_}; }
  void open(const PrepareOptions& preparing) override { open_source(source_, preparing); }
  std::size_t record_bytes() const override {
    if constexpr (HasColumns<T>) {
      return 0;
    } else {
      return record_bytes_of(source_);
    }
  }
  Filled read(Batch<T, Pageable> into, const Patience& patience) const override {
    return read_some(source_, into, patience);
  }
  Filled read(Batch<T, Pinned> into, const Patience& patience) const override {
    return read_some(source_, into, patience);
  }
  std::size_t read_at(std::span<const std::uint64_t> numbers,
                      Batch<T, Pageable> into) const override {
    return read_numbered(source_, numbers, into, Patience{}).count;
  }
  std::size_t read_at(std::span<const std::uint64_t> numbers,
                      Batch<T, Pinned> into) const override {
    return read_numbered(source_, numbers, into, Patience{}).count;
  }

  using Base::source_;
};

} // namespace penstock::detail

namespace penstock {

namespace detail {

/// Stands for the schema of a mix whose schema is not named.
struct NotNamed {};

} // namespace detail

/// A source of any type whose records are of one schema: a member of a class, what a function
/// returns, one of a list. It does what the source in it does, by one virtual call a read. A copy
/// has a copy of that source, which is opened by itself. One without a source, or moved away, is
/// empty, and may only be assigned to: all else throws Error.
template <class Schema> class AnySource {
 public:
  /// The type of its records.
  using schema = Schema;

  /// Is empty.
  AnySource() = default;
  /// Takes any source of this schema.
  template <class S>
    requires(!std::is_same_v<S, AnySource> && !std::is_same_v<S, std::vector<AnySource>>)
  AnySource(S source) {
    constexpr bool named = !std::is_same_v<Schema, detail::NotNamed>;
    constexpr bool a_source = !named || Source<S>;
    constexpr bool same_records =
        !named || !a_source || std::is_same_v<typename detail::schema_of<S>::type, Schema>;
    static_assert(a_source,
                  "penstock: an AnySource, also in a Share of a mix, holds a source, such "
                  "as ps::records<T>(path), and S is none.");
    static_assert(same_records, "penstock: an AnySource, also in a Share of a mix, holds a source "
                                "of its Schema, and the records of S are others: decode those in a "
                                "pipeline of their own, or give both one schema.");
    if constexpr (named && a_source && same_records) {
      held_ = detail::Owned<Held>{new detail::AnyHeldOf<S>{std::move(source)}};
    }
  }
  /// Copy the source, or take it away.
  /// @{
  AnySource(const AnySource& other)
      : held_{other.held_ ? detail::Owned<Held>{other.held_->copy()} : detail::Owned<Held>{}} {}
  AnySource(AnySource&&) noexcept = default;
  AnySource& operator=(AnySource other) noexcept {
    held_ = std::move(other.held_);
    return *this;
  }
  /// @}
  ~AnySource() = default;

  /// Returns whether it holds a source.
  explicit operator bool() const noexcept { return static_cast<bool>(held_); }
  /// Opens the source. Throws what that throws.
  void open(const PrepareOptions& preparing = {}) { held().open(preparing); }
  /// Returns how many records it has, or unknown_size. After open().
  std::uint64_t size() const { return held().size(); }
  /// Returns whether it has its records at hand in any order. After open().
  bool random_access() const { return !held().in_order(); }
  /// Returns the bytes from one record to the next. After open().
  std::size_t record_bytes() const
    requires(!detail::HasColumns<Schema>)
  {
    return held().record_bytes();
  }
  /// Returns the dynamic extents, in order. After open().
  std::vector<std::size_t> extents() const
    requires detail::HasColumns<Schema>
  {
    return held().extents();
  }
  /// For stages: what the source can do.
  detail::Abilities abilities() const { return held().abilities(); }

  /// Reads the records from into.index() on, as the source does.
  template <HostSpace Where>
  Filled read(Batch<Schema, Where> into, const Patience& patience = {}) const {
    return held().read(into, patience);
  }
  /// Reads the records of these numbers, in this order: by read(), one run of numbers that follow
  /// each other after the other, if the source has no read_at().
  template <HostSpace Where>
  std::size_t read_at(std::span<const std::uint64_t> numbers, Batch<Schema, Where> into) const {
    return held().read_at(numbers, into);
  }
  /// Reads the bytes from `at` on, counted over all records. Throws Error if the source has no such
  /// member; lengths(), record_of() and group() do, too.
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const
    requires(!detail::HasColumns<Schema>)
  {
    held().read_bytes(at, into);
  }
  /// Hands on which records are soon to be read, if the source hears it. After open().
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept {
    held_->will_read(first, count);
  }
  /// Returns the lengths of the records from `first` on.
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const
    requires(detail::schema_traits<Schema>::ragged)
  {
    held().lengths(first, into);
  }
  /// Returns the number of the record that comes as number `visit`.
  std::uint64_t record_of(std::uint64_t visit, Seed shuffle) const {
    return held().record_of(visit, shuffle);
  }
  /// Returns how many visits belong together.
  std::uint64_t group() const { return held().group(); }
  /// Returns a number that tells the source from others of as many records. After open().
  std::uint64_t identity() const { return held().identity(); }
  /// Returns how many bytes any `records` records' values have together at most.
  std::uint64_t value_bytes(std::uint64_t records) const { return held().value_bytes(records); }
  /// Returns how many records a Reader's slot is to have; 0 if it does not matter. After open().
  std::uint64_t together() const { return held().together(); }
  /// Appends how the records were read.
  void note(std::string& to) const { held().note(to); }
  /// Returns what the source in it calls a record: nothing, if that has no names.
  std::string name(std::uint64_t record) const { return held().name(record); }

 private:
  using Held = detail::AnyHeld<Schema>;

  Held& held() const {
    if (!held_) {
      detail::throw_error<Error>(
          {"penstock: this AnySource is empty: it never had a source, or was "
           "moved away. Give it one: AnySource<T>{ps::records<T>(path)}."});
    }
    return *held_;
  }

  detail::Owned<Held> held_;
};
/// Deduces the schema.
template <Source S> AnySource(S) -> AnySource<typename S::schema>;

namespace detail {

template <class Schema> inline constexpr bool holds_any<AnySource<Schema>> = true;

} // namespace detail
} // namespace penstock
