// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/tfrecord.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::has;
using ps::tests::TempDir;
using Strings = std::vector<std::string>;

namespace {

// A twin of crc32c(), bit by bit.
std::uint32_t crc_of(const std::string& text) {
  std::uint32_t sum = ~0U;
  for (const char c : text) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit != 8; ++bit) {
      sum = sum >> 1 ^ ((sum & 1) != 0 ? 0x82F6'3B78U : 0);
    }
  }
  return ~sum;
}
std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i != bytes; ++i) {
    text += static_cast<char>(value >> 8 * i & 0xFF);
  }
  return text;
}
std::string masked(const std::string& text) {
  const std::uint32_t crc = crc_of(text);
  return number((crc >> 15 | crc << 17) + 0xA282'EAD8U, 4);
}
std::string framed(const std::string& data) {
  const std::string length = number(data.size(), 8);
  return length + masked(length) + data + masked(data);
}
std::string file_of(const Strings& records) {
  std::string all;
  for (const std::string& record : records) {
    all += framed(record);
  }
  return all;
}
std::string write(const TempDir& dir, const std::string& name, const std::string& text) {
  return dir.write(name, std::as_bytes(std::span{text}));
}
Strings some_records(std::size_t count, unsigned seed) {
  std::mt19937_64 random{seed};
  Strings records;
  for (std::size_t i = 0; i != count; ++i) {
    std::string record(i % 50 == 49 ? 300'000 + i : random() % 400, '\0');
    std::generate(record.begin(), record.end(), [&] { return static_cast<char>(random()); });
    records.push_back(std::move(record));
  }
  return records;
}
template <class S> Strings deliver(S source, const ps::ReaderOptions& options) {
  Strings all;
  auto pipeline = ps::Reader{std::move(source), options} |
                  ps::Consumer{[&](ps::Batch<const ps::TfRecord, ps::Pageable> batch) {
                    for (std::size_t i = 0; i != batch.size(); ++i) {
                      const auto bytes = ps::get<"bytes">(batch)[i];
                      all.emplace_back(bytes.data(), bytes.data() + bytes.size());
                    }
                  }};
  pipeline.run();
  return all;
}
ps::SourceError refused(const std::string& path) {
  return caught<ps::SourceError>([&] { ps::tfrecord(path).open(); });
}

} // namespace

TEST_CASE("CRC-32C is that of the standard, in parts too") {
  const std::string text = "123456789";
  const auto bytes = std::as_bytes(std::span{text});
  CHECK(ps::crc32c(bytes) == 0xE306'9283U);
  CHECK(ps::crc32c({}) == 0);
  std::string longer(1000, '\0');
  for (std::size_t i = 0; i != longer.size(); ++i) {
    longer[i] = static_cast<char>(i * i >> 3);
  }
  const auto all = std::as_bytes(std::span{longer});
  for (std::size_t cut = 0; cut <= longer.size(); cut += 37) {
    CHECK(ps::crc32c(all.subspan(cut), ps::crc32c(all.first(cut))) == crc_of(longer));
    CHECK(~ps::detail::crc32c_by_tables(all.subspan(cut), ~0U) == ps::crc32c(all.subspan(cut)));
  }
}

TEST_CASE("sums side by side are that of all bytes, whatever their number and place") {
  CHECK(ps::detail::has_crc32c()); // else tables are compared with themselves
  std::string bytes(5000, '\0');
  for (std::size_t i = 0; i != bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * i * i >> 5);
  }
  const auto all = std::as_bytes(std::span{bytes});
  for (const std::size_t length : {0, 8, 511, 1535, 1536, 1537, 1544, 3071, 3072, 3073, 4990}) {
    for (const std::size_t from : {0, 1, 7}) {
      const auto part = all.subspan(from, length);
      for (const std::uint32_t before : {0U, 1U, ~0U}) {
        CHECK(~ps::detail::crc32c_by_tables(part, ~before) == ps::crc32c(part, before));
      }
    }
  }
}

TEST_CASE("records of TFRecord files come as they are, in any order, by any number of workers") {
  const TempDir dir;
  Strings expected;
  for (unsigned shard = 0; shard != 5; ++shard) {
    const Strings records = some_records(shard == 2 ? 0 : 60 * shard, shard);
    write(dir, "train-" + std::to_string(shard), file_of(records));
    expected.insert(expected.end(), records.begin(), records.end());
  }
  const auto source = ps::tfrecord(dir.path());
  CHECK(deliver(source, {.workers = 1}) == expected);
  CHECK(deliver(source, {.workers = 4, .batch = 7}) == expected);
  CHECK(deliver(ps::tfrecord({dir / "train-1", dir / "train-2", dir / "train-3", dir / "train-4"}),
                {.workers = 4}) == expected);
  const ps::Order shuffled{.shuffle = 3};
  const Strings mixed = deliver(source, {.workers = 3, .order = shuffled});
  CHECK(mixed == deliver(source, {.workers = 1, .order = shuffled, .batch = 9}));
  CHECK(mixed != expected);
  CHECK(std::is_permutation(mixed.begin(), mixed.end(), expected.begin(), expected.end()));
  CHECK(deliver(source, {.order = {.shuffle = 3, .block = 8, .window = 4}}).size() ==
        expected.size());
  CHECK(deliver(ps::tfrecord(write(dir, "empty", "")), {}).empty());
}

TEST_CASE("a TFRecord file that is cut, damaged or compressed is refused when it is opened") {
  const TempDir dir;
  const std::string good = file_of({"first", "", "third one"});
  for (std::size_t size = 1; size != good.size(); ++size) {
    const bool whole = size == 21 || size == 37;
    if (!whole) {
      const auto cut = refused(write(dir, "cut", good.substr(0, size)));
      CHECK(has(cut, " bytes are there: copy or download"));
      CHECK(cut.offset() == (size < 21 ? 0U : size < 37 ? 21U : 37U));
    }
  }
  for (const std::size_t at : {0U, 3U, 7U, 8U, 11U}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    CHECK(has(refused(write(dir, "bad", bad)),
              "bad at byte 0 is no TFRecord file, or a damaged one"));
    bad = good;
    bad[21 + at] = static_cast<char>(bad[21 + at] ^ 0x10);
    const auto inner = refused(write(dir, "bad", bad));
    CHECK(has(inner, "bad at byte 21 has a record's length with a wrong checksum"));
    CHECK(inner.offset() == 21);
  }
  for (const std::uint64_t length :
       {std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{15}, std::uint64_t{1} << 32}) {
    const std::string lie = number(length, 8);
    CHECK(has(refused(write(dir, "lie", framed("a") + lie + masked(lie) + "abcd")),
              "lie at byte 17 begins its record 1, of which only 16 bytes are there"));
  }
  CHECK(has(refused(write(dir, "zip", std::string{"\x1F\x8B\x08\0", 4} + std::string(30, 'x'))),
            "zip at byte 0 is compressed by gzip: unpack it first"));
}

TEST_CASE("a record whose data are damaged is one error that names it, and can be left out") {
  const TempDir dir;
  const Strings records{"first", "second", std::string(400'000, 'L'), "fourth"};
  const std::string good = file_of(records);
  for (const std::size_t bad : {0U, 1U, 2U, 3U}) {
    std::size_t at = 12;
    for (std::size_t i = 0; i != bad; ++i) {
      at += records[i].size() + 16;
    }
    for (const std::size_t place : {at, at + records[bad].size() - 1, at + records[bad].size()}) {
      std::string text = good;
      text[place] = static_cast<char>(text[place] ^ 1);
      const std::string path = write(dir, "bad", text);
      const auto error = caught<ps::StageError>([&] { deliver(ps::tfrecord(path), {}); });
      CHECK(has(error, "the checksum of record " + std::to_string(bad) + " of " + path));
      CHECK(has(error, "begin at byte " + std::to_string(at)));
      Strings left = records;
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(bad));
      CHECK(deliver(ps::tfrecord(path), {.batch = 1, .on_error = {.skips = 1}}) == left);
    }
  }
}

TEST_CASE("a TFRecord file that changes while it is read is an error") {
  const TempDir dir;
  const std::string path = write(dir, "file", file_of({"first", "second"}));
  auto source = ps::tfrecord(path);
  CHECK(has(caught<ps::SourceError>([&] { static_cast<void>(source.size()); }), "not open yet"));
  source.open();
  write(dir, "file", framed("first"));
  const auto shrunk = caught<ps::StageError>([&] { deliver(source, {}); });
  CHECK(has(shrunk, "shrank while it was read"));
  CHECK(has(shrunk, "This was record 1."));
  CHECK(!has(shrunk, "() it is record"));

  // Many records are read at once, and the error is about the one that is cut.
  const Strings records(100, std::string(100, 'x'));
  const std::string first = write(dir, "first", file_of({"a", "b"}));
  const std::string all = file_of(records);
  const std::string cut_path = write(dir, "cut", all);
  auto many = ps::tfrecord({first, cut_path});
  many.open();
  for (const std::size_t size : {0U, 12U, 115U, 116U, 117U, 5000U, 11'599U}) {
    write(dir, "cut", all.substr(0, size));
    // One worker: of two, the first in time to fail may read a later record.
    const auto cut = caught<ps::StageError>([&] { deliver(many, {.workers = 1}); });
    CHECK(has(cut, "This was record " + std::to_string(2 + size / 116) + "."));
  }
}
