// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "random/draw.hpp"
#include "random/work.hpp"
#include "support/temp_dir.hpp"

#include <penstock/data/schema.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/lines.hpp>
#include <penstock/io/uring.hpp>
#include <penstock/sources/any_source.hpp>
#include <penstock/sources/concat.hpp>
#include <penstock/sources/generate.hpp>
#include <penstock/sources/memory.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/records.hpp>
#include <penstock/sources/slice.hpp>
#include <penstock/sources/where.hpp>
#include <penstock/sources/windows.hpp>
#include <penstock/sources/zip.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

// The sources of a description, and the records that they have.
namespace penstock::tests::drawn {

struct Pair : Columns<Field<"first", Number>, Field<"second", Number>> {};

/// Has its records in memory, and fails at some of them, for good or once.
struct Failing {
  using schema = Number;

  std::uint64_t size() const { return records->size(); }
  bool is_bad(std::uint64_t record) const { return one_in(bad_in, record, salt); }
  template <HostSpace Where> std::size_t read(Batch<Number, Where> into) const {
    for (std::size_t i = 0; i != into.size(); ++i) {
      const std::uint64_t record = into.index() + i;
      if (is_bad(record) ||
          (one_in(once_in, record, salt + 1) && world->is_first(salt + 1, record))) {
        throw SourceError{"penstock: this record cannot be read", "memory", record, record};
      }
      into.data()[i] = (*records)[record];
    }
    take_time(into.index() ^ salt);
    world->source.pass();
    return into.size();
  }

  std::shared_ptr<const std::vector<Number>> records;
  std::shared_ptr<World> world;
  std::uint64_t bad_in{}, once_in{};
  Number salt{};
};

/// A source of numbers, and all that it has.
struct Known {
  AnySource<Number> source;
  std::vector<Number> records;
};

class Sources {
 public:
  Sources(const Description& of, std::shared_ptr<World> world) : of_{of}, world_{std::move(world)} {
    Draws draws{of.seed, 2};
    switch (of.from) {
    case From::zipped:
      first_ = some(of.records, 0);
      second_ = some(of.records, 1);
      for (std::size_t i = 0; i != of.records; ++i) {
        records_.push_back(hash(first_[i], second_[i]));
      }
      break;
    case From::windows:
      first_ = some(of.records + 40, 0);
      cut_ = {.length = draws.between(1, 30), .stride = draws.between(1, 20)};
      cut_.seed = draws.one_in(2) ? Seed{draws.below(100)} : Seed{};
      records_.resize(windows().size());
      break;
    case From::lines:
    case From::texts:
      write_lines();
      break;
    default: {
      Known known = joined(of.from, of.records, draws);
      numbers_ = std::move(known.source);
      records_ = std::move(known.records);
    }
    }
  }

  AnySource<Number> numbers() const { return numbers_; }
  Zip<Pair, Memory<Number>, Memory<Number>> zipped() const {
    return zip<Pair>(memory(first_), memory(second_));
  }
  Windows<Memory<Number>> windows() const { return penstock::windows(first_, cut_); }
  Lines<> lines() const { return penstock::lines(path("lines")); }

  std::uint64_t size() const { return records_.size(); }
  Number value(std::uint64_t record, std::uint64_t epoch) const {
    if (of_.from != From::windows) {
      return records_[record];
    }
    const std::uint64_t begin = record * cut_.stride + windows().offset_of(0, epoch);
    return all_of(std::span{first_}.subspan(begin, cut_.length));
  }
  bool is_bad(std::uint64_t record) const { return one_in(of_.bad_in, record, of_.seed); }

  /// Returns a number that tells a line, or a window, from others.
  template <class Values> static Number all_of(const Values& values) {
    Number sum = values.size();
    for (std::size_t i = 0; i != values.size(); ++i) {
      sum = of_group(sum, static_cast<Number>(values[i]));
    }
    return sum;
  }
  static constexpr std::uint64_t longest_line = 60;

 private:
  std::string path(const std::string& name) const { return folder_ / name; }
  std::vector<Number> some(std::uint64_t count, Number salt) const {
    std::vector<Number> numbers(count);
    for (std::uint64_t i = 0; i != count; ++i) {
      numbers[i] = hash(of_.seed + salt * 1000, i);
    }
    return numbers;
  }
  std::string file(std::span<const Number> numbers) {
    return folder_.write(std::to_string(++files_), std::as_bytes(numbers));
  }

  // A source that is made of no other.
  Known single(From from, std::uint64_t count) {
    const auto kept = std::make_shared<const std::vector<Number>>(some(count, ++parts_));
    const std::span<const Number> all{*kept};
    const auto write = [kept](std::span<Number> out, std::uint64_t first) {
      const std::size_t begin = std::min<std::size_t>(first, kept->size());
      const std::size_t given = std::min(out.size(), kept->size() - begin);
      std::copy_n(kept->begin() + static_cast<std::ptrdiff_t>(begin), given, out.begin());
      return given;
    };
    const auto source = [&]() -> AnySource<Number> {
      switch (from) {
      case From::generated:
        return generate<Number>(
            count, [write](std::span<Number> out, std::uint64_t first) { write(out, first); });
      case From::unsized:
        return generate<Number>(write);
      case From::memory:
        kept_.push_back(kept);
        return memory(*kept);
      case From::file:
        return penstock::records<Number>(file(all));
      case From::files:
        return penstock::records<Number>(std::vector<std::string>{
            file(all.first(count / 3)), file(all.subspan(count / 3, count / 4)),
            file(all.subspan(count / 3 + count / 4))});
      case From::uring:
        return penstock::records<Number>(file(all), {}, UringIo{});
      default:
        return Failing{kept, world_, of_.bad_in, of_.once_in, of_.seed};
      }
    };
    return {source(), *kept};
  }
  Known any_single(std::uint64_t count, Draws& draws) {
    return single(static_cast<From>(draws.below(6)), count);
  }
  // A source that may be made of others.
  Known joined(From from, std::uint64_t count, Draws& draws) {
    switch (from) {
    case From::taken: {
      Known known = any_single(count + draws.below(50), draws);
      known.records.resize(count);
      return {take(std::move(known.source), count), known.records};
    }
    case From::dropped: {
      const std::uint64_t more = draws.below(50);
      Known known = any_single(count + more, draws);
      known.records.erase(known.records.begin(),
                          known.records.begin() + static_cast<std::ptrdiff_t>(more));
      return {drop(std::move(known.source), more), known.records};
    }
    case From::chosen: {
      Known known = any_single(draws.between(1, 2 * count + 3), draws);
      std::vector<std::uint64_t> numbers(count);
      std::vector<Number> records(count);
      for (std::size_t i = 0; i != count; ++i) {
        const std::uint64_t next = i == 0 ? 0 : numbers[i - 1] + 1;
        numbers[i] =
            (draws.one_in(3) ? draws.below(known.records.size()) : next) % known.records.size();
        records[i] = known.records[numbers[i]];
      }
      return {where(std::move(known.source), numbers), records};
    }
    case From::joined:
    case From::mixed: {
      std::vector<Share<Number>> shares;
      std::vector<AnySource<Number>> sources;
      std::vector<Number> records;
      const std::uint64_t parts = draws.between(1, 4);
      for (std::uint64_t part = 0; part != parts; ++part) {
        const std::uint64_t least = from == From::mixed ? 1 : 0;
        Known known = any_single(least + draws.below(count / parts + 1), draws);
        records.insert(records.end(), known.records.begin(), known.records.end());
        sources.push_back(known.source);
        shares.push_back({known.source, draws.between(1, 9)});
      }
      return from == From::mixed ? Known{mix<Number>(shares), records}
                                 : Known{concat(sources), records};
    }
    default:
      return single(from, count);
    }
  }

  void write_lines() {
    std::string text;
    for (std::uint64_t i = 0; i != of_.records; ++i) {
      const Number h = hash(of_.seed, i);
      std::string line;
      for (std::uint64_t k = 0; k != (h % 5 == 0 ? 0 : h % longest_line); ++k) {
        line += static_cast<char>('a' + hash(h, k) % 26);
      }
      records_.push_back(all_of(line));
      text += line + (h % 3 == 0 ? "\r\n" : "\n");
    }
    folder_.write("lines", text);
  }

  const Description of_;
  const std::shared_ptr<World> world_;
  const TempDir folder_;
  std::size_t files_{};
  Number parts_{};
  std::vector<std::shared_ptr<const std::vector<Number>>> kept_;
  AnySource<Number> numbers_;
  std::vector<Number> first_, second_, records_;
  WindowsOptions cut_;
};

} // namespace penstock::tests::drawn
