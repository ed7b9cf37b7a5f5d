// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/faulty_io.hpp"
#include "support/tar_file.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/tar.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/any_source.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;
namespace ps = penstock;
using ps::tests::caught;
using ps::tests::content_of;
using ps::tests::FaultyIo;
using ps::tests::has;
using ps::tests::IoCall;
using ps::tests::IoFaults;
using ps::tests::tar_end;
using ps::tests::tar_header;
using ps::tests::tar_member;
using ps::tests::tar_pax;
using ps::tests::TarKind;
using ps::tests::TempDir;
using Strings = std::vector<std::string>;

namespace {

struct Sample
    : ps::Columns<ps::Field<"jpg;png", ps::Ragged<std::uint8_t>>, ps::Field<"cls", std::int32_t>,
                  ps::Field<"__key__", ps::Ragged<char>>, ps::Field<"seg.txt", ps::Ragged<char>>> {
};
struct Plain
    : ps::Columns<ps::Field<"cls", std::int32_t>, ps::Field<"jpg", ps::Ragged<std::uint8_t>>> {};

struct Seen {
  std::string key;
  std::string image;
  std::int32_t label;
  std::string text;
  bool operator==(const Seen&) const = default;
};

std::string write(const TempDir& dir, const std::string& name, const std::string& text) {
  return dir.write(name, std::as_bytes(std::span{text}));
}
template <class Batch> void append(std::vector<Seen>& all, const Batch& batch) {
  const auto text_of = [](const auto& values) {
    return std::string{values.data(), values.data() + values.size()};
  };
  for (std::size_t i = 0; i != batch.size(); ++i) {
    all.push_back({text_of(ps::get<"__key__">(batch)[i]), text_of(ps::get<"jpg;png">(batch)[i]),
                   ps::get<"cls">(batch)[i], text_of(ps::get<"seg.txt">(batch)[i])});
  }
}
template <class S>
std::vector<Seen> deliver(S source, const ps::ReaderOptions& options = {},
                          ps::Report* report = nullptr) {
  std::vector<Seen> all;
  auto pipeline =
      ps::Reader{std::move(source), options} |
      ps::Consumer{[&](ps::Batch<const Sample, ps::Pageable> batch) { append(all, batch); }};
  pipeline.run();
  if (report) {
    *report = pipeline.report();
  }
  return all;
}
// Some samples, their members in any order, of few bytes and of many, and what lies between.
std::pair<std::string, std::vector<Seen>> some_samples(const std::string& folder, std::size_t count,
                                                       unsigned seed) {
  std::mt19937_64 random{seed};
  const auto bytes = [&](std::size_t most) {
    std::string text(random() % most, '\0');
    std::generate(text.begin(), text.end(), [&] { return static_cast<char>(random()); });
    return text;
  };
  std::vector<Seen> all;
  std::string archive = tar_member(folder + "/", "", TarKind::folder);
  for (std::size_t i = 0; i != count; ++i) {
    const std::string key = folder + "/" + std::to_string(i);
    const Seen seen{key, bytes(random() % 5 == 0 ? 300'000 : 3000),
                    static_cast<std::int32_t>(random()), bytes(20)};
    Strings members{tar_member(key + (i % 2 == 0 ? ".jpg" : ".PNG"), seen.image),
                    tar_member(key + ".cls", " " + std::to_string(seen.label) + "\n"),
                    tar_member(key + ".seg.txt", seen.text), tar_member(key + ".json", bytes(999))};
    std::shuffle(members.begin(), members.end(), random);
    for (const std::string& member : members) {
      archive += member;
    }
    all.push_back(seen);
  }
  return {archive + tar_end, all};
}
// A header of GNU's format, whose sparse files may have another block of header.
std::string gnu_header(const std::string& name, char type, bool more, std::uint64_t bytes = 0) {
  // The prefix's field begins at byte 345.
  const std::string fields = std::string(482 - 345, '\0') + std::string(1, more ? '\1' : '\0');
  return tar_header(name, bytes,
                    {.type = type, .prefix = fields, .magic = std::string{"ustar  \0", 8}});
}
ps::SourceError refused(const std::string& path) {
  return caught<ps::SourceError>([&] { ps::tar<Plain>(path).open(); });
}

} // namespace

TEST_CASE("samples of tar archives come in order, shuffled and by several workers") {
  const TempDir dir;
  std::vector<Seen> expected;
  for (const unsigned shard : {0U, 1U, 2U}) {
    auto [archive, samples] =
        some_samples(std::string(shard * 40 + 1, 'f'), 40 + 37 * shard, shard + 1);
    write(dir, "train-" + std::to_string(shard) + ".tar", archive);
    expected.insert(expected.end(), samples.begin(), samples.end());
  }
  write(dir, "README.md", "no archive");
  const auto source = ps::tar<Sample>(dir.path());
  CHECK(deliver(source) == expected);
  CHECK(deliver(source, {.workers = 3, .batch = 7}) == expected);
  CHECK(deliver(ps::AnySource<Sample>{source}, {.batch = 64}) == expected);
  auto opened = source;
  opened.open();
  REQUIRE(opened.size() == expected.size());
  CHECK(opened.key(100) == expected[100].key);
  std::vector<std::uint64_t> lengths(3 * expected.size());
  opened.lengths(0, lengths);
  std::uint64_t longest = 0;
  for (std::size_t i = 0; i != expected.size(); ++i) {
    CHECK(lengths[3 * i] == expected[i].image.size());
    CHECK(lengths[3 * i + 1] == expected[i].key.size());
    CHECK(lengths[3 * i + 2] == expected[i].text.size());
    longest = std::max({longest, lengths[3 * i], lengths[3 * i + 1], lengths[3 * i + 2]});
  }
  CHECK(opened.value_bytes(1) == longest);

  const auto by_key = [](const Seen& a, const Seen& b) { return a.key < b.key; };
  auto sorted = expected;
  std::sort(sorted.begin(), sorted.end(), by_key);
  std::vector<Seen> of_all;
  for (const unsigned rank : {0U, 1U, 2U}) {
    const ps::Order share{
        .shuffle = 5, .ranks = {.rank = rank, .world = 3}, .uneven = ps::Uneven::keep};
    const auto mine = deliver(source, {.order = share});
    CHECK(mine.size() >= expected.size() / 3);
    of_all.insert(of_all.end(), mine.begin(), mine.end());
  }
  CHECK(of_all != expected);
  std::sort(of_all.begin(), of_all.end(), by_key);
  CHECK(of_all == sorted);
}

TEST_CASE("members belong to samples as WebDataset cuts their names") {
  const TempDir dir;
  const auto member = [](const std::string& name, const std::string& text = "7") {
    return tar_member(name, text);
  };
  const std::string path = write(
      dir, "a.tar",
      member("README") + member(".hidden.cls") + member("__info__/x.cls") + member("a/.b.cls") +
          member("a/b.CLS", "1") + member("a/b.jpg", "x") + member("a.b/c.d.jpg", "no column") +
          member("a.b/c.cls", "2") + member("a.b/c.jpg", "y") + member("./d.cls", "+3") +
          member("./d.jpg", "") + member("e.json", "of no column") + member("f.cls", "-4 \n") +
          member("f.jpg", std::string(700, 'z')) + tar_end);
  auto source = ps::tar<Plain>(path);
  source.open();
  REQUIRE(source.size() == 4);
  CHECK(source.key(0) == "a/b");
  CHECK(source.key(1) == "a.b/c");
  CHECK(source.key(2) == "./d");
  CHECK(source.key(3) == "f");
  for (const std::uint64_t number : {std::uint64_t{4}, std::uint64_t{1000000}}) {
    const auto beyond = caught<ps::OptionError>([&] { static_cast<void>(source.key(number)); });
    CHECK(has(beyond, "tar: asked for number " + std::to_string(number) + ", but there are 4"));
  }
  Strings images;
  std::vector<std::int32_t> labels;
  auto pipeline =
      ps::Reader{source} | ps::Consumer{[&](ps::Batch<const Plain, ps::Pageable> batch) {
        for (std::size_t i = 0; i != batch.size(); ++i) {
          const auto bytes = ps::get<"jpg">(batch)[i];
          images.emplace_back(bytes.data(), bytes.data() + bytes.size());
          labels.push_back(ps::get<"cls">(batch)[i]);
        }
      }};
  pipeline.run();
  CHECK(images == Strings{"x", "y", "", std::string(700, 'z')});
  CHECK(labels == std::vector<std::int32_t>{1, 2, 3, -4});
}

TEST_CASE("tar archives of all formats name their members alike") {
  const TempDir dir;
  const std::string deep = std::string(120, 'd') + "/" + std::string(60, 'e');
  const std::string image = std::string(600, 'i');
  const auto keys = [&](const std::string& archive) {
    auto source = ps::tar<Sample>(write(dir, "a.tar", archive + tar_end));
    Strings found;
    for (const Seen& seen : deliver(source)) {
      CHECK(seen.image == image);
      CHECK(seen.label == 5);
      found.push_back(seen.key);
    }
    return found;
  };
  const std::string rest = tar_member("k.cls", "5") + tar_member("k.seg.txt", "");
  const auto with = [&](const std::string& first) { return keys(first + rest); };
  CHECK(with(tar_member("k.jpg", image)) == Strings{"k"});
  CHECK(with(tar_member("k.jpg", image, TarKind::v7)) == Strings{"k"});
  CHECK(with(tar_member("k.jpg", image, TarKind::gnu)) == Strings{"k"});
  CHECK(with(tar_member("k.jpg", image, TarKind::in_one_piece)) == Strings{"k"});
  CHECK(with(tar_member("k.jpg", image, TarKind::binary_size)) == Strings{"k"});
  CHECK(with(tar_member("k.jpg", image, TarKind::signed_sum)) == Strings{"k"});
  // Names longer than a header's, by each way to write them.
  const std::string others = tar_pax({{"path", deep + ".cls"}}) + tar_member("x", "5") +
                             tar_pax({{"path", deep + ".seg.txt"}}) + tar_member("x", "");
  CHECK(keys(tar_pax({{"path", deep + ".jpg"}}) + tar_member("x", image) + others) ==
        Strings{deep});
  CHECK(keys(tar_member("././@LongLink", deep + ".jpg" + '\0', TarKind::long_name) +
             tar_member("x", image) + others) == Strings{deep});
  CHECK(keys(tar_header(deep.substr(121) + ".jpg", image.size(), {.prefix = deep.substr(0, 120)}) +
             image + std::string(424, '\0') + others) == Strings{deep});
  // A pax size goes for the member that it is before, and for no header between them.
  const std::string hidden = tar_member("hidden.cls", "9") + tar_member("hidden.jpg", "h");
  CHECK(keys(tar_pax({{"size", std::to_string(image.size())}}) + tar_header("k.jpg", 1, {}) +
             image + std::string(424, '\0') + rest) == Strings{"k"});
  const std::string inner = hidden;
  CHECK(keys(tar_pax({{"size", std::to_string(inner.size())}}) +
             tar_member("././@LongLink", "other.bin", TarKind::long_name) + tar_header("x", 0, {}) +
             inner + tar_member("k.jpg", image) + rest) == Strings{"k"});
  // Its time, an owner and a comment say nothing about where bytes lie.
  CHECK(keys(tar_pax({{"comment", "all"}}, 'g') + tar_pax({{"mtime", "1.5"}, {"uname", "u"}}) +
             tar_member("k.jpg", image) + rest) == Strings{"k"});
}

TEST_CASE("archives that are damaged, cut or of another kind are refused when they are opened") {
  const TempDir dir;
  const std::string good = tar_member("a.jpg", std::string(1000, 'x')) + tar_member("a.cls", "1");
  const std::string pax = "12 path=a.b\n";
  auto no_sum = tar_header("a.cls", 1, {});
  no_sum[150] ^= 1;
  const std::vector<std::tuple<std::string, std::string, std::uint64_t>> bad{
      {"", "ends without the blocks of zeros", 0},
      {"no archive", "less than the one block", 0},
      {std::string(512, 'x'), "has no header of a tar archive", 0},
      {std::string{"\x1F\x8B\x08\0", 4} + std::string(600, 'x'), "is compressed by gzip", 0},
      {std::string{"\x1F\x8B\x08\0", 4} + std::string(200, 'x'), "is compressed by gzip", 0},
      {"\x93NUMPY" + std::string(600, 'x'), "is a .npy file: read it by ps::npy", 0},
      {no_sum, "has no header of a tar archive, or a damaged one", 0},
      {"\x28\xB5\x2F\xFD" + std::string(600, 'x'), "is compressed by zstd", 0},
      {"BZh91AY&SY" + std::string(600, 'x'), "is compressed by bzip2", 0},
      {std::string{"\xFD"
                   "7zXZ\0",
                   6} +
           std::string(600, 'x'),
       "is compressed by xz", 0},
      {good, "ends without the blocks of zeros", good.size()},
      {good + std::string(100, 'x'), "ends in the middle of a block", good.size()},
      {good + tar_end + good + tar_end, "goes on behind the zeros", good.size() + 512},
      {good + std::string(5 << 20, '\0'), "a lower --blocking-factor", good.size() + 512},
      {good + no_sum, "its checksum is wrong", good.size()},
      {good + tar_header("b", 513, {}) + std::string(512, 'x'), "of whose 513 bytes only 512",
       good.size()},
      {good + tar_header("b", 0, {.size = "0000000000x"}), "no number of bytes", good.size() + 124},
      {good + tar_header("b", 0, {.size = "-0000000001"}), "no number of bytes", good.size() + 124},
      {good + tar_header("b", 0, {.size = std::string(12, '\xFF')}), "or a negative one",
       good.size() + 124},
      {good + tar_header("b", 0, {.size = "\x80" + std::string(11, '\xFF')}), "no number of bytes",
       good.size() + 124},
      {good + tar_header("b", 0, {.size = "777777777777"}), "of whose 68719476735 bytes only",
       good.size()},
      {good + tar_header("b.jpg", 0, {.type = '1'}) + tar_end,
       "b.jpg, a hard link, for the column \"jpg\", which takes regular files: write the archive "
       "with --hard-dereference",
       good.size()},
      {good + tar_header("b.JPG", 0, {.type = '2'}) + tar_end,
       "b.JPG, a symbolic link, for the column \"jpg\", which takes regular files: write the "
       "archive "
       "with --dereference",
       good.size()},
      {good + tar_header("b.cls", 0, {.type = '3'}) + tar_end, "b.cls, a device or a pipe",
       good.size()},
      {good + gnu_header("b.cls", 'S', false) + tar_end, "b.cls, a sparse file", good.size()},
      {good + tar_pax({{"GNU.sparse.name", "b.cls"}}) + tar_header("x", 0, {}) + tar_end,
       "b.cls, a sparse file", good.size() + 1024},
      {good + tar_header("b.cls", 0, {.type = 'M'}) + tar_end, "the rest of a file", good.size()},
      {good + tar_header("b\xff\n.cls", 0, {.type = '\x07'}) + tar_end,
       "b??.cls, of the type \"?\"", good.size()},
      {good + tar_header("b", 1, {.type = '1'}), "a hard link that has bytes", good.size()},
      {good + tar_header("b", 1, {.type = '2'}), "a symbolic link that has bytes", good.size()},
      {good + tar_header("b", 1, {.type = '6'}), "a device or a pipe that has bytes", good.size()},
      {good + tar_header("b", 0, {.type = 'S'}), "a sparse file whose format is not GNU's",
       good.size()},
      {good + gnu_header("b", 'S', true), "ends in the middle of a block", good.size() + 512},
      {good + tar_member("b/", "x", TarKind::folder), "a directory that has bytes", good.size()},
      {good + tar_pax({{"GNU.sparse.name", std::string{"a\0b", 3}}}), "path has a zero byte",
       good.size() + 512},
      {good + tar_pax({{"GNU.sparse.major", "1"}}, 'g'), "map of a sparse file", good.size()},
      {good + tar_pax({{"size", "-1"}}), "size is no number", good.size() + 512},
      {good + tar_pax({{"size", "1x"}}), "size is no number", good.size() + 512},
      {good + tar_pax({{"size", "9999999999999999999"}}), "size is no number", good.size() + 512},
      {good + tar_pax({{"path", std::string{"a\0b", 3}}}), "path has a zero byte",
       good.size() + 512},
      {good + tar_pax({{std::string{"a\0", 2}, "b"}}), "without a key", good.size() + 512},
      {good + tar_pax({{"", "b"}}), "without a key", good.size() + 512},
      {good + tar_member("p", "13 path=a.b\n", TarKind::pax), "length is wrong", good.size() + 512},
      {good + tar_member("p", "99999999999999999999 a=b\n", TarKind::pax), "length is wrong",
       good.size() + 512},
      {good + tar_member("p", " a=b\n", TarKind::pax), "length is wrong", good.size() + 512},
      {good + tar_member("p", "7 a=bcd", TarKind::pax), "length is wrong", good.size() + 512},
      {good + tar_member("p", "3 \n", TarKind::pax), "without a key", good.size() + 512},
      {good + tar_member("p", pax, TarKind::pax) + tar_end, "where a header has announced",
       good.size() + 1024},
      {good + tar_member("p", pax, TarKind::pax) + tar_member("p", pax, TarKind::pax),
       "names one member twice", good.size() + 1024},
      {good + tar_member("p", pax, TarKind::pax) + tar_member("l", "a.b", TarKind::long_name),
       "names one member twice", good.size() + 1024},
      {good + tar_pax({{"size", "1"}}, 'g'), "a global pax header", good.size()},
      {good + tar_header("p", (1 << 20) + 1, {.type = 'x'}), "has a header of 1048577 bytes",
       good.size()},
  };
  for (const auto& [text, words, offset] : bad) {
    INFO(words);
    const std::string path = write(dir, "bad.tar", text);
    const auto e = refused(path);
    CHECK(has(e, words));
    CHECK(has(e, path));
    CHECK(e.file() == path);
    CHECK(e.offset() == offset);
  }
  const auto missing = refused(dir / "missing.tar");
  CHECK(has(missing, "missing.tar"));
  CHECK(has(refused(dir.path() + "/."), "bad.tar at byte"));
  // A directory in which an archive is not whole, or not unpacked, lacks what is in it.
  for (const char* name : {"b.tar.gz", "b.tar.part", "b.tar.incomplete"}) {
    const TempDir half;
    write(half, "a.tar", good + tar_end);
    write(half, "a.tar.idx", "x");
    write(half, "wids.tar.json", "{}");
    write(half, "README", "x");
    ps::tar<Plain>(half.path()).open();
    write(half, name, "x");
    const auto e = refused(half.path());
    CHECK(has(e, "penstock: tar: " + (half / name) + " lies in the directory, and " +
                     (half / "b.tar") + " does not: fetch or unpack the whole file"));
  }
  fs::create_directory(dir / "empty");
  write(dir, "empty/x", "");
  CHECK(has(refused(dir / "empty"), "ends in .tar"));
}

TEST_CASE("no archive that was cut anywhere is taken for a whole one") {
  const TempDir dir;
  const std::string whole = tar_pax({{"path", "a.jpg"}}) + tar_member("x", std::string(700, 'x')) +
                            tar_member("a.cls", "1") + tar_end;
  write(dir, "whole.tar", whole);
  ps::tar<Plain>(dir / "whole.tar").open();
  for (std::size_t bytes = 0; bytes < whole.size() - 512; ++bytes) {
    if (bytes % 512 < 2 || bytes % 512 == 511 || bytes % 97 == 0) {
      INFO(bytes);
      CHECK(refused(write(dir, "cut.tar", whole.substr(0, bytes))).offset() <= bytes);
    }
  }
}

TEST_CASE("samples that are not whole are records that a Reader can leave out") {
  const TempDir dir;
  const auto good = [](const std::string& key) {
    return tar_member(key + ".cls", "1") + tar_member(key + ".jpg", key);
  };
  const std::string path = write(
      dir, "a.tar",
      good("a") + tar_member("b.jpg", "b") + good("c") + good("d") + tar_member("d.jpg", "again") +
          tar_member("e.jpg", "e") + tar_member("e.cls", "1.5") + tar_member("f.jpg", "f") +
          tar_member("f.cls", std::string(70, '1')) + tar_member("g.cls", "\x1b[2J") +
          tar_member("g.jpg", "g") + tar_member("h.cls", "3000000000") + tar_member("h.jpg", "h") +
          tar_member("i.cls", "") + tar_member("i.jpg", "i") + good("j") + tar_end);
  Strings images;
  auto pipeline = ps::Reader{ps::tar<Plain>(path),
                             {.workers = 2, .order = {.shuffle = 1}, .on_error = {.skips = 100}}} |
                  ps::Consumer{[&](ps::Batch<const Plain, ps::Pageable> batch) {
                    for (std::size_t i = 0; i != batch.size(); ++i) {
                      const auto bytes = ps::get<"jpg">(batch)[i];
                      images.emplace_back(bytes.data(), bytes.data() + bytes.size());
                    }
                  }};
  pipeline.run();
  std::sort(images.begin(), images.end());
  CHECK(images == Strings{"a", "c", "j"});
  const std::map<std::uint64_t, std::string> expected{
      {1, "b.cls of " + path + " is not there"},
      {3, "d.jpg of " + path + " is there more than"},
      {4, "is \"1.5\", where a number of type int32"},
      {5, "has 70 bytes, where a number"},
      {6, "is \"?[2J\""},
      {7, "is \"3000000000\""},
      {8, "is \"\""}};
  const ps::Report report = pipeline.report();
  REQUIRE(report.skips.size() == expected.size());
  for (const ps::SkippedItem& item : report.skips) {
    INFO(item.reason);
    REQUIRE(expected.contains(item.record));
    CHECK(item.reason.find(expected.at(item.record)) != std::string::npos);
  }
  // Of several workers another one may be the first to fail.
  auto stops = ps::Reader{ps::tar<Plain>(path), {.workers = 1}} |
               ps::Consumer{[](ps::Batch<const Plain, ps::Pageable>) {}};
  const auto e = caught<ps::StageError>([&] { stops.run(); });
  CHECK(has(e, "failed at record 1: tar: the member b.cls of " + path));

  struct Misspelt : ps::Columns<ps::Field<"jpeg", ps::Ragged<std::uint8_t>>> {};
  const auto none = caught<ps::SourceError>([&] { ps::tar<Misspelt>(path).open(); });
  CHECK(has(none, "has the ending \"jpeg\""));
  CHECK(has(none, "cls, jpg"));
  const auto large = caught<ps::SourceError>([&] { ps::tar<Plain>(path, {.largest = 69}).open(); });
  CHECK(has(large, "has 70 bytes, more than .largest, which is 69"));
}

TEST_CASE("an index beside an archive is used as long as it is right") {
  const TempDir dir;
  const auto [archive, expected] = some_samples("x", 50, 3);
  const std::string path = write(dir, "a.tar", archive);
  const std::string index = dir / ".a.tar.penstock-index";
  const auto read = [&] { return deliver(ps::tar<Sample>(path, {.keep_index = true})); };
  CHECK(deliver(ps::tar<Sample>(path)) == expected);
  CHECK(!fs::exists(index));
  CHECK(read() == expected);
  const std::string kept = content_of(index);
  REQUIRE(!kept.empty());

  // It is what is believed: an archive whose first header is damaged opens by it.
  const fs::file_time_type time = fs::last_write_time(path);
  std::string damaged = archive;
  damaged[0] ^= 1;
  write(dir, "a.tar", damaged);
  fs::last_write_time(path, time);
  CHECK(read() == expected);
  // Not if the time is another.
  fs::last_write_time(path, time + std::chrono::seconds{1});
  CHECK(has(caught<ps::SourceError>(read), "at byte 0"));
  write(dir, "a.tar", archive);
  fs::last_write_time(path, time);

  // Nor if it is damaged: then it is made anew.
  std::mt19937 random{1};
  for (int i = 0; i != 60; ++i) {
    std::string other = kept;
    if (i % 2 == 0) {
      other[random() % other.size()] ^= static_cast<char>(1 + random() % 255);
    } else {
      other.resize(random() % other.size());
    }
    write(dir, ".a.tar.penstock-index", other);
    REQUIRE(read() == expected);
    REQUIRE(content_of(index) == kept);
  }
  // What cannot be written is no error.
  fs::remove(index);
  fs::create_directory(index);
  ps::Report report;
  CHECK(deliver(ps::tar<Sample>(path, {.keep_index = true}), {}, &report) == expected);
  CHECK(report.stages.front().note.find("an index could not be kept: ") != std::string::npos);
  CHECK(report.stages.front().note.find(index) != std::string::npos);
}

TEST_CASE("members that no column reads are passed over, counted and named") {
  const TempDir dir;
  const std::string first = tar_member("a.jpg", "x");
  const std::string rest = tar_member("a.cls", "1") + tar_end;
  const std::string data = std::string(512, 'd');
  struct Case {
    std::string members;
    std::string noted; // nothing: they are not counted
  };
  const std::vector<Case> cases{
      {tar_header("b", 0, {.type = '1'}), "no regular files, 1 in all, the first is b of "},
      {tar_header("a.txt", 0, {.type = '2'}) + tar_header("jpg", 0, {.type = '1'}),
       "no regular files, 2 in all, the first is a.txt of "},
      {tar_header(".jpg", 0, {.type = '2'}), "a symbolic link"},
      {tar_header("__x__/b.jpg", 0, {.type = '2'}), "a symbolic link"},
      {tar_header("b", 0, {.type = '3'}) + tar_header("b", 0, {.type = '4'}) +
           tar_header("b", 0, {.type = '6'}),
       "no regular files, 3 in all, the first is b of "},
      {tar_header("label", 0, {.type = 'V'}), "a volume label"},
      {tar_header("dump", 512, {.type = 'D'}) + data, "of the type \"D\""},
      {tar_header("b", 5, {.type = 'M'}) + data, "the rest of a file"},
      {tar_header("b\n", 3, {.type = 'z'}) + data, "is b? of "},
      {gnu_header("b", 'S', false, 512) + data, "a sparse file"},
      {gnu_header("b", 'S', true, 3) + std::string(504, '\1') + std::string(8, '\1') + // goes on
           std::string(512, '\0') + data,
       "a sparse file"},
      {tar_pax({{"GNU.sparse.name", "b"}, {"path", "GNUSparseFile.1/c.jpg"}}) +
           tar_header("c.jpg", 512, {}) + data,
       "is b of "},
      {tar_pax({{"GNU.sparse.size", "7"}, {"path", "b"}}) + tar_header("c.jpg", 512, {}) + data,
       "is b of "},
      {tar_pax({{"path", std::string(200, 'b')}, {"linkpath", std::string(200, 'c')}}) +
           tar_header("c.jpg", 0, {.type = '2'}),
       "is bbb"},
      {tar_pax({{"path", "a.json"}}, 'X') + tar_member("c.jpg", "{}"), ""}, // Solaris's
      {tar_member("b/", "", TarKind::folder), ""},
  };
  for (const Case& one : cases) {
    INFO(one.noted);
    const std::string path = write(dir, "a.tar", first + one.members + rest);
    for (const bool keep_index : {false, true, true}) { // the second makes it, the third reads it
      auto source = ps::tar<Plain>(path, {.keep_index = keep_index});
      source.open();
      CHECK(source.size() == 1);
      std::vector<std::uint64_t> lengths(1);
      source.lengths(0, lengths);
      CHECK(lengths.front() == 1);
      std::string note;
      source.note(note);
      CHECK((note.find("passed over ") != std::string::npos) == !one.noted.empty());
      CHECK(note.find(one.noted) != std::string::npos);
      CHECK((note.find(path) != std::string::npos) == !one.noted.empty());
    }
    fs::remove(dir / ".a.tar.penstock-index");
    const bool another = one.members.find("{}") != std::string::npos;
    CHECK(ps::tar_members(path).size() == (another ? 3 : 2));
  }
  // Of several archives the first one is named, and the count is of all.
  const std::string link = tar_header("b", 0, {.type = '2'});
  for (const int archives : {2, 3, 4}) {
    const TempDir many;
    for (int i = 0; i != archives; ++i) {
      write(many, std::to_string(i) + ".tar", first + link + rest);
    }
    auto source = ps::tar<Plain>(many.path());
    source.open();
    std::string note;
    source.note(note);
    CHECK(note.find(std::to_string(archives) + " in all, the first is b of " + (many / "0.tar")) !=
          std::string::npos);
  }
  // One that a column takes is refused by the index, too.
  const std::string path =
      write(dir, "a.tar", first + tar_header("b.json", 0, {.type = '2'}) + rest);
  struct Json : ps::Columns<ps::Field<"json", ps::Ragged<char>>> {};
  ps::tar<Plain>(path, {.keep_index = true}).open();
  const auto e = caught<ps::SourceError>([&] { ps::tar<Json>(path, {.keep_index = true}).open(); });
  CHECK(has(e, path + " at byte 1024 has the member b.json, a symbolic link, for the column"));
  CHECK(e.file() == path);
  CHECK(e.offset() == 1024);
}

TEST_CASE("archives that would be refused may be left out, and are listed") {
  const TempDir dir;
  const auto sample = [](const std::string& key) {
    return tar_member(key + ".cls", "7") + tar_member(key + ".jpg", key);
  };
  const std::string whole = sample("a") + sample("b") + tar_end;
  const std::vector<std::pair<std::string, std::string>> bad{
      {whole.substr(0, whole.size() - 1024), "ends without the blocks of zeros"},
      {whole.substr(0, 1300), "ends in the middle of a block"},
      {"", "ends without the blocks of zeros"},
      {std::string{"\x1F\x8B\x08\0", 4} + std::string(600, 'x'), "is compressed by gzip"},
      {std::string(2048, 'x'), "has no header of a tar archive"},
      {"\x93NUMPY" + std::string(600, 'x'), "is a .npy file"},
      {sample("a") + tar_header("b.jpg", 0, {.type = '2'}) + tar_end, "a symbolic link"},
  };
  const auto open = [&](ps::TarOptions options) {
    auto source = ps::tar<Plain>(dir.path(), options);
    source.open();
    return source;
  };
  write(dir, "0.tar", whole);
  write(dir, "2.tar", whole);
  for (const bool keep_index : {false, true}) {
    const ps::TarOptions options{.keep_index = keep_index, .leave_out_damaged = true};
    for (const auto& [text, words] : bad) {
      INFO(words);
      const std::string path = write(dir, "1.tar", text);
      CHECK(has(caught<ps::SourceError>([&] { open({.keep_index = keep_index}); }), words));
      for (int i = 0; i != 2; ++i) {
        const auto source = open(options);
        CHECK(source.size() == 4);
        CHECK(source.key(3) == "b");
        REQUIRE(source.left_out().size() == 1);
        CHECK(has(source.left_out().front(), words));
        CHECK(source.left_out().front().file() == path);
        std::string note;
        source.note(note);
        CHECK(note.find("left out 1 of 3 archives, the first one: ") != std::string::npos);
        CHECK(note.find(path) != std::string::npos);
        CHECK(note.find(words) != std::string::npos);
      }
    }
    // Once it is whole it is taken again, by whatever lies beside it.
    write(dir, "1.tar", whole);
    const auto source = open(options);
    CHECK(source.size() == 6);
    CHECK(source.left_out().empty());
    std::string note;
    source.note(note);
    CHECK(note.find("left out") == std::string::npos);
  }
  // By its name one is not whole, whatever is in it.
  for (const char* name : {"3.tar.gz", "1.tar.part", "1.tgz"}) {
    fs::remove(dir / "1.tar");
    const std::string path = write(dir, name, whole);
    CHECK(has(caught<ps::SourceError>([&] { open({}); }), "fetch or unpack the whole file"));
    const auto source = open({.leave_out_damaged = true});
    CHECK(source.size() == 4);
    REQUIRE(source.left_out().size() == 1);
    CHECK(has(source.left_out().front(), "fetch or unpack the whole file"));
    CHECK(source.left_out().front().file() == path);
    fs::remove(path);
  }
  // What is left lacks a column.
  write(dir, "0.tar", tar_member("a.cls", "7") + tar_end);
  write(dir, "2.tar", whole.substr(0, 700));
  const auto lacking = caught<ps::SourceError>([&] { open({.leave_out_damaged = true}); });
  INFO(lacking.what());
  CHECK(has(lacking, "\"jpg\" of a column, with 1 of 2 archives left out."));
  // None is left: the first is the reason.
  for (const char* name : {"0.tar", "1.tar", "2.tar"}) {
    write(dir, name, "");
  }
  const auto none = caught<ps::SourceError>([&] { open({.leave_out_damaged = true}); });
  CHECK(has(none, (dir / "0.tar") + " at byte 0 ends without"));
  // A path that leads nowhere is no damage.
  CHECK_THROWS_AS(
      ps::tar<Plain>({dir / "0.tar", dir / "x.tar"}, {.leave_out_damaged = true}).open(),
      ps::SourceError);
}

TEST_CASE("an archive that cannot be read may be left out, but not since descriptors lack") {
  const TempDir dir;
  const std::string whole = tar_member("a.cls", "7") + tar_member("a.jpg", "x") + tar_end;
  std::vector<std::string> paths;
  for (const char* name : {"0.tar", "1.tar", "2.tar"}) {
    paths.push_back(write(dir, name, whole));
  }
  const auto open = [&](const char* call, int error) {
    const FaultyIo<> io{IoFaults::fail([&](const IoCall& made) {
      return made.name == call && made.path == paths[1] ? error : 0;
    })};
    auto source = ps::tar<Plain>(paths, {.leave_out_damaged = true}, io);
    source.open();
    return std::pair{source.size(), source.left_out()};
  };
  for (const int error : {EACCES, EIO, ESTALE}) {
    const auto [size, left_out] = open("open", error);
    CHECK(size == 2);
    REQUIRE(left_out.size() == 1);
    CHECK(has(left_out.front(), "cannot open " + paths[1]));
  }
  for (const int error : {EMFILE, ENFILE, ENOMEM}) {
    CHECK(has(caught<ps::SourceError>([&] { open("open", error); }), "cannot open " + paths[1]));
  }
}

TEST_CASE("under a low limit on open files many archives are opened, and their indexes kept") {
  const TempDir dir;
  constexpr std::size_t archives = 100;
  const std::string whole = tar_member("a.cls", "7") + tar_member("a.jpg", "x") + tar_end;
  for (std::size_t i = 0; i != archives; ++i) {
    write(dir, std::to_string(i) + ".tar", whole);
  }
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  for (const bool there : {false, true}) {
    const rlimit few{24, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    auto source = ps::tar<Plain>(dir.path(), {.keep_index = true});
    std::string error;
    try {
      source.open();
    } catch (const ps::SourceError& e) {
      error = e.what();
    }
    ::setrlimit(RLIMIT_NOFILE, &before);
    CAPTURE(there);
    REQUIRE(error.empty());
    CHECK(source.size() == archives);
    CHECK(fs::exists(dir / ".0.tar.penstock-index"));
  }
}

TEST_CASE("a position does not go on in another set of archives") {
  const TempDir dir;
  const auto whole = [](const std::string& key) {
    return tar_member(key + ".cls", "7") + tar_member(key + ".jpg", key) + tar_end;
  };
  const auto identity = [&](const std::string& damaged) {
    for (const char name : std::string{"0123"}) {
      const bool cut = damaged.find(name) != std::string::npos;
      write(dir, name + std::string{".tar"}, cut ? "" : whole(std::string(1, name)));
    }
    auto source = ps::tar<Plain>(dir.path(), {.leave_out_damaged = true});
    source.open();
    return std::pair{source.size(), source.identity()};
  };
  // All archives look alike: so do those that are left, however many are.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> seen;
  for (const char* damaged :
       {"", "0", "1", "2", "3", "01", "02", "03", "12", "13", "23", "012", "013", "023", "123"}) {
    INFO(damaged);
    CHECK(seen.emplace(identity(damaged), damaged).second);
  }
  const auto run = [&](ps::Position from) {
    auto pipeline = ps::Reader{ps::tar<Plain>(dir.path(), {.leave_out_damaged = true}),
                               {.order = {.shuffle = 1}}} |
                    ps::Consumer{[](ps::Batch<const Plain, ps::Pageable>) {}};
    pipeline.run({.from = std::move(from)});
    return pipeline.report().position;
  };
  identity("1");
  const ps::Position end = run({});
  CHECK_NOTHROW(run(end));
  identity("2");
  CHECK_THROWS_AS(run(end), ps::OptionError);
}
