// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/files.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/any_source.hpp>
#include <penstock/sources/slice.hpp>
#include <penstock/sources/where.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;
namespace ps = penstock;
using ps::tests::caught;
using ps::tests::has;
using ps::tests::TempDir;

namespace {

void write(const TempDir& dir, const std::string& name, const std::string& text) {
  fs::create_directories(fs::path{dir / name}.parent_path());
  dir.write(name, std::as_bytes(std::span{text}));
}
std::string text_of(std::size_t i) {
  return std::string(i % 7 * 100 + i % 3, static_cast<char>('a' + i % 26));
}

struct Seen {
  std::string text;
  std::int32_t label;
  bool operator==(const Seen&) const = default;
};
// Takes what a pipeline delivers, in order, by a Reader with these options.
template <class S> std::vector<Seen> deliver(S source, const ps::ReaderOptions& options) {
  std::vector<Seen> all;
  auto pipeline =
      ps::Reader{std::move(source), options} |
      ps::Consumer{[&](ps::Batch<const ps::LabelledFile, ps::Pageable> batch) {
        for (std::size_t i = 0; i != batch.size(); ++i) {
          const auto bytes = ps::get<"bytes">(batch)[i];
          all.push_back({{bytes.data(), bytes.data() + bytes.size()}, ps::get<"label">(batch)[i]});
        }
      }};
  pipeline.run();
  return all;
}
template <class S> std::vector<std::string> paths_of(const S& source, const TempDir& dir) {
  std::vector<std::string> paths;
  for (std::uint64_t i = 0; i != source.size(); ++i) {
    REQUIRE(source.path(i).starts_with(dir.path() + "/"));
    paths.push_back(source.path(i).substr(dir.path().size() + 1));
  }
  return paths;
}

} // namespace

TEST_CASE("files of a folder come by their names' bytes, with their outermost folders' places") {
  const TempDir dir;
  for (const char* name : {"b/2.jpg", "b/10.JPG", "b/deep/er/x.jpeg", "a-b/y.jpg", "a/z.jpg",
                           "top.jpg", "empty/only.txt", "b/.hidden.jpg", ".git/h.jpg"}) {
    write(dir, name, name);
  }
  REQUIRE(::mkfifo((dir / "a/fifo.jpg").c_str(), 0600) == 0);
  const ps::FilesOptions pictures{.endings = {".jpg", ".Jpeg"}, .empty_classes = true};
  auto source = ps::files(dir.path(), pictures);
  source.open();
  CHECK(source.classes() == std::vector<std::string>{"a", "a-b", "b", "empty"});
  CHECK(paths_of(source, dir) == std::vector<std::string>{"a/z.jpg", "a-b/y.jpg", "b/10.JPG",
                                                          "b/2.jpg", "b/deep/er/x.jpeg",
                                                          "top.jpg"});
  const std::vector<Seen> seen = deliver(ps::files(dir.path(), pictures), {});
  CHECK(seen == std::vector<Seen>{{"a/z.jpg", 0},
                                  {"a-b/y.jpg", 1},
                                  {"b/10.JPG", 2},
                                  {"b/2.jpg", 2},
                                  {"b/deep/er/x.jpeg", 2},
                                  {"top.jpg", -1}});
  CHECK(deliver(ps::files(dir.path() + "/"), {}).size() == 7);
}

TEST_CASE("each folder has its number, whether it has files or not, and an empty one is refused") {
  const TempDir dir;
  const auto numbered = [&](ps::FilesOptions options) {
    auto source = ps::files(dir.path(), std::move(options));
    source.open();
    return source.label(source.size() - 1); // of eel
  };
  const auto refused = [&](const ps::FilesOptions& options) {
    const auto error = caught<ps::SourceError>([&] { ps::files(dir.path(), options).open(); });
    const std::string ending = options.endings.empty() ? "" : " whose name has one of .endings";
    CHECK(has(error, "the class " + (dir / "dog") + " has no file" + ending +
                         ", in it or below it; hidden files do not count. Set .empty_classes: then "
                         "it keeps its number. Or remove the folder from all parts"));
    CHECK(error.file() == dir / "dog");
  };
  for (const char* name : {"cat/1.jpg", "dog/deep/1.jpg", "eel/1.jpg", ".git/1.jpg"}) {
    write(dir, name, name);
  }
  CHECK(numbered({}) == 2);
  CHECK(numbered({.endings = {".jpg"}}) == 2);
  const ps::FilesOptions any{.empty_classes = true};
  const ps::FilesOptions any_jpg{.endings = {".jpg"}, .empty_classes = true};
  fs::rename(dir / "dog/deep/1.jpg", dir / "dog/deep/.1.jpg"); // hidden files alone
  refused({});
  CHECK(numbered(any) == 2);
  fs::remove(dir / "dog/deep/.1.jpg"); // an empty folder in it
  refused({});
  CHECK(numbered(any) == 2);
  fs::remove(dir / "dog/deep"); // nothing
  refused({});
  CHECK(numbered(any) == 2);
  write(dir, "dog/.hidden/1.jpg", "x"); // a hidden folder alone
  refused({});
  CHECK(numbered(any) == 2);
  write(dir, "dog/1.png", "x"); // files of other endings
  CHECK(numbered({}) == 2);
  refused({.endings = {".jpg"}});
  CHECK(numbered(any_jpg) == 2);
}

TEST_CASE("a number beyond the last file is one error") {
  const TempDir dir;
  write(dir, "a/1", "one");
  for (auto source : {ps::files(dir.path()), ps::files({dir / "a/1"}, {7})}) {
    source.open();
    for (const std::uint64_t number :
         {std::uint64_t{1}, std::uint64_t{1000000}, ~std::uint64_t{0}}) {
      const auto path = caught<ps::OptionError>([&] { static_cast<void>(source.path(number)); });
      const auto label = caught<ps::OptionError>([&] { static_cast<void>(source.label(number)); });
      for (const auto& error : {path, label}) {
        CHECK(
            has(error, "penstock: files: asked for number " + std::to_string(number) +
                           ", but there are 1, counted from 0: give a number below that. "
                           "batch.index() goes on through all epochs; visit(i).record does not."));
      }
    }
  }
}

TEST_CASE("links count as what they lead to, unless that has no end") {
  const TempDir dir;
  const TempDir other;
  write(other, "inside/1", "one");
  write(dir, "a/2", "two");
  fs::create_directory_symlink(other / "inside", dir / "b");
  fs::create_symlink(dir / "a/2", dir / "c");
  CHECK(deliver(ps::files(dir.path()), {}) ==
        std::vector<Seen>{{"two", 0}, {"one", 1}, {"two", -1}});
  fs::create_directory_symlink(dir.path(), dir / "a/up");
  const auto loop = caught<ps::SourceError>([&] { ps::files(dir.path()).open(); });
  CHECK(has(loop, "a/up leads to a folder that it lies in"));
  CHECK(loop.file() == dir / "a/up");
  fs::remove(dir / "a/up");
  fs::create_symlink(dir / "nowhere", dir / "a/up");
  const auto lost = caught<ps::SourceError>([&] { ps::files(dir.path()).open(); });
  CHECK(has(lost, "cannot find " + (dir / "a/up")));
}

TEST_CASE("a list of files keeps its order, and gives its labels or none") {
  const TempDir dir;
  write(dir, "x", "ex");
  write(dir, "y", "why");
  const std::vector<std::string> list{dir / "y", dir / "x", dir / "y"};
  CHECK(deliver(ps::files(list), {}) == std::vector<Seen>{{"why", -1}, {"ex", -1}, {"why", -1}});
  CHECK(deliver(ps::files(list, {7, -3, 0}), {}) ==
        std::vector<Seen>{{"why", 7}, {"ex", -3}, {"why", 0}});
  CHECK(deliver(ps::files(dir / "x"), {}) == std::vector<Seen>{{"ex", -1}});
  CHECK(deliver(ps::files({dir / "x", dir / "y"}), {}).size() == 2);

  const auto few = caught<ps::SourceError>([&] { ps::files(list, {1, 2}).open(); });
  CHECK(has(few, "3 files and 2 labels"));
  const auto empty = caught<ps::SourceError>([&] { ps::files(std::vector<std::string>{}).open(); });
  CHECK(has(empty, "the list of files is empty"));
  const auto folder = caught<ps::SourceError>([&] { ps::files({dir / "x", dir.path()}).open(); });
  CHECK(has(folder, dir.path() + " is not a regular file"));
  CHECK(folder.record() == 1U);
  const auto closed = caught<ps::SourceError>([&] { static_cast<void>(ps::files(list).size()); });
  CHECK(has(closed, dir / "y is not open yet"));
}

TEST_CASE("files in the current folder are found after a program has left it") {
  const TempDir dir;
  write(dir, "in/1", "one");
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  auto folder = ps::files("in");
  auto list = ps::files({"in/1"});
  folder.open();
  list.open();
  fs::current_path("/");
  CHECK(deliver(folder, {}) == std::vector<Seen>{{"one", -1}});
  CHECK(deliver(list, {}) == std::vector<Seen>{{"one", -1}});
  fs::current_path(before);
}

TEST_CASE("files of any length fit without a word, in any order, by any number of workers") {
  const TempDir dir;
  std::map<std::string, std::int32_t> expected;
  for (std::size_t i = 0; i != 500; ++i) {
    write(dir, std::to_string(i % 10) + "/" + std::to_string(i), std::to_string(i) + text_of(i));
    expected[std::to_string(i) + text_of(i)] = static_cast<std::int32_t>(i % 10);
  }
  write(dir, "9/large", std::string(std::size_t{3} << 20, 'L'));
  expected[std::string(std::size_t{3} << 20, 'L')] = 9;
  const std::vector<Seen> plain = deliver(ps::files(dir.path()), {.workers = 1});
  REQUIRE(plain.size() == expected.size());
  for (const Seen& seen : plain) {
    CHECK(expected.at(seen.text) == seen.label);
  }
  CHECK(deliver(ps::files(dir.path()), {.workers = 4}) == plain);
  using Any = ps::AnySource<ps::LabelledFile>;
  CHECK(deliver(Any{ps::take(ps::files(dir.path()), 501)}, {.workers = 2}) == plain);
  CHECK(deliver(ps::where(ps::files(dir.path()), {500, 1, 500}), {.batch = 3}) ==
        std::vector<Seen>{plain[500], plain[1], plain[500]});
  CHECK(deliver(ps::files(dir.path()), {.workers = 3, .batch = 64}) == plain);
  const ps::Order shuffled{.shuffle = 5};
  const std::vector<Seen> mixed = deliver(ps::files(dir.path()), {.workers = 1, .order = shuffled});
  CHECK(mixed != plain);
  CHECK(deliver(ps::files(dir.path()), {.workers = 4, .order = shuffled, .batch = 7}) == mixed);
  CHECK(std::is_permutation(mixed.begin(), mixed.end(), plain.begin(), plain.end()));

  std::vector<Seen> of_ranks;
  for (unsigned rank = 0; rank != 3; ++rank) {
    const ps::Order share{.shuffle = 5, .ranks = {.rank = rank, .world = 3}};
    const auto part = deliver(ps::files(dir.path()), {.order = share});
    CHECK(part.size() == 167);
    of_ranks.insert(of_ranks.end(), part.begin(), part.end());
  }
  CHECK(std::is_permutation(of_ranks.begin(), of_ranks.end(), plain.begin(), plain.end()));
}

TEST_CASE("the room for records of any length is that of the longest, exactly or above it") {
  const auto sums_of = [](const std::vector<std::uint64_t>& all) {
    ps::detail::Largest largest;
    for (const std::uint64_t bytes : all) {
      largest.add(bytes);
    }
    return ps::detail::LargestSums{std::move(largest)};
  };
  std::mt19937_64 random{1};
  for (const std::size_t count : {0U, 1U, 5U, 4095U, 4096U, 4097U, 9000U}) {
    std::vector<std::uint64_t> bytes(count);
    std::generate(bytes.begin(), bytes.end(), [&] { return random() % 1000; });
    const ps::detail::LargestSums sums = sums_of(bytes);
    std::sort(bytes.rbegin(), bytes.rend());
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i != count; ++i) {
      sum += bytes[i];
      REQUIRE((i < 4096 ? sums.of(i + 1) == sum : sums.of(i + 1) >= sum));
    }
    CHECK(sums.of(0) == 0);
    CHECK((count >= 4096 || sums.of(~std::uint64_t{0}) == sum));
  }
  const std::vector<std::uint64_t> huge(5000, std::uint64_t{1} << 51);
  CHECK(sums_of(huge).of(~std::uint64_t{0}) == ~std::uint64_t{0});
}

TEST_CASE("what is wrong with a folder or a file is one error that names it") {
  const TempDir dir;
  const auto none = caught<ps::SourceError>([&] { ps::files(dir.path()).open(); });
  CHECK(has(none, "no file in the folder " + dir.path() + " or below it; hidden"));
  write(dir, "a/1.png", "1");
  write(dir, "a/2.png", "22");
  const auto others =
      caught<ps::SourceError>([&] { ps::files(dir.path(), {.endings = {".jpg"}}).open(); });
  CHECK(has(others, "whose name has one of .endings"));
  const auto missing = caught<ps::SourceError>([&] { ps::files(dir / "b").open(); });
  CHECK(has(missing, "cannot find " + (dir / "b")));
  const auto larger =
      caught<ps::SourceError>([&] { ps::files(dir.path(), {.largest = 1}).open(); });
  CHECK(has(larger, "2.png has 2 bytes, more than .largest, which is 1"));
  CHECK(larger.record() == 1U);

  auto source = ps::files(dir.path());
  source.open();
  write(dir, "a/2.png", "four");
  const auto changed = caught<ps::StageError>([&] { deliver(source, {}); });
  CHECK(has(changed, "2.png had 2 bytes when it was found and now has 4"));
  CHECK(has(changed, "This was record 1."));
  fs::remove(dir / "a/2.png");
  const auto gone = caught<ps::StageError>([&] { deliver(source, {}); });
  CHECK(has(gone, "cannot open " + (dir / "a/2.png")));
  const auto left = deliver(source, {.on_error = {.skips = 1}});
  CHECK(left == std::vector<Seen>{{"1", 0}});
}

TEST_CASE("a position of other files is refused") {
  const TempDir dir;
  for (const char* name : {"a/1", "a/2", "b/3", "b/4"}) {
    write(dir, name, name);
  }
  const auto identity = [&] {
    auto source = ps::files(dir.path());
    source.open();
    return source.identity();
  };
  std::set<std::uint64_t> seen{identity()};
  CHECK(seen.contains(identity()));
  fs::rename(dir / "a/1", dir / "a/0");
  CHECK(seen.insert(identity()).second);
  write(dir, "a/0", "larger");
  CHECK(seen.insert(identity()).second);
}

TEST_CASE("a position is refused where files of the same names and sizes lie in other folders") {
  const TempDir dir;
  for (const char* name : {"cat/1", "dog/1", "dog/2", "eel/sub/2"}) {
    write(dir, name, "same");
  }
  const auto identity = [&] {
    auto source = ps::files(dir.path());
    source.open();
    return source.identity();
  };
  std::set<std::uint64_t> seen{identity()};
  fs::rename(dir / "cat", dir / "ant"); // no file has another number
  CHECK(seen.insert(identity()).second);
  fs::rename(dir / "dog/2", dir / "eel/2"); // nor now
  CHECK(seen.insert(identity()).second);
  fs::rename(dir / "eel/sub", dir / "eel/zub");
  CHECK(seen.insert(identity()).second);
}

TEST_CASE("files have the same identity wherever their folder lies") {
  const TempDir dir;
  const auto identity = [&](const std::string& folder) {
    auto source = ps::files(dir / folder);
    source.open();
    return source.identity();
  };
  write(dir, "one/a/b/1", "x");
  write(dir, "one/a/2", "y");
  const std::uint64_t first = identity("one");
  CHECK(identity("one/") == first);
  fs::rename(dir / "one", dir / "another");
  CHECK(identity("another/.") == first);
}
