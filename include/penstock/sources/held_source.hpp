// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/detail/reads.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What a source is asked for, without its type.
template <class Schema> struct HeldSource {
  virtual ~HeldSource() = default;
  virtual HeldSource* copy() const = 0;
  virtual void open(const PrepareOptions& preparing) = 0;
  virtual std::uint64_t size() const = 0;
  virtual bool in_order() const = 0;
  virtual std::size_t record_bytes() const = 0;
  virtual std::vector<std::size_t> extents() const = 0;
  virtual Abilities abilities() const = 0;
  virtual Filled read(Batch<Schema, Pageable> into, const Patience& patience) const = 0;
  virtual Filled read(Batch<Schema, Pinned> into, const Patience& patience) const = 0;
  virtual std::size_t read_at(std::span<const std::uint64_t> numbers,
                              Batch<Schema, Pageable> into) const = 0;
  virtual std::size_t read_at(std::span<const std::uint64_t> numbers,
                              Batch<Schema, Pinned> into) const = 0;
  virtual void read_bytes(std::uint64_t at, std::span<std::byte> into) const = 0;
  virtual void will_read(std::uint64_t first, std::uint64_t count) const = 0;
  virtual void lengths(std::uint64_t first, std::span<std::uint64_t> into) const = 0;
  virtual std::uint64_t record_of(std::uint64_t visit, Seed shuffle) const = 0;
  virtual std::uint64_t group() const = 0;
  virtual std::uint64_t identity() const = 0;
  virtual std::uint64_t value_bytes(std::uint64_t records) const = 0;
  virtual void note(std::string& to) const = 0;
};

template <Source S> class HeldOf final : public HeldSource<typename S::schema> {
  using T = typename S::schema;

 public:
  explicit HeldOf(S source) : source_{std::move(source)} {}

  HeldSource<T>* copy() const override { return new HeldOf{source_}; }
  void open(const PrepareOptions& preparing) override { open_source(source_, preparing); }
  std::uint64_t size() const override { return source_.size(); }
  bool in_order() const override { return comes_in_order(source_); }
  std::size_t record_bytes() const override {
    if constexpr (HasColumns<T>) {
      return 0;
    } else {
      return record_bytes_of(source_);
    }
  }
  std::vector<std::size_t> extents() const override { return extents_of(source_); }
  Abilities abilities() const override { return abilities_of(source_); }

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
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const override {
    if constexpr (ReadsBytes<S>) {
      source_.read_bytes(at, into);
    } else {
      lacks("read_bytes");
    }
  }
  void will_read(std::uint64_t first, std::uint64_t count) const override {
    if constexpr (HearsWhatComes<S>) {
      source_.will_read(first, count);
    }
  }
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const override {
    if constexpr (KnowsLengths<S>) {
      source_.lengths(first, into);
    } else {
      lacks("lengths");
    }
  }
  std::uint64_t record_of(std::uint64_t visit, Seed shuffle) const override {
    if constexpr (SaysOrder<S>) {
      return source_.record_of(visit, shuffle);
    } else {
      lacks("record_of");
    }
  }
  std::uint64_t group() const override {
    if constexpr (SaysOrder<S>) {
      return source_.group();
    } else {
      lacks("group");
    }
  }
  std::uint64_t identity() const override { return identity_of(source_); }
  std::uint64_t value_bytes(std::uint64_t records) const override {
    return value_bytes_of(source_, records);
  }
  void note(std::string& to) const override { note_of(source_, to); }

 private:
  [[noreturn, gnu::cold]] static void lacks(const char* member) {
    throw_error<Error>({"penstock: the source in an AnySource has no ", member,
                        "(): what it holds can do only what its own type can."});
  }

  S source_;
};

} // namespace penstock::detail
