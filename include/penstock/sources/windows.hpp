// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/splitmix.hpp>
#include <penstock/detail/base/throwing.hpp>
#include <penstock/schema.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/source.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

namespace penstock {

/// Options of windows().
struct WindowsOptions {
  /// Tokens in a window, at least 1: to predict the next of 1024 tokens it takes 1025.
  std::size_t length = 0;
  /// How many windows; 0: as many as would lie back to back in the sequence.
  std::uint64_t count = 0;
  /// One seed gives the same windows each time.
  std::uint64_t seed = 0;
};

/// A record of windows(): `get<"tokens">(batch)[i]` has the tokens of window i, and
/// `get<"tokens">(batch).data()` those of the whole batch, window after window.
template <class T> struct Window : Columns<Field<"tokens", T, dynamic>> {};

/// A source of windows at random places of a sequence of tokens in host memory, which it views: the
/// memory must outlive every run, unchanged. Made by windows().
template <class T> class Windows {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>,
                "penstock: windows are copied byte by byte, so tokens must be trivially copyable.");

 public:
  /// The type of its records.
  using schema = Window<T>;

  /// Views `tokens`; checks nothing before open().
  explicit Windows(std::span<const T> tokens, WindowsOptions options)
      : tokens_{tokens}, options_{options}, start_{detail::splitmix(options.seed, 0)} {}

  /// Checks the options. Throws OptionError; SourceError if the sequence is shorter than a window.
  void open() const {
    if (options_.length == 0 || options_.count == unknown_size) {
      detail::throw_error<OptionError>(
          {"penstock: windows: length is ", options_.length, " and count ", options_.count,
           ": a window has at least one token, and windows are counted in 64 bits: "
           "set .length, and .count to fewer."});
    }
    if (tokens_.size() < options_.length) {
      detail::throw_source_error({"penstock: windows: the sequence has ", tokens_.size(),
                                  " tokens, fewer than the ", options_.length,
                                  " of one window: give more tokens, or a smaller length."},
                                 {}, 0);
    }
  }
  /// Returns how many windows there are.
  std::uint64_t size() const noexcept {
    return options_.count != 0 || options_.length == 0 ? options_.count
                                                       : tokens_.size() / options_.length;
  }
  /// Returns the length of a window.
  std::array<std::size_t, 1> extents() const noexcept { return {options_.length}; }

  /// Returns where window `i` begins in the sequence: a function of the seed and `i` alone, spread
  /// evenly over all places where a whole window fits. After open().
  std::size_t offset_of(std::uint64_t i) const noexcept {
    // splitmix() gives so many more numbers than there are places that none is favoured measurably.
    return detail::splitmix(start_, i + 1) % (tokens_.size() - options_.length + 1);
  }

  /// Copies the windows from into.index() on. After open(). Any number of threads at once. Throws
  /// SourceError if there are not so many.
  template <HostSpace Where> std::size_t read(Batch<Window<T>, Where> into) const {
    const auto windows = get<"tokens">(into);
    const std::size_t bytes = options_.length * sizeof(T);
    detail::check_range(
        "windows",
        Batch<std::byte, Where>{nullptr, into.size(), into.index(), windows.elements() * sizeof(T)},
        size(), bytes);
    for (std::size_t i = 0; i < into.size(); ++i) {
      std::memcpy(windows.data() + i * options_.length,
                  tokens_.data() + offset_of(into.index() + i), bytes);
    }
    return into.size();
  }

 private:
  std::span<const T> tokens_;
  WindowsOptions options_;
  std::uint64_t start_;
};

/// Makes a source of windows of consecutive tokens at random places, as language models are trained
/// on: `windows(tokens, {.length = 1025, .count = n, .seed = s})`. `tokens` is a std::vector, an
/// array, a std::span or any other contiguous container, such as a file that you have mapped. You
/// keep the memory alive and unchanged. Every epoch has the same windows; for others take a greater
/// count.
template <class Container,
          class T = typename decltype(std::span{std::declval<const Container&>()})::value_type>
Windows<T> windows(const Container& tokens, WindowsOptions options) {
  return Windows<T>{std::span{tokens}, options};
}
/// Refused for a temporary: nothing would be left to read.
template <class Container,
          class T = typename decltype(std::span{std::declval<const Container&>()})::value_type>
Windows<T> windows(const Container&& tokens, WindowsOptions options)
  requires(!std::ranges::enable_borrowed_range<Container>)
= delete;

} // namespace penstock
