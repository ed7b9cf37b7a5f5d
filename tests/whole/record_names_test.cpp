// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Errors and skipped items say what their source calls a record: a file's path, a tar's key.

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/tar_file.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <penstock/formats/files.hpp>
#include <penstock/formats/tar.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/any_source.hpp>
#include <penstock/sources/slice.hpp>
#include <penstock/sources/where.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace ps = penstock;
namespace tests = penstock::tests;

namespace {

struct Key : ps::Columns<ps::Field<"txt", ps::Ragged<char>>> {};

// Takes a record of one byte, and no "x".
int first_of(const auto& bytes) {
  if (bytes[0] == 'x') {
    throw std::runtime_error{"an x"};
  }
  return bytes[0];
}
int of_file(ps::Row<const ps::LabelledFile> in) {
  return first_of(ps::get<"bytes">(in));
}
std::string write(const tests::TempDir& dir, const std::string& name, const std::string& text) {
  return dir.write(name, std::as_bytes(std::span{text}));
}
template <class S> std::vector<std::string> left_out(S source, auto decode) {
  auto pipeline = ps::Reader{std::move(source), {.epochs = 2, .order = {.shuffle = 3}}} |
                  ps::Decoder{decode, {.workers = 2, .on_error = {.skips = 10}}} |
                  ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  std::vector<std::string> files;
  for (const ps::SkippedItem& item : pipeline.run().skips) {
    files.push_back(item.file);
  }
  return files;
}

} // namespace

TEST_CASE("a Decoder's error names the file of the record, whatever the order") {
  const tests::Watchdog watchdog{"names of records"};
  const tests::TempDir dir;
  std::vector<std::string> paths;
  for (int i = 0; i != 20; ++i) {
    paths.push_back(write(dir, std::to_string(i), i == 7 ? "x" : "good"));
  }
  const auto source = ps::files(paths);
  const std::vector<std::string> twice(2, paths[7]);
  CHECK(left_out(source, of_file) == twice);
  CHECK(left_out(ps::drop(source, 5), of_file) == twice);
  CHECK(left_out(ps::where(source, {1, 7, 3}), of_file) == twice);
  CHECK(left_out(ps::AnySource<ps::LabelledFile>{source}, of_file) == twice);

  auto fails = ps::Reader{source} | ps::Decoder{of_file} |
               ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  const auto out = tests::outcome_of([&] { fails.run(); });
  CHECK(out.says("Decoder failed at record 7, " + paths[7] + ": an x"));
  CHECK(out.file == paths[7]);
  CHECK(out.record == 7);
}

TEST_CASE("errors name a sample's archive and key, and nothing behind another number of records") {
  const tests::Watchdog watchdog{"names of samples"};
  const tests::TempDir dir;
  const std::string path =
      write(dir, "a.tar",
            tests::tar_member("one.txt", "1") + tests::tar_member("two.txt", "x") + tests::tar_end);
  const auto decode = [](ps::Row<const Key> in) { return first_of(ps::get<"txt">(in)); };
  CHECK(left_out(ps::tar<Key>(path), decode) == std::vector<std::string>(2, path + ": two"));

  auto filtered = ps::Reader{ps::tar<Key>(path)} | ps::Decoder{[](ps::Row<const Key> in) {
                    return std::optional<char>{ps::get<"txt">(in)[0]};
                  }} |
                  ps::Decoder{[](const char& in) { return first_of(std::span{&in, 1}); }} |
                  ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  CHECK(tests::outcome_of([&] { filtered.run(); }).says("failed at record 1: an x"));
}
