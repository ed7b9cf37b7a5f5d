// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/compressed_files.hpp"
#include "support/outcome.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/decompressed.hpp>
#include <penstock/formats/files.hpp>
#include <penstock/formats/libdeflate.hpp>
#include <penstock/penstock.hpp>

#include <cstddef>
#include <string>

namespace ps = penstock;
using namespace ps::tests;

static_assert(ps::Codec<ps::GzipRecord>);

namespace {

struct Text : ps::Columns<ps::Field<"bytes", ps::Ragged<char>>> {};

// Returns what comes out of a file that is one record.
std::string unpacked(const std::string& compressed) {
  const TempDir dir;
  std::string text;
  auto pipeline = ps::Reader{ps::files(dir.write("a", compressed)), {.batch = 1}} |
                  ps::Decoder{ps::decompressed<"bytes", ps::LabelledFile, Text>(ps::GzipRecord{})} |
                  ps::Consumer{[&](ps::Batch<const Text, ps::Pageable> batch) {
                    const auto bytes = ps::get<"bytes">(batch)[0];
                    text.assign(bytes.data(), bytes.size());
                  }};
  pipeline.run();
  return text;
}
bool refuses(const std::string& compressed, const std::string& text) {
  const Outcome got = outcome_of([&] { unpacked(compressed); });
  INFO(got);
  return got.came == Came::stage_error && got.says(text);
}

} // namespace

TEST_CASE("a record that is a member of gzip is decompressed by libdeflate") {
  const std::string text = numbered_lines(10'000);
  CHECK(unpacked(gzip_member(text)) == text);
  CHECK(unpacked(gzip_member("")).empty());
  CHECK(unpacked(gzip_member("x")) == "x");
}

TEST_CASE("a member that is cut, damaged, followed or of another size is refused") {
  const std::string member = gzip_member(numbered_lines(100));
  for (std::size_t bytes = 0; bytes < member.size(); bytes += 7) {
    const Outcome got = outcome_of([&] { unpacked(member.substr(0, bytes)); });
    INFO(bytes << got);
    CHECK(got.says("cut"));
  }
  CHECK(refuses(member + member, "bytes behind its gzip frame"));
  for (const std::size_t at : {0U, 3U, 100U}) {
    std::string flipped = member;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x20);
    CHECK(refuses(flipped, "no whole gzip frame"));
  }
  std::string smaller = member;
  smaller[member.size() - 3] = 0;
  CHECK(refuses(smaller, "more bytes than there is room for"));
}
