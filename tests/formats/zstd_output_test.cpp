// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/compressed_files.hpp"
#include "support/faulty_io.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/seekable.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/formats/zstd_output.hpp>
#include <penstock/io/new_file.hpp>
#include <penstock/penstock.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

namespace ps = penstock;
using namespace ps::tests;

namespace {

const std::string text = numbered_lines(10'000);

std::string contents(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}
// What a program that knows zstd, and nothing of tables, makes of a file.
std::string decompressed(const std::string& path) {
  const std::string packed = contents(path);
  std::string all(text.size() + 1, '\0');
  const std::size_t made = ::ZSTD_decompress(all.data(), all.size(), packed.data(), packed.size());
  REQUIRE(::ZSTD_isError(made) == 0);
  all.resize(made);
  return all;
}
std::span<const std::byte> bytes_of(const std::string& some) {
  return std::as_bytes(std::span{some});
}
template <class Io> void write(const Io& io, const std::string& path) {
  ps::NewFile file{io, path};
  for (std::size_t at = 0; at < text.size(); at += 7000) {
    file.write(at, bytes_of(text.substr(at, 7000)));
  }
  file.commit(true);
}

} // namespace

TEST_CASE("a Writer writes zstd's seekable format, by any number of workers") {
  const TempDir dir;
  const std::string plain = dir.write("plain", text);
  for (const unsigned workers : {1U, 3U}) {
    for (const std::uint64_t frame :
         {std::uint64_t{1000}, std::uint64_t{64} << 10, std::uint64_t{1} << 20}) {
      const std::string path = dir.path() + "/packed.zst";
      auto copy = ps::Reader{ps::records<char>(plain, {.as_it_is = true}), {.batch = 5000}} |
                  ps::Writer{path, {.workers = workers}, ps::ZstdOutput{{.frame = frame}}};
      copy.run();
      CHECK(decompressed(path) == text);
      const auto io = ps::seekable(ps::Zstd{}, {.most = frame});
      const ps::File file{io, path};
      std::string all(file.size(), '\0');
      ps::read_full(file, 0, std::as_writable_bytes(std::span{all}));
      CHECK(all == text);
    }
  }
}

TEST_CASE("a file without bytes is a table without frames") {
  const TempDir dir;
  const std::string path = dir.path() + "/packed.zst";
  ps::NewFile{ps::ZstdOutput{}, path}.commit();
  CHECK(contents(path).size() == 17);
  CHECK(decompressed(path).empty());
  CHECK(ps::File{ps::seekable(ps::Zstd{}), path}.size() == 0);
}

TEST_CASE("bytes that come twice, and bytes that lack, are refused, and leave no file") {
  const TempDir dir;
  const std::string path = dir.path() + "/packed.zst";
  const ps::ZstdOutput io{{.frame = 1000}};
  {
    const ps::NewFile file{io, path};
    file.write(0, bytes_of(text.substr(0, 2000)));
    CHECK_THROWS_AS(file.write(0, bytes_of(text.substr(0, 1000))), ps::SinkError);
    CHECK_THROWS_AS(file.write(2000, bytes_of(text.substr(0, 1000))), ps::SinkError);
  }
  for (const std::uint64_t begin : {std::uint64_t{1000}, std::uint64_t{1001}, std::uint64_t{3}}) {
    ps::NewFile file{io, path};
    file.write(begin, bytes_of(text.substr(0, 1500)));
    CHECK_THROWS_AS(file.commit(), ps::SinkError);
  }
  ps::NewFile file{io, path};
  file.write(1, bytes_of(text.substr(0, 500)));
  CHECK_THROWS_AS(file.commit(), ps::SinkError);
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("a call of the system that fails while a compressed file is written is an error") {
  const TempDir dir;
  const std::string path = dir.path() + "/packed.zst";
  const FaultyIo counted;
  write(ps::ZstdOutput{{.frame = 10'000}, counted}, path);
  CHECK(decompressed(path) == text);
  REQUIRE(counted.calls() > 10);
  for (long number = 1; number <= counted.calls(); ++number) {
    std::filesystem::remove(path);
    const FaultyIo faulty{IoFaults::fail_once(number, ENOSPC)};
    CHECK_THROWS_AS(write(ps::ZstdOutput{{.frame = 10'000}, faulty}, path), ps::SinkError);
    CHECK(faulty.open_now() == 0);
  }
  IoFaults few;
  few.most_bytes = 77;
  write(ps::ZstdOutput{{.frame = 10'000}, FaultyIo{few}}, path);
  CHECK(decompressed(path) == text);
}

TEST_CASE("levels and sizes of frames that cannot be are refused") {
  CHECK_THROWS_AS(ps::ZstdOutput{{.level = 23}}, ps::OptionError);
  CHECK_THROWS_AS(ps::ZstdOutput{{.frame = 0}}, ps::OptionError);
  CHECK_THROWS_AS(ps::ZstdOutput{{.frame = (std::uint64_t{64} << 20) + 1}}, ps::OptionError);
}
