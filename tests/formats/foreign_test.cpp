// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Files that are not what a source takes them for: those that lie in its directory by chance, and
// those of another format.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/format_files.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/files.hpp>
#include <penstock/formats/lines.hpp>
#include <penstock/formats/mnist.hpp>
#include <penstock/formats/npy.hpp>
#include <penstock/formats/npz.hpp>
#include <penstock/formats/tfrecord.hpp>
#include <penstock/formats/tokens.hpp>
#include <penstock/sources/records.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::has;
using ps::tests::TempDir;
using ps::tests::thrown_by;

namespace {

template <class S> std::uint64_t size_of(S source) {
  source.open();
  return source.size();
}
// Opens what a path names by a source of each kind, which returns how many records it has.
using Open = std::function<std::uint64_t(const std::string&)>;
struct Kind {
  std::string call;
  Open open;
};
const std::vector<Kind> as_they_lie{
    {"records", [](const std::string& path) { return size_of(ps::records<std::uint16_t>(path)); }},
    {"tokens", [](const std::string& path) { return size_of(ps::tokens<std::uint16_t>(path)); }},
    {"lines", [](const std::string& path) { return size_of(ps::lines(path)); }}};
const std::vector<Kind> with_headers{
    {"npy", [](const std::string& path) { return size_of(ps::npy<std::byte>(path)); }},
    {"npz", [](const std::string& path) { return size_of(ps::npz<std::byte>(path, "a")); }},
    {"mnist", [](const std::string& path) { return size_of(ps::mnist<std::byte>(path)); }},
    {"tfrecord", [](const std::string& path) { return size_of(ps::tfrecord(path)); }}};

} // namespace

TEST_CASE("the files of a directory end alike, or it is refused with their endings") {
  std::vector<Kind> kinds = as_they_lie;
  kinds.insert(kinds.end(), with_headers.begin(), with_headers.end());
  for (const Kind& kind : kinds) {
    CAPTURE(kind.call);
    const TempDir dir;
    dir.write("train.bin", "abcd\n\n");
    dir.write("meta.json", "{\"v\":100}\n");
    dir.write("README", "text");
    dir.write("val.BIN", "abcd\n\n");
    const auto e = caught<ps::SourceError>([&] { kind.open(dir.path()); });
    CHECK(has(e, "penstock: " + kind.call + ": the files in the directory " + dir.path() +
                     " have several endings, and all would be read as one kind: readme (README), "
                     ".json (meta.json), .bin (train.bin). Name those that you mean in a list: "
                     "ps::files_at() returns all."));
    CHECK(e.file() == dir.path());
  }
  // Endings that number parts are one, and empty files have nothing.
  using Names = std::vector<std::string>;
  for (const Kind& kind : as_they_lie) {
    CAPTURE(kind.call);
    for (const Names& names :
         {Names{"a.bin", "b.BIN", "_SUCCESS"}, Names{"part-0", "part-1"}, Names{"x.000", "x.1"},
          Names{"t.tfrecord-00000-of-00002", "t.tfrecord-00001-of-00002"}, Names{"a.v1.5", "b.7"},
          Names{"a.mp4", "b.MP4"}, Names{"xaa", "xab"}}) {
      const TempDir dir;
      for (const std::string& name : names) {
        dir.write(name, name == "_SUCCESS" ? "" : "ab\n\n");
      }
      CAPTURE(names);
      CHECK(kind.open(dir.path()) != 0);
    }
    for (const Names& names :
         {Names{"a.bin", "b.bin.gz"}, Names{"a", "b.txt"}, Names{"a.u8", "a.u16"},
          Names{"a.bin", "b.idx1"}, Names{"part-00000", "part-00001", "README"}}) {
      const TempDir dir;
      for (const std::string& name : names) {
        dir.write(name, "ab\n\n");
      }
      CAPTURE(names);
      CHECK(thrown_by<ps::SourceError>([&] { kind.open(dir.path()); }));
    }
  }
  const TempDir many;
  for (char c = 'a'; c <= 'z'; ++c) {
    many.write(std::string{"x."} + c, "ab");
  }
  CHECK(has(caught<ps::SourceError>([&] { as_they_lie[0].open(many.path()); }),
            ".e (x.e), .f (x.f), .... Name those"));
  CHECK(size_of(ps::records<char>(ps::files_at(ps::PosixIo{}, many.path()))) == 52);
}

namespace {

struct Foreign {
  std::string begin;
  std::string words;
};
std::string zeros(std::size_t count) {
  return std::string(count, '\0');
}
template <std::size_t N> std::string raw(const char (&text)[N]) {
  return {text, N - 1};
}
std::string llm_c(std::uint32_t magic, std::uint32_t version) {
  return ps::tests::bytes_of(magic) + ps::tests::bytes_of(version) + zeros(1016);
}
// As the tools write them; behind each there is room.
const std::vector<Foreign> packed{
    {raw("\x1f\x8b\x08\0\0\0\0\0\x02\xff"),
     "is compressed by gzip: unpack it first, by gunzip, or"},
    {raw("\x1f\x8b\x08\x08\x12\x34\x56\x78\0\x03name\0"), "is compressed by gzip"},
    {raw("\x28\xb5\x2f\xfd\x24"), "is compressed by zstd: unpack it first, by zstd -d, or"},
    {raw("\x50\x2a\x4d\x18\x04\0\0\0"), "is compressed by zstd or lz4"},
    {raw("\x5f\x2a\x4d\x18\x04\0\0\0"), "is compressed by zstd or lz4"},
    {raw("\x04\x22\x4d\x18\x64\x40"), "is compressed by lz4"},
    {raw("\x02\x21\x4c\x18"), "is compressed by lz4"},
    {raw("\xfd"
         "7zXZ\0\0\4"),
     "is compressed by xz"},
    {"BZh91AY&SY", "is compressed by bzip2"},
    {raw("BZh1\x17\x72\x45\x38\x50\x90"), "is compressed by bzip2"},
    {raw("LZIP\1"), "is compressed by lzip"},
    {raw("\x89LZO\0\r\n\x1a\n"), "is compressed by lzop"},
    {raw("\x1f\x9d\x90"), "is compressed by compress"},
    {raw("\xff\x06\0\0sNaPpY"), "is compressed by snappy"}};
const std::vector<Foreign> others{
    {raw("PK\3\4\x14\0"), "is a ZIP archive: read one of NumPy's by ps::npz"},
    {raw("PK\5\6\0\0"), "is a ZIP archive without members"},
    {raw("\xff\xd8\xff\xe0\0\x10JFIF\0"), "is a JPEG picture: read it by ps::files and ps::jpeg"},
    {raw("\xff\xd8\xff\xe1\1\x10"
         "Exif\0"),
     "is a JPEG picture"},
    {raw("GIF89a\1\0"), "is a GIF picture"},
    {raw("RIFF\1\1\1\1WAVEfmt \x10"), "is a WAV file"},
    {raw("MATLAB 5.0 MAT-file, Platform"), "is a file of MATLAB's"},
    {raw("\x7f"
         "ELF\2\1\1\0"),
     "is a program"},
    {raw("7z\xbc\xaf\x27\x1c"), "is a 7z archive"},
    {raw("Rar!\x1a\7\1\0"), "is a RAR archive"},
    {"a" + zeros(256) +
         raw("ustar\0"
             "00"),
     "is a tar archive: read it by ps::tar."},
    {"a" + zeros(256) + raw("ustar  \0"), "is a tar archive: read it by ps::tar."},
    {raw("\x93NUMPY\1\0"), "is a .npy file: read it by ps::npy."},
    {raw("MMIDIDX\0\0"), "is an index of Megatron's: name the file of tokens"},
    {raw("TNTIDX\0\0"), "is an index of an early Megatron"},
    {raw("GGUF\3\0\0\0"), "is a GGUF file"},
    {raw("PAR1\x15\4"), "is a Parquet file"},
    {raw("ARROW1\0\0"), "is an Arrow file"},
    {raw("FEA1\x10\0\0\0"), "is a Feather file"},
    {raw("\x89HDF\r\n\x1a\n"), "is an HDF5 file"},
    {raw("CDF\1\0\0\0\1"), "is a NetCDF file"},
    {raw("SQLite format 3\0"), "is a database of SQLite's"},
    {raw("Obj\1\4\x16"
         "avro.schema"),
     "is an Avro file"},
    {raw("\x80\4\x95\x10\0\0\0\0\0\0\0"), "is a pickle of Python's"},
    {raw("\x80\5\x95\x10\0\0\0\0\0\0\0"), "is a pickle of Python's"},
    {raw("\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20"), "is a file of torch.save()"},
    {raw("\x89PNG\r\n\x1a\n"), "is a PNG picture"},
    {raw("\x89PSPK\r\n\x1a"), "is a packed file: read it by ps::unpacked"},
    {"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS's, and no data"},
    {"%PDF-1.7\n", "is a PDF file"},
    {raw("\x02\0\0\0\0\0\0\0{}"), "is a safetensors file: read it by ps::safetensors."},
    {raw("\x30\0\0\0\0\0\0\0{\"a\":"), "is a safetensors file"},
    {raw("\5\0\0\0\0\0\0\0\xea\xb2\x04\x3e"), "is a TFRecord file: read it by ps::tfrecord."},
    {llm_c(20240326, 3), "begins with llm.c's number 20240326, as models"},
    {llm_c(20240522, 1), "begins with llm.c's number 20240522"}};

// Writes the file, whose size is even and no whole number of some others.
std::string written(const TempDir& dir, const std::string& begin, const std::string& name = "x") {
  std::string text = begin + std::string(2000, '\7');
  text.resize(text.size() / 2 * 2 + (begin.size() % 2 == 0 ? 0 : 2), '\7');
  return dir.write(name, text);
}

} // namespace

TEST_CASE("a file of another kind is refused by name, wherever bytes are taken as they lie") {
  const TempDir dir;
  for (const auto* kinds : {&packed, &others}) {
    for (const Foreign& foreign : *kinds) {
      CAPTURE(foreign.words);
      const std::string path = written(dir, foreign.begin);
      for (const Kind& kind : as_they_lie) {
        CAPTURE(kind.call);
        const auto e = caught<ps::SourceError>([&] { kind.open(path); });
        CHECK(has(e, "penstock: " + path + " at byte 0 " + foreign.words));
        CHECK(e.file() == path);
        CHECK(e.offset() == 0U);
      }
      for (const Kind& kind : with_headers) {
        const bool own = foreign.words.find("ps::" + kind.call + ".") != std::string::npos ||
                         (kind.call == "npz" && foreign.begin.starts_with("PK"));
        CAPTURE(kind.call);
        const auto e = caught<ps::SourceError>([&] { kind.open(path); });
        CHECK((own || has(e, "penstock: " + path + " at byte 0 " + foreign.words)));
      }
      // Whoever wants the bytes has them.
      CHECK(size_of(ps::records<char>(path)) != 0);
      CHECK(size_of(ps::records<unsigned char>(path)) != 0);
      CHECK(size_of(ps::records<std::byte>(path)) != 0);
      CHECK(size_of(ps::files(path)) == 1);
      CHECK(size_of(ps::records<std::uint16_t>(path, {.as_it_is = true})) != 0);
      CHECK(size_of(ps::tokens<std::uint16_t>(path, {.format = ps::TokenFormat::raw})) != 0);
      // Behind an offset there may be records of any format, but none that are compressed.
      const auto behind = [&] { size_of(ps::records<std::uint16_t>(path, {.offset = 2})); };
      CHECK(thrown_by<ps::SourceError>(behind).has_value() == (kinds == &packed));
      const auto large = [&] {
        size_of(ps::records<std::byte>(path, {.record_bytes = 100, .drop_partial = true}));
      };
      CHECK(thrown_by<ps::SourceError>(large));
    }
  }
  const std::string path = written(dir, packed[0].begin);
  CHECK(has(caught<ps::SourceError>([&] { as_they_lie[0].open(path); }),
            " If it has records alone, set .as_it_is."));
  CHECK(has(caught<ps::SourceError>([&] { as_they_lie[1].open(path); }),
            " If it has tokens alone, set .format = ps::TokenFormat::raw."));
  // llm.c's header of tokens is the business of tokens() alone.
  const std::string tokens = dir.write("t.bin", llm_c(20240520, 1));
  CHECK(
      has(caught<ps::SourceError>([&] { as_they_lie[0].open(tokens); }), "read it by ps::tokens"));
}

TEST_CASE("what begins almost as another kind does is taken") {
  const TempDir dir;
  for (const std::string& begin : {raw("\x1f\x8b\x07\0"),
                                   raw("\x1f\x8b\x08\xe0"),
                                   raw("\x1f\x8b"),
                                   raw("\x28\xb5\x2f"),
                                   raw("\x40\x2a\x4d\x18"),
                                   raw("BZh9 is a magic"),
                                   raw("PK: a text"),
                                   raw("PAR1 of a text"),
                                   raw("GGUF is a format"),
                                   raw("CDF\n"),
                                   raw("Obj\1"),
                                   raw("\x80\4\x95"),
                                   raw("FEA1 text"),
                                   "a" + zeros(256) + "ustar is a text",
                                   raw("LZIP text"),
                                   llm_c(20240326, 99),
                                   llm_c(20240325, 1),
                                   llm_c(20240326, 0),
                                   raw("\5\0\0\0\0\0\0\0\xea\xb2\x04\x3f"),
                                   zeros(300),
                                   raw("\x30\0\0\0\0\0\0\0[\"a\":"),
                                   raw("\xff\xff\xff\xff\xff\xff\xff\xff{\"a"),
                                   raw("7z"),
                                   std::string(300, '\xff')}) {
    const std::string path = written(dir, begin);
    CAPTURE(begin);
    for (const Kind& kind : as_they_lie) {
      CHECK(kind.open(path) != 0);
    }
  }
  // Records that begin with a date as a number.
  CHECK(as_they_lie[0].open(written(dir, llm_c(20240801, 0))) != 0);
  // Files of every length that a kind's magic is cut to.
  for (const auto* kinds : {&packed, &others}) {
    for (const Foreign& foreign : *kinds) {
      for (std::size_t bytes = 0; bytes <= std::min<std::size_t>(foreign.begin.size(), 300);
           ++bytes) {
        const std::string path = dir.write("cut", foreign.begin.substr(0, bytes));
        static_cast<void>(thrown_by<ps::SourceError>([&] { size_of(ps::lines(path)); }));
      }
    }
  }
}

TEST_CASE("of very many files those whose names tell of it are looked at, and the first 256") {
  const TempDir dir;
  std::vector<std::string> list;
  for (int i = 0; i != 300; ++i) {
    list.push_back(dir.write(std::to_string(i), "abcd"));
  }
  CHECK(size_of(ps::records<std::uint16_t>(list)) == 600);
  const auto with = [&](std::size_t at, const std::string& name) {
    std::vector<std::string> all = list;
    all[at] = written(dir, packed[0].begin, name);
    return thrown_by<ps::SourceError>([&] { size_of(ps::records<std::uint16_t>(all)); });
  };
  for (const std::size_t at : {std::size_t{0}, std::size_t{255}, std::size_t{299}}) {
    const auto e = with(at, "x.bin.gz");
    REQUIRE(e);
    CHECK(has(*e, "x.bin.gz at byte 0 is compressed by gzip"));
  }
  CHECK(with(255, "x"));
  CHECK_FALSE(with(256, "x"));
}

TEST_CASE("an index that is none of Megatron's is no file of tokens either") {
  const TempDir dir;
  dir.write("a.bin", "abcd");
  dir.write("b.idx", "abcd");
  const auto e = caught<ps::SourceError>([&] { ps::tokens<std::uint16_t>(dir.path()).open(); });
  CHECK(has(e, "b.idx at byte 0 is no index of Megatron's, and lies in a directory of tokens"));
  using Format = ps::TokenFormat;
  for (const Format format : {Format::raw, Format::llm_c}) {
    CHECK(has(caught<ps::SourceError>(
                  [&] { ps::tokens<std::uint16_t>(dir.path(), {.format = format}).open(); }),
              ".bin (a.bin), .idx (b.idx)"));
  }
}
