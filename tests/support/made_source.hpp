// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A source of records that are each made of one number, for each kind of schema, with or without
// the members that a source may have; and what reads such records back.

#include "support/catch.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/any_source.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::tests {

using Numbers = std::vector<std::uint64_t>;

struct Plain {
  std::uint64_t number;
  std::uint32_t twice;
};
struct Wide
    : Columns<Field<"few", std::uint8_t, 3>, Field<"number", std::uint64_t>,
              Field<"many", std::uint16_t, 2, dynamic>, Field<"more", std::uint32_t, dynamic>> {};
struct Uneven : Columns<Field<"letters", Ragged<char>>, Field<"number", std::uint64_t>,
                        Field<"shorts", Ragged<std::uint16_t>>> {};

/// The dynamic extents of Wide.
inline constexpr std::size_t many = 3;
inline constexpr std::size_t more = 5;
/// How many letters and shorts a record of Uneven has; some have none.
inline std::size_t letters_of(std::uint64_t number) {
  return number * 7 % 11;
}
inline std::size_t shorts_of(std::uint64_t number) {
  return number % 3;
}

/// Writes record i of a batch.
template <class Where> void make(Batch<Plain, Where> batch, std::size_t i, std::uint64_t number) {
  batch.data()[i] = {number, static_cast<std::uint32_t>(2 * number)};
}
template <class Where> void make(Batch<Wide, Where> batch, std::size_t i, std::uint64_t number) {
  for (std::size_t k = 0; k < 3; ++k) {
    get<"few">(batch)[i][k] = static_cast<std::uint8_t>(number + k);
  }
  get<"number">(batch)[i] = number;
  for (std::size_t k = 0; k < 2 * many; ++k) {
    get<"many">(batch)[i].data()[k] = static_cast<std::uint16_t>(number * 5 + k);
  }
  for (std::size_t k = 0; k < more; ++k) {
    get<"more">(batch)[i].data()[k] = static_cast<std::uint32_t>(number * 3 + k);
  }
}
template <class Where> void make(Batch<Uneven, Where> batch, std::size_t i, std::uint64_t number) {
  std::fill_n(get<"letters">(batch).put(i, letters_of(number)), letters_of(number),
              static_cast<char>('a' + number % 26));
  get<"number">(batch)[i] = number;
  std::fill_n(get<"shorts">(batch).put(i, shorts_of(number)), shorts_of(number),
              static_cast<std::uint16_t>(number));
}

/// Reads record i of a batch: the number that it is made of, or none if any value is another.
template <class Where>
std::optional<std::uint64_t> made_of(Batch<const Plain, Where> batch, std::size_t i) {
  const Plain& is = batch.data()[i];
  return is.twice == static_cast<std::uint32_t>(2 * is.number) ? std::optional{is.number}
                                                               : std::nullopt;
}
template <class Where>
std::optional<std::uint64_t> made_of(Batch<const Wide, Where> batch, std::size_t i) {
  const std::uint64_t number = get<"number">(batch)[i];
  bool right = true;
  for (std::size_t k = 0; k < 3; ++k) {
    right = right && get<"few">(batch)[i][k] == static_cast<std::uint8_t>(number + k);
  }
  for (std::size_t k = 0; k < 2 * many; ++k) {
    right = right && get<"many">(batch)[i].data()[k] == static_cast<std::uint16_t>(number * 5 + k);
  }
  for (std::size_t k = 0; k < more; ++k) {
    right = right && get<"more">(batch)[i].data()[k] == static_cast<std::uint32_t>(number * 3 + k);
  }
  return right ? std::optional{number} : std::nullopt;
}
template <class Where>
std::optional<std::uint64_t> made_of(Batch<const Uneven, Where> batch, std::size_t i) {
  const std::uint64_t number = get<"number">(batch)[i];
  const auto letters = get<"letters">(batch)[i];
  const auto shorts = get<"shorts">(batch)[i];
  const auto all = [](const auto& column, auto value) {
    return std::all_of(column.data(), column.data() + column.size(),
                       [value](auto is) { return is == value; });
  };
  return letters.size() == letters_of(number) && shorts.size() == shorts_of(number) &&
                 all(letters, static_cast<char>('a' + number % 26)) &&
                 all(shorts, static_cast<std::uint16_t>(number))
             ? std::optional{number}
             : std::nullopt;
}

/// What is said of a source of numbers, and what it was asked for.
struct Making {
  std::uint64_t first = 0; ///< What its record 0 is made of.
  std::uint64_t records = 0;
  bool known = true; ///< It knows how many it has.
  bool in_order = false;
  std::optional<std::uint64_t> bad = {}; ///< It throws where this one of its records is asked for.
  std::uint64_t offset = 0;              ///< What the error says.
  std::vector<std::pair<std::uint64_t, std::size_t>> reads = {}; ///< First and count, if wanted.
  bool note_reads = false;
};

enum Can : unsigned { nothing = 0, lengths = 1, read_at = 2 };

/// A source whose record i is made of first + i. Copies share what they were asked for.
template <class Schema, unsigned can = nothing> class Made {
 public:
  using schema = Schema;

  struct Is : Making {
    explicit Is(Making making) : Making{std::move(making)} {}
    std::atomic<int> at_calls{0};
    std::atomic<int> lengths_calls{0};
  };

  explicit Made(Making making) : is_{std::make_shared<Is>(std::move(making))} {}

  const Is& is() const noexcept { return *is_; }
  std::uint64_t size() const { return is_->known ? is_->records : unknown_size; }
  bool random_access() const { return !is_->in_order; }
  Numbers extents() const
    requires std::is_same_v<Schema, Wide>
  {
    return {many, more};
  }

  template <HostSpace Where> std::size_t read(Batch<Schema, Where> into) const {
    if (is_->note_reads) {
      is_->reads.emplace_back(into.index(), into.size());
    }
    const std::uint64_t left = is_->records - std::min(is_->records, into.index());
    const std::size_t count = std::min<std::uint64_t>(into.size(), left);
    for (std::size_t i = 0; i < count; ++i) {
      make_one(into, i, into.index() + i);
    }
    return count;
  }
  template <HostSpace Where>
  std::size_t read_at(std::span<const std::uint64_t> numbers, Batch<Schema, Where> into) const
    requires((can & tests::read_at) != 0)
  {
    ++is_->at_calls;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      make_one(into, i, numbers[i]);
    }
    return numbers.size();
  }
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const
    requires((can & tests::lengths) != 0)
  {
    ++is_->lengths_calls;
    for (std::size_t i = 0; i < into.size(); ++i) {
      const std::uint64_t number = is_->first + first + i / 2;
      into[i] = i % 2 == 0 ? letters_of(number) : shorts_of(number);
    }
  }

 private:
  template <class Where>
  void make_one(Batch<Schema, Where> into, std::size_t i, std::uint64_t record) const {
    if (record == is_->bad) {
      throw SourceError{"penstock: made: record " + std::to_string(record) + " is bad.", "the file",
                        is_->offset, record};
    }
    make(into, i, is_->first + record);
  }

  std::shared_ptr<Is> is_;
};

/// Memory for a batch of any of these schemas.
template <class Schema, class Where> class Room {
 public:
  Room(std::size_t records, std::uint64_t index) {
    auto& view = view_;
    view.size = records;
    view.index = index;
    view.source_index = index;
    if constexpr (std::is_same_v<Schema, Plain>) {
      view.parts[0] = array(records * sizeof(Plain));
      view.sizes[0] = sizeof(Plain);
    } else if constexpr (std::is_same_v<Schema, Wide>) {
      view.parts[0] = array(records * 3);
      view.parts[1] = array(records * 8);
      view.parts[2] = array(records * 2 * many * 2);
      view.parts[3] = array(records * more * 4);
      view.sizes[0] = many;
      view.sizes[1] = more;
    } else {
      view.parts[0] = offsets(records);
      view.parts[1] = array(records * 11);
      view.parts[2] = array(records * 8);
      view.parts[3] = offsets(records);
      view.parts[4] = array(records * 2 * 2);
      view.sizes[0] = records * 11;
      view.sizes[1] = records * 2;
    }
  }

  Batch<Schema, Where> batch() const { return Batch<Schema, Where>{view_}; }
  /// Returns what the first `count` records are made of; a number that no record has for a wrong
  /// one.
  Numbers numbers(std::size_t count) const {
    Numbers all;
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(made_of(Batch<const Schema, Where>{view_}, i).value_or(unknown_size));
    }
    return all;
  }

 private:
  void* array(std::size_t bytes) {
    arrays_.emplace_back(bytes / 8 + 1, 0xEEEE'EEEE'EEEE'EEEE);
    return arrays_.back().data();
  }
  void* offsets(std::size_t records) {
    auto* const first = static_cast<std::int64_t*>(array((records + 1) * 8));
    std::fill_n(first, records + 1, std::int64_t{-1});
    *first = 0;
    return first;
  }

  detail::BatchView<Schema> view_;
  std::vector<std::vector<std::uint64_t>> arrays_;
};

/// Reads a range of an opened source.
template <class Where = Pageable, class S>
Numbers numbers_of(const S& source, std::uint64_t first, std::size_t count) {
  const Room<typename S::schema, Where> room{count, first};
  const Filled got = source.read(room.batch());
  REQUIRE(got.count <= count);
  return room.numbers(got.count);
}
/// Reads the records of these numbers.
template <class Where = Pageable, class S>
Numbers numbers_at(const S& source, const Numbers& numbers) {
  const Room<typename S::schema, Where> room{numbers.size(), 0};
  const std::size_t got = source.read_at(numbers, room.batch());
  REQUIRE(got == numbers.size());
  return room.numbers(got);
}

/// Reads all through a pipeline, in order: into pageable memory, or into pinned and to a device.
template <class S> Numbers numbers_through(const S& source, const ReaderOptions& options) {
  using T = typename S::schema;
  Numbers all;
  const auto note = [&](auto batch) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      all.push_back(made_of(batch, i).value_or(unknown_size));
    }
  };
  auto pipeline = Reader{source, options} |
                  Consumer{[&](Batch<const T, Pageable> batch) { note(batch); }, {.workers = 1}};
  pipeline.run();
  return all;
}
template <class S> Numbers numbers_through_pinned(const S& source, const ReaderOptions& options) {
  using T = typename S::schema;
  HostDevice device;
  Numbers all;
  auto pipeline = Reader{source, to_pinned, options} |
                  AsyncCopier{device, {.batch = options.batch}} |
                  Consumer{[&](Batch<const T, Device> batch, HostStream& stream) {
                    stream.enqueue([&all, batch] {
                      for (std::size_t i = 0; i < batch.size(); ++i) {
                        all.push_back(made_of(batch, i).value_or(unknown_size));
                      }
                    });
                  }};
  pipeline.run();
  return all;
}

/// Checks that a source of known size has records made of these numbers, in whole pipelines.
template <class S> void check_pipelines(const S& source, const Numbers& wanted) {
  for (const ReaderOptions& options :
       {ReaderOptions{.workers = 3, .batch = 7}, ReaderOptions{.workers = 1, .epochs = 2},
        ReaderOptions{.workers = 2, .batch = 64, .ahead = 200}}) {
    CAPTURE(options.workers, options.batch);
    Numbers all;
    for (std::uint64_t epoch = 0; epoch < options.epochs; ++epoch) {
      all.insert(all.end(), wanted.begin(), wanted.end());
    }
    CHECK(numbers_through(source, options) == all);
    CHECK(numbers_through_pinned(source, options) == all);
  }
}
/// Checks that a source of known size has records made of these numbers, by reads of any ranges,
/// and of any numbers and lengths, if it can.
template <class S> void check_reads(S source, const Numbers& wanted) {
  source.open();
  REQUIRE(source.size() == wanted.size());
  std::mt19937_64 random{wanted.size()};
  const auto below = [&random](std::uint64_t end) { return random() % end; };
  for (int round = 0; round < 30; ++round) {
    const std::uint64_t first = below(wanted.size() + 1);
    const std::size_t count = below(wanted.size() - first + 1);
    CAPTURE(first, count);
    const Numbers part{wanted.begin() + static_cast<std::ptrdiff_t>(first),
                       wanted.begin() + static_cast<std::ptrdiff_t>(first + count)};
    REQUIRE(numbers_of(source, first, count) == part);
    REQUIRE(numbers_of<Pinned>(source, first, count) == part);
    if constexpr (detail::KnowsLengths<S>) {
      if (detail::abilities_of(source).lengths) {
        Numbers lengths(2 * count);
        source.lengths(first, lengths);
        for (std::size_t i = 0; i < count; ++i) {
          REQUIRE(lengths[2 * i] == letters_of(part[i]));
          REQUIRE(lengths[2 * i + 1] == shorts_of(part[i]));
        }
      }
    }
    if constexpr (detail::ReadsAt<S, Pageable>) {
      if (!wanted.empty()) {
        Numbers numbers(count);
        Numbers theirs(count);
        for (std::size_t i = 0; i < count; ++i) {
          numbers[i] =
              i != 0 && below(2) == 0 ? (numbers[i - 1] + 1) % wanted.size() : below(wanted.size());
          theirs[i] = wanted[numbers[i]];
        }
        REQUIRE(numbers_at(source, numbers) == theirs);
        REQUIRE(numbers_at<Pinned>(source, numbers) == theirs);
      }
    }
  }
}

/// Checks both.
template <class S> void check_all(const S& source, const Numbers& wanted) {
  // Whole pipelines of each type would take long to compile.
  check_pipelines(AnySource{source}, wanted);
  check_reads(source, wanted);
}

/// Returns the numbers from `first` to before `end`.
inline Numbers from_to(std::uint64_t first, std::uint64_t end) {
  Numbers all;
  for (std::uint64_t number = first; number < end; ++number) {
    all.push_back(number);
  }
  return all;
}
/// Returns all lists as one.
template <class... Lists> Numbers one_after_the_other(Numbers all, const Lists&... lists) {
  (all.insert(all.end(), lists.begin(), lists.end()), ...);
  return all;
}

} // namespace penstock::tests
