// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/counted_new.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/lines.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/any_source.hpp>
#include <penstock/sources/concat.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/slice.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::has;
using ps::tests::TempDir;
using Strings = std::vector<std::string>;

namespace {

// What lines a text has, byte by byte.
Strings split(const std::string& text) {
  Strings lines;
  std::string line;
  for (const char c : text) {
    if (c != '\n') {
      line += c;
      continue;
    }
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    lines.push_back(line);
    line.clear();
  }
  if (!line.empty()) {
    lines.push_back(line);
  }
  return lines;
}

// Reads `count` lines from number `first` on into a batch that has room for them and no more.
template <class S> Strings read(const S& source, std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> lengths(count);
  source.lengths(first, lengths);
  std::size_t bytes = 0;
  for (const std::uint64_t length : lengths) {
    bytes += length;
  }
  std::vector<std::int64_t> offsets(count + 1, -1);
  offsets[0] = 0;
  std::string values(bytes, '?');
  ps::Batch<ps::Line, ps::Pageable>::View view{};
  view.parts[0] = offsets.data();
  view.parts[1] = values.data();
  view.sizes[0] = bytes;
  view.size = count;
  view.index = first;
  const std::size_t got = source.read(ps::Batch<ps::Line, ps::Pageable>{view});
  REQUIRE(got == count);
  Strings lines;
  for (std::size_t i = 0; i < count; ++i) {
    lines.push_back(values.substr(static_cast<std::size_t>(offsets[i]),
                                  static_cast<std::size_t>(offsets[i + 1] - offsets[i])));
    CHECK(lines.back().size() == lengths[i]);
  }
  return lines;
}
template <class S> Strings read(const S& source) {
  return read(source, 0, source.size());
}

Strings lines_of(const TempDir& dir, const std::string& text, ps::LinesOptions options = {}) {
  auto source = ps::lines(dir.write("text", text), options);
  source.open();
  return read(source);
}

// Text whose line ends fall on, before and behind the borders of pieces and blocks.
std::string awkward(std::size_t pieces, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::string text(pieces * ps::detail::LineEnds::piece_bytes + random() % 3, 'x');
  for (std::size_t at = 0; at < text.size(); at += 1 + random() % 9000) {
    text[at] = "\n\r\0\n"[random() % 4];
  }
  for (std::size_t border = 0; border <= text.size(); border += 1 << 15) {
    for (std::size_t i = 0; i < 6 && random() % 4 != 0; ++i) {
      const std::size_t at = border + i;
      if (at >= 3 && at - 3 < text.size()) {
        text[at - 3] = "\n\rx"[random() % 3];
      }
    }
  }
  return text;
}

} // namespace

static_assert(ps::Source<ps::Lines<>>);
static_assert(ps::detail::KnowsLengths<ps::Lines<>>);

TEST_CASE("lines end with a line feed, or with a carriage return before it, or with the file") {
  const TempDir dir;
  const std::pair<std::string, Strings> all[]{
      {"", {}},
      {"a", {"a"}},
      {"a\n", {"a"}},
      {"\n", {""}},
      {"\n\n", {"", ""}},
      {"\r\n", {""}},
      {"\n\r\n\n", {"", "", ""}},
      {"a\nb", {"a", "b"}},
      {"a\r\nb\r\n", {"a", "b"}},
      {"a\r\nb\r", {"a", "b\r"}},
      {"a\rb\n", {"a\rb"}},
      {"a\r\r\n", {"a\r"}},
      {"\r", {"\r"}},
      {"\n\r", {"", "\r"}},
      {std::string("\0a\0\n\0", 5), {std::string("\0a\0", 3), std::string("\0", 1)}},
      {"a\x0b\x0c\x1c\xc2\x85\xe2\x80\xa8\n\xff", {"a\x0b\x0c\x1c\xc2\x85\xe2\x80\xa8", "\xff"}},
      {"\xef\xbb\xbf"
       "a\n",
       {"\xef\xbb\xbf"
        "a"}},
  };
  for (const auto& [text, lines] : all) {
    INFO(text);
    CHECK(lines_of(dir, text) == lines);
    CHECK(split(text) == lines);
  }
}

TEST_CASE("lines are found wherever the borders of pieces fall") {
  const TempDir dir;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const std::string text = awkward(1 + seed % 3, seed);
    const Strings expected = split(text);
    auto source = ps::lines(dir.write("text", text), {.longest = 1 << 22});
    source.open();
    REQUIRE(source.size() == expected.size());
    CHECK(read(source) == expected);
    for (std::size_t i = 0; i < expected.size(); i += 1 + i / 3) {
      const std::size_t count = std::min<std::size_t>(1 + i % 50, expected.size() - i);
      const auto first = expected.begin() + static_cast<std::ptrdiff_t>(i);
      CHECK(read(source, i, count) == Strings(first, first + static_cast<std::ptrdiff_t>(count)));
    }
  }
}

TEST_CASE("a line may be longer than what is read at once") {
  const TempDir dir;
  const std::string text = "a\n" + std::string(700'000, 'y') + "\r\nb\n" +
                           std::string(262'144, 'z') + "\n\n" + std::string(262'145, 'w');
  CHECK(lines_of(dir, text) == split(text));
  const auto error = caught<ps::SourceError>([&] { lines_of(dir, text, {.longest = 699'999}); });
  CHECK(has(error, "line 2 of " + (dir / "text") +
                       ", from byte 2 on, has 700000 bytes, more than "
                       ".longest, which is 699999"));
  CHECK(error.offset() == 2);
  CHECK(error.record() == 1);
  CHECK(error.file() == dir / "text");
  // The last line has no end, and the carriage return of an end does not count.
  CHECK(lines_of(dir, text, {.longest = 700'000}) == split(text));
  CHECK(has(caught<ps::SourceError>([&] { lines_of(dir, "\nabc\r\nab\nabcd", {.longest = 3}); }),
            "line 4 of "));
  CHECK(lines_of(dir, "\nabc\r\nab\nabc", {.longest = 3}).size() == 4);
  // What has no lines at all is refused when it is opened, not when a batch has no room.
  const std::string zeros = dir.write("zeros", std::string{});
  REQUIRE(::truncate(zeros.c_str(), 3 << 20) == 0);
  CHECK(has(caught<ps::SourceError>([&] { ps::lines(zeros).open(); }),
            "line 1 of " + zeros + ", from byte 0 on, has 3145728 bytes"));
}

TEST_CASE("the lines of several files are numbered through, and none goes on in the next") {
  const TempDir dir;
  const Strings paths{dir.write("c", std::string{"one\ntwo"}), dir.write("a", std::string{}),
                      dir.write("b", std::string{"three\r\n\nfive"})};
  const Strings expected{"one", "two", "three", "", "five"};
  auto source = ps::lines(paths);
  source.open();
  CHECK(source.size() == 5);
  CHECK(read(source) == expected);
  CHECK(read(source, 1, 3) == Strings{"two", "three", ""});
  source.will_read(0, 5);
  source.will_read(2, 1);
  auto folder = ps::lines(dir.path());
  folder.open();
  CHECK(read(folder) == Strings{"three", "", "five", "one", "two"});
  const auto error = caught<ps::SourceError>([&] { ps::lines(paths, {.longest = 4}).open(); });
  CHECK(has(error, "line 1 of " + paths[2]));
  CHECK(error.record() == 2);
  auto empty = ps::lines(paths[1]);
  empty.open();
  CHECK(empty.size() == 0);
}

TEST_CASE("a run delivers every line in order, and each once when they are shuffled") {
  const TempDir dir;
  std::mt19937_64 random{7};
  std::string text;
  for (int i = 0; i < 30'000; ++i) {
    text += std::to_string(i) + std::string(random() % 90, '.') + (random() % 2 ? "\n" : "\r\n");
  }
  const Strings expected = split(text);
  const std::string path = dir.write("text", text);
  for (const unsigned workers : {1U, 4U}) {
    for (const bool shuffled : {false, true}) {
      Strings found;
      ps::Order order;
      if (shuffled) {
        order.shuffle = 5;
      }
      auto pipeline =
          ps::Reader{ps::lines(path), {.workers = workers, .order = order, .batch = 700}} |
          ps::Consumer{[&](ps::Batch<const ps::Line, ps::Pageable> batch) {
            const auto lines = ps::get<"text">(batch);
            for (std::size_t i = 0; i < lines.size(); ++i) {
              found.emplace_back(lines[i].data(), lines[i].size());
            }
          }};
      CHECK(pipeline.run().records == expected.size());
      CHECK((found == expected) != shuffled);
      if (shuffled) {
        Strings sorted = expected;
        std::sort(sorted.begin(), sorted.end());
        std::sort(found.begin(), found.end());
        CHECK(found == sorted);
      }
    }
  }
}

TEST_CASE("a slot has room for the longest lines, whichever meet in it") {
  const TempDir dir;
  // Pieces, and lines that lie in two of them, tell their lengths in different places.
  for (const std::size_t pieces : {1U, 2U, 5U, 20U}) {
    const std::string text = awkward(pieces, pieces);
    auto source = ps::lines({dir.write("a", text), dir.write("b", std::string{"one\r\nsix\r"})},
                            {.longest = 1 << 22});
    source.open();
    std::vector<std::uint64_t> lengths(source.size());
    source.lengths(0, lengths);
    std::sort(lengths.rbegin(), lengths.rend());
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i != lengths.size(); ++i) {
      sum += lengths[i];
      REQUIRE((i < 4096 ? source.value_bytes(i + 1) == sum : source.value_bytes(i + 1) >= sum));
    }
  }
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    text += std::string(i % 500 < 3 ? 700'000 : 20, 'x') + '\n';
  }
  const auto source = ps::lines(dir.write("text", text));
  std::size_t batches = 0;
  const auto bytes_of = [&](const auto& from, ps::ReaderOptions options) {
    std::size_t bytes = 0;
    batches = 0;
    auto pipeline = ps::Reader{from, std::move(options)} |
                    ps::Consumer{[&](ps::Batch<const ps::Line, ps::Pageable> batch) {
                      const auto lines = ps::get<"text">(batch);
                      ++batches;
                      bytes += static_cast<std::size_t>(lines.offsets()[lines.size()]);
                    }};
    pipeline.run();
    return bytes;
  };
  CHECK(bytes_of(source, {}) == text.size() - 3000);
  // A few long lines among many short ones make no slots of one line.
  CHECK(batches < 450);
  CHECK(bytes_of(source, {.order = {.shuffle = 3}}) == text.size() - 3000);
  CHECK(bytes_of(source, {.order = {.shuffle = 3}, .batch = 1000}) == text.size() - 3000);
  CHECK(bytes_of(ps::concat(source, ps::AnySource<ps::Line>{ps::take(source, 1)}), {}) ==
        text.size() - 3000 + 700'000);
  // A part of few records begins anew in the middle of a batch.
  CHECK(bytes_of(ps::mix<ps::Line>({{ps::take(source, 1), 2}, {ps::drop(source, 2999), 2}}),
                 {.order = {.records = 40}, .batch = 40}) == 20 * 700'020);
}

TEST_CASE("lines refuses what it is asked wrongly, and says which line cannot be read") {
  const TempDir dir;
  auto source = ps::lines(dir.write("text", std::string{"a\nb\n"}));
  CHECK(has(caught<ps::SourceError>([&] { source.size(); }), "lines: "));
  CHECK(has(caught<ps::SourceError>([&] { source.size(); }), "is not open yet"));
  source.open();
  source.open();
  std::vector<std::uint64_t> lengths(2);
  CHECK(has(caught<ps::SourceError>([&] { source.lengths(1, lengths); }), "but the source has 2"));
  CHECK_THROWS_AS(ps::lines(dir / "missing").open(), ps::SourceError);
  CHECK_THROWS_AS(ps::lines(Strings{}).open(), ps::SourceError);

  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text += std::string(999, 'x') + '\n';
  }
  const std::string path = dir.write("cut", text);
  auto cut = ps::lines(path);
  cut.open();
  REQUIRE(::truncate(path.c_str(), 250'500) == 0);
  CHECK(read(cut, 0, 250).size() == 250);
  const auto error = caught<ps::SourceError>([&] { read(cut, 200, 100); });
  CHECK(has(error, "shrank while it was read"));
  CHECK(has(error, "This was record 250."));
  CHECK(!has(error, "record 250500"));
  CHECK(error.offset() == 250'500);
  CHECK(error.record() == 250);
  CHECK(error.file() == path);
}

TEST_CASE("an error of a disk names the line, or none before lines are known") {
  static std::uint64_t good;
  struct BadDisk : ps::PosixIo {
    std::int64_t read(int fd, std::byte* into, std::size_t bytes, std::uint64_t at) const noexcept {
      if (at >= good) {
        errno = EIO;
        return -1;
      }
      return PosixIo::read(fd, into, std::min(bytes, std::size_t{good - at}), at);
    }
  };
  const TempDir dir;
  const Strings paths{dir.write("a", std::string(50, '\n')),
                      dir.write("b", "one\r\n" + std::string(300'000, 'x') + "\n\nfour\nfive")};
  const auto open_error = [&] {
    return caught<ps::SourceError>([&] { ps::lines(paths, {}, BadDisk{}).open(); });
  };
  for (const std::uint64_t at : {0U, 3U, 270'000U, 300'010U}) {
    good = at;
    CHECK(!open_error().record().has_value());
    CHECK(!has(open_error(), "record"));
    CHECK(open_error().offset() == at);
  }
  good = ps::unknown_size;
  auto source = ps::lines(paths, {}, BadDisk{});
  source.open();
  struct Case {
    std::uint64_t good;
    std::uint64_t record;
  };
  for (const Case known : {Case{51, 51}, Case{200'000, 51}, Case{300'008, 53}, Case{300'012, 54}}) {
    good = known.good;
    const auto error = caught<ps::SourceError>([&] { read(source, 0, source.size()); });
    CHECK(error.file() == paths[1]);
    CHECK(error.offset() == good);
    CHECK(error.record() == known.record);
    CHECK(has(error, "This was record " + std::to_string(known.record) + "."));
  }
}

TEST_CASE("an index of lines takes two bytes a line") {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 400'000; ++i) {
    text += "12345678\n";
  }
  auto source = ps::lines(dir.write("text", text));
  const std::uint64_t before = ps::tests::memory::allocated_bytes;
  source.open();
  const std::uint64_t taken = ps::tests::memory::allocated_bytes - before;
  CHECK(source.size() == 400'000);
  CHECK(taken > 800'000);
  CHECK(taken < 800'000 + ps::detail::LineEnds::piece_bytes * 2 + 50'000);
}
