// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/detail/base/splitmix.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/optional_members.hpp>
#include <penstock/sources/detail/renumbered.hpp>
#include <penstock/sources/memory.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>

namespace penstock {

/// Options of windows().
struct WindowsOptions {
  /// Tokens in a window, at least 1: to predict the next of 1024 tokens it takes 1025.
  std::size_t length = 0;
  /// Tokens from where a window begins to where the next one does; 0: length - 1, or 1 if that is
  /// none. A window's last token is then the next one's first, and an epoch predicts each token
  /// once.
  std::uint64_t stride = 0;
  /// Shifts all windows of an epoch, in each by another number of tokens, less than the stride;
  /// without a seed they stay where they are.
  Seed seed = {};
};

/// A record of windows(): `get<"tokens">(batch)[i]` has the tokens of window i, and
/// `get<"tokens">(batch).data()` those of the whole batch, window after window.
template <class T> struct Window : Columns<Field<"tokens", T, dynamic>> {};

/// A source of windows of consecutive tokens, which lie on a grid over the sequence of tokens that
/// another source has. Made by windows().
template <class From> class Windows {
  using Token = typename detail::schema_of<From>::type;
  static constexpr bool has_tokens = Source<From>;
  static_assert(has_tokens,
                "penstock: windows(tokens, options) takes tokens that lie in memory, such as a "
                "std::vector, or a source of them, such as ps::records<std::uint16_t>(paths).");
  static constexpr bool plain_tokens = !detail::HasColumns<Token>;
  static_assert(plain_tokens, "penstock: windows(source, options) takes a source of plain tokens, "
                              "such as std::uint16_t, and From's records have columns.");
  static constexpr bool whole_reads = !detail::GivesForNow<From> || detail::TellsAbilities<From>;
  static_assert(whole_reads, "penstock: windows(source, options) reads whole windows, and From "
                             "gives fewer tokens for now: write them into a file first.");
  static constexpr bool no_mix = !detail::is_a_mix<From>;
  static_assert(no_mix, "penstock: a mix has an order of its own, which windows() would lose: call "
                        "windows() of its parts, and mix what comes of that.");

 public:
  /// Whether it was refused, so that a Reader says no more about it.
  static constexpr bool refused =
      !has_tokens || !plain_tokens || !whole_reads || !no_mix || detail::refused_source<From>;
  /// The type of its records.
  using schema = Window<Token>;

  /// Takes a source of tokens; checks nothing before open().
  explicit Windows(From source, WindowsOptions options)
      : source_{std::move(source)}, length_{options.length},
        stride_{options.stride != 0 ? options.stride
                                    : std::max<std::uint64_t>(options.length, 2) - 1},
        seed_{options.seed} {}

  /// Opens the source of tokens, and checks it and the options. Blocks if that does. Throws what
  /// the source throws; OptionError for a length of 0, and for a source that is a mix, has no known
  /// size, or gives its records in order only or fewer for now; SourceError if its records
  /// have another size than a token or if there are fewer than one window has.
  void open(const PrepareOptions& preparing = {}) {
    if (length_ == 0) {
      throw OptionError{"penstock: windows: length is 0, and a window has at least one token: set "
                        ".length, to 1025 to predict the next of 1024 tokens."};
    }
    detail::open_source(source_, preparing);
    detail::check_no_mix("windows", "the source", source_);
    if (source_.size() == unknown_size || detail::comes_in_order(source_) ||
        detail::abilities_of(source_).for_now) {
      throw OptionError{
          "penstock: windows: the tokens come in order only, or nobody knows how many there are, "
          "and windows overlap: write the tokens into a file first."};
    }
    if (const std::size_t bytes = detail::record_bytes_of(source_); bytes != sizeof(Token)) {
      detail::throw_source_error({"penstock: windows: the source has records of ", bytes,
                                  " bytes, and a token has ", sizeof(Token),
                                  ": give a source whose records are tokens."},
                                 {}, 0);
    }
    if (places() == 0) {
      detail::throw_source_error({"penstock: windows: the sequence has ", source_.size(),
                                  " tokens, fewer than the ", length_,
                                  " of one window: give more tokens, or a smaller length."},
                                 {}, 0);
    }
  }
  /// Returns how many windows an epoch has: with a seed as many as fit however far they are
  /// shifted, which may be one fewer than without. After open(), or of memory at any time.
  std::uint64_t size() const {
    const std::uint64_t room = places();
    return room == 0 ? 0
           : seed_   ? std::max<std::uint64_t>(room / stride_, 1)
                     : (room - 1) / stride_ + 1;
  }
  /// Returns the length of a window.
  std::array<std::size_t, 1> extents() const noexcept { return {length_}; }

  /// Returns where window `i` begins in the sequence: at i * stride, and so many tokens further as
  /// seed and epoch say. These are fewer than a stride, and fewer where the sequence has no room
  /// for so many. After open(), or of memory at any time. Throws OptionError unless `i` is less
  /// than size().
  std::uint64_t offset_of(std::uint64_t i, std::uint64_t epoch = 0) const {
    detail::check_number("windows", i, size());
    return i * stride_ + shift(epoch);
  }

  /// Returns a number for the tokens' source and for where windows lie. After open().
  std::uint64_t identity() const {
    const std::uint64_t seed = seed_ ? detail::and_then(1, seed_.value()) : 0;
    const std::uint64_t grid = detail::and_then(stride_, seed);
    return detail::and_then(detail::and_then(detail::identity_of(source_), grid), source_.size());
  }
  /// Appends how the tokens were read.
  void note(std::string& to) const { detail::note_of(source_, to); }

  /// Reads the windows from into.index() on, of the epoch that `patience` tells. After open().
  /// Blocks as the source of tokens does; any number of threads at once. Throws SourceError with
  /// the window's number for its record.
  template <HostSpace Where>
  std::size_t read(Batch<schema, Where> into, const Patience& patience = {}) const {
    const auto windows = get<"tokens">(into);
    detail::check_range("windows", into.index(), into.size(), windows.elements() * sizeof(Token),
                        size(), length_ * sizeof(Token));
    const std::uint64_t first = into.index() * stride_ + shift(patience.epoch());
    for (std::size_t i = 0; i < into.size(); ++i) {
      const Batch<Token, Where> window{windows.data() + i * length_, length_, first + i * stride_};
      if (!read_window(into.index() + i, window, patience)) {
        return i;
      }
    }
    return into.size();
  }
  /// Tells the source of tokens where these windows lie, in any epoch.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires detail::HearsWhatComes<From>
  {
    const std::uint64_t begin = first * stride_;
    source_.will_read(begin, std::min(count * stride_ + length_, source_.size() - begin));
  }

 private:
  // Returns at how many places of the sequence a whole window fits.
  std::uint64_t places() const {
    const std::uint64_t tokens = source_.size();
    return length_ == 0 || tokens < length_ ? 0 : tokens - length_ + 1;
  }
  // The first hash keeps seed 1 in epoch 0 and seed 0 in epoch 1 apart.
  std::uint64_t shift(std::uint64_t epoch) const {
    return seed_ ? detail::splitmix(detail::splitmix(seed_.value(), 1) ^ epoch, 1) %
                       std::min(stride_, places())
                 : 0;
  }

  // Returns false if the run ends meanwhile.
  template <class Where>
  bool read_window(std::uint64_t number, Batch<Token, Where> window,
                   const Patience& patience) const {
    const auto here = [number](std::uint64_t) { return std::optional{number}; };
    const std::size_t got = detail::renumbered(
        "windows", here, [&] { return detail::read_some(source_, window, patience).count; });
    if (got != length_ && !patience.stop_requested()) {
      detail::throw_source_error({"penstock: windows: of the ", length_, " tokens from number ",
                                  window.index(), " on the source has ", got,
                                  ", fewer than its size() says."},
                                 {}, 0, number);
    }
    return got == length_;
  }

  From source_;
  std::size_t length_;
  std::uint64_t stride_;
  Seed seed_;
};

namespace detail {

template <class C>
concept LiesInMemory = requires(const C& container) { std::span{container}; };

} // namespace detail

/// Makes a source of windows of consecutive tokens, as language models are trained on, of a source
/// of tokens, `windows(records<std::uint16_t>(paths), {.length = 1025, .seed = s})`. Files follow
/// each other without a gap, so a window may lie in two. Window i begins i strides behind window 0.
/// An Order shuffles windows and shares them among ranks; for n windows at random places, out of
/// all, take a .stride of 1 and `.order = {.shuffle = s, .records = n}`.
/// Tokens may also lie in host memory: in a std::vector, an array, a std::span or any other
/// contiguous container, such as a file that you have mapped. You keep that alive and unchanged.
template <class Tokens> auto windows(Tokens&& tokens, WindowsOptions options) {
  using From = std::remove_cvref_t<Tokens>;
  if constexpr (detail::LiesInMemory<From>) {
    return Windows<decltype(memory(tokens))>{memory(std::forward<Tokens>(tokens)), options};
  } else {
    return Windows<From>{std::forward<Tokens>(tokens), options};
  }
}

} // namespace penstock
