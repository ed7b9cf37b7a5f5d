// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/compressed_files.hpp"
#include "support/outcome.hpp"
#include "support/tar_file.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/gzip.hpp>
#include <penstock/formats/interleaved.hpp>
#include <penstock/formats/tar.hpp>
#include <penstock/formats/tfrecord.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace ps::tests;
using Strings = std::vector<std::string>;

namespace {

struct Sample : ps::Columns<ps::Field<"__key__", ps::Ragged<char>>, ps::Field<"cls", std::int16_t>,
                            ps::Field<"jpg;png", ps::Ragged<std::uint8_t>>> {};

template <ps::Name name, class Batch> std::string value(const Batch& batch, std::size_t i) {
  const auto values = ps::get<name>(batch)[i];
  return {reinterpret_cast<const char*>(values.data()), values.size()};
}
std::string shown(const ps::Batch<const Sample, ps::Pageable>& batch, std::size_t i) {
  return value<"__key__">(batch, i) + '=' + std::to_string(ps::get<"cls">(batch)[i]) + ':' +
         value<"jpg;png">(batch, i);
}
std::string shown(const ps::Batch<const ps::TfRecord, ps::Pageable>& batch, std::size_t i) {
  return value<"bytes">(batch, i);
}

// Returns what a source gives, a text a record.
template <class Source> Strings read(Source source) {
  Strings records;
  using Batch = ps::Batch<const typename Source::schema, ps::Pageable>;
  auto pipeline = ps::Reader{std::move(source), {.batch = 3, .value_bytes = 2 << 20}} |
                  ps::Consumer{[&](Batch batch) {
                    for (std::size_t i = 0; i != batch.size(); ++i) {
                      records.push_back(shown(batch, i));
                    }
                  }};
  pipeline.run();
  return records;
}
template <class T> Strings unpacked(const Strings& paths, ps::InterleavedOptions options = {}) {
  return read(ps::interleaved<T>(paths, ps::Zstd{}, options));
}

std::string tf_record(const std::string& bytes) {
  const std::uint64_t length = bytes.size();
  const auto number = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  return number(length) + number(ps::detail::masked_crc32c(std::as_bytes(std::span{&length, 1}))) +
         bytes + number(ps::detail::masked_crc32c(std::as_bytes(std::span{bytes})));
}
std::string sample(const std::string& key, const std::string& cls, const std::string& picture) {
  return tar_member(key + ".jpg", picture) + tar_member(key + ".cls", cls);
}

// An archive of all that tar() takes, with samples of 1 to 100,000 bytes.
std::string archive(const std::string& name) {
  const std::string long_name = std::string(120, 'n') + name;
  std::string all = tar_member("folder/", "", TarKind::folder) +
                    tar_header("link.txt", 0, {.type = '2'}) + tar_member("README", "no sample");
  for (std::size_t i = 0; i != 40; ++i) {
    const std::string key = "folder/" + name + std::to_string(i);
    all += sample(key, i == 7 ? " +7\n" : std::to_string(i), std::string(1 + i * i * 60, 'p'));
    all += tar_member(key + ".json", std::string(2000, 'j'));
  }
  all += tar_pax({{"path", long_name + ".png"}}) + tar_member("short", "by pax");
  all += tar_member("././@LongLink", long_name + ".cls", TarKind::long_name) +
         tar_member("short", "-3", TarKind::gnu);
  return all + tar_end + std::string(8192, '\0');
}

template <class T> Outcome outcome(const std::string& bytes, ps::InterleavedOptions options = {}) {
  const TempDir dir;
  const std::string path = dir.write("bad.zst", zstd_frame(bytes));
  Outcome got = outcome_of([&] { unpacked<T>({path}, options); });
  INFO(got);
  CHECK(got.came == Came::stage_error);
  CHECK(got.cause == Came::source_error);
  CHECK(got.file == path);
  return got;
}

} // namespace

TEST_CASE("archives that are compressed give what they give unpacked") {
  const TempDir dir;
  Strings plain;
  Strings zstd;
  Strings gzip;
  for (const std::string name : {"a", "b"}) {
    const std::string tar = archive(name);
    plain.push_back(dir.write(name + ".tar", tar));
    zstd.push_back(dir.write(name + ".tar.zst", zstd_frame(tar)));
    gzip.push_back(dir.write(name + ".tar.gz",
                             gzip_member(tar.substr(0, 700)) + gzip_member(tar.substr(700))));
  }
  const Strings one_by_one = read(ps::tar<Sample>(plain));
  REQUIRE(one_by_one.size() == 82);
  CHECK(one_by_one[7] == "folder/a7=7:" + std::string(1 + 49 * 60, 'p'));
  CHECK(unpacked<Sample>(zstd, {.at_once = 1}) == one_by_one);
  CHECK(read(ps::interleaved<Sample>(gzip, ps::Gzip{}, {.at_once = 1})) == one_by_one);
  const Strings in_turn = unpacked<Sample>(zstd, {.at_once = 2, .block = 1});
  REQUIRE(in_turn.size() == 82);
  for (std::size_t i = 0; i != 41; ++i) {
    CHECK(in_turn[2 * i] == one_by_one[i]);
    CHECK(in_turn[2 * i + 1] == one_by_one[41 + i]);
  }
}

TEST_CASE("an archive that is bad is one error with file and place") {
  const std::string good = sample("a", "1", "p");
  const auto says = [&](const std::string& tar, const char* text,
                        ps::InterleavedOptions options = {}) {
    const Outcome got = outcome<Sample>(tar, options);
    INFO(got);
    CHECK(got.says(text));
  };
  says(good, "ends without the blocks of zeros");
  says(good.substr(0, 700), "ends without the blocks of zeros");
  says("", "ends without the blocks of zeros");
  says(std::string(2000, 'x'), "has no header of a tar archive");
  says(good + std::string(512, 'x') + tar_end, "its checksum is wrong");
  says(good + tar_end + good + tar_end, "goes on behind the zeros");
  says(tar_member("a.jpg", "p") + tar_end, "a.cls of the tar archive that comes out is not there");
  says(good + tar_member("a.png", "q") + tar_end, "the member a.jpg;png of the tar archive "
                                                  "that comes out is there more than once");
  says(sample("a", "x", "p") + tar_end, "is \"x\", where a number of type int16 should be");
  says(sample("a", "40000", "p") + tar_end, "is \"40000\"");
  says(tar_header("a.jpg", 0, {.type = '2'}) + tar_end, "is a symbolic link");
  says(sample("a", "1", std::string(100, 'p')) + tar_end, "has 100 bytes, more than .longest",
       {.longest = 99});
  says(gzip_member(good + tar_end) + std::string(512, 'x'), "is compressed by gzip");
}

TEST_CASE("a sample before a bad one comes, and the error names the record") {
  const TempDir dir;
  const std::string tar = sample("a", "1", "p") + sample("b", "2", "q") + sample("c", "", "r");
  auto source = ps::interleaved<Sample>({dir.write("a", zstd_frame(tar + tar_end))}, ps::Zstd{});
  Strings keys;
  const Outcome got = outcome_of([&] {
    auto pipeline = ps::Reader{std::move(source), {.batch = 1}} |
                    ps::Consumer{[&](ps::Batch<const Sample, ps::Pageable> batch) {
                      keys.push_back(value<"__key__">(batch, 0));
                    }};
    pipeline.run();
  });
  CHECK(got.record == 2);
  CHECK((keys == Strings{"a", "b"} || keys.size() < 2)); // what came before the run was stopped
}

TEST_CASE("TFRecord files that are compressed give their records") {
  const TempDir dir;
  Strings records{"", "one", std::string(1'000'000, 'x')};
  std::string all;
  for (int i = 0; i != 3000; ++i) {
    records.push_back(std::string(static_cast<std::size_t>(i % 500), 'r') + std::to_string(i));
  }
  for (const std::string& record : records) {
    all += tf_record(record);
  }
  CHECK(unpacked<ps::TfRecord>({dir.write("a.zst", zstd_frame(all))}) == records);
  CHECK(unpacked<ps::TfRecord>({dir.write("none.zst", zstd_frame(""))}).empty());
}

TEST_CASE("a TFRecord file that is bad is one error with file and place") {
  const std::string good = tf_record("abc");
  for (std::size_t bytes = 1; bytes != good.size(); ++bytes) {
    CHECK(outcome<ps::TfRecord>(good + good.substr(0, bytes)).says("in the middle of a TFRecord"));
  }
  std::string flipped = good;
  flipped[13] ^= 1;
  CHECK(outcome<ps::TfRecord>(flipped).says("checksum of a TFRecord that ends"));
  flipped = good;
  flipped[0] ^= 1;
  CHECK(outcome<ps::TfRecord>(flipped).says("checksum of a TFRecord's length"));
  CHECK(outcome<ps::TfRecord>(tf_record("abcd"), {.longest = 3}).says("more than .longest"));
}
