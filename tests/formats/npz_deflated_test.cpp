// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/counted_new.hpp"
#include "support/faulty_io.hpp"
#include "support/format_files.hpp"
#include "support/temp_dir.hpp"
#include "support/zip_files.hpp"

#include <penstock/formats/npz.hpp>
#include <penstock/formats/zlib_inflate.hpp>
#include <penstock/penstock.hpp>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <zlib.h>

namespace ps = penstock;
using namespace ps::tests;

namespace {

struct Labelled : ps::Columns<ps::Field<"pixels", float, 2, 3>, ps::Field<"label", std::int64_t>> {
};

std::string deflated(const std::string& bytes) {
  z_stream stream{};
  REQUIRE(::deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(::deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}
ZipPart packed(const std::string& name, const std::string& file) {
  return {.name = name + ".npy",
          .packed = deflated(file),
          .method = 8,
          .crc = crc32_of(file),
          .bytes = file.size(),
          .zip64_here = true};
}
ZipPart member(const std::string& name, const std::string& type, const std::string& shape,
               const std::string& data) {
  return packed(name, npy_file(npy_text(type, shape), data));
}
// Of 1,000,128 bytes with the header.
const std::string zeros(1'000'000, '\0');
ZipPart large(const std::string& name) {
  return member(name, "<i4", "(250000,)", zeros);
}
const ps::NpzOptions by_zlib{.inflate = ps::zlib_inflate};

void check_refused(const ZipPart& part, const std::string& words,
                   ps::NpzOptions options = by_zlib) {
  const TempDir dir;
  const auto path = dir.write("x.npz", zip_file({part}).bytes);
  auto source = ps::npz<std::int32_t>(path, "a", options);
  const std::uint64_t before = memory::allocated_bytes;
  const auto e = caught<ps::SourceError>([&] { source.open(); });
  const std::uint64_t stated = part.bytes.value_or(0);
  CHECK(memory::allocated_bytes - before < std::min<std::uint64_t>(stated, 1'000'128) + 600'000);
  INFO(e.what());
  CHECK(e.file() == path);
  CHECK(has(e, words));
  CHECK(has_cure(e));
}

} // namespace

TEST_CASE("deflated arrays are those that were packed, from either byte order and as columns") {
  const TempDir dir;
  const auto pixels = some_values<float>(30'000);
  const auto labels = some_values<std::int64_t>(5000);
  const auto path =
      dir.write("x.npz", zip_file({member("label", ">i8", "(5000,)", all_bytes_of(labels, true)),
                                   member("pixels", "<f4", "(5000, 2, 3)", all_bytes_of(pixels))})
                             .bytes);
  CHECK(opened_and_read(ps::npz<std::int64_t>(path, "label", by_zlib)) == all_bytes_of(labels));
  CHECK(opened_and_read(ps::npz<std::byte>({path, path}, "pixels", by_zlib)) ==
        all_bytes_of(pixels) + all_bytes_of(pixels));
  std::vector<float> got_pixels;
  std::vector<std::int64_t> got_labels;
  auto pipeline = ps::Reader{ps::npz<Labelled>(path, by_zlib)} |
                  ps::Consumer{[&](ps::Batch<const Labelled, ps::Pageable> batch) {
                    const auto image = ps::get<"pixels">(batch);
                    const auto label = ps::get<"label">(batch);
                    got_pixels.insert(got_pixels.end(), image.data(),
                                      image.data() + image.elements() * batch.size());
                    got_labels.insert(got_labels.end(), label.data(), label.data() + batch.size());
                  }};
  const ps::Report& report = pipeline.run();
  CHECK(got_pixels == pixels);
  CHECK(got_labels == labels);
  CHECK(report.stages.front().note.find("inflated when it was opened") != std::string::npos);
}

TEST_CASE("what is inflated needs its file no more, and any thread reads it") {
  const TempDir dir;
  const auto values = some_values<std::uint32_t>(100'000);
  const std::string plain = all_bytes_of(values);
  const auto path = dir.write("x.npz", zip_file({member("a", "<u4", "(100000,)", plain)}).bytes);
  for (const ps::DirectReads direct : {ps::DirectReads::none, ps::DirectReads::automatic}) {
    auto source =
        ps::npz<std::uint32_t>(path, "a", {.direct = direct, .inflate = ps::zlib_inflate});
    source.open();
    std::filesystem::rename(path, path + ".gone");
    CHECK(source.direct_files() == 0);
    source.will_read(0, source.size());
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int i = 0; i != 4; ++i) {
      threads.emplace_back([&, i] {
        std::string some(40'000, '?');
        source.read_bytes(static_cast<std::size_t>(i) * 100'001 / 2,
                          std::as_writable_bytes(std::span{some}));
        right += some == plain.substr(static_cast<std::size_t>(i) * 100'001 / 2, some.size());
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    CHECK(right == 4);
    std::filesystem::rename(path + ".gone", path);
  }
}

TEST_CASE("inflated bytes are counted over columns and files, up to a limit, and given back") {
  const TempDir dir;
  const auto path =
      dir.write("x.npz", zip_file({large("a"),
                                   member("pixels", "<f4", "(1000, 2, 3)", std::string(24'000, 1)),
                                   member("label", "<i8", "(1000,)", std::string(8000, 1))})
                             .bytes);
  const auto opens = [&](auto source) {
    const auto e = thrown_by<ps::SourceError>([&] { source.open(); });
    return e ? std::string{e->what()} : std::string{};
  };
  const auto with = [](std::uint64_t bytes) {
    return ps::NpzOptions{.inflate = ps::zlib_inflate, .inflated_bytes = bytes};
  };
  CHECK(opens(ps::npz<std::int32_t>(path, "a", with(1'000'128))).empty());
  const auto said = opens(ps::npz<std::int32_t>(path, "a", with(1'000'127)));
  CHECK(said.find("member \"a.npy\", which inflated has 1000128 bytes, and of .inflated_bytes "
                  "1000127 are left: raise this option of ps::npz") != std::string::npos);
  CHECK(opens(ps::npz<Labelled>(path, with(32'256))).empty());
  CHECK(opens(ps::npz<Labelled>(path, with(32'255))).find("8127 are left") != std::string::npos);
  CHECK(opens(ps::npz<std::int32_t>({path, path}, "a", with(2'000'255))).find("1000127 are left") !=
        std::string::npos);
  CHECK(opens(ps::npz<std::int32_t>(path, "a", with(0))).find(" 0 are left") != std::string::npos);

  // A copy that failed to open has given back what it took.
  const auto broken = dir.write("y.npz", "none");
  const auto source = ps::npz<std::int32_t>({path, broken}, "a", with(1'000'128));
  for (int i = 0; i != 2; ++i) {
    CHECK(opens(source).find("without the end of a ZIP") != std::string::npos);
  }
}

TEST_CASE("deflated data that is not what the archive says is refused, and costs no more memory") {
  const std::string file = npy_file(npy_text("<i4", "(250000,)"), zeros);
  const auto with = [&](auto change) {
    ZipPart part = large("a");
    change(part);
    return part;
  };
  // Bombs: much comes out of little, or is said to.
  check_refused(with([](ZipPart& part) { part.bytes = 1'000'127; }), "to more than the 1000127");
  check_refused(with([](ZipPart& part) { part.bytes = 1000; }), "to more than the 1000 bytes");
  check_refused(with([](ZipPart& part) { part.bytes = 0; }), "to more than the 0 bytes");
  check_refused(with([](ZipPart& part) { part.bytes = 1'000'129; }),
                "1000128 bytes of the 1000129");
  check_refused(with([](ZipPart& part) {
                  part.bytes = std::uint64_t{1} << 62;
                  part.zip64_there = true;
                }),
                "cannot be inflated to 4611686018427387904");
  check_refused(with([](ZipPart& part) { part.bytes = part.packed.size() * 1032 + 1032; }),
                "cannot be inflated to");
  check_refused(with([](ZipPart& part) { part.bytes = part.packed.size() * 1032 + 1031; }),
                "are left", {.inflate = ps::zlib_inflate, .inflated_bytes = 1'000'000});
  check_refused(with([](ZipPart& part) { *part.crc += 1; }), "another CRC-32");
  check_refused(with([](ZipPart& part) { part.packed.pop_back(); }), "goes on behind its own");
  check_refused(with([](ZipPart& part) {
                  part.packed = "\x07";
                  part.bytes = 10;
                }),
                "is no deflated data behind the first 0 bytes");
  check_refused(with([](ZipPart& part) { part.packed += 'x'; }), "leaves 1 of its own");
  check_refused(with([](ZipPart& part) { part.packed += std::string(400'000, 'x'); }),
                "leaves 400000 of its own");
  check_refused(with([](ZipPart& part) { part.packed.clear(), part.bytes = 0; }),
                "goes on behind its own");
  check_refused(packed("a", ""), "another format");
  check_refused(packed("a", file.substr(0, 1000)), "was cut");
}

TEST_CASE("whichever byte of deflated data is another, it is refused or comes out right") {
  const TempDir dir;
  const auto values = some_values<std::int32_t>(20);
  const ZipPart part = member("a", "<i4", "(20,)", all_bytes_of(values));
  for (std::size_t at = 0; at != part.packed.size(); ++at) {
    for (const int flip : {1, 2, 16, 128, 255}) {
      ZipPart changed = part;
      changed.packed[at] = static_cast<char>(changed.packed[at] ^ flip);
      const auto path = dir.write("x", zip_file({changed}).bytes);
      auto source = ps::npz<std::int32_t>(path, "a", by_zlib);
      const auto e = thrown_by<ps::SourceError>([&] { source.open(); });
      const bool right = e ? e->file() == path : read_records(source) == all_bytes_of(values);
      REQUIRE(right);
    }
  }
}

TEST_CASE("data of many pieces is inflated, and of any sizes") {
  std::string noise(3'000'000, '\0');
  std::uint32_t state = 1;
  for (char& byte : noise) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  const TempDir dir;
  for (const std::size_t size : {1, 255, 261'000, 262'144, 524'287, 3'000'000}) {
    const auto part = member("a", "|u1", "(" + std::to_string(size) + ",)", noise.substr(0, size));
    const auto path = dir.write("x", zip_file({part}).bytes);
    auto source = ps::npz<std::uint8_t>(path, "a", by_zlib);
    source.open();
    CHECK(read_records(source, 100'000) == noise.substr(0, size));
  }
}

TEST_CASE("whichever call fails, deflated arrays come out right or the error names the file") {
  const TempDir dir;
  const std::string data = all_bytes_of(some_values<std::uint16_t>(100));
  const auto path = dir.write("a", zip_file({member("a", "<u2", "(100,)", data)}).bytes);
  for (long call = 1;; ++call) {
    const FaultyIo io{IoFaults::fail_from(call, EIO)};
    auto source = ps::npz<std::uint16_t>(path, "a", by_zlib, io);
    const auto e = thrown_by<ps::SourceError>([&] {
      source.open();
      const std::string got = read_records(source);
      CHECK(got == data);
    });
    if (!e) {
      break;
    }
    CHECK(e->file() == path);
    REQUIRE(call < 1000);
  }
}
