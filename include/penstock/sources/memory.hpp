// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/source.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

namespace penstock {

/// Options of memory().
struct MemoryOptions {
  /// Bytes of one record, if T is a single byte; 0: one T.
  std::size_t record_bytes = 0;
};

/// A source of records that lie in host memory already, which it views: the memory must outlive
/// every run, unchanged. Made by memory().
template <class T> class Memory {
  static constexpr bool plain = !detail::HasColumns<T>;
  static_assert(plain, "penstock: memory(data) reads T's as they lie, and T has columns: read each "
                       "by zip<T>(...), or read structs, and let a Decoder fill T.");

 public:
  /// Whether it was refused, so that a Reader says no more about it.
  static constexpr bool refused = !plain;
  /// The type of its records.
  using schema = T;

  /// Views `records`; checks nothing before open().
  explicit Memory(std::span<const T> records, MemoryOptions options = {})
      : records_{records}, asked_bytes_{options.record_bytes} {}

  /// Checks the options. Throws OptionError; SourceError if the last record is not whole.
  void open() const {
    const std::size_t bytes = detail::checked_record_bytes<T>("memory", asked_bytes_);
    const std::size_t rest = records_.size_bytes() % bytes;
    if (rest != 0) {
      detail::throw_source_error(
          {"penstock: memory: ", records_.size_bytes(), " bytes are no whole number of records of ",
           bytes, " bytes: ", rest, " are left over. Give whole records, or another record_bytes."},
          {}, records_.size_bytes() - rest, size());
    }
  }
  /// Returns how many records there are.
  std::uint64_t size() const noexcept { return records_.size_bytes() / record_bytes(); }
  /// Returns the bytes of one record.
  std::size_t record_bytes() const noexcept { return asked_bytes_ != 0 ? asked_bytes_ : sizeof(T); }

  /// Copies the records from into.index() on. Any number of threads at once. Throws SourceError if
  /// there are not so many.
  template <HostSpace Where> std::size_t read(Batch<T, Where> into) const {
    detail::check_range("memory", into, size(), record_bytes());
    read_bytes(into.index() * record_bytes(),
               {reinterpret_cast<std::byte*>(into.data()), into.size_bytes()});
    return into.size();
  }
  /// Copies the bytes from `at` on, counted over all records.
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const {
    detail::check_bytes("memory", at, into.size(), size(), record_bytes());
    if (!into.empty()) {
      std::memcpy(into.data(), std::as_bytes(records_).data() + at, into.size());
    }
  }

 private:
  std::span<const T> records_;
  std::size_t asked_bytes_;
};

/// Makes a source that reads from memory: `memory(data)` of a std::vector, an array, a std::span or
/// any other contiguous container, or with records of a run-time size
/// `memory(bytes, {.record_bytes = n})`. You keep the memory alive and unchanged.
template <class Container,
          class T = typename decltype(std::span{std::declval<const Container&>()})::value_type>
Memory<T> memory(Container&& container, MemoryOptions options = {}) {
  constexpr bool stays = std::is_lvalue_reference_v<Container> ||
                         std::ranges::enable_borrowed_range<std::remove_cvref_t<Container>>;
  static_assert(stays, "penstock: memory(data) reads what you keep, and this is a temporary: give "
                       "it a name that outlives the pipeline, and pass that.");
  return Memory<T>{std::span{std::as_const(container)}, options};
}

} // namespace penstock
