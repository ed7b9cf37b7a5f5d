// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Members of tar archives that are .npy files, as columns with extents.

#include "support/catch.hpp"
#include "support/format_files.hpp"
#include "support/outcome.hpp"
#include "support/tar_file.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/shards.hpp>
#include <penstock/formats/tar.hpp>
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ps = penstock;
namespace tests = penstock::tests;

namespace {

struct Sample : ps::Columns<ps::Field<"x.npy", float, 2, 3>, ps::Field<"cls", std::int32_t>,
                            ps::Field<"npy", std::int16_t, 2>> {};

std::string array(const std::string& type, const std::string& shape, const std::string& data) {
  return tests::npy_file(tests::npy_text(type, shape), data);
}
std::string x_of(float first) {
  std::string data;
  for (int i = 0; i != 6; ++i) {
    data += tests::bytes_of(first + static_cast<float>(i));
  }
  return data;
}
const std::string big_endian{"\x01\x02\x03\x04"};

std::string sample(const std::string& key, const std::string& x) {
  return tests::tar_member(key + ".cls", "7") + tests::tar_member(key + ".x.npy", x) +
         tests::tar_member(key + ".npy", array(">i2", "(2,)", big_endian));
}
std::string good(const std::string& key, float first) {
  return sample(key, array("<f4", "(2, 3)", x_of(first)));
}

} // namespace

TEST_CASE("a column with extents has the values of a .npy member, in either order of bytes") {
  const tests::TempDir dir;
  std::string archive = "";
  for (int i = 0; i != 300; ++i) {
    archive += good("s" + std::to_string(i), static_cast<float>(i));
  }
  archive += tests::tar_end;
  const std::string path = dir.write("a.tar", std::as_bytes(std::span{archive}));
  std::uint64_t samples = 0;
  auto pipeline = ps::Reader{ps::tar<Sample>(path), {.workers = 2, .order = {.shuffle = 1}}} |
                  ps::Consumer{[&](ps::Batch<const Sample, ps::Pageable> batch) {
                    for (std::size_t i = 0; i != batch.size(); ++i, ++samples) {
                      const auto& x = ps::get<"x.npy">(batch)[i];
                      CHECK(x[1][2] == x[0][0] + 5);
                      CHECK(ps::get<"npy">(batch)[i][0] == 0x0102);
                      CHECK(ps::get<"npy">(batch)[i][1] == 0x0304);
                      CHECK(ps::get<"cls">(batch)[i] == 7);
                    }
                  }};
  pipeline.run();
  CHECK(samples == 300);
}

TEST_CASE("a .npy member of another type or shape is refused by its name, and may be left out") {
  const tests::TempDir dir;
  const std::string archive =
      good("a", 1) + sample("b", array("<f8", "(2, 3)", x_of(1) + x_of(2))) +
      sample("c", array("<f4", "(3, 2)", x_of(1))) +
      sample("d", array("<f4", "(1, 3)", x_of(1).substr(12))) + sample("e", "no array") +
      good("f", 6) + sample("g", array("<f4", "(2, 3)", x_of(1)).substr(0, 99)) + tests::tar_end;
  const std::string path = dir.write("a.tar", std::as_bytes(std::span{archive}));
  auto pipeline =
      ps::Reader{ps::tar<Sample>(path), {.order = {.shuffle = 1}, .on_error = {.skips = 10}}} |
      ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  const ps::Report& report = pipeline.run();
  CHECK(report.records == 2);
  std::string reasons;
  for (const ps::SkippedItem& item : report.skips) {
    reasons += item.reason + '\n';
  }
  for (const char* part :
       {"b.x.npy in", "begins an array of float64, and the records wanted are of float32",
        "c.x.npy in", "give a column these extents", "d.x.npy in",
        "whose first extent is 1, and that of the column is 2", "e.x.npy in",
        "does not begin as a .npy file does", "g.x.npy in", "This was record 6."}) {
    CAPTURE(part, reasons);
    CHECK(reasons.find(part) != std::string::npos);
  }
}

TEST_CASE("a pattern stands for the paths of shards") {
  using Paths = std::vector<std::string>;
  CHECK(ps::shards("a/b.tar") == Paths{"a/b.tar"});
  CHECK(ps::shards("t-{08..11}.tar") == Paths{"t-08.tar", "t-09.tar", "t-10.tar", "t-11.tar"});
  CHECK(ps::shards("{9..10}") == Paths{"9", "10"});
  CHECK(ps::shards("{0..1}/x{1..2}") == Paths{"0/x1", "0/x2", "1/x1", "1/x2"});
  CHECK(ps::shards("{a..b}{}{1..}{7") == Paths{"{a..b}{}{1..}{7"});
  CHECK(ps::shards("{{3..3}}") == Paths{"{3}"});
  CHECK(tests::outcome_of([] { ps::shards("{3..1}"); }).says("{3..1} counts down"));
  CHECK(tests::outcome_of([] { ps::shards("{0..999}{0..1000}"); }).says("more than a million"));
  CHECK(tests::outcome_of([] { ps::shards("{0..18446744073709551615}"); }).says("a million"));
  for (const char* const long_one :
       {"{0..99999999999999999999}", "{5..99999999999999999999}", "{99999999999999999999..5}"}) {
    CHECK(tests::outcome_of([&] { ps::shards(long_one); }).says("more than 64 bits"));
  }

  const tests::TempDir dir;
  for (const char* name : {"s-0.tar", "s-1.tar", "s-2.tar"}) {
    const std::string archive = good("key", 1) + tests::tar_end;
    static_cast<void>(dir.write(name, std::as_bytes(std::span{archive})));
  }
  auto source = ps::tar<Sample>(dir.path() + "/s-{0..1}.tar");
  source.open();
  CHECK(source.size() == 2);
}
