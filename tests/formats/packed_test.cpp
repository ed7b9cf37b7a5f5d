// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/packed_values.hpp"
#include "support/randomness.hpp"
#include "support/temp_dir.hpp"

#include <penstock/data/float16.hpp>
#include <penstock/formats/packed.hpp>
#include <penstock/formats/packed/packed_writer.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/windows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace ps = penstock;
using ps::tests::Came;
using ps::tests::content_of;
using ps::tests::outcome_of;
using ps::tests::Sample;
using ps::tests::TempDir;
using ps::tests::thorough;
using ps::tests::zipf_tokens;
using Tokens = std::vector<std::uint16_t>;

namespace {

template <class T> std::vector<ps::PackedColumnInfo> pack(const std::string& path,
                                                          const std::vector<T>& values) {
  ps::PackedWriter writer{path, {ps::packed_column<T>("x")}};
  writer.add(0, std::as_bytes(std::span{values}));
  return writer.finish();
}
template <class T, class S> std::vector<T> deliver(S source, const ps::ReaderOptions& options) {
  std::vector<T> all;
  auto pipeline = ps::Reader{std::move(source), options} |
                  ps::Consumer{[&](ps::Batch<const T, ps::Pageable> batch) {
                    all.insert(all.end(), batch.data(), batch.data() + batch.size());
                  }};
  pipeline.run();
  return all;
}
/// Changes a header's or an index's bytes, and makes their checksums right again.
std::string mended(std::string file) {
  const auto bytes = [&] { return std::as_bytes(std::span{file}); };
  std::uint64_t at;
  std::memcpy(&at, file.data() + 24, sizeof at);
  const std::uint32_t index = ps::crc32c(bytes().subspan(std::min(at, file.size())));
  std::memcpy(file.data() + 56, &index, sizeof index);
  const std::uint32_t header = ps::crc32c(bytes().first(60));
  std::memcpy(file.data() + 60, &header, sizeof header);
  return file;
}

} // namespace

TEST_CASE("tokens come out of a packed file as they went in, in any order and by any workers") {
  const TempDir dir;
  Tokens expected;
  const std::size_t more = thorough() ? 300'000 : 100'000;
  for (unsigned shard = 0; shard != 4; ++shard) {
    const auto tokens = zipf_tokens<std::uint16_t>(shard == 1 ? 0 : more * shard + 1, 30'000);
    const auto infos = pack(dir / ("train-" + std::to_string(shard) + ".packed"), tokens);
    REQUIRE(infos.size() == 1);
    CHECK(infos[0].bytes == 2 * tokens.size());
    CHECK(infos[0].codec == (shard > 1 ? ps::PackedCodec::ranked : ps::PackedCodec::raw));
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  }
  CHECK(ps::is_packed(dir / "train-1.packed"));
  const auto source = ps::unpacked<std::uint16_t>(dir.path());
  CHECK(deliver<std::uint16_t>(source, {.workers = 1}) == expected);
  CHECK(deliver<std::uint16_t>(source, {.workers = 3, .batch = 1000}) == expected);
  Tokens shuffled =
      deliver<std::uint16_t>(source, {.order = {.shuffle = 3, .block = 8192}, .batch = 5000});
  CHECK(shuffled != expected);
  std::sort(shuffled.begin(), shuffled.end());
  std::sort(expected.begin(), expected.end());
  CHECK(shuffled == expected);
}

TEST_CASE("columns of any shape come out together, by their names") {
  const TempDir dir;
  const std::string path = dir / "samples.packed";
  constexpr std::size_t records = 3001;
  const auto images = zipf_tokens<std::uint8_t>(records * 3 * 50, 200);
  const auto labels = zipf_tokens<std::int32_t>(records, 1000);
  const auto weights = ps::tests::normal_16(2 * records, 0.02F, false);
  ps::PackedWriter writer{path,
                          {ps::packed_column<std::int32_t>("label"),
                           ps::packed_column<ps::BFloat16>("weight", {2}),
                           ps::packed_column<std::uint8_t>("image", {3, 50})}};
  const auto image_bytes = std::as_bytes(std::span{images});
  for (std::size_t at = 0; at < image_bytes.size(); at += 70'001) { // not a chunk's bytes
    writer.learn(2,
                 image_bytes.subspan(at).first(std::min<std::size_t>(70, image_bytes.size() - at)));
  }
  writer.add(1, std::as_bytes(std::span{weights}));
  for (std::size_t at = 0; at < image_bytes.size(); at += 70'001) {
    writer.add(
        2, image_bytes.subspan(at).first(std::min<std::size_t>(70'001, image_bytes.size() - at)));
  }
  writer.add(0, std::as_bytes(std::span{labels}));
  const auto written = writer.finish();
  const auto read = ps::packed_columns_of(path);
  REQUIRE(read.size() == 3);
  for (std::size_t i = 0; i != 3; ++i) {
    CHECK(read[i].name == written[i].name);
    CHECK(read[i].codec == written[i].codec);
    CHECK(read[i].packed_bytes == written[i].packed_bytes);
    CHECK(read[i].raw_chunks == written[i].raw_chunks);
  }
  std::vector<std::uint8_t> got_images;
  std::vector<std::int32_t> got_labels;
  std::vector<ps::BFloat16> got_weights;
  auto pipeline = ps::Reader{ps::unpacked<Sample>(path), {.workers = 2, .batch = 77}} |
                  ps::Consumer{[&](ps::Batch<const Sample, ps::Pageable> batch) {
                    const auto image = ps::get<"image">(batch);
                    REQUIRE(image.extent(1) == 50);
                    const std::size_t n = batch.size();
                    got_images.insert(got_images.end(), image.data(), image.data() + n * 150);
                    const auto* const label = ps::get<"label">(batch).data();
                    got_labels.insert(got_labels.end(), label, label + n);
                    const auto* const weight = ps::get<"weight">(batch).data();
                    got_weights.insert(got_weights.end(), weight, weight + 2 * n);
                  }};
  pipeline.run();
  CHECK(got_images == images);
  CHECK(got_labels == labels);
  REQUIRE(got_weights.size() == weights.size());
  CHECK(std::memcmp(got_weights.data(), weights.data(), 2 * weights.size()) == 0);
}

TEST_CASE("windows of packed tokens are those of the tokens") {
  const TempDir dir;
  const Tokens tokens = zipf_tokens<std::uint16_t>(40'000, 2000);
  pack(dir / "x", tokens);
  Tokens got;
  auto pipeline = ps::Reader{ps::windows(ps::unpacked<std::uint16_t>(dir / "x"),
                                         {.length = 1025, .stride = 997}),
                             {.batch = 7}} |
                  ps::Consumer{[&](ps::Batch<const ps::Window<std::uint16_t>, ps::Pageable> batch) {
                    const auto windows = ps::get<"tokens">(batch);
                    got.insert(got.end(), windows.data(), windows.data() + batch.size() * 1025);
                  }};
  pipeline.run();
  REQUIRE(got.size() == 1025 * ((40'000 - 1025) / 997 + 1));
  for (std::size_t i = 0; i != got.size(); ++i) {
    REQUIRE(got[i] == tokens[i / 1025 * 997 + i % 1025]);
  }
}

TEST_CASE("a column of any shape comes out as rows of bytes") {
  const TempDir dir;
  const Tokens tokens = zipf_tokens<std::uint16_t>(3 * 20'000, 500);
  ps::PackedWriter writer{dir / "x", {ps::packed_column<std::uint16_t>("x", {3})}};
  writer.add(0, std::as_bytes(std::span{tokens}));
  writer.finish();
  auto source = ps::unpacked<std::byte>(dir / "x");
  source.open();
  CHECK(source.size() == 20'000);
  REQUIRE(source.record_bytes() == 6);
  std::vector<std::byte> rows(6 * 7777);
  source.read(ps::Batch<std::byte, ps::Pageable>{rows.data(), 7777, 5001, 6});
  CHECK(std::memcmp(rows.data(), tokens.data() + 3 * 5001, rows.size()) == 0);
  const auto wrong = ps::Batch<std::byte, ps::Pageable>{rows.data(), 1, 0, 5};
  CHECK(outcome_of([&] { source.read(wrong); }).says("asked for records of 5 bytes"));
}

TEST_CASE("each damaged byte of a file is seen: by open(), or as the chunk's with its record") {
  const TempDir dir;
  const Tokens tokens = zipf_tokens<std::uint16_t>(20'000, 3000);
  const std::string good = content_of((pack(dir / "good", tokens), dir / "good"));
  std::uint64_t index = 0;
  std::memcpy(&index, good.data() + 24, sizeof index);
  const std::size_t step = thorough() ? 1 : 3;
  for (std::size_t at = 0; at < good.size(); at += at < 64 ? 1 : at > index ? step : 97 * step) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    const std::string path = dir.write("bad", bad);
    const auto out =
        outcome_of([&] { deliver<std::uint16_t>(ps::unpacked<std::uint16_t>(path), {}); });
    INFO(at);
    const bool gap = at >= 64 && at < index && out.came == Came::nothing; // between chunks
    if (!gap) {
      REQUIRE(out.came != Came::nothing);
      CHECK(out.file == path);
      CHECK(out.offset <= bad.size());
    }
    if (at >= 64 && at < index && !gap) {
      CHECK(out.came == Came::stage_error);
      CHECK(out.says("of column x of"));
      CHECK(out.record % 8192 == 0);
      CHECK(out.offset <= at);
    }
  }
  for (std::size_t cut = 0; cut < good.size(); cut += 41 * step) {
    const std::string path = dir.write("cut", good.substr(0, cut));
    if (cut != 0) { // an empty file has no records
      CHECK(outcome_of([&] { ps::unpacked<std::uint16_t>(path).open(); }).came ==
            Came::source_error);
    }
  }
}

TEST_CASE("an index with right checksums and wrong numbers is refused, before memory is taken") {
  const TempDir dir;
  const Tokens tokens = zipf_tokens<std::uint16_t>(20'000, 3000);
  const std::string good = content_of((pack(dir / "good", tokens), dir / "good"));
  std::uint64_t index = 0;
  std::memcpy(&index, good.data() + 24, sizeof index);
  const auto refused = [&](std::size_t at, auto number, const std::string& says) {
    std::string bad = good;
    std::memcpy(bad.data() + at, &number, sizeof number);
    const std::string path = dir.write("bad", mended(bad));
    const auto out = outcome_of([&] { ps::unpacked<std::uint16_t>(path).open(); });
    INFO(at << ": " << out);
    CHECK(out.came == Came::source_error);
    CHECK(out.says(says));
  };
  const std::uint32_t many = 1U << 31;
  refused(8, std::uint32_t{2}, "only version 1 is known");
  refused(12, std::uint32_t{0}, "0 columns");
  refused(12, many, "columns, where");
  refused(12, std::uint32_t{2}, "no name");
  refused(16, std::uint64_t{1} << 63, "extents that cannot be");
  refused(16, std::uint64_t{1} << 50, "its index ends before");
  refused(16, std::uint64_t{16384}, "behind the end of its index");
  refused(24, index + 16, "the file has");
  refused(32, ~std::uint64_t{0}, "the file has");
  refused(index, '\0', "no name");
  refused(index + 64, 'x', "a type or a codec");
  refused(index + 65, std::uint8_t{3}, "a type or a codec");
  refused(index + 66, std::uint8_t{9}, "a type or a codec");
  refused(index + 66, std::uint8_t{3}, "ranks");
  refused(index + 67, std::uint8_t{9}, "extents that cannot be");
  refused(index + 67, std::uint8_t{1}, "extents that cannot be");
  refused(index + 68, std::uint32_t{0}, "that chunks have");
  refused(index + 68, std::uint32_t{1000}, "that chunks have");
  refused(index + 68, many, "that chunks have");
  refused(index + 72, many, "ranks");
  refused(index + 72, std::uint32_t{1} << 20, "ranks");
  refused(index + 80, std::uint64_t{5}, "extents that cannot be");
  refused(index + 144, std::uint16_t{4096}, "add up to 4096");
  refused(index + 144 + 512, ~std::uint32_t{0}, "no rank can stand for");
  const std::size_t chunk = good.size() - 24;
  refused(chunk, index, "what cannot be of chunk 2");
  refused(chunk, std::uint64_t{0}, "what cannot be of chunk 2");
  refused(chunk, std::uint64_t{65}, "what cannot be of chunk 2");
  refused(chunk, ~std::uint64_t{15}, "what cannot be of chunk 2");
  refused(chunk + 8, many, "what cannot be of chunk 2");
  refused(chunk + 12, std::uint32_t{1}, "what cannot be of chunk 2");
  refused(chunk + 12, std::uint32_t{256}, "what cannot be of chunk 2");
}

TEST_CASE("two chunks that changed places are seen") {
  const TempDir dir;
  const Tokens tokens = zipf_tokens<std::uint16_t>(20'000, 3000);
  std::string file = content_of((pack(dir / "x", tokens), dir / "x"));
  std::swap_ranges(file.end() - 72, file.end() - 48, file.end() - 48);
  const std::string path = dir.write("x", mended(file)); // the index is damaged on purpose
  const auto got = deliver<std::uint16_t>(ps::unpacked<std::uint16_t>(path), {});
  CHECK(got.size() == tokens.size()); // their sums went with them: it says that it was so written
  CHECK(got != tokens);
  std::swap_ranges(file.end() - 72, file.end() - 64, file.end() - 48); // the places alone
  const std::string other = dir.write("y", mended(file));
  CHECK(outcome_of([&] { deliver<std::uint16_t>(ps::unpacked<std::uint16_t>(other), {}); }).came ==
        Came::stage_error);
}

TEST_CASE("a schema that a file does not fit is refused, with what the file has") {
  const TempDir dir;
  const std::string path = dir / "x";
  pack(path, Tokens(100));
  const auto refused = [&](auto source) { return outcome_of([&] { source.open(); }); };
  CHECK(refused(ps::unpacked<float>(path)).says("has uint16 of shape () a record, and float32"));
  CHECK(refused(ps::unpacked<Sample>(path)).says("of the columns x, and image is wanted"));
  struct Wide : ps::Columns<ps::Field<"x", std::uint16_t, 2>> {};
  CHECK(refused(ps::unpacked<Wide>(path)).says("uint16 of shape (2,) are wanted"));
  const std::string text = dir.write("text", std::string(200, 'x'));
  CHECK(refused(ps::unpacked<float>(text)).says("does not begin as a packed file does"));
}
