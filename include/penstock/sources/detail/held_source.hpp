// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/source.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What a source is asked for, whatever its type and its records are. After open(); what it may
/// be asked for only if it can is in its abilities().
struct HeldSource {
  HeldSource() = default;
  HeldSource(const HeldSource&) = delete;
  HeldSource& operator=(const HeldSource&) = delete;
  virtual ~HeldSource() = default;
  virtual std::uint64_t size() const = 0;
  virtual bool in_order() const = 0;
  virtual std::vector<std::size_t> extents() const = 0;
  virtual Abilities abilities() const = 0;
  virtual void read_bytes(std::uint64_t at, std::span<std::byte> into) const = 0;
  virtual void will_read(std::uint64_t first, std::uint64_t count) const = 0;
  virtual void lengths(std::uint64_t first, std::span<std::uint64_t> into) const = 0;
  virtual std::uint64_t record_of(std::uint64_t visit, Seed shuffle) const = 0;
  virtual std::uint64_t group() const = 0;
  virtual std::uint64_t identity() const = 0;
  virtual std::uint64_t value_bytes(std::uint64_t records) const = 0;
  virtual std::uint64_t together() const = 0;
  virtual void note(std::string& to) const = 0;
  virtual std::string name(std::uint64_t record) const = 0;
};

/// Asks a source S. Base is a HeldSource that is asked for more.
template <Source S, class Base> class HeldOf : public Base {
 public:
  [[gnu::cold]] explicit HeldOf(S source) : source_{std::move(source)} {}

  [[gnu::cold]] std::uint64_t size() const final { return source_.size(); }
  [[gnu::cold]] bool in_order() const final { return comes_in_order(source_); }
  [[gnu::cold]] std::vector<std::size_t> extents() const final { return extents_of(source_); }
  [[gnu::cold]] Abilities abilities() const final { return abilities_of(source_); }
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const final {
    if constexpr (ReadsBytes<S>) {
      source_.read_bytes(at, into);
    } else {
      lacks("read_bytes");
    }
  }
  void will_read(std::uint64_t first, std::uint64_t count) const final {
    if constexpr (HearsWhatComes<S>) {
      source_.will_read(first, count);
    }
  }
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const final {
    if constexpr (KnowsLengths<S>) {
      source_.lengths(first, into);
    } else {
      lacks("lengths");
    }
  }
  std::uint64_t record_of(std::uint64_t visit, Seed shuffle) const final {
    if constexpr (SaysOrder<S>) {
      return source_.record_of(visit, shuffle);
    } else {
      lacks("record_of");
    }
  }
  std::uint64_t group() const final {
    if constexpr (SaysOrder<S>) {
      return source_.group();
    } else {
      lacks("group");
    }
  }
  [[gnu::cold]] std::uint64_t identity() const final { return identity_of(source_); }
  [[gnu::cold]] std::uint64_t value_bytes(std::uint64_t records) const final {
    return value_bytes_of(source_, records);
  }
  [[gnu::cold]] std::uint64_t together() const final { return together_of(source_); }
  [[gnu::cold]] void note(std::string& to) const final { note_of(source_, to); }
  [[gnu::cold]] std::string name(std::uint64_t record) const final {
    return name_of(source_, record);
  }

 protected:
  S source_;

 private:
  [[noreturn, gnu::cold]] static void lacks(const char* member) {
    throw_error<Error>({"penstock: the source in an AnySource has no ", member,
                        "(): what it holds can do only what its own type can."});
  }
};

} // namespace penstock::detail
