// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/packed_values.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/packed.hpp>
#include <penstock/formats/packed/packed_tensors.hpp>
#include <penstock/formats/packed/unpack.hpp>
#include <penstock/formats/safetensors.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace ps = penstock;
using ps::tests::Bytes;
using ps::tests::content_of;
using ps::tests::outcome_of;
using ps::tests::TempDir;

namespace {

const std::string long_name(100, 'n'); // more than a packed column's may have

/// A file of weights that pack, of floats that do not, of two odd bytes, and of nothing.
std::string plain_file(float deviation = 0.02F) {
  const auto weights = ps::tests::normal_16(77'000, deviation, false);
  const std::string header =
      R"({"__metadata__":{"by":"a \"test\""},)"
      R"("w":{"dtype":"BF16","shape":[1000,77],"data_offsets":[0,154000]},)"
      R"("none":{"dtype":"BF16","shape":[0,5],"data_offsets":[154000,154000]},)"
      R"("b":{"dtype":"F32","shape":[],"data_offsets":[154000,154004]},)"
      R"(")" +
      long_name +
      R"(":{"dtype":"BOOL","shape":[3],"data_offsets":[154004,154007]},)"
      R"("tail":{"dtype":"F16","shape":[200],"data_offsets":[154007,154407]}}  )";
  std::string file;
  for (unsigned i = 0; i != 8; ++i) {
    file += static_cast<char>(header.size() >> (8 * i));
  }
  file += header;
  file.append(reinterpret_cast<const char*>(weights.data()), 2 * weights.size());
  for (int i = 0; i != 407; ++i) {
    file += static_cast<char>(i * 7);
  }
  return file;
}
void write(const std::string& path, const std::string& bytes) {
  std::ofstream{path, std::ios::binary} << bytes;
}
Bytes unpacked_on_host(const std::vector<std::string>& paths) {
  Bytes all;
  auto pipeline = ps::Reader{ps::unpacked<std::byte>(paths), {.workers = 2, .batch = 100}} |
                  ps::Consumer{[&](ps::Batch<const std::byte, ps::Pageable> batch) {
                    all.insert(all.end(), batch.data(), batch.data() + batch.size_bytes());
                  }};
  pipeline.run();
  return all;
}
/// Whether all tensors are in `bytes` as they are in the plain file's text.
bool same(const std::vector<ps::TensorInfo>& tensors, const Bytes& bytes,
          const std::string& plain) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const ps::TensorInfo& tensor) {
    return std::memcmp(bytes.data() + tensor.at, plain.data() + tensor.offset, tensor.bytes) == 0;
  });
}

} // namespace

TEST_CASE("packed safetensors have the tensors of the plain file, by name, type, shape and bytes") {
  const TempDir dir;
  const std::string plain = dir / "plain.safetensors";
  const std::string packed = dir / "packed.safetensors";
  write(plain, plain_file());
  const auto infos = ps::pack_safetensors(plain, packed);
  REQUIRE(infos.size() == 4); // not the one that has no bytes
  CHECK(infos[0].name == "w");
  CHECK(infos[0].codec == ps::PackedCodec::float16);
  CHECK(infos[0].extents == std::vector<std::uint64_t>{1000, 77});
  CHECK(infos[2].name == long_name);
  const auto listed = ps::packed_columns_of(packed);
  REQUIRE(listed.size() == 4);
  for (std::size_t i = 0; i != 4; ++i) {
    CHECK(listed[i].name == infos[i].name);
    CHECK(listed[i].type == infos[i].type);
    CHECK(listed[i].extents == infos[i].extents);
    CHECK(listed[i].codec == infos[i].codec);
    CHECK(listed[i].bytes == infos[i].bytes);
    CHECK(listed[i].packed_bytes == infos[i].packed_bytes);
  }
  CHECK(content_of(packed).size() < content_of(plain).size() * 3 / 4);
  CHECK(ps::is_packed(packed));
  CHECK(!ps::is_packed(plain));

  auto expected = ps::safetensors(plain);
  expected.open();
  const auto tensors = ps::packed_tensors_of({packed, packed});
  REQUIRE(tensors.size() == 10);
  for (std::size_t i = 0; i != 10; ++i) {
    const ps::TensorInfo& its = expected.tensors()[i % 5];
    CHECK(tensors[i].name == its.name);
    CHECK(tensors[i].type == its.type);
    CHECK(tensors[i].shape == its.shape);
    CHECK(tensors[i].bytes == its.bytes);
    CHECK(tensors[i].file == i / 5);
    CHECK(tensors[i].at % 256 == 0);
  }
  CHECK(same(tensors, unpacked_on_host({packed, packed}), content_of(plain)));

  auto as_it_lies = ps::safetensors(packed); // as any program that knows the format sees it
  as_it_lies.open();
  CHECK(as_it_lies.tensor("w").type == ps::TensorType::u8);
  CHECK(as_it_lies.tensor(long_name).bytes < 256);
  CHECK(as_it_lies.tensor("none").bytes == 0);
  CHECK(as_it_lies.metadata().at("by") == "a \"test\"");
}

TEST_CASE("a device unpacks a model to the same bytes") {
  const TempDir dir;
  const std::string plain = dir / "plain.safetensors";
  const std::string packed = dir / "packed.safetensors";
  write(plain, plain_file());
  ps::pack_safetensors(plain, packed, {.workers = 3});
  ps::HostDevice device;
  const auto source = ps::packed<std::byte>(packed, {.batch = 100});
  Bytes all;
  auto pipeline = ps::Reader{source, ps::to_pinned} | ps::AsyncCopier{device} | ps::unpack(source) |
                  ps::AsyncCopier{ps::to_host} |
                  ps::Consumer{[&](ps::Batch<const std::byte, ps::Pinned> batch) {
                    all.insert(all.end(), batch.data(), batch.data() + batch.size_bytes());
                  }};
  pipeline.run();
  CHECK(same(ps::packed_tensors_of({packed}), all, content_of(plain)));
}

TEST_CASE("each damaged byte of packed safetensors is seen, or changes no tensor") {
  const TempDir dir;
  const std::string plain = dir / "plain.safetensors";
  const std::string packed = dir / "packed.safetensors";
  write(plain, plain_file());
  ps::pack_safetensors(plain, packed);
  const std::string whole = content_of(packed);
  std::size_t seen = 0;
  std::size_t tried = 0;
  for (std::size_t at = 0; at < whole.size(); at += at < 1500 ? 11 : 997, ++tried) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write(packed, damaged);
    std::vector<ps::TensorInfo> tensors;
    Bytes bytes;
    const auto outcome = outcome_of([&] {
      tensors = ps::packed_tensors_of({packed});
      bytes = unpacked_on_host({packed});
    });
    INFO(at);
    // A name or a member of __metadata__ has no checksum in safetensors, but the bytes have.
    CHECK((!outcome.text.empty() || same(tensors, bytes, content_of(plain))));
    seen += outcome.text.empty() ? 0U : 1U;
  }
  CHECK(seen > tried / 2);
  for (const std::size_t cut : {std::size_t{1}, std::size_t{100}, whole.size() / 2}) {
    write(packed, whole.substr(0, whole.size() - cut));
    CHECK(outcome_of([&] { ps::packed_tensors_of({packed}); }).says("packed.safetensors"));
  }
}

TEST_CASE("what is no packed safetensors file is refused, with what it is") {
  const TempDir dir;
  const std::string plain = dir / "plain.safetensors";
  const std::string packed = dir / "packed.safetensors";
  write(plain, plain_file());
  CHECK(outcome_of([&] {
          ps::unpacked<std::byte>(plain).open();
        }).says("begins a safetensors file that is not packed: read it by ps::safetensors()"));
  ps::pack_safetensors(plain, packed);
  CHECK(outcome_of([&] { ps::pack_safetensors(packed, dir / "twice"); }).says("is packed already"));
  CHECK(outcome_of([&] { ps::unpacked<float>(packed).open(); }).says("column 0 has"));
  write(plain, std::string{"\x08\0\0\0\0\0\0\0{}      ", 16});
  CHECK(outcome_of([&] {
          ps::pack_safetensors(plain, dir / "none");
        }).says("has no bytes of tensors"));
  write(plain, "tokens, or text");
  CHECK(outcome_of([&] { ps::packed_tensors_of({plain}); }).says("is no safetensors file"));
  CHECK(!ps::is_packed(plain));
}
