// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "cookbook/packed.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/packed_values.hpp"
#include "support/temp_dir.hpp"

#include <penstock/data/float16.hpp>
#include <penstock/formats/packed/packed_writer.hpp>
#include <penstock/formats/packed/unpack.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace ps = penstock;
using ps::tests::Bytes;
using ps::tests::Came;
using ps::tests::content_of;
using ps::tests::outcome_of;
using ps::tests::Sample;
using ps::tests::TempDir;
using ps::tests::zipf_tokens;
using Tokens = std::vector<std::uint16_t>;

namespace {

void pack(const std::string& path, const Tokens& tokens) {
  ps::PackedWriter writer{path, {ps::packed_column<std::uint16_t>("x")}};
  writer.add(0, std::as_bytes(std::span{tokens}));
  writer.finish();
}
/// What came of a run: all tokens, and the records of each batch.
struct Delivered {
  Tokens tokens;
  std::vector<std::size_t> batches;
  bool numbered = true; // index() counted them
};
template <class S>
Delivered deliver(const S& source, const ps::ReaderOptions& options = {},
                  const ps::UnpackOptions& unpacking = {}, unsigned runs = 1) {
  ps::HostDevice device;
  Delivered got;
  auto pipeline =
      ps::Reader{source, ps::to_pinned, options} | ps::AsyncCopier{device} |
      ps::unpack(source, unpacking) |
      ps::Consumer{[&](ps::Batch<const std::uint16_t, ps::Device> batch, ps::HostStream& stream) {
        stream.sync();
        got.numbered = got.numbered && batch.index() == got.tokens.size();
        got.tokens.insert(got.tokens.end(), batch.data(), batch.data() + batch.size());
        got.batches.push_back(batch.size());
      }};
  for (unsigned run = 0; run != runs; ++run) {
    got = {};
    pipeline.run();
  }
  return got;
}
template <class T> T number(const std::string& file, std::size_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}
template <class T> void set(std::string& file, std::size_t at, T value) {
  std::memcpy(file.data() + at, &value, sizeof value);
}
/// Damages chunk number `chunk` of a file of one column, and makes all checksums right but that of
/// its values, so that only its decoder sees it.
void damage(const std::string& path, std::size_t chunk) {
  std::string file = content_of(path);
  const auto bytes = [&] { return std::as_bytes(std::span{file}); };
  const auto index = number<std::uint64_t>(file, 24);
  const std::size_t entry =
      file.size() - 24 * (number<std::uint64_t>(file, 16) / 8192 + 1 - chunk); // short last
  const auto at = number<std::uint64_t>(file, entry);
  const auto size = number<std::uint32_t>(file, entry + 8);
  file[at + 1] = static_cast<char>(file[at + 1] ^ 0x40); // a lane's state
  set(file, entry + 16, ps::crc32c(bytes().subspan(at, size)));
  set(file, 56, ps::crc32c(bytes().subspan(index)));
  set(file, 60, ps::crc32c(bytes().first(60)));
  std::ofstream{path, std::ios::binary} << file;
}

} // namespace

TEST_CASE("packed batches of any size are unpacked on the device, the last one short") {
  const TempDir dir;
  const Tokens tokens = zipf_tokens<std::uint16_t>(100'001, 30'000);
  pack(dir / "x", tokens);
  for (const std::size_t batch : {1000U, 8192U, 30'000U, 100'001U, 200'000U}) {
    INFO(batch);
    const Delivered got = deliver(ps::packed<std::uint16_t>(dir / "x", {.batch = batch}));
    CHECK(got.tokens == tokens);
    CHECK(got.numbered);
    REQUIRE(got.batches.size() == (tokens.size() + batch - 1) / batch);
    CHECK(got.batches.front() == std::min(batch, tokens.size()));
    CHECK(got.batches.back() == tokens.size() - (got.batches.size() - 1) * batch);
  }
  CHECK(deliver(ps::packed<std::uint16_t>(dir / "x")).batches.size() == 1); // about 4 MiB
}

TEST_CASE("each codec gives the same bytes by unpack() as on the host") {
  const TempDir dir;
  for (const auto& values : ps::tests::some_values(100'000)) {
    INFO(values.name);
    const std::size_t width = values.type.bytes;
    ps::PackedWriter writer{dir / "x", {{"x", values.type, {}}}};
    writer.add(0, values.bytes);
    CHECK(writer.finish().at(0).codec == values.pays);
    ps::HostDevice device;
    const auto source = ps::packed<std::byte>(dir / "x", {.batch = 20'001});
    Bytes got;
    auto pipeline = ps::Reader{source, ps::to_pinned} | ps::AsyncCopier{device} |
                    ps::unpack(source) | ps::AsyncCopier{ps::to_host} |
                    ps::Consumer{[&](ps::Batch<const std::byte, ps::Pinned> batch) {
                      REQUIRE(batch.record_bytes() == width);
                      got.insert(got.end(), batch.data(), batch.data() + batch.size_bytes());
                    }};
    pipeline.run();
    CHECK(got == values.bytes);
  }
}

TEST_CASE("several files follow each other, in any order, on ranks, by workers, again and again") {
  const TempDir dir;
  Tokens expected;
  for (unsigned shard = 0; shard != 3; ++shard) {
    const auto tokens = zipf_tokens<std::uint16_t>(shard == 1 ? 0 : 70'000 * shard + 5, 30'000);
    pack(dir / ("train-" + std::to_string(shard)), tokens);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  }
  const auto source = ps::packed<std::uint16_t>(dir.path(), {.batch = 9000});
  CHECK(deliver(source, {.workers = 2}).tokens == expected);
  CHECK(deliver(source, {}, {.streams = 1, .depth = 2}, 3).tokens == expected);
  Tokens twice = expected;
  twice.insert(twice.end(), expected.begin(), expected.end());
  CHECK(deliver(source, {.workers = 2, .epochs = 2}).tokens == twice);

  std::sort(expected.begin(), expected.end());
  const Delivered shuffled = deliver(source, {.workers = 2, .order = {.shuffle = 5}});
  CHECK(shuffled.numbered);
  CHECK(shuffled.batches.back() == 9000); // the short one came before
  Tokens sorted = shuffled.tokens;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == expected);

  Tokens of_ranks;
  for (unsigned rank = 0; rank != 2; ++rank) {
    const auto its = deliver(source, {.order = {.ranks = {.rank = rank, .world = 2}}}).tokens;
    of_ranks.insert(of_ranks.end(), its.begin(), its.end());
  }
  CHECK(of_ranks.size() <= expected.size());
  CHECK(of_ranks.size() + 9000 >= expected.size()); // an uneven batch is left out
}

TEST_CASE("a batch that is short in the middle of a run comes back to the host as it is") {
  const TempDir dir;
  Tokens tokens(8503);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
  pack(dir / "x", tokens);
  const auto source = ps::packed<std::uint16_t>(dir / "x", {.batch = 9}); // the last has 7
  for (std::uint64_t seed = 1; seed != 21; ++seed) {
    ps::HostDevice device;
    Tokens got;
    auto pipeline = ps::Reader{source, ps::to_pinned, {.order = {.shuffle = seed}}} |
                    ps::AsyncCopier{device} | ps::unpack(source) | ps::AsyncCopier{ps::to_host} |
                    ps::Consumer{[&](ps::Batch<const std::uint16_t, ps::Pinned> batch) {
                      got.insert(got.end(), batch.data(), batch.data() + batch.size());
                    }};
    pipeline.run();
    std::sort(got.begin(), got.end());
    CHECK((got == tokens)); // not to be printed
  }
}

TEST_CASE("copies of a source run side by side, and a file without records gives none") {
  const TempDir dir;
  const Tokens tokens = zipf_tokens<std::uint16_t>(50'000, 30'000);
  pack(dir / "x", tokens);
  pack(dir / "none", {});
  CHECK(deliver(ps::packed<std::uint16_t>(dir / "none")).batches.empty());
  const auto source = ps::packed<std::uint16_t>(dir / "x", {.batch = 8192});
  std::vector<Delivered> got(4);
  std::vector<std::thread> threads;
  for (Delivered& its : got) {
    threads.emplace_back([&its, copy = source] { its = deliver(copy); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Delivered& its : got) {
    CHECK((its.tokens == tokens));
  }
}

TEST_CASE("columns of any shape are unpacked into the columns of a batch") {
  const TempDir dir;
  constexpr std::size_t records = 3001;
  const auto images = zipf_tokens<std::uint8_t>(records * 3 * 50, 200);
  const auto labels = zipf_tokens<std::int32_t>(records, 1000);
  const auto weights = ps::tests::normal_16(2 * records, 0.02F, false);
  ps::PackedWriter writer{dir / "x",
                          {ps::packed_column<std::int32_t>("label"),
                           ps::packed_column<ps::BFloat16>("weight", {2}),
                           ps::packed_column<std::uint8_t>("image", {3, 50})}};
  writer.add(1, std::as_bytes(std::span{weights}));
  writer.add(2, std::as_bytes(std::span{images}));
  writer.add(0, std::as_bytes(std::span{labels}));
  writer.finish();
  ps::HostDevice device;
  const auto source = ps::packed<Sample>(dir / "x", {.batch = 700});
  Bytes got_images;
  Bytes got_labels;
  Bytes got_weights;
  const auto append = [](Bytes& to, const auto* values, std::size_t count) {
    const auto bytes = std::as_bytes(std::span{values, count});
    to.insert(to.end(), bytes.begin(), bytes.end());
  };
  auto pipeline =
      ps::Reader{source, ps::to_pinned, {.workers = 2}} | ps::AsyncCopier{device} |
      ps::unpack(source) |
      ps::Consumer{[&](ps::Batch<const Sample, ps::Device> batch, ps::HostStream& stream) {
        stream.sync();
        const auto image = ps::get<"image">(batch);
        REQUIRE(image.extent(1) == 50);
        append(got_images, image.data(), batch.size() * 150);
        append(got_labels, ps::get<"label">(batch).data(), batch.size());
        append(got_weights, ps::get<"weight">(batch).data(), 2 * batch.size());
      }};
  pipeline.run();
  CHECK(got_images == ps::tests::bytes_of(images));
  CHECK(got_labels == ps::tests::bytes_of(labels));
  CHECK(got_weights == ps::tests::bytes_of(weights));
}

TEST_CASE("several workers read the pieces of a batch, in order or not, also where one is short") {
  const TempDir dir;
  const Tokens tokens = zipf_tokens<std::uint16_t>(9'000'001, 30'000);
  pack(dir / "x", tokens);
  constexpr std::size_t batch = 4 << 20; // two slots of four pieces
  const auto source = ps::packed<std::uint16_t>(dir / "x", {.batch = batch});
  for (const unsigned workers : {1U, 3U}) {
    const Delivered got = deliver(source, {.workers = workers, .epochs = 2});
    CHECK(got.numbered);
    REQUIRE(got.tokens.size() == 2 * tokens.size());
    CHECK(std::equal(tokens.begin(), tokens.end(), got.tokens.begin()));
    CHECK(std::equal(tokens.rbegin(), tokens.rend(), got.tokens.rbegin()));
    const std::vector<std::size_t> epoch{batch, batch, tokens.size() - 2 * batch};
    REQUIRE(got.batches.size() == 6);
    CHECK(std::equal(epoch.begin(), epoch.end(), got.batches.begin()));
    CHECK(std::equal(epoch.begin(), epoch.end(), got.batches.begin() + 3));
  }
  Tokens shuffled = deliver(source, {.workers = 3, .order = {.shuffle = 5}}).tokens;
  CHECK(shuffled != tokens);
  Tokens sorted = tokens;
  std::sort(sorted.begin(), sorted.end());
  std::sort(shuffled.begin(), shuffled.end());
  CHECK(shuffled == sorted);
}

TEST_CASE("a chunk that only its decoder refuses ends the run with one error that finds it") {
  const TempDir dir;
  pack(dir / "few", zipf_tokens<std::uint16_t>(200'001, 30'000));
  pack(dir / "many", zipf_tokens<std::uint16_t>(10'000'001, 30'000));
  for (const std::size_t chunk : {0U, 5U, 23U, 24U, 150U, 244U, 1000U, 1220U}) {
    std::filesystem::copy_file(dir / (chunk > 24 ? "many" : "few"), dir / "x",
                               std::filesystem::copy_options::overwrite_existing);
    damage(dir / "x", chunk);
    const std::size_t batch = (chunk > 24 ? 1024 : 3) * 8192; // several slots, or a part of one
    const auto source = ps::packed<std::uint16_t>(dir / "x", {.batch = batch});
    const auto out = outcome_of([&] { deliver(source); });
    INFO(out);
    CHECK(out.came == Came::stage_error);
    CHECK(out.stage == "Unpack");
    CHECK(out.file == dir / "x");
    CHECK(out.record == 8192 * chunk);
    CHECK(out.says("chunk " + std::to_string(chunk) + " of column x of "));
    CHECK(out.says("is not packed as its codec says"));
  }
}

TEST_CASE("packed bytes with a wrong checksum are refused as they are read") {
  const TempDir dir;
  pack(dir / "x", zipf_tokens<std::uint16_t>(100'000, 30'000));
  std::string file = content_of(dir / "x");
  file[70] = static_cast<char>(file[70] ^ 1);
  std::ofstream{dir / "x", std::ios::binary} << file;
  const auto out = outcome_of([&] { deliver(ps::packed<std::uint16_t>(dir / "x")); });
  CHECK(out.says("has packed bytes with a wrong checksum"));
  CHECK(out.stage == "Reader");
}

TEST_CASE("with .on_error a slot that has a damaged chunk is left out, and named") {
  const TempDir dir;
  const Tokens tokens = zipf_tokens<std::uint16_t>(5 << 20, 30'000);
  pack(dir / "x", tokens);
  std::string file = content_of(dir / "x");
  const std::size_t entry = file.size() - 24 * (5 * 128 - 300); // of chunk 300, of 640
  const auto at = number<std::uint64_t>(file, entry);
  file[at] = static_cast<char>(file[at] ^ 1);
  std::ofstream{dir / "x", std::ios::binary} << file;
  const auto source = ps::packed<std::uint16_t>(dir / "x"); // slots of 2 MiB of tokens
  ps::HostDevice device;
  Tokens got;
  auto pipeline =
      ps::Reader{source, ps::to_pinned, {.workers = 2, .on_error = {.skips = 1}}} |
      ps::AsyncCopier{device} | ps::unpack(source) |
      ps::Consumer{[&](ps::Batch<const std::uint16_t, ps::Device> batch, ps::HostStream& stream) {
        stream.sync();
        got.insert(got.end(), batch.data(), batch.data() + batch.size());
      }};
  const ps::Report report = pipeline.run();
  Tokens expected = tokens;
  expected.erase(expected.begin() + (2 << 20), expected.begin() + (4 << 20));
  CHECK(got == expected);
  CHECK(report.stages.front().skipped == 4); // pieces
  CHECK(outcome_of([&] { deliver(source); }).says("chunk 300 of column x of "));
}

TEST_CASE("unpack() refuses another source's batches, and batches of several records") {
  const TempDir dir;
  pack(dir / "x", zipf_tokens<std::uint16_t>(100'000, 30'000));
  pack(dir / "y", zipf_tokens<std::uint16_t>(100'000, 20'000));
  const auto x = ps::packed<std::uint16_t>(dir / "x", {.batch = 20'000});
  auto y = ps::packed<std::uint16_t>(dir / "y", {.batch = 20'000});
  y.open();
  ps::HostDevice device;
  const auto run = [&](const ps::ReaderOptions& options) {
    return outcome_of([&] {
      auto pipeline =
          ps::Reader{x, ps::to_pinned, options} | ps::AsyncCopier{device} | ps::unpack(y) |
          ps::Consumer{[](ps::Batch<const std::uint16_t, ps::Device>, ps::HostStream&) {}};
      pipeline.run();
    });
  };
  CHECK(run({}).says("give unpack() the "));
  CHECK(run({.batch = 4}).says("packed() has 1 pieces in a slot, and the Reader's slots have 4"));
}

TEST_CASE("the recipe gives all tokens in each epoch, batch by batch") {
  const TempDir dir;
  Tokens tokens = zipf_tokens<std::uint16_t>((5U << 20) / 2, 30'000);
  pack(dir / "x", tokens);
  ps::HostDevice device;
  auto stream = device.stream();
  auto data = tokens_of(device, dir / "x");
  Tokens got;
  for (auto batch : data.on(stream)) {
    device.sync(stream);
    got.insert(got.end(), batch.data(), batch.data() + batch.size());
  }
  REQUIRE(got.size() == 3 * tokens.size());
  std::sort(tokens.begin(), tokens.end());
  for (auto epoch = got.begin(); epoch != got.end(); epoch += static_cast<int>(tokens.size())) {
    std::sort(epoch, epoch + static_cast<int>(tokens.size()));
    CHECK(std::equal(tokens.begin(), tokens.end(), epoch));
  }
}
