// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/error.hpp>
#include <penstock/order/order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <string>
#include <string_view>

namespace penstock {

namespace detail {

/// What two runs must have in common for one to go on where the other stood.
struct OrderIdentity {
  Seed shuffle{};
  std::uint64_t block{1};
  std::uint64_t window{1};
  std::uint64_t records{}; // of an epoch, over all ranks
  std::uint64_t size{};    // of the source
  std::uint64_t schema{};  // a hash of the records' layout
  std::uint64_t source{};  // its identity()
  std::uint64_t group{};   // records that a Decoder of another number takes together; 0: none

  bool operator==(const OrderIdentity&) const = default;
};

/// Where in an epoch a run stands, beside its step.
struct PlaceInEpoch {
  std::uint64_t inside{}; // records that each of `world` ranks took behind the step
  std::uint64_t world{};  // 0 where all stand between blocks
  std::uint64_t rank{};   // that it belongs to, behind a Decoder of another number
  std::uint64_t made{};   // outputs that were given of what comes next, or records of a batch

  bool operator==(const PlaceInEpoch&) const = default;
};

} // namespace detail

/// Where a run stands: which records of which epoch came before, over all ranks. A default one is
/// the beginning. `for (auto batch : pipeline.on(stream, {.from = position}))` goes on from there:
/// with the records that would have come next, on as many ranks as you like. It is a value; any
/// thread.
///
/// It knows the order that it belongs to, and a run of another order refuses it.
class Position {
 public:
  Position() = default; ///< The beginning.
  /// Reads what text() gave, with or without white space around it. Throws OptionError for any
  /// other text.
  explicit Position(std::string_view text);

  /// Returns the position as one line of text, of less than 384 characters, without its end.
  std::string text() const;
  /// Returns whether it is one of a run; false for the beginning that a default one is.
  explicit operator bool() const noexcept { return known_; }
  /// Returns the epoch, from 0, and how many of its steps came before, over all ranks.
  /// @{
  std::uint64_t epoch() const noexcept { return epoch_; }
  std::uint64_t step() const noexcept { return step_; }
  /// @}
  /// Returns how many records each rank took of its block, which begins behind step(); 0 where all
  /// ranks stand between blocks, so that any number of them can go on.
  std::uint64_t inside() const noexcept { return place_.inside; }
  /// Returns how many of the records were given that a Decoder of another number makes of what
  /// comes next: it makes them again, and leaves them out. Without one: how many of the batch at
  /// hand on a device, if .drop_last counts its batches.
  std::uint64_t made() const noexcept { return place_.made; }
  /// Compares all that text() tells.
  bool operator==(const Position&) const = default;

  /// For the Reader: a place in a run of an order.
  Position(const detail::OrderIdentity& of, std::uint64_t epoch, std::uint64_t step,
           const detail::PlaceInEpoch& place) noexcept;
  /// For the Reader.
  /// @{
  const detail::OrderIdentity& identity() const noexcept { return identity_; }
  std::uint64_t world() const noexcept { return place_.world; }
  std::uint64_t rank() const noexcept { return place_.rank; }
  /// @}

 private:
  detail::OrderIdentity identity_{};
  std::uint64_t epoch_{};
  std::uint64_t step_{};
  detail::PlaceInEpoch place_{};
  bool known_{};
};

namespace detail {

inline constexpr std::string_view position_mark = "penstock-position 1";
inline constexpr std::string_view any_position_mark = "penstock-position ";

[[gnu::cold]] std::string_view without_space_around(std::string_view text) noexcept;

/// Takes numbers off a position's text, each behind its name.
class PositionText {
 public:
  [[gnu::cold]] explicit PositionText(std::string_view text);
  /// Returns the number behind " name=", in base 10 or 16.
  [[gnu::cold]] std::uint64_t number(std::string_view name, unsigned base = 10);
  [[gnu::cold]] Seed seed(std::string_view name);
  bool ends() const noexcept { return rest_.empty(); }
  /// Throws OptionError if anything is left, or unless what it says `can_be`.
  [[gnu::cold]] void end(bool can_be) const;

 private:
  void begin(std::string_view name);
  [[noreturn]] void refuse() const;

  std::string_view all_;
  std::string_view rest_;
};

[[gnu::cold]] std::string in_base_16(std::uint64_t value);

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::string_view without_space_around(std::string_view text) noexcept {
  constexpr std::string_view space = " \t\r\n";
  const std::size_t first = std::min(text.find_first_not_of(space), text.size());
  return text.substr(first, text.find_last_not_of(space) + 1 - first);
}

PENSTOCK_INLINE PositionText::PositionText(std::string_view text)
    : all_{without_space_around(text)}, rest_{all_} {
  if (!rest_.starts_with(position_mark)) {
    refuse();
  }
  rest_.remove_prefix(position_mark.size());
}

PENSTOCK_INLINE std::uint64_t PositionText::number(std::string_view name, unsigned base) {
  begin(name);
  std::uint64_t value = 0;
  std::size_t digits = 0;
  for (; digits != rest_.size(); ++digits) {
    const char c = rest_[digits];
    const unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10
                                                  : base;
    if (digit >= base) {
      break;
    }
    if (value > (~std::uint64_t{0} - digit) / base) {
      refuse();
    }
    value = value * base + digit;
  }
  if (digits == 0) {
    refuse();
  }
  rest_.remove_prefix(digits);
  return value;
}

PENSTOCK_INLINE Seed PositionText::seed(std::string_view name) {
  constexpr std::string_view none = "none";
  const PositionText before = *this;
  begin(name);
  if (rest_.starts_with(none)) {
    rest_.remove_prefix(none.size());
    return {};
  }
  *this = before;
  return number(name);
}

PENSTOCK_INLINE void PositionText::end(bool can_be) const {
  if (!rest_.empty() || !can_be) {
    refuse();
  }
}

PENSTOCK_INLINE void PositionText::begin(std::string_view name) {
  if (rest_.size() < name.size() + 2 || rest_[0] != ' ' || rest_.substr(1, name.size()) != name ||
      rest_[name.size() + 1] != '=') {
    refuse();
  }
  rest_.remove_prefix(name.size() + 2);
}

PENSTOCK_INLINE void PositionText::refuse() const {
  std::string shown{all_.substr(0, 256)};
  std::replace_if(shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  const bool other_version = all_.starts_with(any_position_mark);
  throw OptionError{
      "penstock: this is the text of no position" +
      std::string{other_version && !all_.starts_with(position_mark) ? " of this version of penstock"
                                                                    : ""} +
      ": \"" + shown + "\". Give all of the one line that text() returned, beginning with \"" +
      std::string{position_mark} + "\"."};
}

PENSTOCK_INLINE std::string in_base_16(std::uint64_t value) {
  std::string digits;
  do {
    digits.insert(digits.begin(), "0123456789abcdef"[value % 16]);
    value /= 16;
  } while (value != 0);
  return digits;
}
#endif

} // namespace detail

/// Prints text().
inline std::ostream& operator<<(std::ostream& os, const Position& position) {
  return os << position.text();
}
/// Reads the next line that is not empty, which has text(). Throws OptionError if it has another.
inline std::istream& operator>>(std::istream& is, Position& position) {
  if (std::string line; std::getline(is >> std::ws, line)) {
    position = Position{line};
  }
  return is;
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE Position::Position(const detail::OrderIdentity& of, std::uint64_t epoch,
                                   std::uint64_t step, const detail::PlaceInEpoch& place) noexcept
    : identity_{of}, epoch_{epoch}, step_{step}, place_{place}, known_{true} {}

[[gnu::cold]] PENSTOCK_INLINE Position::Position(std::string_view text) {
  detail::PositionText from{text};
  epoch_ = from.number("epoch");
  step_ = from.number("step");
  place_.inside = from.number("inside");
  place_.world = from.number("world");
  identity_.shuffle = from.seed("shuffle");
  identity_.block = from.number("block");
  identity_.window = from.number("window");
  identity_.records = from.number("records");
  identity_.size = from.number("size");
  identity_.schema = from.number("schema", 16);
  identity_.source = from.number("source", 16);
  if (!from.ends()) {
    identity_.group = from.number("group");
    place_.rank = from.number("rank");
    place_.made = from.number("made");
  }
  known_ = identity_ != detail::OrderIdentity{}; // else it is the beginning
  const auto& [inside, world, rank, made] = place_;
  const bool of_ranks = world > 1 && world <= ~std::uint32_t{0};
  const bool inside_block = inside < identity_.block && of_ranks && rank == 0 && made == 0;
  const bool between = inside == 0 && world == 0 && rank == 0 && (made == 0 || step_ != 0);
  const bool recounted = world == 0 ? inside == 0 && rank == 0 : of_ranks && rank < world;
  const bool can_be = identity_.group != 0 ? recounted : between || inside_block;
  from.end((known_ && can_be) || *this == Position{});
}

[[gnu::cold]] PENSTOCK_INLINE std::string Position::text() const {
  std::string text{detail::position_mark};
  const auto add = [&text](const char* name, const std::string& value) {
    text += std::string{" "} + name + "=" + value;
  };
  add("epoch", std::to_string(epoch_));
  add("step", std::to_string(step_));
  add("inside", std::to_string(place_.inside));
  add("world", std::to_string(place_.world));
  add("shuffle", identity_.shuffle ? std::to_string(identity_.shuffle.value()) : "none");
  add("block", std::to_string(identity_.block));
  add("window", std::to_string(identity_.window));
  add("records", std::to_string(identity_.records));
  add("size", std::to_string(identity_.size));
  add("schema", detail::in_base_16(identity_.schema));
  add("source", detail::in_base_16(identity_.source));
  if (identity_.group != 0 || place_.made != 0) {
    add("group", std::to_string(identity_.group));
    add("rank", std::to_string(place_.rank));
    add("made", std::to_string(place_.made));
  }
  return text;
}
#endif

} // namespace penstock
