// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/compressed_files.hpp"
#include "support/outcome.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/interleaved.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace ps = penstock;
using namespace ps::tests;
using Strings = std::vector<std::string>;

namespace {

constexpr std::uint64_t to_the_end = ~std::uint64_t{0};

struct Text {
  char bytes[100];
};
struct Part {
  Strings lines;
  std::string position; // behind them
};

// Files of so many lines, each of which is told from all others.
Strings write(const TempDir& dir, const std::vector<std::size_t>& counts) {
  Strings paths;
  for (const std::size_t count : counts) {
    const std::string name = std::to_string(paths.size());
    paths.push_back(dir.write(name + ".zst", zstd_frame(numbered_lines(count, name))));
  }
  return paths;
}

// Reads batches from a position on, at most so many.
Part read(const Strings& paths, const ps::InterleavedOptions& options, std::size_t batch,
          const std::string& from = {}, std::uint64_t batches = to_the_end,
          const ps::Order& order = {}) {
  auto pipeline = ps::Reader{ps::interleaved<ps::Line>(paths, ps::Zstd{}, options),
                             {.order = order, .batch = batch, .value_bytes = 100'000}} |
                  ps::Decoder{[](ps::Row<const ps::Line> in, Text& out) {
                    const auto text = ps::get<"text">(in);
                    std::copy_n(text.data(), text.size(), out.bytes);
                    out.bytes[text.size()] = '\0';
                  }};
  Part part;
  const ps::Position position = from.empty() ? ps::Position{} : ps::Position{from};
  for (auto read : pipeline.batches({.from = position})) {
    if (batches-- == 0) {
      break;
    }
    for (std::size_t i = 0; i != read.size(); ++i) {
      part.lines.emplace_back(read.data()[i].bytes);
    }
    part.position = read.position().text();
  }
  return part;
}

Strings behind(const Strings& all, std::size_t count) {
  return {all.begin() + static_cast<std::ptrdiff_t>(count), all.end()};
}

} // namespace

TEST_CASE("a run that ends anywhere goes on with the records that would have come next") {
  const TempDir dir;
  const Strings paths = write(dir, {300, 0, 17, 800, 64, 1});
  std::mt19937 random{53};
  const auto below = [&](std::size_t most) { return random() % most; };
  for (const std::uint64_t records : {std::uint64_t{0}, std::uint64_t{2500}}) {
    ps::InterleavedOptions options{
        .at_once = 3, .block = 10, .shuffle = 7, .records = records, .threads = 2};
    const Part whole = read(paths, options, 64);
    REQUIRE(whole.lines.size() == (records == 0 ? 1182 : 2500));
    for (int place = 0; place != 50; ++place) {
      const std::size_t batch = 1 + below(90);
      const Part first = read(paths, options, batch, {}, 1 + below(1000 / batch));
      options.threads = static_cast<unsigned>(1 + below(3));
      const Part rest = read(paths, options, 1 + below(200), first.position);
      INFO(first.position);
      CHECK(rest.lines == behind(whole.lines, first.lines.size()));
    }
  }
}

TEST_CASE("five ranks go on where three stood, and each has as many records") {
  const TempDir dir;
  const Strings paths = write(dir, {300, 500, 17, 800, 64, 1, 20, 90, 100, 110, 7, 8, 9, 300, 301});
  const ps::InterleavedOptions options{.at_once = 15, .block = 4, .records = 3000};
  const Strings all = read(paths, options, 100).lines;
  constexpr std::size_t batches = 10; // of a block
  std::string position;
  for (std::uint32_t rank = 0; rank != 3; ++rank) {
    const ps::Order order{.block = 4, .ranks = {.rank = rank, .world = 3}};
    const Part part = read(paths, options, 4, {}, batches, order);
    for (std::size_t i = 0; i != part.lines.size(); ++i) {
      CHECK(part.lines[i] == all[(i / 4 * 3 + rank) * 4 + i % 4]);
    }
    CHECK(part.lines.size() == 4 * batches);
    CHECK((rank == 0 || part.position == position));
    position = part.position;
  }
  const Strings rest = behind(all, 3 * 4 * batches);
  for (std::uint32_t rank = 0; rank != 5; ++rank) {
    const ps::Order order{.block = 4, .ranks = {.rank = rank, .world = 5}};
    const Part part = read(paths, options, 4, position, to_the_end, order);
    for (std::size_t i = 0; i != part.lines.size(); ++i) {
      CHECK(part.lines[i] == rest[(i / 4 * 5 + rank) * 4 + i % 4]);
    }
    CHECK(part.lines.size() == rest.size() / 5);
  }
}

TEST_CASE("a rank opens no file of others") {
  const TempDir dir;
  Strings paths = write(dir, {200, 200});
  paths.push_back(dir.write("bad.zst", "no zstd"));
  paths.push_back(dir.write("worse.zst", "no zstd"));
  const ps::InterleavedOptions options{.at_once = 4, .block = 4, .records = 600};
  const auto rank = [&](std::uint32_t number) {
    const ps::Order order{.block = 4, .ranks = {.rank = number, .world = 4}};
    return read(paths, options, 4, {}, to_the_end, order).lines.size();
  };
  CHECK(rank(0) == 150);
  CHECK(outcome_of([&] { rank(3); }).says("worse.zst at byte 0"));
}

TEST_CASE("files come in another order each time, and each once before any comes again") {
  const TempDir dir;
  const Strings paths = write(dir, std::vector<std::size_t>(20, 1));
  const ps::InterleavedOptions options{.at_once = 1, .shuffle = 3, .records = 60};
  const Strings lines = read(paths, options, 7).lines;
  REQUIRE(lines.size() == 60);
  for (std::size_t pass = 0; pass != 60; pass += 20) {
    const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(pass);
    CHECK(std::set<std::string>(begin, begin + 20).size() == 20);
  }
  CHECK_FALSE(std::equal(lines.begin(), lines.begin() + 20, lines.begin() + 20));
}

TEST_CASE("a position of another setting is refused") {
  const TempDir dir;
  const Strings paths = write(dir, {30, 40});
  const std::string position = read(paths, {}, 10, {}, 2).position;
  const auto from = [&](const Strings& files, const ps::InterleavedOptions& options) {
    return outcome_of([&] { read(files, options, 10, position); });
  };
  CHECK(from(paths, {.threads = 1}).came == Came::nothing);
  const auto is_refused = [](const Outcome& outcome) {
    return outcome.says("position is of another order") && outcome.says("files of interleaved()");
  };
  CHECK(is_refused(from(paths, {.at_once = 3})));
  CHECK(is_refused(from(paths, {.block = 3})));
  CHECK(is_refused(from(paths, {.shuffle = 0})));
  CHECK(is_refused(from({paths[1], paths[0]}, {})));
  dir.write("1.zst", zstd_frame(numbered_lines(41)));
  CHECK(is_refused(from(paths, {})));
  CHECK(from(paths, {.records = 5}).says("number of the source's records"));
}

TEST_CASE("what cannot be shared or shuffled is refused") {
  const TempDir dir;
  const Strings paths = write(dir, {0, 0});
  const auto with = [&](std::uint64_t records, const ps::Order& order) {
    return outcome_of([&] { read(paths, {.records = records}, 1, {}, 1, order); });
  };
  CHECK(with(9, {.shuffle = 1}).says("interleaved() has a .shuffle for its files"));
  CHECK(with(0, {.ranks = {.rank = 0, .world = 2}}).says("give interleaved() .records"));
  CHECK(with(9, {}).says("no record comes of the files"));
}
