// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Writers of columns: what each file has, and that all of them appear or none does.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/column_writer.hpp>
#include <penstock/formats/npy.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::has;
using ps::tests::TempDir;
using Number = std::uint32_t;

struct Point {
  float x, y;
};
struct Sample
    : ps::Columns<ps::Field<"thumb", std::uint16_t, 2, 3>, ps::Field<"label", std::int64_t>,
                  ps::Field<"row", float, ps::dynamic>, ps::Field<"point", Point>> {};
template <class S> using Host = ps::Batch<S, ps::Pageable>;

constexpr Number records = 2003;

void fill(const Number& in, ps::Row<Sample> out) {
  std::uint16_t(&thumb)[2][3] = ps::get<"thumb">(out);
  for (std::uint16_t i = 0; i != 6; ++i) {
    thumb[i / 3][i % 3] = static_cast<std::uint16_t>(in * 6 + i);
  }
  ps::get<"label">(out) = -std::int64_t{in};
  std::fill_n(ps::get<"row">(out).data(), 4, static_cast<float>(in));
  ps::get<"point">(out) = {static_cast<float>(in), 1};
}
std::vector<Number> numbers(Number count = records) {
  std::vector<Number> made(count);
  std::iota(made.begin(), made.end(), Number{0});
  return made;
}
template <class Writer> auto samples(const std::vector<Number>& given, Writer writer) {
  return ps::Reader{ps::memory(given), {.batch = 64}} |
         ps::Decoder{fill, {.workers = 2, .extents = {4}}} | std::move(writer);
}
std::string content(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}
std::vector<std::string> names_in(const TempDir& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator{dir.path()}) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}
void write(const std::string& path, const std::string& text) {
  std::ofstream{path} << text;
}

} // namespace

TEST_CASE("each column has a file with its values, and .npy files say what they are") {
  const TempDir dir;
  const std::vector<Number> given = numbers();
  for (const unsigned workers : {1U, 3U}) {
    CAPTURE(workers);
    auto pipeline = samples(
        given,
        ps::Writer{ps::WriterOptions{.workers = workers, .durable = true},
                   ps::column<"thumb">(dir / "thumb.npy"), ps::column<"row">(dir / "row.npy"),
                   ps::column<"label">(dir / "label.bin"), ps::column<"point">(dir / "point.bin")});
    pipeline.run();
    CHECK(names_in(dir) ==
          std::vector<std::string>{"label.bin", "point.bin", "row.npy", "thumb.npy"});

    struct Read : ps::Columns<ps::Field<"thumb", std::uint16_t, 2, 3>, ps::Field<"row", float, 4>> {
    };
    Number at = 0;
    bool right = true;
    auto back = ps::Reader{ps::npy<Read>(dir / "thumb.npy", dir / "row.npy")};
    auto reading =
        std::move(back) | ps::Consumer{[&](Host<const Read> batch) {
          for (std::size_t i = 0; i != batch.size(); ++i, ++at) {
            right = right &&
                    ps::get<"thumb">(batch)[i][1][2] == static_cast<std::uint16_t>(at * 6 + 5) &&
                    ps::get<"row">(batch)[i][3] == static_cast<float>(at);
          }
        }};
    reading.run();
    CHECK(at == records);
    CHECK(right);
    std::vector<std::int64_t> labels(records);
    for (Number i = 0; i != records; ++i) {
      labels[i] = -std::int64_t{i};
    }
    CHECK(content(dir / "label.bin") ==
          std::string{reinterpret_cast<const char*>(labels.data()), records * sizeof labels[0]});
    CHECK(content(dir / "point.bin").size() == records * sizeof(Point));
  }
}

TEST_CASE("a .npy file of no records says so, and its header is one of NumPy's") {
  const TempDir dir;
  const std::vector<Number> none = numbers(0);
  samples(none, ps::Writer{ps::column<"label">(dir / "label.npy")}).run();
  const std::string all = content(dir / "label.npy");
  CHECK(all.size() % 64 == 0);
  CHECK(all.starts_with("\x93NUMPY\x01"));
  CHECK(all.find("{'descr': '<i8', 'fortran_order': False, 'shape': (0,), }") == 10);
  CHECK(all.back() == '\n');
}

TEST_CASE("all files of a Writer appear, or none does and what was there stays") {
  const TempDir dir;
  const std::vector<Number> given = numbers();
  write(dir / "thumb", "old");
  const auto writer = [&] {
    return ps::Writer{ps::column<"thumb">(dir / "thumb"), ps::column<"label">(dir / "label"),
                      ps::column<"row">(dir / "row")};
  };
  const auto failing = [](const Number& in, ps::Row<Sample> out) {
    in == records - 1 ? throw std::runtime_error{"bad"} : fill(in, out);
  };
  auto fails = ps::Reader{ps::memory(given)} | ps::Decoder{failing, {.extents = {4}}} | writer();
  CHECK_THROWS_AS(fails.run(), ps::StageError);
  CHECK(names_in(dir) == std::vector<std::string>{"thumb"});

  // The last file's name is taken by a folder meanwhile, when the others have theirs.
  bool taken = false;
  auto too_late = ps::Reader{ps::memory(given)} |
                  ps::Decoder{[&](const Number& in, ps::Row<Sample> out) {
                                fill(in, out);
                                if (in == records - 1) {
                                  std::filesystem::create_directory(dir / "row");
                                  write(dir / "row/file", "");
                                  taken = true;
                                }
                              },
                              {.workers = 1, .extents = {4}}} |
                  writer();
  const auto error = caught<ps::StageError>([&] { too_late.run(); });
  CAPTURE(error);
  CHECK(taken);
  CHECK(error.stage() == "Writer");
  CHECK(error.file() == dir / "row");
  CHECK(names_in(dir) == std::vector<std::string>{"row", "thumb"});
  CHECK(content(dir / "thumb") == "old");

  std::filesystem::remove_all(dir / "row");
  samples(given, writer()).run();
  CHECK(names_in(dir) == std::vector<std::string>{"label", "row", "thumb"});
  CHECK(content(dir / "thumb").size() == records * 12);
}

TEST_CASE("a .npy file of what is no number is refused before anything runs") {
  const TempDir dir;
  const std::vector<Number> given = numbers(3);
  auto pipeline = samples(given, ps::Writer{ps::column<"point">(dir / "point.npy")});
  const auto error = caught<ps::OptionError>([&] { pipeline.prepare(); });
  CHECK(has(error, "point.npy cannot say what the values of its column are"));
}

TEST_CASE("two columns of one file are refused before anything runs") {
  const TempDir dir;
  const std::vector<Number> given = numbers(3);
  auto pipeline =
      samples(given, ps::Writer{ps::column<"label">(dir / "all"), ps::column<"row">(dir / "all")});
  const auto error = caught<ps::OptionError>([&] { pipeline.prepare(); });
  CHECK(has(error, "two columns go into " + (dir / "all") + ": name a file for each"));
  CHECK(names_in(dir).empty());
}
