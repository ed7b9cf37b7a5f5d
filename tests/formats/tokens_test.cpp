// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/counted_new.hpp"
#include "support/faulty_io.hpp"
#include "support/format_files.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/tokens.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/windows.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace ps = penstock;
using namespace ps::tests;
using Token = std::uint16_t;

namespace {

std::string plain(std::size_t count) {
  return all_bytes_of(some_values<Token>(count));
}

// What write_datafile() of llm.c writes.
std::string llm_c_file(std::uint32_t magic, std::uint32_t version, std::uint32_t count,
                       const std::string& tokens) {
  std::vector<std::uint32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return all_bytes_of(header) + tokens;
}

// What IndexedDatasetBuilder of Megatron-Core writes, with what a test changes.
struct Index {
  std::vector<std::int32_t> lengths{3, 0, 4};
  std::vector<std::int64_t> documents{0, 1, 3};
  char type = 8; // uint16
  std::uint64_t token_bytes = 2;
  std::uint64_t version = 1;
  bool modes = false;
  std::int64_t moved = 0;

  std::string file() const {
    std::vector<std::int64_t> places;
    std::int64_t place = 0;
    for (const std::int32_t length : lengths) {
      places.push_back(place + moved * static_cast<std::int64_t>(places.size()));
      place += length * static_cast<std::int64_t>(token_bytes);
    }
    return std::string{"MMIDIDX\0\0", 9} + bytes_of(version) + type +
           bytes_of(std::uint64_t{lengths.size()}) + bytes_of(std::uint64_t{documents.size()}) +
           all_bytes_of(lengths) + all_bytes_of(places) + all_bytes_of(documents) +
           (modes ? std::string(lengths.size(), '\0') : std::string{});
  }
};

std::string refused_file(const std::string& file, ps::TokensOptions options = {}) {
  const TempDir dir;
  const auto path = dir.write("a.bin", file);
  return refused(ps::tokens<Token>(path, options), path).what();
}
std::string refused_index(const std::string& index, const std::string& tokens = plain(7)) {
  const TempDir dir;
  const auto path = dir.write("a.bin", tokens);
  dir.write("a.idx", index);
  auto source = ps::tokens<Token>(path);
  const std::uint64_t before = memory::allocated_bytes;
  const auto e = caught<ps::SourceError>([&] { source.open(); });
  CHECK(memory::allocated_bytes - before < (std::uint64_t{128} << 10));
  INFO(e.what());
  CHECK(has(e, " at byte "));
  CHECK(has_cure(e));
  return e.what();
}
void check_says(const std::string& said, const std::string& words) {
  INFO(said);
  CHECK(said.find(words) != std::string::npos);
}

} // namespace

TEST_CASE("tokens come out of each format alike, found or named") {
  const TempDir dir;
  const std::string seven = plain(7);
  const auto raw = dir.write("raw.bin", seven);
  const auto gpt = dir.write("gpt.bin", llm_c_file(20240520, 1, 7, seven));
  const auto mega = dir.write("mega.bin", seven);
  dir.write("mega.idx", Index{}.file());
  const auto with_modes = dir.write("modes.bin", seven);
  dir.write("modes.idx", Index{.modes = true}.file());
  using Format = ps::TokenFormat;
  for (const auto& [path, format] : {std::pair{raw, Format::raw},
                                     {gpt, Format::llm_c},
                                     {mega, Format::megatron},
                                     {with_modes, Format::megatron}}) {
    CAPTURE(path);
    CHECK(opened_and_read(ps::tokens<Token>(path)) == seven);
    CHECK(opened_and_read(ps::tokens<Token>(path, {.format = format})) == seven);
  }
  CHECK(opened_and_read(ps::tokens<Token>({gpt, raw, mega})) == seven + seven + seven);
  // The indexes in the directory are no tokens.
  CHECK(opened_and_read(ps::tokens<Token>(dir.path())) == seven + seven + seven + seven);

  const std::string wide = all_bytes_of(some_values<std::uint32_t>(5));
  const auto llama = dir.write("llama.bin", llm_c_file(20240801, 7, 5, wide));
  CHECK(opened_and_read(ps::tokens<std::uint32_t>(llama)) == wide);
  const auto big = dir.write("big.bin", wide);
  dir.write("big.idx",
            Index{.lengths = {5}, .documents = {0, 1}, .type = 4, .token_bytes = 4}.file());
  CHECK(opened_and_read(ps::tokens<std::uint32_t>(big)) == wide);
  CHECK(opened_and_read(ps::tokens<std::int32_t>(big)) == wide);
}

TEST_CASE("files of tokens that do not fit their header are refused") {
  using Format = ps::TokenFormat;
  const std::string seven = plain(7);
  check_says(refused_file("abc"), "1 of the 2 bytes of a token");
  check_says(refused_file(llm_c_file(20240520, 1, 8, seven)), "ends at byte 1038");
  check_says(refused_file(llm_c_file(20240520, 1, 6, seven)), "end at byte 1036");
  check_says(refused_file(llm_c_file(20240520, 1, 0xFFFF'FFFF, seven)), "4294967295 tokens");
  check_says(refused_file(llm_c_file(20240520, 2, 7, seven)), "version 2");
  check_says(refused_file(llm_c_file(20240801, 7, 7, seven)), "uint32");
  check_says(refused_file(seven, {.format = Format::llm_c}), "begins with");
  check_says(refused_file("", {.format = Format::llm_c}), "was cut");
  check_says(refused_file(llm_c_file(20240520, 1, 0, "").substr(0, 500), {.format = Format::llm_c}),
             "end at byte 1024");
  for (const std::size_t size : {4U, 8U, 512U, 1022U}) {
    refused_file(llm_c_file(20240520, 1, 7, seven).substr(0, size));
  }
  check_says(refused_file(npy_file(npy_text("<u2", "(7,)"), seven)), "ps::npy");
  check_says(refused_file(Index{}.file()), "name the file of tokens");
  const TempDir dir;
  const auto other = dir.write("tokens", seven);
  CHECK(has(refused(ps::tokens<Token>(other, {.format = Format::megatron}), other), ".bin"));
  const auto lone = dir.write("lone.bin", seven);
  CHECK(has(caught<ps::SourceError>(
                [&] { ps::tokens<Token>(lone, {.format = Format::megatron}).open(); }),
            "lone.idx"));

  // A link that leads nowhere, or around, is an index that is missing.
  for (const std::string target : {"nowhere", "lone.idx"}) {
    ::unlink((dir / "lone.idx").c_str());
    REQUIRE(::symlink((dir / target).c_str(), (dir / "lone.idx").c_str()) == 0);
    CHECK(has(caught<ps::SourceError>([&] { ps::tokens<Token>(lone).open(); }),
              "cannot find " + (dir / "lone.idx")));
  }
  // So is one whose tokens are missing, whole or cut; the tokens of another do not help.
  for (const std::string& index : {Index{}.file(), std::string{"MMIDIDX"}}) {
    const TempDir half;
    half.write("a.bin", seven);
    half.write("a.idx", Index{}.file());
    half.write("b.idx", index);
    const auto e = caught<ps::SourceError>([&] { ps::tokens<Token>(half.path()).open(); });
    CHECK(has(e, (half / "b.idx") + " at byte 0 is an index"));
    CHECK(has(e, (half / "b.bin") + ", which has its tokens, is not there"));
  }
  // A cut index in a directory is none of tokens.
  const TempDir folder;
  folder.write("x.bin", seven);
  folder.write("x.idx", std::string{"MMIDIDX"});
  CHECK(has(caught<ps::SourceError>([&] { ps::tokens<Token>(folder.path()).open(); }), "x.idx"));
}

TEST_CASE("an index that is wrong is refused at its byte, and sizes no memory") {
  check_says(refused_index("no index"), "TokenFormat::raw");
  check_says(refused_index(Index{.version = 2}.file()), "version 2");
  check_says(refused_index(Index{.type = 0}.file()), "has 0 for the type");
  check_says(refused_index(Index{.type = 9}.file()), "has 9 for the type");
  check_says(refused_index(Index{.type = 7, .token_bytes = 4}.file()),
             "float32, and only whole numbers are read: build");
  check_says(
      refused_index(Index{.type = 4, .token_bytes = 4}.file()),
      "at byte 17 says that its tokens are int32, and uint16 is wanted: give ps::tokens the type "
      "that the file has, std::int32_t.");
  check_says(refused_index(Index{}.file(), plain(6)), "of 14 bytes in all");
  check_says(refused_index(Index{}.file(), plain(8)), "of 14 bytes in all");
  check_says(refused_index(Index{.lengths = {3, -1, 4}}.file()), "negative length for sequence 1");
  check_says(refused_index(Index{.moved = 2}.file()), "sequence 1 begins at byte 8");
  check_says(refused_index(Index{.documents = {0, 2, 1}}.file()), "document 2 begins");
  check_says(refused_index(Index{.documents = {0, 4}}.file()), "document 1 begins");
  const std::string good = Index{}.file();
  for (std::size_t bytes = 0; bytes != good.size(); ++bytes) {
    CAPTURE(bytes);
    refused_index(good.substr(0, bytes));
  }
  check_says(refused_index(good + "x"), "do not take the");
  for (const std::size_t at : {18, 26}) {
    for (const std::uint64_t number : {~std::uint64_t{0}, std::uint64_t{1} << 61,
                                       std::uint64_t{0xFFFF'FFFF}, std::uint64_t{1} << 63}) {
      CAPTURE(at, number);
      std::string bad = good;
      bad.replace(at, 8, bytes_of(number));
      check_says(refused_index(bad), "do not take the");
    }
  }
}

TEST_CASE("windows go through shards of several formats, in an order, and go on") {
  const TempDir dir;
  std::vector<std::string> paths;
  const auto values = some_values<Token>(3000);
  const std::string all = all_bytes_of(values);
  paths.push_back(dir.write("a.bin", all.substr(0, 2000)));
  paths.push_back(dir.write("b.bin", llm_c_file(20240520, 1, 1000, all.substr(2000, 2000))));
  paths.push_back(dir.write("c.bin", all.substr(4000)));
  dir.write("c.idx", Index{.lengths = {1000}, .documents = {0, 1}}.file());
  const auto source = ps::windows(ps::tokens<Token>(paths), {.length = 65, .seed = 7});
  const auto windows_from = [&](ps::Position& position, std::size_t most) {
    std::vector<std::vector<Token>> windows;
    ps::HostDevice device;
    auto pipeline =
        ps::Reader{source, {.order = {.shuffle = 3}, .batch = 4}} | ps::PinnedStager{device};
    for (auto batch : pipeline.batches({.from = position})) {
      const Token* const at = ps::get<"tokens">(batch).data();
      for (std::size_t i = 0; i != batch.size(); ++i) {
        windows.emplace_back(at + 65 * i, at + 65 * (i + 1));
      }
      position = batch.position();
      if (windows.size() >= most) {
        break;
      }
    }
    return windows;
  };
  ps::Position none;
  const auto whole = windows_from(none, 1000);
  CHECK(whole.size() == 45);
  for (const auto& window : whole) {
    const auto at = std::search(values.begin(), values.end(), window.begin(), window.end());
    CHECK(at != values.end());
  }
  ps::Position position;
  auto parts = windows_from(position, 20);
  for (auto& window : windows_from(position, 1000)) {
    parts.push_back(std::move(window));
  }
  CHECK(parts == whole);
}

TEST_CASE("whichever call fails, tokens come out right or the error names a file") {
  const TempDir dir;
  const std::string seven = plain(7);
  const auto path = dir.write("a.bin", seven);
  const auto index = dir.write("a.idx", Index{}.file());
  for (long call = 1;; ++call) {
    const FaultyIo io{IoFaults::fail_once(call, EIO)};
    auto source = ps::tokens<Token>(path, {.format = ps::TokenFormat::megatron}, io);
    const auto e = thrown_by<ps::SourceError>([&] {
      source.open();
      const std::string got = read_records(source);
      CHECK(got == seven);
    });
    if (e) {
      CHECK((e->file() == path || e->file() == index));
    }
    if (io.calls() < call) {
      break;
    }
    REQUIRE(call < 1000);
  }
}

TEST_CASE("tokens beyond 4 GiB are read at their places") {
  if (!std::getenv("PENSTOCK_THOROUGH")) {
    SUCCEED("only with PENSTOCK_THOROUGH");
    return;
  }
  // Holes, with tokens of their own beside byte 2^32 and at the end.
  const TempDir dir;
  const std::uint64_t border = std::uint64_t{1} << 32;
  const auto sparse = [&](const std::string& name, const std::string& header, std::uint64_t bytes) {
    const auto path = dir.write(name, header);
    std::filesystem::resize_file(path, bytes);
    std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
    for (const std::uint64_t at : {border - 4, bytes - 6}) {
      file.seekp(static_cast<std::streamoff>(at));
      file << all_bytes_of(std::vector<Token>{Token(at % 60'001), 2, 3});
    }
    return path;
  };
  // Tokens begin at byte `begin`, and the second of the three ends at the border.
  const auto check = [&](const auto& path, ps::TokenFormat format, std::uint64_t begin,
                         std::uint64_t bytes) {
    CAPTURE(path);
    auto source = ps::tokens<Token>(path, {.format = format});
    source.open();
    REQUIRE(source.size() == (bytes - begin) / sizeof(Token));
    for (const std::uint64_t at : {border - 4, bytes - 6}) {
      std::vector<Token> got(at == bytes - 6 ? 4 : 5, 9);
      const std::uint64_t first = (at - begin) / sizeof(Token) - 1;
      CHECK(source.read(ps::Batch<Token, ps::Pageable>{got.data(), got.size(), first}) ==
            got.size());
      std::vector<Token> wanted{0, Token(at % 60'001), 2, 3, 0};
      wanted.resize(got.size());
      CHECK(got == wanted);
    }
  };
  const std::uint64_t all = 5 * (border / 4);
  using Format = ps::TokenFormat;
  const auto raw = sparse("raw.bin", "", all);
  check(raw, Format::automatic, 0, all);
  check(raw, Format::raw, 0, all);

  const std::uint64_t count = all / sizeof(Token);
  const auto gpt =
      sparse("gpt.bin", llm_c_file(20240520, 1, static_cast<std::uint32_t>(count), ""), 1024 + all);
  check(gpt, Format::automatic, 1024, 1024 + all);
  check(gpt, Format::llm_c, 1024, 1024 + all);

  // Sequences of 1 GiB, the last two of which begin at byte 2^32 and behind it.
  const auto mega = sparse("mega.bin", "", all);
  const auto length = static_cast<std::int32_t>(border / 4 / sizeof(Token));
  const Index index{.lengths = {length, length, length, length, 1, length - 1},
                    .documents = {0, 4, 5, 6}};
  dir.write("mega.idx", index.file());
  check(mega, Format::automatic, 0, all);
  check(mega, Format::megatron, 0, all);
  // A place that lacks its upper half is refused.
  std::string cut = index.file();
  cut.replace(34 + 4 * 6 + 8 * 5, 8, bytes_of(std::uint64_t{sizeof(Token)}));
  dir.write("mega.idx", cut);
  CHECK(
      has(caught<ps::SourceError>([&] { ps::tokens<Token>(mega).open(); }),
          "sequence 5 begins at byte 2 of the tokens, and those before it end at byte 4294967298"));
}
