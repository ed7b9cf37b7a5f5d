// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Files that are not what a source takes them for: those that lie in its directory by chance, and
// those of another format.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/format_files.hpp"
#include "support/temp_dir.hpp"

#include <penstock/sources/lines.hpp>
#include <penstock/sources/mnist.hpp>
#include <penstock/sources/npy.hpp>
#include <penstock/sources/npz.hpp>
#include <penstock/sources/records.hpp>
#include <penstock/sources/tfrecord.hpp>
#include <penstock/sources/tokens.hpp>

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
                     " have several endings, and all would be read as one kind: none (README), "
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
          Names{"a.mp4", "b.MP4"}}) {
      const TempDir dir;
      for (const std::string& name : names) {
        dir.write(name, name == "_SUCCESS" ? "" : "ab\n\n");
      }
      CAPTURE(names);
      CHECK(kind.open(dir.path()) != 0);
    }
    for (const Names& names : {Names{"a.bin", "b.bin.gz"}, Names{"a", "b.txt"},
                               Names{"a.u8", "a.u16"}, Names{"a.bin", "b.idx1"}}) {
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
