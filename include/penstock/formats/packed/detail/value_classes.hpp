// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/packed.hpp>
#include <penstock/formats/packed/detail/column_code.hpp>
#include <penstock/formats/packed/detail/rans_encoder.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Sorts values into classes, so that the class of a value tells as much as it can of the class of
/// the next one: those that come before and behind the same classes belong together. A value is a
/// number below `count`, the most frequent one first.
class ValueClasses {
 public:
  explicit ValueClasses(std::size_t count) : class_of_(count) {
    for (std::size_t value = 0; value != count; ++value) { // a start in which no two are alike
      class_of_[value] = static_cast<std::uint8_t>(std::min<std::size_t>(value, classes - 1));
    }
  }

  /// Takes a chunk's values, in order.
  void add(std::span<const std::uint32_t> chunk) {
    for (std::size_t i = 0; i != chunk.size(); ++i) {
      followed_.push_back({i % 16 == 0 ? none : chunk[i - 1], chunk[i]});
    }
  }
  /// Moves each value to the class that fits it best, round after round.
  void sort() {
    for (int round = 0; round != rounds; ++round) {
      std::vector<Ends> ends(class_of_.size());
      Pairs pairs{};
      for (const auto& [first, second] : followed_) {
        if (first != none) {
          ++ends[first].next[class_of_[second]];
          ++ends[second].before[class_of_[first]];
          ++pairs[class_of_[first]][class_of_[second]];
        }
      }
      move(ends, pairs);
    }
  }

  /// Returns a code, with `ranked` the values by number, or one of codec raw if there are too many.
  ColumnCode code(const std::vector<std::uint32_t>& ranked) const {
    ColumnCode code;
    for (unsigned fine = 9; fine-- != 0 && code.codec == PackedCodec::raw;) {
      code.symbols.clear();
      code.ranked.clear();
      for (std::size_t its = 0; its != classes; ++its) {
        put(its, fine, ranked, code);
      }
      if (code.symbols.size() <= rans_symbols) {
        code.codec = PackedCodec::classes;
      }
    }
    if (code.codec == PackedCodec::classes) {
      count(ranked, code);
      code.symbols.resize(rans_symbols);
    }
    return code;
  }

 private:
  static constexpr std::size_t classes = 7; // and that of no value, which is the code's class 0
  static constexpr int rounds = 16;
  // Bits that a move must save: what is rare fits any class by chance.
  static constexpr double worth_moving = 32;
  static constexpr std::size_t frequent = 8; // values that count at once where they move
  static constexpr std::uint32_t none = ~0U;
  using Numbers = std::array<std::uint32_t, classes>;
  struct Ends { // of the pairs in which a value is
    Numbers next{}, before{};
  };

  using Pairs = std::array<Numbers, classes>;
  using Saved = std::array<std::array<double, classes>, classes>;

  /// Returns how many bits a pair saves against its ends alone, less half a pair that nobody saw.
  static Saved saved_by(const Pairs& pairs) {
    std::array<double, classes> firsts{};
    std::array<double, classes> seconds{};
    double all = 1;
    for (std::size_t i = 0; i != classes; ++i) {
      for (std::size_t k = 0; k != classes; ++k) {
        firsts[i] += pairs[i][k];
        seconds[k] += pairs[i][k];
        all += pairs[i][k];
      }
    }
    Saved saved{};
    for (std::size_t i = 0; i != classes; ++i) {
      for (std::size_t k = 0; k != classes; ++k) {
        saved[i][k] =
            std::log2((pairs[i][k] + 0.5) * all / ((firsts[i] + 0.5) * (seconds[k] + 0.5)));
      }
    }
    return saved;
  }
  void move(const std::vector<Ends>& ends, Pairs& pairs) {
    Saved saved{};
    for (std::size_t value = 0; value != ends.size(); ++value) {
      if (value < frequent) {
        saved = saved_by(pairs);
      }
      const Ends& its = ends[value];
      std::array<double, classes> sum{};
      for (std::size_t i = 0; i != classes; ++i) {
        for (std::size_t k = 0; k != classes; ++k) {
          sum[i] += its.next[k] * saved[i][k] + its.before[k] * saved[k][i];
        }
      }
      const std::size_t from = class_of_[value];
      const auto most = std::max_element(sum.begin(), sum.end());
      const auto to = static_cast<std::size_t>(most - sum.begin());
      if (*most > sum[from] + worth_moving) {
        for (std::size_t k = 0; k != classes; ++k) {
          shift(pairs[from][k], pairs[to][k], its.next[k]);
          shift(pairs[k][from], pairs[k][to], its.before[k]);
        }
        class_of_[value] = static_cast<std::uint8_t>(to);
      }
    }
  }
  /// Moves as many pairs, or as many as there are: others of the round may have moved them.
  static void shift(std::uint32_t& from, std::uint32_t& to, std::uint32_t some) {
    some = std::min(some, from);
    from -= some;
    to += some;
  }

  /// Appends the symbols and the ranks of a class. Ranks from number p on share a symbol with as
  /// many others as p has, or a part of that: `fine` is how often that is halved.
  void put(std::size_t its, unsigned fine, const std::vector<std::uint32_t>& ranked,
           ColumnCode& code) const {
    std::size_t left = 0;
    const std::size_t first = code.ranked.size();
    for (std::size_t value = 0; value != class_of_.size(); ++value) {
      if (class_of_[value] == its) {
        code.ranked.push_back(ranked[value]);
        ++left;
      }
    }
    for (std::size_t at = 0; left != 0;) {
      const std::size_t some =
          std::min({std::max<std::size_t>(std::bit_floor(at) >> fine, 1), std::bit_floor(left),
                    std::size_t{1} << packed_most_following});
      const PackedSymbol symbol{static_cast<std::uint32_t>(first + at),
                                static_cast<unsigned>(std::countr_zero(some)),
                                static_cast<std::uint32_t>(its + 1)};
      code.symbols.push_back(symbol.entry());
      at += some;
      left -= some;
    }
  }

  /// Counts the symbols behind each class. Any symbol may come behind any class, also if none of
  /// what was added has that.
  void count(const std::vector<std::uint32_t>& ranked, ColumnCode& code) const {
    std::vector<std::uint8_t> symbol_of(class_of_.size()); // by number
    std::vector<std::size_t> place(*std::max_element(ranked.begin(), ranked.end()) +
                                   std::size_t{1});
    for (std::size_t value = 0; value != ranked.size(); ++value) {
      place[ranked[value]] = value;
    }
    std::array<std::uint64_t, rans_symbols> known{};
    for (std::size_t symbol = 0; symbol != code.symbols.size(); ++symbol) {
      const auto its = PackedSymbol::of(code.symbols[symbol]);
      for (std::size_t i = 0; i != std::size_t{1} << its.bits; ++i) {
        symbol_of[place[code.ranked[its.rank + i]]] = static_cast<std::uint8_t>(symbol);
      }
      known[symbol] = 1;
    }
    std::vector<std::array<std::uint64_t, rans_symbols>> counts(classes + 1, known);
    for (const auto& [first, second] : followed_) {
      counts[first == none ? 0 : class_of_[first] + 1U][symbol_of[second]] += 4;
    }
    for (const auto& its : counts) {
      code.frequencies.push_back(RansFrequencies::of_counts(its));
    }
  }

  std::vector<std::uint8_t> class_of_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> followed_; // a value, and the next one
};

} // namespace penstock::detail
