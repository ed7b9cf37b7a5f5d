// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/compressed_files.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/decompressed.hpp>
#include <penstock/formats/files.hpp>
#include <penstock/formats/gzip.hpp>
#include <penstock/formats/lz4.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/penstock.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace ps = penstock;
using namespace ps::tests;
using Strings = std::vector<std::string>;

namespace {

struct Text : ps::Columns<ps::Field<"bytes", ps::Ragged<char>>> {};

// Each file is a record.
template <class C>
Strings through(const Strings& compressed, C codec, ps::DecompressedOptions options = {},
                ps::DecoderOptions decoder = {.workers = 2}) {
  const TempDir dir;
  std::vector<std::string> paths;
  for (const std::string& each : compressed) {
    paths.push_back(dir.write(std::to_string(paths.size()), each));
  }
  Strings texts;
  auto pipeline =
      ps::Reader{ps::files(paths), {.batch = 4}} |
      ps::Decoder{ps::decompressed<"bytes", ps::LabelledFile, Text>(codec, options), decoder} |
      ps::Consumer{[&](ps::Batch<const Text, ps::Pageable> batch) {
        const auto bytes = ps::get<"bytes">(batch);
        for (std::size_t i = 0; i != batch.size(); ++i) {
          texts.emplace_back(bytes[i].data(), bytes[i].size());
        }
      }};
  pipeline.run();
  return texts;
}

// What is said of one record.
template <class C>
std::string refusal(const std::string& compressed, C codec, ps::DecompressedOptions options = {}) {
  const auto e = caught<ps::StageError>([&] { through({compressed}, codec, options); });
  return e.what();
}
void check_says(const std::string& said, const std::string& part) {
  INFO(said);
  CHECK(said.find(part) != std::string::npos);
}

const Strings texts{numbered_lines(3000),      "", "x", numbered_lines(40), numbered_lines(20'000),
                    std::string(300'000, '\0')};

template <class Pack> Strings all(Pack compress) {
  Strings compressed;
  for (const std::string& text : texts) {
    compressed.push_back(compress(text));
  }
  return compressed;
}

} // namespace

TEST_CASE("a record that is a frame is decompressed by the worker's codec") {
  CHECK(through(all([](const auto& text) { return zstd_frame(text); }), ps::Zstd{}) == texts);
  CHECK(through(all([](const auto& text) { return lz4_frame(text); }), ps::Lz4{},
                {.most = 1 << 20}) == texts);
  CHECK(through(all(gzip_member), ps::Gzip{}) == texts);
  CHECK(through(all([](const auto& text) {
                  std::string head(4, '\0');
                  const auto size = static_cast<std::uint32_t>(text.size());
                  std::memcpy(head.data(), &size, 4);
                  return head + lz4_block(text);
                }),
                ps::Lz4Block{{.sized = true}}) == texts);
}

TEST_CASE("a frame without a size needs .most") {
  const auto compressed = all([](const auto& text) { return zstd_frame(text, false); });
  CHECK(through(compressed, ps::Zstd{}, {.most = 1 << 20}) == texts);
  CHECK(through(all(lz4_block), ps::Lz4Block{}, {.most = 1 << 20}) == texts);
  CHECK(through({zstd_frame("12345", false)}, ps::Zstd{}, {.most = 5}) == Strings{"12345"});
  CHECK(through({lz4_frame("12345", false)}, ps::Lz4{}, {.most = 5}) == Strings{"12345"});
  check_says(refusal(zstd_frame("12345", false), ps::Zstd{}), "does not say how many bytes it");
  check_says(refusal(zstd_frame("12345", false), ps::Zstd{}, {.most = 4}), "more than 4 bytes");
  check_says(refusal(lz4_frame("12345", false), ps::Lz4{}, {.most = 4}), "more than 4 bytes");
  check_says(refusal(compressed[4], ps::Zstd{}, {.most = 100'000}), ".most");
}

TEST_CASE("the size that a frame claims is capped, and compared") {
  check_says(refusal(zstd_frame("12345"), ps::Zstd{}, {.most = 4}), ".most allows 4");
  std::string bomb = lz4_frame("12345");
  CHECK(bomb[6] == 5);
  bomb[12] = 1;
  check_says(refusal(bomb, ps::Lz4{}), "says it holds 281474976710661 bytes");
  for (const char size : {'\4', '\6'}) { // the member's own size, which its end tells
    std::string wrong = gzip_member("12345");
    wrong[wrong.size() - 4] = size;
    check_says(refusal(wrong, ps::Gzip{}), size == '\4' ? "size that does not fit" : "size");
  }
  std::string wrong = std::string("\6\0\0\0", 4) + lz4_block("12345");
  check_says(refusal(wrong, ps::Lz4Block{{.sized = true}}), "holds 6 bytes, and 5 came out");
  wrong[0] = 4;
  check_says(refusal(wrong, ps::Lz4Block{{.sized = true}}), "no LZ4 block, or one out of which");
}

TEST_CASE("a record that is no whole frame is refused") {
  const std::string frame = zstd_frame(numbered_lines(100));
  check_says(refusal(frame.substr(0, frame.size() - 2), ps::Zstd{}), "it was cut");
  check_says(refusal(zstd_frame(numbered_lines(9), false).substr(0, 30), ps::Zstd{}, {.most = 999}),
             "it was cut");
  check_says(refusal(frame + frame, ps::Zstd{}), " bytes behind its zstd frame");
  check_says(refusal("something", ps::Gzip{}), "no whole gzip frame");
  check_says(refusal("", ps::Zstd{}), "it was cut");
  // It is one record's failure.
  CHECK(through({frame, "bad", frame}, ps::Zstd{}, {}, {.on_error = {.skips = 1}}).size() == 2);
}

TEST_CASE("a frame may hold a record of fixed size") {
  using Sample = std::array<std::uint32_t, 5>;
  const TempDir dir;
  const Sample sample{1, 2, 3, 4, 5};
  const std::string bytes{reinterpret_cast<const char*>(&sample), sizeof sample};
  const auto read = [&](const std::string& compressed) {
    std::vector<Sample> got;
    auto pipeline = ps::Reader{ps::files(dir.write("a", compressed)), {.batch = 2}} |
                    ps::Decoder{ps::decompressed<"bytes", ps::LabelledFile, Sample>(ps::Zstd{})} |
                    ps::Consumer{[&](ps::Batch<const Sample, ps::Pageable> batch) {
                      got.insert(got.end(), batch.data(), batch.data() + batch.size());
                    }};
    pipeline.run();
    return got;
  };
  CHECK(read(zstd_frame(bytes)) == std::vector{sample});
  const auto e = caught<ps::StageError>([&] { read(zstd_frame(bytes + "x")); });
  CHECK(has(e, "holds 21 bytes, and one of these records has 20"));
}
