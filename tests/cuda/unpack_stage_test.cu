// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include <penstock/cuda/unpack.cuh>
#include <penstock/data/float16.hpp>
#include <penstock/formats/packed/packed_writer.hpp>
#include <penstock/formats/packed/unpack.hpp>
#include <penstock/penstock.hpp>

#include "gate.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/packed_values.hpp"
#include "support/temp_dir.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

// Typed over both devices, which must give the values that were packed.

using namespace penstock;
using penstock::tests::Bytes;
using penstock::tests::TempDir;

namespace {

struct Sample : Columns<Field<"image", std::uint8_t, dynamic>, Field<"label", std::int32_t>> {};

template <class S, class D>
Bytes unpacked(D& device, const S& source, const ReaderOptions& options = {}) {
  Bytes got;
  auto pipeline = Reader{source, to_pinned, options} | AsyncCopier{device} | unpack(source) |
                  AsyncCopier{to_host} | Consumer{[&](Batch<const std::byte, Pinned> batch) {
                    got.insert(got.end(), batch.data(), batch.data() + batch.size_bytes());
                  }};
  pipeline.run();
  return got;
}

} // namespace

TEMPLATE_TEST_CASE("a packed file comes out of a device's pipeline as it was packed", "",
                   CudaDevice, HostDevice) {
  const TempDir dir;
  TestType device;
  for (const auto& values : tests::some_values(1'000'000)) {
    PackedWriter writer{dir / "x", {{"x", values.type, {}}}};
    writer.add(0, values.bytes);
    CHECK(writer.finish().at(0).codec == values.pays);
    for (const std::size_t batch : {7000U, 300'000U, 2'000'000U}) {
      INFO(values.name << ", " << batch);
      const auto source = packed<std::byte>(dir / "x", {.batch = batch});
      CHECK(unpacked(device, source) == values.bytes);
      CHECK(unpacked(device, source, {.workers = 2, .epochs = 2}).size() ==
            2 * values.bytes.size());
    }
  }
}

TEMPLATE_TEST_CASE("columns are unpacked into the columns of a batch on a device", "", CudaDevice,
                   HostDevice) {
  const TempDir dir;
  constexpr std::size_t records = 3001;
  const auto images = tests::zipf_tokens<std::uint8_t>(records * 50, 200);
  const auto labels = tests::zipf_tokens<std::int32_t>(records, 1000);
  PackedWriter writer{
      dir / "x",
      {packed_column<std::int32_t>("label"), packed_column<std::uint8_t>("image", {50})}};
  writer.add(0, std::as_bytes(std::span{labels}));
  writer.add(1, std::as_bytes(std::span{images}));
  writer.finish();
  TestType device;
  const auto source = packed<Sample>(dir / "x", {.batch = 700});
  std::vector<std::uint8_t> got_images;
  std::vector<std::int32_t> got_labels;
  auto pipeline = Reader{source, to_pinned} | AsyncCopier{device} | unpack(source) |
                  AsyncCopier{to_host} | Consumer{[&](Batch<const Sample, Pinned> batch) {
                    const auto* const image = get<"image">(batch).data();
                    got_images.insert(got_images.end(), image, image + 50 * batch.size());
                    const auto* const label = get<"label">(batch).data();
                    got_labels.insert(got_labels.end(), label, label + batch.size());
                  }};
  pipeline.run();
  CHECK(got_images == images);
  CHECK(got_labels == labels);
}

TEMPLATE_TEST_CASE("a chunk that only a device's decoder refuses ends the run with one error", "",
                   CudaDevice, HostDevice) {
  const TempDir dir;
  const auto tokens = tests::zipf_tokens<std::uint16_t>(200'001, 30'000);
  PackedWriter writer{dir / "x", {packed_column<std::uint16_t>("x")}};
  writer.add(0, std::as_bytes(std::span{tokens}));
  writer.finish();
  std::ifstream in{dir / "x", std::ios::binary};
  std::string file{std::istreambuf_iterator<char>{in}, {}};
  in.close();
  const auto bytes = [&] { return std::as_bytes(std::span{file}); };
  const auto set = [&](std::size_t at, std::uint32_t value) {
    std::memcpy(file.data() + at, &value, sizeof value);
  };
  std::uint64_t index;
  std::memcpy(&index, file.data() + 24, sizeof index);
  const std::size_t entry = file.size() - 24 * 2; // of chunk 23, of 25
  std::uint64_t at;
  std::memcpy(&at, file.data() + entry, sizeof at);
  std::uint32_t size;
  std::memcpy(&size, file.data() + entry + 8, sizeof size);
  file[at + 1] = static_cast<char>(file[at + 1] ^ 0x40); // a lane's state
  set(entry + 16, crc32c(bytes().subspan(at, size)));
  set(56, crc32c(bytes().subspan(index)));
  set(60, crc32c(bytes().first(60)));
  std::ofstream{dir / "x", std::ios::binary} << file;
  TestType device;
  const auto source = packed<std::byte>(dir / "x", {.batch = 3 * 8192});
  const auto out = tests::outcome_of([&] { unpacked(device, source); });
  INFO(out);
  CHECK(out.came == tests::Came::stage_error);
  CHECK(out.stage == "Unpack");
  CHECK(out.file == dir / "x");
  CHECK(out.record == 23 * 8192);
  CHECK(out.says("chunk 23 of column x of "));
}
