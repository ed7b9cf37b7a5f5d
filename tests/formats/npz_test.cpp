// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/counted_new.hpp"
#include "support/faulty_io.hpp"
#include "support/format_files.hpp"
#include "support/randomness.hpp"
#include "support/temp_dir.hpp"
#include "support/zip_files.hpp"

#include <penstock/formats/npy.hpp>
#include <penstock/formats/npz.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace ps::tests;
using namespace std::string_literals;

namespace {

struct Labelled : ps::Columns<ps::Field<"pixels", float, 2, 3>, ps::Field<"label", std::int64_t>> {
};

ZipPart member(const std::string& name, const std::string& type, const std::string& shape,
               const std::string& data) {
  return {.name = name + ".npy", .packed = npy_file(npy_text(type, shape), data)};
}
const std::string small_data = all_bytes_of(some_values<std::int32_t>(6));
ZipPart small(const std::string& name) {
  return member(name, "<i4", "(6,)", small_data);
}
// As NumPy writes them: a member's own header has its sizes in 64 bits.
ZipPart as_numpy(ZipPart part) {
  part.zip64_here = true;
  return part;
}

// Refused with these words, by one error that names the file; what is allocated is little.
void check_refused(const std::string& file, const std::string& words, const std::string& name = "a",
                   std::uint64_t most_bytes = std::uint64_t{256} << 10) {
  const TempDir dir;
  const auto path = dir.write("x.npz", file);
  auto source = ps::npz<std::int32_t>(path, name);
  const std::uint64_t before = memory::allocated_bytes;
  const auto e = caught<ps::SourceError>([&] { source.open(); });
  CHECK(memory::allocated_bytes - before < most_bytes);
  INFO(e.what());
  CHECK(e.file() == path);
  CHECK(has(e, path));
  CHECK(has(e, words));
  CHECK(has_cure(e));
  CHECK(e.offset() <= file.size());
}

// Returns where the array of name a lies in an archive in memory; throws what reading throws.
std::string found_in(const std::string& file) {
  const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
    if (at > file.size() || into.size() > file.size() - at) {
      throw std::logic_error{"read beyond the end"};
    }
    std::copy_n(reinterpret_cast<const std::byte*>(file.data()) + at, into.size(), into.data());
  };
  const ps::detail::NpzFormat format{"a", nullptr,
                                     ps::detail::new_shared<ps::detail::BytesLeft>(0U)};
  const ps::detail::CheckedArray array =
      format.array({"FILE", file.size(), read}, {{'i', 4}, false, {}});
  return file.substr(array.offset, array.records * array.record_bytes);
}

} // namespace

TEST_CASE("stored arrays are read in place, by name and as columns") {
  const TempDir dir;
  const auto pixels = some_values<float>(30);
  const auto labels = some_values<std::int64_t>(5);
  for (const bool zip64 : {false, true}) {
    const auto path = dir.write(
        "x.npz", zip_file({as_numpy(member("label", ">i8", "(5,)", all_bytes_of(labels, true))),
                           as_numpy(member("pixels", "<f4", "(5, 2, 3)", all_bytes_of(pixels))),
                           {.name = "notes.txt", .packed = "none", .method = 99}},
                          zip64)
                     .bytes);
    CHECK(opened_and_read(ps::npz<std::int64_t>(path, "label")) == all_bytes_of(labels));
    auto rows = ps::npz<std::byte>(path, "pixels", {.direct = ps::DirectReads::none});
    rows.open();
    CHECK(rows.size() == 5);
    CHECK(rows.record_bytes() == 24);
    CHECK(rows.info().type == "float32");
    CHECK(rows.info().extents == std::vector<std::uint64_t>{2, 3});
    const auto arrays = ps::npz_arrays(path);
    REQUIRE(arrays.size() == 2);
    CHECK(arrays[0].name == "label");
    CHECK(arrays[1].name == "pixels");
    CHECK(arrays[1].bytes == 128 + 120);
    CHECK_FALSE(arrays[1].deflated);
    CHECK(read_records<ps::Pinned>(rows, 2) == all_bytes_of(pixels));

    std::vector<float> got_pixels;
    std::vector<std::int64_t> got_labels;
    auto pipeline =
        ps::Reader{ps::npz<Labelled>({path, path})} |
        ps::Consumer{[&](ps::Batch<const Labelled, ps::Pageable> batch) {
          const auto image = ps::get<"pixels">(batch);
          const auto label = ps::get<"label">(batch);
          got_pixels.insert(got_pixels.end(), image.data(),
                            image.data() + image.elements() * batch.size());
          got_labels.insert(got_labels.end(), label.data(), label.data() + batch.size());
        }};
    CHECK(pipeline.run().records == 10);
    CHECK(all_bytes_of(got_pixels) == all_bytes_of(pixels) + all_bytes_of(pixels));
    CHECK(all_bytes_of(got_labels) == all_bytes_of(labels) + all_bytes_of(labels));
  }
}

TEST_CASE("arrays of one name in several archives follow each other, and must be alike") {
  const TempDir dir;
  const auto a = dir.write("a", zip_file({small("x"), small("a")}).bytes);
  const auto b = dir.write("b", zip_file({member("a", "<i4", "(0,)", "")}).bytes);
  const auto c = dir.write("c", zip_file({small("a")}, false, "a comment").bytes);
  CHECK(opened_and_read(ps::npz<std::int32_t>({a, b, c}, "a")) == small_data + small_data);
  CHECK(opened_and_read(ps::npz<std::int32_t>(dir.path(), "a")) == small_data + small_data);
  const auto d = dir.write("d", zip_file({member("a", "<i4", "(3, 2)", small_data)}).bytes);
  const auto e = refused(ps::npz<std::byte>({a, d}, "a"), d);
  CHECK(has(e, "a.npy in " + a));
  CHECK(has(e, "a.npy in " + d));
  CHECK(has(e, "equal records"));
}

TEST_CASE("a member is an array as a .npy file is, and errors count its bytes") {
  const TempDir dir;
  const auto says = [&](const std::string& data, const std::string& words) {
    const ZipBytes zip = zip_file({small("b"), {.name = "a.npy", .packed = data}});
    const auto path = dir.write("x", zip.bytes);
    const auto e = refused(ps::npz<std::int32_t>(path, "a"), path);
    INFO(e.what());
    CHECK(has(e, "penstock: a.npy in " + path + " at byte "));
    CHECK(has(e, words));
    CHECK(e.offset() >= zip.headers[1] + 35);
    CHECK(e.offset() <= zip.entries[0]);
  };
  says(npy_file(npy_text("<i4", "(3, 2)", "True"), small_data), "Fortran order");
  says(npy_file(npy_text("|O", "(3,)"), small_data), "Python objects");
  says(npy_file("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (3,), }", small_data),
       "structures");
  says(npy_file(npy_text("<f4", "(6,)"), small_data), "float32");
  says(npy_file(npy_text("<i4", "(7,)"), small_data), "goes on to byte 156");
  says(npy_file(npy_text("<i4", "(5,)"), small_data), "has 4 bytes behind the end");
  says("\x93NUMPY\x04"s + '\0', "at byte 6 has version 4.0");
  says("text", "another format");
  says("", "another format");
  for (const int version : {1, 2, 3}) {
    const auto path = dir.write(
        "y",
        zip_file({{.name = "a.npy",
                   .packed = npy_file(npy_text(">i4", "(6,)"),
                                      all_bytes_of(some_values<std::int32_t>(6), true), version)}})
            .bytes);
    CHECK(opened_and_read(ps::npz<std::int32_t>(path, "a")) == small_data);
  }
}

TEST_CASE("columns of different lengths are one error that names both") {
  const TempDir dir;
  const auto path =
      dir.write("x", zip_file({member("pixels", "<f4", "(5, 2, 3)", std::string(120, 'p')),
                               member("label", "<i8", "(4,)", std::string(32, 'l'))})
                         .bytes);
  const auto e = refused(ps::npz<Labelled>(path), path);
  CHECK(has(e, "label.npy in " + path + " has 4 records, and pixels.npy in " + path + " has 5"));

  // As many of each in all, but not in each archive.
  const auto archive = [&](const char* name, unsigned pixels, unsigned labels) {
    const auto shape = [](unsigned n, const char* more) {
      return "(" + std::to_string(n) + "," + more + ")";
    };
    return dir.write(
        name,
        zip_file({member("pixels", "<f4", shape(pixels, " 2, 3"), std::string(24 * pixels, 'p')),
                  member("label", "<i8", shape(labels, ""), std::string(8 * labels, 'l'))})
            .bytes);
  };
  const auto same = archive("same", 2, 2);
  const auto few = archive("few", 4, 3);
  const auto many = archive("many", 4, 5);
  const auto apart = refused(ps::npz<Labelled>({same, few, many}), few);
  CHECK(has(apart, "in " + few + " or before it, label.npy in " + same));
  CHECK(has(apart, "have different numbers of records"));
}

TEST_CASE("a name that the archive does not have is refused, and those that it has are listed") {
  check_refused(zip_file({small("b"), small("../../c"), small(std::string(100, 'd'))}).bytes,
                "lists 3 members: b.npy, ../../c.npy, " + std::string(80, 'd') +
                    ".... None is a.npy");
  check_refused(zip_file({small("A")}).bytes,
                "lists 1 members: A.npy. None is a.npy: give ps::npz, or the "
                "column, the name of one of them, without .npy.");
  check_refused(zip_file({}).bytes,
                "lists 0 members. None is a.npy: write the array into it by np.savez()");
  std::vector<ZipPart> many;
  for (int i = 0; i != 20; ++i) {
    many.push_back(small("m" + std::to_string(i)));
  }
  check_refused(zip_file(many).bytes, "m7.npy, .... None is a.npy");
  many.push_back(small("a"));
  CHECK(found_in(zip_file(many).bytes) == small_data);
}

TEST_CASE("what is no archive, or not all of one, is refused") {
  const ZipBytes zip = zip_file({as_numpy(small("a")), small("b")});
  check_refused("", "without the end of a ZIP");
  check_refused(std::string(100'000, 'x'), "without the end of a ZIP");
  check_refused(small("a").packed, "read it by ps::npy");
  check_refused("junk" + zip.bytes, "4 bytes too early: something was put before");
  check_refused(zip.bytes + "junk", "4 more: it was cut, or something was put behind it");
  check_refused(zip.bytes + zip.bytes, "too early");
  check_refused(zip_file({small("a")}, true, std::string(60'000, 'c')).bytes + "x", "60001 more");
  // A prefix that the offsets count.
  std::string moved = "junk" + zip.bytes;
  for (const std::size_t at : {zip.entries[0] + 42, zip.entries[1] + 42, zip.end + 16}) {
    moved[4 + at] = static_cast<char>(moved[4 + at] + 4);
  }
  check_refused(moved, "the first in the file, which begins only at byte 4");
  for (std::size_t size = 0; size != zip.bytes.size(); ++size) {
    CHECK_THROWS_AS(found_in(zip.bytes.substr(0, size)), ps::SourceError);
    CHECK_THROWS_AS(found_in(zip.bytes.substr(zip.bytes.size() - size)), ps::SourceError);
  }
}

TEST_CASE("the comment of an archive may have any bytes, also those of an archive's end") {
  const std::string end = "PK\x05\x06";
  const std::string empty = zip_file({}).bytes;
  for (const std::string& comment :
       {end, "a " + end + " b", end + end + std::string(18, '\0') + "c", empty + "x",
        std::string(65'531, 'c') + end, end + std::string(65'531, '\xff')}) {
    for (const bool zip64 : {false, true}) {
      CHECK(found_in(zip_file({small("b"), small("a")}, zip64, comment).bytes) == small_data);
    }
  }
  // What is behind it counts as no comment, and the record that is named is the last.
  const std::string archive = zip_file({small("a")}, false, "a " + end + " b").bytes;
  check_refused(archive + std::string(30, 'x'), "and the file has 14 more");
  check_refused(zip_file({small("a")}, false, empty).bytes, "too early");
}

TEST_CASE("what an archive says is compared with what it has") {
  const ZipBytes zip = zip_file({small("b"), small("a")});
  const std::size_t here = zip.headers[1], there = zip.entries[1];
  const auto says = [&](std::size_t at, auto number, const std::string& words) {
    CAPTURE(at, number);
    check_refused(zip.with(at, number), words);
  };
  const auto u16 = [](int number) { return static_cast<std::uint16_t>(number); };
  const auto u32 = [](std::uint64_t number) { return static_cast<std::uint32_t>(number); };
  // The end of the archive.
  says(zip.end + 4, u16(1), "one of several disks");
  says(zip.end + 6, u16(1), "one of several disks");
  says(zip.end + 8, u16(1), "one of several disks");
  says(zip.end + 16, u32(~0U), "not before the end");
  says(zip.end + 16, u32(zip.entries[0] + 1), "not before the end");
  says(zip.end + 12, u32(~0U), "not before the end");
  says(zip.end + 20, u16(1), "a comment of 1 bytes");
  check_refused(zip_file({small("b")}).with(zip_file({small("b")}).end + 8, u32(0x0002'0002)),
                "2 members, in a directory of 51 bytes");
  const std::uint32_t many = 0xFFFE'FFFE;
  says(zip.end + 8, many, "65534 members, in a directory of 102 bytes");
  says(zip.end + 8, u32(0x0001'0001), "ends the last of 1 members");
  // The directory.
  says(there, u32(0), "has no member number 1");
  says(there + 8, u16(1), "has the encrypted member");
  says(there + 8, u16(1 << 6), "has the encrypted member");
  says(there + 8, u16(1 << 13), "has the encrypted member");
  says(there + 10, u16(8), "packed in another way");
  says(there + 10, u16(12), "method 12 (bzip2)");
  says(there + 10, u16(14), "method 14 (LZMA)");
  says(there + 10, u16(93), "method 93 (zstd)");
  says(there + 10, u16(9), "method 9,");
  says(there + 16, u32(0), "another CRC-32");
  says(there + 20, u32(3), "is stored, takes 3 bytes, and has 152");
  says(there + 24, u32(3), "is stored, takes 152 bytes, and has 3");
  says(there + 24, u32(~0U), "in a field of 64 bits, which is missing");
  says(there + 20, u32(1'000'000), "which has 1000000 bytes behind byte");
  says(zip.entries[0] + 20, u32(153), "\"a.npy\" begins");
  says(there + 28, u16(60'000), "has a member of 60046 bytes in the directory");
  says(there + 30, u16(1), "has a member of 52 bytes in the directory");
  says(there + 32, u16(1), "has a member of 52 bytes in the directory");
  says(there + 34, u16(1), "on another disk");
  says(there + 42, u32(0), "where until byte 0");
  says(there + 42, u32(here + 1), "where until byte");
  says(there + 42, u32(~0U), "in a field of 64 bits, which is missing");
  says(there + 42, u32(~1U), "behind byte 4294967294");
  says(there + 46, 'b', "there for the second time");
  // The member's own header.
  says(here, u32(0), "has no header before it");
  says(here + 6, u16(1), "packed in another way");
  says(here + 8, u16(8), "packed in another way");
  says(here + 14, u32(0), "another CRC-32");
  says(here + 18, u32(3), "packed 3, by its own header");
  says(here + 22, u32(3), "3 bytes, packed 152, by its own header");
  says(here + 26, u16(4), "another name");
  says(here + 26, u16(6), "something else begins at byte");
  says(here + 28, u16(1), "something else begins at byte");
  says(here + 28, u16(0xFFFF), "something else begins at byte");
  says(here + 30, 'A', "another name");
}

TEST_CASE("numbers of 64 bits are taken where 32 do not do, and must agree") {
  const ZipBytes zip = zip_file({small("b"), as_numpy(small("a"))}, true);
  CHECK(found_in(zip.bytes) == small_data);
  const auto says = [&](std::size_t at, auto number, const std::string& words) {
    CAPTURE(at, number);
    check_refused(zip.with(at, number), words);
  };
  const std::uint64_t large = std::uint64_t{1} << 62;
  says(zip.end64, std::uint32_t{0}, "and it is not there");
  says(zip.end64 + 4, std::uint64_t{45}, "and it is not there");
  says(zip.end64 + 4, ~std::uint64_t{0}, "and it is not there");
  says(zip.end64 + 16, std::uint32_t{1}, "says 1 in the end of the archive in 64 bits, and 0");
  says(zip.end64 + 20, std::uint32_t{1}, "says 1 in the end of the archive in 64 bits, and 0");
  says(zip.end64 + 24, large, "several disks");
  says(zip.end64 + 40, large, "not before the end");
  says(zip.end64 + 48, large, "not before the end");
  says(zip.end64 + 48, ~std::uint64_t{0}, "not before the end");
  says(zip.end64 + 56, std::uint32_t{0}, "not before the end"); // no locator: 32 bits are taken
  says(zip.end64 + 60, std::uint32_t{1}, "several disks");
  says(zip.end64 + 64, large, "and it is not there");
  says(zip.end64 + 64, std::uint64_t{0}, "and it is not there");
  says(zip.end64 + 72, std::uint32_t{2}, "several disks");
  says(zip.end + 10, std::uint16_t{3}, "says 2 in the end of the archive in 64 bits, and 3");
  check_refused(zip.with(zip.end64 + 24, large).replace(zip.end64 + 32, 8, bytes_of(large)),
                "4611686018427387904 members, in a directory");

  ZipPart both = as_numpy(small("a"));
  both.zip64_there = true;
  const ZipBytes sizes = zip_file({both});
  CHECK(found_in(sizes.bytes) == small_data);
  const std::size_t extra = sizes.entries[0] + 46 + 5;
  check_refused(sizes.with(extra, std::uint16_t{2}), "which is missing");
  check_refused(sizes.with(extra + 2, std::uint16_t{15}), "which is missing");
  check_refused(sizes.with(extra + 2, std::uint16_t{17}), "which is missing");
  check_refused(sizes.with(extra + 4, large), "and has 4611686018427387904");
  check_refused(sizes.with(extra + 12, large), "4611686018427387904 bytes behind byte 0");
  check_refused(sizes.with(extra + 12, ~std::uint64_t{0}), "bytes behind byte 0");
  const std::size_t own = sizes.headers[0] + 30 + 5;
  check_refused(sizes.with(own, std::uint16_t{2}), "by its own header");
  check_refused(sizes.with(own + 4, large), "by its own header");
}

TEST_CASE("sizes may stand behind a member, and are those of the directory") {
  ZipPart part = small("a");
  part.flags = 8;
  for (const bool zip64 : {false, true}) {
    part.zip64_here = zip64;
    const ZipBytes zip = zip_file({part, small("b")});
    CHECK(found_in(zip.bytes) == small_data);
    check_refused(zip.with(zip.headers[0] + 6, std::uint16_t{0}), "by its own header");
  }
}

TEST_CASE("whichever byte of an archive is another, the array comes out right or is refused") {
  ZipPart behind = small("c");
  behind.flags = 8;
  // Of its 256 values each byte is given one in so many, the next byte others.
  const std::size_t apart = thorough() ? 1 : 8;
  for (const bool zip64 : {false, true}) {
    const ZipBytes zip = zip_file({as_numpy(small("b")), as_numpy(small("a")), behind}, zip64, "?");
    const std::size_t data = zip.bytes.find(small_data, zip.headers[1]);
    std::size_t refusals = 0;
    for (std::size_t at = 0; at != zip.bytes.size(); ++at) {
      for (std::size_t value = at % apart; value < 256; value += apart) {
        std::string changed = zip.bytes;
        changed[at] = static_cast<char>(value);
        try {
          const bool its_own = at >= data && at < data + small_data.size();
          const bool right = found_in(changed) == small_data;
          REQUIRE((right || its_own));
        } catch (const ps::SourceError&) {
          ++refusals;
        }
      }
    }
    CHECK(refusals > 50'000 / apart);
  }
}

TEST_CASE("deflated members are refused with the cure, and others beside them are read") {
  ZipPart deflated = small("a");
  deflated.method = 8;
  const ZipBytes zip = zip_file({deflated, small("b")});
  check_refused(zip.bytes, "set .inflate = ps::zlib_inflate");
  const TempDir dir;
  CHECK(opened_and_read(ps::npz<std::int32_t>(dir.write("x", zip.bytes), "b")) == small_data);
  const auto path = dir.write("y", small("a").packed);
  CHECK(has(refused(ps::npz<std::int32_t>(path, "a"), path), "ps::npy"));
  const auto npz = dir.write("z", zip.bytes);
  CHECK(has(refused(ps::npy<std::int32_t>(npz), npz), "ps::npz"));
}

TEST_CASE("a directory of very many members takes memory by its bytes, up to a limit") {
  std::vector<ZipPart> many;
  for (int i = 0; i != 5000; ++i) {
    many.push_back({.name = std::to_string(i), .packed = {}});
  }
  const ZipBytes zip = zip_file(many);
  check_refused(zip.bytes, "lists 5000 members", "a", 10 * zip.bytes.size());
  const TempDir dir;
  const std::uint64_t bytes = (std::uint64_t{64} << 20) + 1;
  ZipBytes end = zip_file({}, true);
  const std::string records = end.with(40, bytes).replace(32, 8, bytes_of(bytes / 46));
  const auto path = dir.write("x.npz", "");
  std::filesystem::resize_file(path, bytes);
  std::ofstream{path, std::ios::app | std::ios::binary}
      << std::string{records}
             .replace(56 + 8, 8, bytes_of(bytes))
             .replace(24, 8, bytes_of(bytes / 46));
  const std::uint64_t before = memory::allocated_bytes;
  CHECK(has(refused(ps::npz<float>(path, "a"), path), "more than the 67108864 that are read"));
  CHECK(memory::allocated_bytes - before < (std::uint64_t{256} << 10));
}

TEST_CASE("whichever call fails, arrays in archives come out right or the error names the file") {
  const TempDir dir;
  const auto path = dir.write("a", zip_file({small("b"), as_numpy(small("a"))}).bytes);
  for (long call = 1;; ++call) {
    const FaultyIo io{IoFaults::fail_from(call, EIO)};
    auto source = ps::npz<std::int32_t>(path, "a", {}, io);
    const auto e = thrown_by<ps::SourceError>([&] {
      source.open();
      const std::string got = read_records(source);
      CHECK(got == small_data);
    });
    if (!e) {
      break;
    }
    CHECK(e->file() == path);
    REQUIRE(call < 1000);
  }
}

TEST_CASE("arrays beyond 4 GiB in an archive are read at their places") {
  if (!std::getenv("PENSTOCK_THOROUGH")) {
    SUCCEED("only with PENSTOCK_THOROUGH");
    return;
  }
  // A hole in the first member moves all that lies behind it.
  const TempDir dir;
  const std::uint64_t count = (std::uint64_t{5} << 30) / 4;
  const std::uint64_t hole = 4 * count;
  ZipPart first{.name = "a.npy",
                .packed = npy_file(npy_text("<u4", "(" + std::to_string(count) + ",)"), "")};
  first.zip64_here = first.zip64_there = true;
  const std::string header = zip_file({first}).bytes.substr(0, 30 + 5 + 20 + first.packed.size());
  ZipBytes zip = zip_file({first, small("b")}, true);
  const std::uint64_t all = first.packed.size() + hole;
  const auto put = [&](std::size_t at, std::uint64_t number) {
    zip.bytes.replace(at, 8, bytes_of(number));
  };
  put(zip.headers[0] + 30 + 5 + 4, all);
  put(zip.headers[0] + 30 + 5 + 12, all);
  put(zip.entries[0] + 46 + 5 + 4, all);
  put(zip.entries[0] + 46 + 5 + 12, all);
  put(zip.end64 + 48, zip.entries[0] + hole);
  put(zip.end64 + 64, zip.end64 + hole);
  // The second one's place, too, is of more than 32 bits.
  const std::string place = bytes_of(std::uint16_t{1}) + bytes_of(std::uint16_t{8}) +
                            bytes_of(std::uint64_t{zip.headers[1] + hole});
  zip.bytes.replace(zip.entries[1] + 42, 4, "\xFF\xFF\xFF\xFF");
  zip.bytes.replace(zip.entries[1] + 30, 2, bytes_of(static_cast<std::uint16_t>(place.size())));
  zip.bytes.insert(zip.end64, place);
  const std::size_t more = place.size();
  put(zip.end64 + more + 40, zip.end64 + more - zip.entries[0]);
  put(zip.end64 + more + 64, zip.end64 + more + hole);

  const auto path = dir.write("x.npz", zip.bytes.substr(0, header.size()));
  std::filesystem::resize_file(path, header.size() + hole);
  std::ofstream{path, std::ios::app | std::ios::binary} << zip.bytes.substr(header.size());
  auto source = ps::npz<std::uint32_t>(path, "a");
  source.open();
  CHECK(source.size() == count);
  std::uint32_t last = 7;
  CHECK(source.read(ps::Batch<std::uint32_t, ps::Pageable>{&last, 1, count - 1}) == 1);
  CHECK(last == 0);
  CHECK(opened_and_read(ps::npz<std::int32_t>(path, "b")) == small_data);
}
