// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
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
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

namespace ps = penstock;
using ps::tests::Bytes;
using ps::tests::Came;
using ps::tests::outcome_of;
using ps::tests::TempDir;
using ps::tests::zipf_tokens;
using Tokens = std::vector<std::uint16_t>;

namespace {

struct Sample
    : ps::Columns<ps::Field<"image", std::uint8_t, 3, ps::dynamic>,
                  ps::Field<"label", std::int32_t>, ps::Field<"weight", ps::BFloat16, 2>> {};

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
std::string content(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
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
  std::string file = content(path);
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
  for (const auto& values : ps::tests::some_values(50'000)) {
    INFO(values.name);
    const std::size_t width = values.type.bytes;
    ps::PackedWriter writer{dir / "x", {{"x", values.type, {}}}};
    writer.add(0, values.bytes);
    CHECK(writer.finish().at(0).codec == values.pays);
    ps::HostDevice device;
    const auto source = ps::packed<std::byte>(dir / "x", {.batch = 20'001});
    Bytes got;
    auto pipeline =
        ps::Reader{source, ps::to_pinned} | ps::AsyncCopier{device} | ps::unpack(source) |
        ps::AsyncCopier{ps::to_host} |
        ps::Consumer{[&](ps::Batch<const std::byte, ps::Pinned> batch) {
          REQUIRE(batch.record_bytes() == width);
          got.insert(got.end(), batch.data(), batch.data() + batch.size_bytes());
        }};
    pipeline.run();
    CHECK(got == values.bytes);
  }
}
