// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/counted_new.hpp"
#include "support/format_files.hpp"
#include "support/safetensors_files.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/safetensors.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::has;
using ps::tests::TempDir;
using namespace ps::tests::safetensors;

namespace {

// Reads a file as a Safetensors does, without one.
ps::detail::SafetensorsHeader parse(const std::string& file) {
  const std::span bytes = std::as_bytes(std::span{file});
  const std::uint64_t length =
      ps::detail::safetensors_header_bytes(bytes, bytes.size(), "some.safetensors");
  const std::string path = "some.safetensors";
  return ps::detail::SafetensorsParser{bytes.subspan(8, length), bytes.size(), path}.parse();
}
// The name of the one tensor of a header, which has no bytes, where `name` is JSON.
std::string name_in(const std::string& name) {
  return parse(file_of('{' + entry(name, "U8", "[0]", 0, 0) + '}')).tensors.at(0).name;
}

std::vector<std::byte> read(const ps::Safetensors<>& source, std::uint64_t at, std::size_t bytes) {
  std::vector<std::byte> into(bytes);
  source.read_bytes(at, into);
  return into;
}
std::vector<std::byte> of_file(const std::string& file, std::uint64_t at, std::size_t bytes) {
  const auto all = std::as_bytes(std::span{file}).subspan(at, bytes);
  return {all.begin(), all.end()};
}

} // namespace

static_assert(ps::Source<ps::Safetensors<>>);

TEST_CASE("safetensors tells each tensor before it reads one, and gives their bytes") {
  const TempDir dir;
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\",\"a\":\"\"}," +
                             entry("b", "F32", "[2,3]", 2, 26) + " ,\n" +
                             entry("a", "BF16", "[]", 0, 2) + ',' +
                             entry("none", "I64", "[3,0]", 26, 26) + "}   ";
  const std::string file = file_of(header, 26);
  auto source = ps::safetensors(dir.write("one", file));
  source.open();
  CHECK(source.size() == 26);
  REQUIRE(source.tensors().size() == 3);
  const ps::TensorInfo& a = source.tensor("a");
  const ps::TensorInfo& b = source.tensor("b");
  CHECK(&a == &source.tensors()[0]);
  CHECK(&b == &source.tensors()[1]);
  CHECK(a.type == ps::TensorType::bf16);
  CHECK(a.shape.empty());
  CHECK(a.bytes == 2);
  CHECK(a.at == 0);
  CHECK(a.offset == 8 + header.size());
  CHECK(b.type == ps::TensorType::f32);
  CHECK(b.shape == std::vector<std::uint64_t>{2, 3});
  CHECK(b.at == 2);
  CHECK(b.bytes == 24);
  CHECK(source.tensor("none").bytes == 0);
  CHECK(source.files() == std::vector<std::string>{dir / "one"});
  CHECK(source.metadata().at("format") == "pt");
  CHECK(source.metadata().at("a").empty());
  CHECK(read(source, b.at, b.bytes) == of_file(file, b.offset, b.bytes));
  const auto twin = source;
  CHECK(&twin.tensor("a") == &a);
}

TEST_CASE("safetensors has a size for each dtype that the format names") {
  const std::pair<const char*, unsigned> known[]{
      {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
      {"I64", 64},        {"U64", 64}};
  for (const auto& [name, bits] : known) {
    INFO(name);
    const auto header = parse(file_of('{' + entry("t", name, "[4,2]", 0, bits) + '}', bits));
    REQUIRE(header.tensors.size() == 1);
    CHECK(header.tensors[0].bytes == bits);
    CHECK(ps::name_of(header.tensors[0].type) == name);
    CHECK(ps::bits_of(header.tensors[0].type) == bits);
    CHECK_THROWS_AS(parse(file_of('{' + entry("t", name, "[4,2]", 0, bits - 1) + '}', bits - 1)),
                    ps::SourceError);
  }
  CHECK(std::size(known) == ps::detail::tensor_types.size());
}

TEST_CASE("several safetensors files are one source") {
  const TempDir dir;
  const std::string first = file_of('{' + entry("a", "U8", "[5]", 0, 5) + '}', 5);
  const std::string second = file_of("{}");
  const std::string third =
      file_of('{' + entry("c", "U8", "[3]", 0, 3) + ',' + entry("b", "U8", "[4]", 3, 7) + '}', 7);
  dir.write("3.safetensors", third);
  dir.write("2.safetensors", second);
  dir.write("1.safetensors", first);
  dir.write("config.json", std::string{"{}"});
  for (auto source :
       {ps::safetensors({dir / "1.safetensors", dir / "2.safetensors", dir / "3.safetensors"}),
        ps::safetensors(dir.path())}) {
    source.open();
    CHECK(source.size() == 12);
    CHECK(source.files().size() == 3);
    CHECK(source.metadata(2).empty());
    CHECK(caught<ps::OptionError>([&] { source.metadata(3); }).what() ==
          std::string{"penstock: safetensors: metadata of file number 3, but there are 3 files: "
                      "give a number "
                      "below that, they count from 0."});
    const ps::TensorInfo& b = source.tensor("b");
    CHECK(b.file == 2);
    CHECK(b.at == 8);
    CHECK(read(source, b.at, 4) == of_file(third, third.size() - 4, 4));
    std::vector<std::byte> all = of_file(first, first.size() - 5, 5);
    const std::vector<std::byte> rest = of_file(third, third.size() - 7, 7);
    all.insert(all.end(), rest.begin(), rest.end());
    CHECK(read(source, 0, 12) == all);
    CHECK(read(source, 4, 2) == std::vector<std::byte>(all.begin() + 4, all.begin() + 6));
    source.will_read(0, 12);
  }
  const auto twice = caught<ps::SourceError>(
      [&] { ps::safetensors({dir / "1.safetensors", dir / "1.safetensors"}).open(); });
  CHECK(has(twice, "two files have a tensor \"a\""));
  CHECK(twice.file() == dir / "1.safetensors");
}

TEST_CASE("an index of shards and the files beside it say the same, or one error names both") {
  const auto shard = [](const std::string& tensor) {
    return file_of('{' + entry(tensor, "U8", "[2]", 0, 2) + '}', 2);
  };
  const std::string one = "model-00001-of-00002.safetensors";
  const std::string two = "model-00002-of-00002.safetensors";
  const std::string map = R"({"t1":")" + one + R"(","t2":")" + two + R"("})";
  const std::string right =
      R"({"metadata":{"total_size":4,"x":[1.5e3,null]},"weight_map":)" + map + "}\n";
  struct Folder {
    std::string words;                          // none: it is taken
    std::map<std::string, std::string> files{}; // beside both shards; "": without
    std::string index = "right";
    std::string name = "model.safetensors.index.json";
  };
  const std::vector<Folder> folders{
      {""},
      {"", {{"config.json", "{}"}, {"README.md", "x"}, {one + ".json", "{}"}}},
      {"", {}, R"({"weight_map":{"t1":"./)" + one + R"(","t2":"./)" + two + R"("}})"},
      {"is one of 2 shards, and 1 are there: fetch the others", {{two, ""}}, "x", "other.txt"},
      {"", {}, R"({"weight_map":)" + map + "}", "diffusion.safetensors.index.fp16.json"},
      {"", {{"other", "x"}}, R"({"weight_map":{}})", "index.json"}, // no name of an index
      {"names DIR/" + two + ", which is not there: fetch it", {{two, ""}}},
      {two + ".incomplete lies in the directory, and DIR/" + two + " does not: fetch or unpack",
       {{two, ""}, {two + ".incomplete", shard("t2")}}},
      {two + ".gz lies in the directory, and DIR/" + two, {{two, ""}, {two + ".gz", "x"}}},
      {"", {{two + ".gz", "x"}}}, // the whole file is there, too
      {"has the tensor \"t2\", and it has none: the index and the files do not",
       {{two, shard("t3")}}},
      {"has the tensor \"t1\", and it has none, but DIR/" + two + " has: the index",
       {{one, shard("t2")}, {two, shard("t1")}}},
      {"DIR/consolidated.safetensors lies beside DIR/model.safetensors.index.json, which does not "
       "name it: name the files that you mean in a list.",
       {{"consolidated.safetensors", shard("c1")}}},
      {"has no weight_map in its index of shards: it was cut, or is damaged.",
       {},
       R"({"metadata":{}})"},
      {"has its end where '}' should be in its index", {}, R"({"weight_map":)" + map},
      {"byte 0 has its end where '{'", {}, ""},
      {"has '1' where '\"'", {}, R"({"weight_map":{"t1":1}})"},
      {"has a second weight_map", {}, R"({"weight_map":{},"weight_map":{}})"},
      {"names DIR/../x.safetensors, which is not there",
       {},
       R"({"weight_map":{"t1":"../x.safetensors"}})"}};
  for (const Folder& folder : folders) {
    const TempDir dir;
    std::map<std::string, std::string> files{{one, shard("t1")}, {two, shard("t2")}};
    files[folder.name] = folder.index == "right" ? right : folder.index;
    for (const auto& [name, text] : folder.files) {
      files[name] = text;
    }
    for (const auto& [name, text] : files) {
      if (!text.empty() || name == folder.name) {
        dir.write(name, text);
      }
    }
    for (const std::string& path : {dir.path(), dir.path() + '/'}) {
      std::string words = folder.words;
      for (std::size_t at; (at = words.find("DIR/")) != std::string::npos;) {
        words.replace(at, 4, dir.path() + '/');
      }
      CAPTURE(words);
      auto source = ps::safetensors(path);
      if (words.empty()) {
        source.open();
        CHECK(source.tensors().size() == 2);
      } else {
        CHECK(has(caught<ps::SourceError>([&] { source.open(); }), words));
      }
    }
    if (folder.words.empty()) {
      CHECK(has(caught<ps::SourceError>([&] { ps::safetensors(dir / folder.name).open(); }),
                "may be an index of some: give the directory that they lie in"));
    }
  }
}

TEST_CASE("a Reader delivers every byte of the tensors in order") {
  const TempDir dir;
  constexpr std::size_t bytes = 3'000'001;
  std::vector<std::string> paths;
  std::string expected;
  for (const char* name : {"a", "b"}) {
    const std::string file =
        file_of('{' + entry(name, "U8", '[' + std::to_string(bytes) + ']', 0, bytes) + '}', bytes);
    expected += file.substr(file.size() - bytes);
    paths.push_back(dir.write(name, file));
  }
  std::string found(2 * bytes, '\0');
  auto pipeline = ps::Reader{ps::safetensors(paths), {.workers = 3}} |
                  ps::Consumer{[&](ps::Batch<const std::byte, ps::Pageable> batch) {
                    std::copy_n(reinterpret_cast<const char*>(batch.data()), batch.size(),
                                found.begin() + static_cast<std::ptrdiff_t>(batch.index()));
                  }};
  CHECK(pipeline.run().records == 2 * bytes);
  CHECK(found == expected);
}

TEST_CASE("safetensors refuses what it is asked wrongly") {
  const TempDir dir;
  auto source =
      ps::safetensors(dir.write("a", file_of('{' + entry("some", "U8", "[5]", 0, 5) + '}', 5)));
  CHECK(has(caught<ps::SourceError>([&] { source.size(); }), "is not open yet"));
  source.open();
  CHECK(has(caught<ps::OptionError>([&] { source.tensor("soma"); }),
            "there is no tensor \"soma\" among the 1, and the next in the order of names is "
            "\"some\": give a name that tensors() lists."));
  CHECK(
      has(caught<ps::OptionError>([&] { source.tensor("z"); }), "\"z\" among the 1: give a name"));
  CHECK_THROWS_AS(read(source, 3, 3), ps::SourceError);
  CHECK(has(caught<ps::SourceError>([] { ps::safetensors(std::vector<std::string>{}).open(); }),
            "the list of files is empty"));
  const TempDir other;
  other.write("some.bin", std::string{"x"});
  CHECK(has(caught<ps::SourceError>([&] { ps::safetensors(other.path()).open(); }),
            "has a name that ends in .safetensors"));
  CHECK_THROWS_AS(ps::safetensors(dir / "missing").open(), ps::SourceError);
}

TEST_CASE("names of tensors have JSON's escapes and UTF-8's characters, and no others") {
  CHECK(name_in("") == "");
  CHECK(name_in(R"(\"\\\/\b\f\n\r\t)") == "\"\\/\b\f\n\r\t");
  CHECK(name_in(R"(A\u00e9\u20aC)") == "Aé€");
  CHECK(name_in(R"(\ud83d\ude00)") == "\U0001F600");
  CHECK(name_in("é€\U0001F600") == "é€\U0001F600");
  CHECK(name_in(R"(\u0000x)") == std::string("\0x", 2));
  CHECK(name_in("\x7f") == "\x7f");
  CHECK(name_in(std::string(1'000'000, 'x')).size() == 1'000'000);
  using ps::detail::shown;
  CHECK(shown("aé€\U0001F600~") == "aé€\U0001F600~");
  CHECK(shown("a\n\x7f\x1b[2J\xe9\xc2\x9b\xe2\x80\xae\xe2\x80\xa8\xe2\x82") == "a???[2J??????");
  CHECK(shown(std::string(80, 'x')) == std::string(80, 'x'));
  CHECK(shown(std::string(79, 'x') + "é") == std::string(79, 'x') + "...");
  for (const char* wrong : {R"(\ud800)",
                            R"(\udc00)",
                            R"(\ud800\u0041)",
                            R"(\ud800x)",
                            R"(\ud800\ud800)",
                            R"(\u12)",
                            R"(\u12g4)",
                            R"(\x)",
                            "\x01",
                            "\n",
                            "\x80",
                            "\xc0\x80",
                            "\xc1\xbf",
                            "\xe0\x80\x80",
                            "\xed\xa0\x80",
                            "\xf0\x80\x80\x80",
                            "\xf4\x90\x80\x80",
                            "\xf5\x80\x80\x80",
                            "\xff",
                            "\xc3",
                            "\xe2\x82",
                            "\xf0\x9f\x98"}) {
    INFO(wrong);
    const auto error = caught<ps::SourceError>([&] { name_in(wrong); });
    CHECK(error.offset() == 8 + 2);
    CHECK(error.file() == "some.safetensors");
  }
}

TEST_CASE("a safetensors file that is not as the format says is refused by one error") {
  for (const WrongFile& wrong : wrong_safetensors()) {
    INFO(wrong.file.substr(0, 200) << "  =>  " << wrong.found);
    const auto error = caught<ps::SourceError>([&] { parse(wrong.file); });
    CHECK(has(error, wrong.found));
    CHECK(has(error, "some.safetensors at byte " + std::to_string(wrong.offset) + ' '));
    CHECK(ps::tests::has_cure(error));
    CHECK(error.offset() == wrong.offset);
    CHECK(error.file() == "some.safetensors");
    CHECK(std::string{error.what()}.find('\n') == std::string::npos);
  }
}

TEST_CASE(
    "a safetensors header may say null, and shapes without an element may be of any extents") {
  CHECK(parse(file_of(R"({"__metadata__": null})")).metadata.empty());
  const std::string tensor = entry("a", "U8", "[2]", 0, 2);
  CHECK(parse(file_of(R"({"__metadata__":null,)" + tensor + '}', 2)).tensors.size() == 1);
  for (const char* shape : {"[0,18446744073709551615]", "[4611686018427387904,0]",
                            "[18446744073709551615,0,3]", "[0,18446744073709551615,4,4]"}) {
    INFO(shape);
    const auto header = parse(file_of('{' + entry("a", "F64", shape, 0, 0) + '}'));
    REQUIRE(header.tensors.size() == 1);
    CHECK(header.tensors[0].bytes == 0);
  }
}

TEST_CASE(
    "a safetensors header has blanks around it and unknown members, as its own reader takes") {
  const std::string one = entry("a", "U8", "[2]", 0, 2);
  const auto braces = [](const std::string& text) { return '{' + text + '}'; };
  for (const std::string& header :
       {' ' + braces(one), "\n\r\t {" + one + '}', braces(one) + "\n", braces(one) + "\t \r\n"}) {
    CAPTURE(header);
    CHECK(parse(file_of(header, 2)).tensors.size() == 1);
  }
  const auto with = [&](const std::string& value) {
    return file_of(braces(entry("a", "U8", "[2]", 0, 2, ",\"note\":" + value)), 2);
  };
  for (const std::string& value :
       {std::string{"\"x\""}, std::string{"{\"x\":[1,2.5e3,-1,true,false,null,{\"y\":\"z\"}]}"},
        std::string{"-0"}, std::string{"0.5E-7"}, std::string{" [ ] "}, std::string{"{ }"},
        std::string{"1,\"note\":2"}, std::string(125, '[') + std::string(125, ']')}) {
    CAPTURE(value);
    const auto header = parse(with(value));
    REQUIRE(header.tensors.size() == 1);
    CHECK(header.tensors[0].bytes == 2);
  }
  CHECK(parse(file_of(R"({"a":{"note":[{}],"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"))
            .tensors.size() == 1);
  for (const std::string& value :
       {std::string{"nul"},      std::string{"01"},
        std::string{"-"},        std::string{"1."},
        std::string{".5"},       std::string{"1e+"},
        std::string{"NaN"},      std::string{"+1"},
        std::string{"\"\\q\""},  std::string{"\"\\ud800\""},
        std::string{"\"\x01\""}, std::string{"\"\xff\""},
        std::string{"[1,]"},     std::string{"{1:2}"},
        std::string{"[1"},       std::string{""},
        std::string{"tru"},      std::string{"-a"},
        std::string{"nullx"},    std::string(126, '[') + std::string(126, ']')}) {
    CAPTURE(value);
    const auto error = caught<ps::SourceError>([&] { parse(with(value)); });
    CHECK(ps::tests::has_cure(error));
  }
}

TEST_CASE("a safetensors header whose length is wrong does not blame its text alone") {
  const std::string good =
      file_of('{' + entry("a", "U8", "[2]", 0, 2) + ',' + entry("é", "U8", "[2]", 2, 4) + "}  ", 4);
  CHECK(parse(good).tensors.size() == 2);
  for (std::uint64_t length = 1; length != good.size() + 10; ++length) {
    CAPTURE(length);
    if (length != good.size() - 8 - 4) {
      const auto error = caught<ps::SourceError>(
          [&] { parse(std::string{good}.replace(0, 8, length_of(length))); });
      CHECK(has(error, "the first 8 bytes"));
      CHECK(has(error, "length"));
    }
  }
}

TEST_CASE("lists in a safetensors header have bounds") {
  const auto ones = [](std::size_t count) {
    std::string text = "[1";
    for (std::size_t i = 1; i < count; ++i) {
      text += ",1";
    }
    return text + ']';
  };
  CHECK(parse(file_of('{' + entry("a", "U8", ones(64), 0, 1) + '}', 1)).tensors[0].shape.size() ==
        64);
  CHECK(has(caught<ps::SourceError>(
                [&] { parse(file_of('{' + entry("a", "U8", ones(65), 0, 1) + '}', 1)); }),
            "more than 64 numbers in one list"));
  std::string metadata = "\"\":\"\"";
  for (int i = 0; i < 65535; ++i) {
    metadata += ",\"" + std::to_string(i) + "\":\"\"";
  }
  CHECK(parse(file_of("{\"__metadata__\":{" + metadata + "}}")).metadata.size() == 65536);
  CHECK(has(caught<ps::SourceError>(
                [&] { parse(file_of("{\"__metadata__\":{" + metadata + ",\"x\":\"\"}}")); }),
            "more than 65536 members of __metadata__ in its safetensors header: write"));
  // A name in a message does not make it long, and is not cut in the middle of a character.
  const std::string name = std::string(79, 'x') + std::string(1000, 'y');
  const auto error =
      caught<ps::SourceError>([&] { parse(file_of('{' + entry(name, "U8", "[1]", 0, 0) + '}')); });
  CHECK(std::string{error.what()}.size() < 500);
  CHECK(has(error, std::string(79, 'x') + "y..."));
  const auto cut = caught<ps::SourceError>(
      [] { parse(file_of('{' + entry(std::string(79, 'x') + "éé", "U8", "[1]", 0, 0) + '}')); });
  CHECK(has(cut, std::string(79, 'x') + "..."));
}

TEST_CASE("a safetensors header takes memory as it is long, whatever it says") {
  const TempDir dir;
  const std::string lying = dir.write("lying", length_of(99'999'999) + "{}");
  const std::string large = dir.write("large", file_of("{}"));
  REQUIRE(::truncate(large.c_str(), 1 << 30) == 0);
  const std::string shape = dir.write(
      "shape", file_of('{' + entry("a", "U8", "[1099511627776]", 0, 1099511627776) + '}'));
  for (const std::string& path : {lying, large, shape}) {
    const std::uint64_t before = ps::tests::memory::allocated_bytes;
    CHECK_THROWS_AS(ps::safetensors(path).open(), ps::SourceError);
    CHECK(ps::tests::memory::allocated_bytes - before < 100'000);
  }
  std::string header = "{";
  for (int i = 0; i < 20'000; ++i) {
    header += (i == 0 ? "" : ",") + entry(std::to_string(i), "U8", "[0]", 0, 0);
  }
  const std::string many = file_of(header + '}');
  const std::uint64_t before = ps::tests::memory::allocated_bytes;
  CHECK(parse(many).tensors.size() == 20'000);
  CHECK(ps::tests::memory::allocated_bytes - before < 20 * many.size());
}

TEST_CASE("whatever is changed in a safetensors file, it is read or refused") {
  std::mt19937_64 random{22};
  const std::string good =
      file_of(R"({"__metadata__":{"f\u0061":"p\ud83d\ude00t"},)" +
                  entry("layer.0.wei\\u00e9ght", "F32", "[2, 3]", 0, 24) + ',' +
                  entry("b", "BF16", "[ ]", 24, 26) + ',' + entry("c", "F4", "[4]", 26, 28) + "}  ",
              28);
  CHECK(parse(good).tensors.size() == 3);
  std::size_t taken = 0;
  for (int round = 0; round < 40'000; ++round) {
    std::string file = good;
    for (std::uint64_t i = 0; i <= random() % 3; ++i) {
      const std::size_t at = random() % file.size();
      switch (random() % 6) {
      case 0:
        file[at] = static_cast<char>(random());
        break;
      case 1:
        file[at] = "{}[]\",:0129\\u "[random() % 14];
        break;
      case 2:
        file.erase(at, 1 + random() % 4);
        break;
      case 3:
        file.insert(at, file.substr(random() % file.size(), random() % 8));
        break;
      case 4:
        file.resize(at);
        break;
      default:
        file[at] = static_cast<char>(file[at] ^ (1 << random() % 8));
        break;
      }
      if (file.empty()) {
        break;
      }
    }
    if (file.size() >= 8 && random() % 2 == 0) {
      // Else most changes end at a wrong length.
      const std::size_t header = std::min<std::size_t>(file.size() - 8, good.size() - 8 - 28);
      file.replace(0, 8, length_of(header));
    }
    try {
      std::uint64_t end = 0;
      const auto header = parse(file);
      for (const ps::TensorInfo& tensor : header.tensors) {
        end = tensor.offset + tensor.bytes;
      }
      REQUIRE((header.tensors.empty() || end == file.size()));
      ++taken;
    } catch (const ps::SourceError&) {
    }
  }
  CHECK(taken > 100);
}

TEST_CASE("tensors beyond 4 GiB are read at their places") {
  if (!std::getenv("PENSTOCK_THOROUGH")) {
    SUCCEED("only with PENSTOCK_THOROUGH");
    return;
  }
  // The second lies on both sides of byte 2^32 of the data, the third behind it; a second file
  // begins behind 4 GiB of the source.
  const TempDir dir;
  const std::uint64_t border = std::uint64_t{1} << 32;
  const std::uint64_t first = border - 8;
  const std::string header = '{' + entry("a", "U8", '[' + std::to_string(first) + ']', 0, first) +
                             ',' + entry("b", "F32", "[4]", first, first + 16) + ',' +
                             entry("c", "I64", "[3]", first + 16, first + 40) + '}';
  const std::string known = file_of("", 40).substr(8);
  const std::string path = dir.write("a", file_of(header));
  const std::uint64_t data = 8 + header.size();
  std::filesystem::resize_file(path, data + first);
  std::ofstream{path, std::ios::app | std::ios::binary} << known;
  const std::string behind =
      dir.write("b", file_of('{' + entry("d", "U8", "[40]", 0, 40) + '}', 40));

  auto source = ps::safetensors({path, behind});
  source.open();
  CHECK(source.size() == first + 80);
  CHECK(source.tensor("c").offset == data + first + 16);
  CHECK(source.tensor("d").at == first + 40);
  CHECK(read(source, source.tensor("b").at - 1, 17) == of_file('\0' + known, 0, 17));
  CHECK(read(source, source.tensor("c").at, 24) == of_file(known, 16, 24));
  CHECK(read(source, source.tensor("d").at, 40) == of_file(known, 0, 40));
  CHECK(read(source, first, 80) == of_file(known + known, 0, 80));

  std::filesystem::resize_file(path, data + first + 39);
  const auto cut = caught<ps::SourceError>([&] { ps::safetensors(path).open(); });
  CHECK(has(cut, "\"c\" whose data_offsets end behind the end of the file"));
}
