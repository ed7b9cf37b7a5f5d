// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Each source of files gives the same records by URLs as by paths, in any order, and looks for what
// it needs with few requests.

#include "cookbook/remote_frames.hpp"
#include "support/caught.hpp"
#include "support/compressed_files.hpp"
#include "support/format_files.hpp"
#include "support/http_server.hpp"
#include "support/safetensors_files.hpp"
#include "support/tar_file.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/files.hpp>
#include <penstock/formats/interleaved.hpp>
#include <penstock/formats/lines.hpp>
#include <penstock/formats/mnist.hpp>
#include <penstock/formats/npy.hpp>
#include <penstock/formats/npz.hpp>
#include <penstock/formats/packed.hpp>
#include <penstock/formats/packed/packed_writer.hpp>
#include <penstock/formats/safetensors.hpp>
#include <penstock/formats/tar.hpp>
#include <penstock/formats/tfrecord.hpp>
#include <penstock/formats/tokens.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/io/http.hpp>
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace tests = penstock::tests;
using tests::HttpConnection;
using tests::HttpRequest;
using Strings = std::vector<std::string>;

/// Serves the files of a folder, but no hidden ones and none of those below it.
class Served {
 public:
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string url(const std::string& name) const { return server_.url("/" + name); }
  std::string write(const std::string& name, const std::string& bytes) const {
    folder_.write(name, bytes);
    return name;
  }
  std::uint64_t requests() const { return server_.requests(); }
  const tests::TempDir& folder() const { return folder_; }

 private:
  tests::TempDir folder_;
  tests::HttpServer server_{[this](const HttpRequest& request, HttpConnection& connection) {
    std::ifstream file{folder_ / request.path.substr(1), std::ios::binary};
    const std::string bytes{std::istreambuf_iterator<char>{file}, {}};
    connection.send(file ? tests::part_of(request, bytes) : tests::only("404 Not Found"));
  }};
};

/// What a pipeline delivers of a source: a text for each record.
template <class Of, class S> Strings delivered(S source, ps::ReaderOptions options, Of of) {
  Strings all;
  auto pipeline = ps::Reader{std::move(source), options} |
                  ps::Consumer{[&](ps::Batch<const typename S::schema, ps::Pageable> batch) {
                    for (std::size_t i = 0; i != batch.size(); ++i) {
                      all.push_back(of(batch, i));
                    }
                  }};
  pipeline.run();
  return all;
}
template <ps::Name name> const auto text_of = [](const auto& batch, std::size_t i) {
  const auto values = ps::get<name>(batch)[i];
  return std::string{reinterpret_cast<const char*>(values.data()), values.size()};
};
const auto bytes_of = [](const auto& batch, std::size_t i) {
  const std::span<const std::byte> all{reinterpret_cast<const std::byte*>(batch.data()),
                                       batch.size_bytes()};
  const std::size_t bytes = batch.record_bytes();
  return std::string{reinterpret_cast<const char*>(all.data()) + i * bytes, bytes};
};

/// Checks that a source, made by make(path, io), gives the same by its URL, and within so many
/// requests.
template <class Make, class Of>
void check_same(const Served& served, const std::string& name, std::uint64_t most_requests,
                Make make, Of of, bool any_order = true) {
  INFO(name);
  const std::uint64_t before = served.requests();
  const Strings expected = delivered(make(served.path(name), ps::PosixIo{}), {}, of);
  CHECK(expected.size() > 1);
  CHECK(served.requests() == before);
  CHECK(delivered(make(served.url(name), ps::HttpIo{}), {.workers = 2}, of) == expected);
  INFO(served.requests() - before);
  CHECK(served.requests() - before <= most_requests);
  if (any_order) {
    const ps::ReaderOptions shuffled{.workers = 2, .order = {.shuffle = 5}};
    CHECK(delivered(make(served.url(name), ps::HttpIo{}), shuffled, of) ==
          delivered(make(served.path(name), ps::PosixIo{}), shuffled, of));
  }
}

std::string framed(const std::string& data) {
  const auto masked = [](const std::string& text) {
    const std::uint32_t crc = ps::crc32c(std::as_bytes(std::span{text}));
    return tests::bytes_of((crc >> 15 | crc << 17) + 0xA282'EAD8U);
  };
  const std::string length = tests::bytes_of(std::uint64_t{data.size()});
  return length + masked(length) + data + masked(data);
}

TEST_CASE("arrays, tokens and weights come by URLs as by paths") {
  const Served served;
  const auto values = tests::some_values<std::int32_t>(3000);
  const std::string bytes = tests::all_bytes_of(values);
  served.write("a.bin", bytes);
  check_same(
      served, "a.bin", 30,
      [](const std::string& path, auto io) { return ps::records<std::int32_t>(path, {}, io); },
      bytes_of);
  served.write("a.npy", tests::npy_file(tests::npy_text("<i4", "(1000, 3)"), bytes));
  check_same(
      served, "a.npy", 40,
      [](const std::string& path, auto io) { return ps::npy<std::byte>(path, {}, io); }, bytes_of);
  served.write("a.idx", tests::idx_file(0x0C, {1000, 3}, tests::all_bytes_of(values, true)));
  check_same(
      served, "a.idx", 40,
      [](const std::string& path, auto io) { return ps::mnist<std::byte>(path, {}, io); },
      bytes_of);
  served.write("raw.bin", tests::all_bytes_of(tests::some_values<std::uint16_t>(3000)));
  check_same(
      served, "raw.bin", 40,
      [](const std::string& path, auto io) { return ps::tokens<std::uint16_t>(path, {}, io); },
      bytes_of);
  served.write("w.safetensors",
               tests::safetensors::file_of(
                   "{" + tests::safetensors::entry("w", "U8", "[3000]", 0, 3000) + "}", 3000));
  check_same(
      served, "w.safetensors", 40,
      [](const std::string& path, auto io) { return ps::safetensors(path, {}, io); }, bytes_of);
  {
    ps::PackedWriter writer{served.path("packed"), {ps::packed_column<std::int32_t>("x")}};
    writer.add(0, std::as_bytes(std::span{values}));
    writer.finish();
  }
  check_same(
      served, "packed", 40,
      [](const std::string& path, auto io) { return ps::unpacked<std::int32_t>(path, io); },
      bytes_of);
}

TEST_CASE("frames of several objects go through a pipeline, as docs/remote.md shows") {
  const Served served;
  served.write("a", std::string(512, 'a'));
  served.write("b", std::string(1024, 'b'));
  std::string first;
  use_frames({served.url("a"), served.url("b")}, [&](ps::Batch<const char, ps::Pageable> batch) {
    for (std::size_t i = 0; i != batch.size(); ++i) {
      first += batch.data()[i * batch.record_bytes()];
    }
  });
  CHECK(first == "abb");
}

TEST_CASE("lines, TFRecords, archives and streams come by URLs as by paths") {
  const Served served;
  served.write("a.txt", tests::numbered_lines(100));
  check_same(
      served, "a.txt", 40, [](const std::string& path, auto io) { return ps::lines(path, {}, io); },
      text_of<"text">);
  std::string records;
  std::string archive;
  for (int i = 0; i != 100; ++i) {
    const std::string text(static_cast<std::size_t>(i % 50 + 1), static_cast<char>('a' + i % 26));
    records += framed(text);
    archive += tests::tar_member(std::to_string(i) + ".txt", text);
  }
  served.write("a.tfrecord", records);
  check_same(
      served, "a.tfrecord", 60,
      [](const std::string& path, auto io) { return ps::tfrecord(path, io); }, text_of<"bytes">);
  served.write("a.tar", archive + tests::tar_end);
  struct Sample : ps::Columns<ps::Field<"txt", ps::Ragged<char>>> {};
  check_same(
      served, "a.tar", 60,
      [](const std::string& path, auto io) { return ps::tar<Sample>(path, {}, io); },
      text_of<"txt">);
  served.write("a.zst", tests::zstd_frame(tests::numbered_lines(100)));
  check_same(
      served, "a.zst", 10,
      [](const std::string& path, auto io) {
        return ps::interleaved<ps::Line>({path}, ps::Zstd{}, {}, io);
      },
      text_of<"text">, false);
}

} // namespace
