// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/counted_new.hpp"
#include "support/faulty_io.hpp"
#include "support/format_files.hpp"
#include "support/temp_dir.hpp"

#include <penstock/data/float16.hpp>
#include <penstock/formats/npy.hpp>
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace ps::tests;
using namespace std::string_literals;

namespace {

template <class T> void check_type(const std::string& code) {
  CAPTURE(code);
  const TempDir dir;
  const auto values = some_values<T>(11);
  const std::string plain = all_bytes_of(values);
  for (const int version : {1, 2, 3}) {
    const auto one = dir.write("a.npy", npy_file(npy_text("<" + code, "(11,)"), plain, version));
    CHECK(opened_and_read(ps::npy<T>(one)) == plain);
    const auto two = dir.write(
        "b.npy", npy_file(npy_text(">" + code, "(11,)"), all_bytes_of(values, true), version));
    CHECK(opened_and_read(ps::npy<T>(two)) == plain);
    CHECK(opened_and_read(ps::npy<std::byte>(two)) == plain);
  }
}

bool has_word(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}
std::string text_error(const std::string& text) {
  const TempDir dir;
  const auto path = dir.write("a.npy", npy_file(text, std::string(12, 'x')));
  const auto e = refused(ps::npy<std::int32_t>(path), path);
  return e.what();
}

struct Image : ps::Columns<ps::Field<"pixels", float, 2, 3>> {};
struct AnyImage : ps::Columns<ps::Field<"pixels", float, 2, ps::dynamic>> {};
struct Labelled : ps::Columns<ps::Field<"pixels", float, 2, 3>, ps::Field<"label", std::int64_t>> {
};

} // namespace

TEST_CASE("values of every type come out of either byte order and every version") {
  check_type<std::int8_t>("i1");
  check_type<std::uint8_t>("u1");
  check_type<std::int16_t>("i2");
  check_type<std::uint16_t>("u2");
  check_type<std::int32_t>("i4");
  check_type<std::uint32_t>("u4");
  check_type<std::int64_t>("i8");
  check_type<std::uint64_t>("u8");
  check_type<float>("f4");
  check_type<double>("f8");
  const TempDir dir;
  const std::string data{0, 1, 1, 0};
  CHECK(opened_and_read(ps::npy<bool>(dir.write("b", npy_file(npy_text("|b1", "(4,)"), data)))) ==
        data);
  CHECK(opened_and_read(
            ps::npy<ps::Half>(dir.write("h", npy_file(npy_text("<f2", "(2,)"), data)))) == data);
  CHECK(opened_and_read(ps::npy<ps::BFloat16>(
            dir.write("w", npy_file(npy_text("|V2", "(2,)"), data)))) == data);
}

TEST_CASE("a type is read by each name that NumPy takes for it") {
  using Names = std::vector<std::string>;
  const std::vector<std::pair<std::string, Names>> types{
      {"bool", {"bool", "bool_", "?", "|?", "<?", ">?", "=?", "b1", "|b1"}},
      {"int8", {"int8", "byte", "b", "|b", ">b", "i1", "=i1"}},
      {"uint8", {"uint8", "ubyte", "B", "|B", "u1", "|u1"}},
      {"int16", {"int16", "short", "h", "<h", "i2", "=i2"}},
      {"uint16", {"uint16", "ushort", "H", "<H", "|u2"}},
      {"int32", {"int32", "intc", "i", "<i", "=i", "|i", "|i4"}},
      {"uint32", {"uint32", "uintc", "I", "<I", "u4"}},
      {"int64", {"int64", "int", "long", "longlong", "intp", "l", "<q", "p", "=n", "i8"}},
      {"uint64", {"uint64", "uint", "ulong", "ulonglong", "uintp", "L", "<Q", "P", "=N", "u8"}},
      {"float16", {"float16", "half", "e", "<e", "=f2"}},
      {"float32", {"float32", "single", "f", "<f", "=f", "|f", "f4", "=f4"}},
      {"float64", {"float64", "double", "float", "d", "<d", "f8"}},
      {"bfloat16 (V2)", {"V2", "|V2", "<V2"}}};
  const TempDir dir;
  const auto opened = [&](const std::string& name) {
    auto type = ps::detail::npy_type(name);
    REQUIRE(type);
    const std::string data(3 * type->type.bytes, '\1');
    auto source = ps::npy<std::byte>(dir.write("a", npy_file(npy_text(name, "(3,)"), data)));
    source.open();
    std::string note;
    source.note(note);
    return std::pair{source.info().type, has_word(note, "turns the bytes")};
  };
  for (const auto& [type, names] : types) {
    for (const std::string& name : names) {
      CAPTURE(name);
      CHECK(opened(name) == std::pair{type, false});
    }
  }
  for (const auto& [name, type] : {std::pair{">f", "float32"},
                                   {">d", "float64"},
                                   {">e", "float16"},
                                   {">i", "int32"},
                                   {">H", "uint16"},
                                   {">l", "int64"}}) {
    CAPTURE(name);
    CHECK(opened(name) == std::pair{std::string{type}, true});
  }
}

TEST_CASE("keys come in any order, with or without commas and spaces") {
  const TempDir dir;
  const std::string data = all_bytes_of(some_values<std::int32_t>(3));
  for (const char* text : {
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}",
           "{\"shape\":(3,),\"fortran_order\":False,\"descr\":\"<i4\"}",
           "  { 'fortran_order' : True , 'shape' : ( 3 , ) , 'descr' : '=i4' , } ",
           "{'descr': 'i4', 'fortran_order': False, 'shape': (3L,), }",
           "{'descr': u'<i4', 'fortran_order': False, 'shape': (3L,), }",
           "{u'shape': (3,), u\"fortran_order\": False, u'descr': u\"<i4\"}",
       }) {
    CAPTURE(text);
    CHECK(opened_and_read(ps::npy<std::int32_t>(dir.write("a", npy_file(text, data)))) == data);
  }
}

TEST_CASE("a header that is no such dictionary is refused at its byte") {
  CHECK(text_error("").find("a dictionary is expected") != std::string::npos);
  for (const char* text : {
           "{}",
           "{'descr': '<i4', 'fortran_order': False}",
           "{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': [3]}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3 3)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (-3,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (03,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3.0,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
           "{'descr': '<i4', 'fortran_order': 0, 'shape': (3,)}",
           "{'descr': '<i4, 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<i4' 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)} 1",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)} # a",
           "{'descr': '', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': uu'<i4', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': u '<i4', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': u<i4', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<<i4', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<int32', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': 'i4 ', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': 'INT32', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': 'u', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '?1', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<i3', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<i44444444444444', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<f16', 'fortran_order': False, 'shape': (3,)}",
       }) {
    CAPTURE(text);
    CHECK(text_error(text).find(" at byte ") != std::string::npos);
  }
  std::string many = "{'descr': '<i4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i != 65; ++i) {
    many += "1, ";
  }
  CHECK(text_error(many + ")}").find("more than 64 extents") != std::string::npos);
}

TEST_CASE("what cannot be read is refused by name, with the cure") {
  const auto says = [](const std::string& text, const std::string& words) {
    const std::string said = text_error(text);
    INFO(said);
    CHECK(said.find(words) != std::string::npos);
  };
  says(npy_text("<i4", "(3, 2)", "True"), "Fortran order");
  CHECK(text_error(npy_text("<i4", "(3, 1)", "True")).find("Fortran") ==
        std::string::npos); // the same bytes
  says(npy_text("|O", "(3,)"), "Python objects");
  says(npy_text("<U3", "(1,)"), "strings");
  says(npy_text("|S3", "(4,)"), "strings");
  says(npy_text("<M8[ns]", "(1,)"), "dates");
  says(npy_text("<c8", "(1,)"), "complex");
  for (const char* type : {"object", "object_", "O", "=O"}) {
    says(npy_text(type, "(3,)"), "Python objects");
  }
  for (const char* type : {"str", "bytes_", "S", "U4", "a3", "c", "|S1"}) {
    says(npy_text(type, "(3,)"), "strings");
  }
  for (const char* type : {"datetime64", "timedelta64[s]", "m8[us]", "M8", "datetime64[ns]"}) {
    says(npy_text(type, "(3,)"), "dates or times");
  }
  for (const char* type : {"complex64", "cdouble", "F", "<D", "c16"}) {
    says(npy_text(type, "(3,)"), "complex");
  }
  for (const char* type : {"longdouble", "float128", "g", "<g", "<f16"}) {
    says(npy_text(type, "(3,)"), "long doubles, which differ from machine to machine");
  }
  for (const char* type : {"i4,f4", "(2,)f4", "f4,"}) {
    says(npy_text(type, "(3,)"), "structures");
  }
  says(npy_text("float31", "(3,)"), "has values of type \"float31\", which is not read");
  says("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (3,), }", "structures");
  says(npy_text("<i4", "()"), "no dimensions");
  says(npy_text("<f4", "(3,)"), "float32");
  says(npy_text("<i4", "(1, 3)"), "shape (3,)");
  says(npy_text("<i4", "(1, 3)"), "give a column these extents, ps::Field<\"x\", T, 3>");
  says(npy_text("<i4", "(2,)"), "4 bytes behind the end");
  says(npy_text("<i4", "(4,)"), "was cut");
  const TempDir dir;
  const auto empty = dir.write("e", npy_file(npy_text("<i4", "(3, 0)"), ""));
  CHECK(has(refused(ps::npy<std::byte>(empty), empty), "0 bytes"));
  const auto zip = dir.write("z", std::string{"PK\x03\x04 and more"});
  CHECK(has(refused(ps::npy<float>(zip), zip), "archive"));
  const auto other = dir.write("o", std::string{"text"});
  CHECK(has(refused(ps::npy<float>(other), other), "another format"));
  const auto none = dir.write("n", std::string{});
  CHECK(has(refused(ps::npy<float>(none), none), "another format"));
}

TEST_CASE("numbers in a header size no memory") {
  const TempDir dir;
  const std::string magic = "\x93NUMPY";
  const auto says = [&](const std::string& file, const std::string& words) {
    const auto path = dir.write("a", file);
    auto source = ps::npy<float>(path);
    const std::uint64_t before = memory::allocated_bytes;
    const auto e = caught<ps::SourceError>([&] { source.open(); });
    CHECK(memory::allocated_bytes - before < (std::uint64_t{128} << 10));
    INFO(e.what());
    CHECK(has(e, words));
    CHECK(has_cure(e));
    CHECK(e.file() == path);
  };
  says(magic + "\x02\0"s + bytes_of(std::uint32_t{0xFFFF'FFF0}), "4294967280 bytes");
  says(magic + "\x02\0"s + bytes_of(~std::uint32_t{0}) + std::string(1000, ' '), "4294967295");
  says(magic + "\x02\0"s + bytes_of(std::uint32_t{65536}), "it was cut");
  says(magic + "\x02\0"s + bytes_of(std::uint32_t{65537}) + std::string(70000, ' '),
       "more than the 65536");
  says(magic + "\x02\0"s + bytes_of(std::uint32_t{65536}) + std::string(70000, ' '),
       "a dictionary is expected");
  says(magic + "\x01\0"s + bytes_of(std::uint16_t{0}), "a dictionary is expected");
  says(magic + "\x01\0"s + bytes_of(std::uint16_t{65535}), "it was cut");
  says(magic + "\x01\0"s, "was cut");
  says(magic + "\x04\0"s, "version 4.0");
  says(magic + "\x01\x01"s, "version 1.1");
  const std::string half = std::to_string(std::uint64_t{1} << 32);
  for (const std::string& shape : std::initializer_list<std::string>{
           "(" + half + ", " + half + ")", "(4, 4611686018427387904)", "(18446744073709551615,)",
           "(4611686018427387904,)", "(4611686018427387873,)", "(0, 9223372036854775807)"}) {
    CAPTURE(shape);
    says(npy_file(npy_text("<f4", shape), "data"), "more bytes than 64 bits count");
  }
  says(npy_file(npy_text("<f4", "(1073741824,)"), "data"), "goes on to byte 4294967424");
}

TEST_CASE("shards follow each other, and must be alike") {
  const TempDir dir;
  const auto write = [&](const std::string& name, const std::string& type, const std::string& shape,
                         std::size_t bytes) {
    return dir.write(name, npy_file(npy_text(type, shape), std::string(bytes, name[0])));
  };
  const auto a = write("a", "<f4", "(2, 3)", 24);
  const auto b = write("b", "<f4", "(0, 3)", 0);
  const auto c = write("c", "<f4", "(1, 3)", 12);
  auto all = ps::npy<std::byte>({a, b, c});
  all.open();
  CHECK(all.size() == 3);
  CHECK(all.record_bytes() == 12);
  CHECK(read_records<ps::Pinned>(all) == std::string(24, 'a') + std::string(12, 'c'));
  CHECK(opened_and_read(ps::npy<std::byte>(dir.path())) == read_records(all));
  for (const auto& [type, shape] :
       {std::pair{"<f4", "(1, 4)"}, {"<f4", "(1, 3, 1)"}, {"<i4", "(1, 3)"}, {">f4", "(1, 3)"}}) {
    CAPTURE(type, shape);
    const auto d = write("d", type, shape, std::string{shape} == "(1, 4)" ? 16 : 12);
    const auto e = refused(ps::npy<std::byte>({a, d}), d);
    CHECK(has(e, a));
    CHECK(has(e, "equal records"));
  }
}

TEST_CASE("bytes of swapped values come from any place") {
  const TempDir dir;
  const auto values = some_values<double>(40);
  const auto big = all_bytes_of(values, true);
  auto source =
      ps::npy<double>({dir.write("a", npy_file(npy_text(">f8", "(25,)"), big.substr(0, 200))),
                       dir.write("b", npy_file(npy_text(">f8", "(15,)"), big.substr(200)))});
  source.open();
  const std::string plain = all_bytes_of(values);
  for (std::size_t at = 0; at <= plain.size(); ++at) {
    for (const std::size_t count : {0, 1, 3, 8, 9, 17, 120}) {
      std::string into(std::min(count, plain.size() - at), '?');
      source.read_bytes(at, std::as_writable_bytes(std::span{into}));
      REQUIRE(into == plain.substr(at, count));
    }
  }
  char one = 0;
  CHECK(has(caught<ps::SourceError>(
                [&] { source.read_bytes(320, std::as_writable_bytes(std::span{&one, 1})); }),
            "asked for 1 bytes from byte 320"));
}

TEST_CASE("columns are compared with the header, and read whole") {
  const TempDir dir;
  const auto pixels = some_values<float>(30);
  const auto labels = some_values<std::int64_t>(5);
  const auto x = dir.write("x", npy_file(npy_text("<f4", "(5, 2, 3)"), all_bytes_of(pixels)));
  const auto y = dir.write("y", npy_file(npy_text(">i8", "(5,)"), all_bytes_of(labels, true)));
  std::vector<float> got_pixels;
  std::vector<std::int64_t> got_labels;
  auto pipeline = ps::Reader{ps::npy<Labelled>(x, std::vector{y})} |
                  ps::Consumer{[&](ps::Batch<const Labelled, ps::Pageable> batch) {
                    const auto image = ps::get<"pixels">(batch);
                    const auto label = ps::get<"label">(batch);
                    got_pixels.insert(got_pixels.end(), image.data(),
                                      image.data() + image.elements() * batch.size());
                    got_labels.insert(got_labels.end(), label.data(), label.data() + batch.size());
                  }};
  pipeline.prepare();
  pipeline.run();
  CHECK(got_pixels == pixels);
  CHECK(got_labels == labels);

  auto one = ps::npy<Image>(x);
  one.open();
  CHECK(one.size() == 5);
  auto any = ps::npy<AnyImage>(x);
  any.open();
  CHECK(any.extents() == std::vector<std::size_t>{3});
  const auto turned = dir.write("t", npy_file(npy_text("<f4", "(5, 3, 2)"), all_bytes_of(pixels)));
  CHECK(has(refused(ps::npy<Image>(turned), turned), "those wanted have (2, 3)"));
  CHECK(has(refused(ps::npy<AnyImage>(turned), turned), "those wanted have (2, any)"));
  CHECK(has(refused(ps::npy<Image>(y), y), "int64"));
  const auto four = dir.write("f", npy_file(npy_text("<i8", "(4,)"), std::string(32, 'x')));
  const auto e = refused(ps::npy<Labelled>(x, four), four);
  CHECK(has(e, "4 records"));
  CHECK(has(e, x));
}

TEST_CASE("whichever call fails, arrays come out right or the error names the file") {
  const TempDir dir;
  const std::string data = all_bytes_of(some_values<std::uint16_t>(100));
  const auto path = dir.write("a", npy_file(npy_text("<u2", "(100,)"), data));
  for (long call = 1;; ++call) {
    const FaultyIo io{IoFaults::fail_from(call, EIO)};
    auto source = ps::npy<std::uint16_t>(path, {}, io);
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

TEST_CASE("arrays beyond 4 GiB are read at their places") {
  if (!std::getenv("PENSTOCK_THOROUGH")) {
    SUCCEED("only with PENSTOCK_THOROUGH");
    return;
  }
  const TempDir dir;
  const std::uint64_t count = (std::uint64_t{5} << 30) / 4;
  const auto path =
      dir.write("a", npy_file(npy_text("<u4", "(" + std::to_string(count) + ",)"), ""));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + 4 * count);
  auto source = ps::npy<std::uint32_t>(path);
  source.open();
  CHECK(source.size() == count);
  std::uint32_t last = 7;
  CHECK(source.read(ps::Batch<std::uint32_t, ps::Pageable>{&last, 1, count - 1}) == 1);
  CHECK(last == 0);
}
