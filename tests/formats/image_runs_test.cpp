// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whole runs over labelled JPEG files, one in a hundred of them bad: the same pixels whatever the
// workers, the rest from any position, and shares of ranks that make up the whole.

#include "support/catch.hpp"
#include "support/file_records.hpp"
#include "support/tar_file.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/files.hpp>
#include <penstock/formats/jpeg.hpp>
#include <penstock/formats/tar.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <turbojpeg.h>

namespace ps = penstock;
using ps::tests::TempDir;

namespace {

constexpr int pictures = 300;

bool is_bad(int number) {
  return number % 100 == 37;
}
std::string file_of(int number) {
  if (is_bad(number)) {
    return number == 37 ? "" : "no picture";
  }
  const auto pixels =
      ps::tests::some_picture(30, 20, 3, static_cast<unsigned>(number) * 2654435761U + 1);
  unsigned char* made = nullptr;
  unsigned long size = 0;
  const tjhandle handle = ::tjInitCompress();
  REQUIRE(::tjCompress2(handle, pixels.data(), 30, 0, 20, TJPF_RGB, &made, &size, TJSAMP_420, 90,
                        0) == 0);
  std::string file{reinterpret_cast<const char*>(made), size};
  ::tjFree(made);
  ::tjDestroy(handle);
  return file;
}
auto folder(const TempDir& dir) {
  std::vector<std::string> list;
  std::vector<std::int32_t> labels;
  for (int i = 0; i != pictures; ++i) {
    const std::string file = file_of(i);
    list.push_back(dir.write(std::to_string(i) + ".jpg", std::as_bytes(std::span{file})));
    labels.push_back(i);
  }
  return ps::files(std::move(list), std::move(labels));
}

struct Sample
    : ps::Columns<ps::Field<"label", std::int32_t>, ps::Field<"jpg", ps::Ragged<std::uint8_t>>> {};

auto archives(const TempDir& dir) {
  for (int shard = 0; shard != 3; ++shard) {
    std::string archive;
    for (int i = shard * 100; i != shard * 100 + 100; ++i) {
      archive += ps::tests::tar_member(std::to_string(i) + ".label", std::to_string(i)) +
                 ps::tests::tar_member(std::to_string(i) + ".jpg", file_of(i));
    }
    archive += ps::tests::tar_end;
    dir.write(std::to_string(shard) + ".tar", std::as_bytes(std::span{archive}));
  }
  return ps::tar<Sample>(dir.path());
}

/// A picture that was delivered.
struct Shown {
  int label;
  std::string pixels;
  bool operator==(const Shown&) const = default;
};
using All = std::vector<Shown>;

template <class Where, class Source>
auto chain(const Source& source, unsigned workers, const ps::Ranks& ranks = {}) {
  using Picture = ps::Image<3, 16, 16>;
  return ps::Reader{source,
                    {.workers = workers,
                     .epochs = 2,
                     .order = {.shuffle = 5, .ranks = ranks},
                     .batch = 16,
                     .on_error = {.skips = 100}}} |
         ps::jpeg<typename Source::schema, Picture, Where>({.workers = workers,
                                                            .crop = ps::Crop::random,
                                                            .flip = true,
                                                            .seed = 9,
                                                            .on_error = {.skips = 100}});
}
void append(All& all, const auto& batch) {
  for (std::size_t i = 0; i != batch.size(); ++i) {
    const auto& pixels = ps::get<"image">(batch)[i];
    all.push_back({ps::get<"label">(batch)[i],
                   std::string{reinterpret_cast<const char*>(&pixels), sizeof pixels}});
  }
}
// Takes at most so many batches from a position on, and says where that ended.
template <class Source> std::pair<All, std::string>
shown(const Source& source, unsigned workers, const std::string& from = {},
      std::size_t most_batches = ~std::size_t{0}) {
  auto pipeline = chain<ps::Pageable>(source, workers);
  All all;
  std::string stands;
  const ps::RunOptions options{.from = from.empty() ? ps::Position{} : ps::Position{from}};
  for (auto batch : pipeline.batches(options)) {
    append(all, batch);
    stands = batch.position().text();
    if (--most_batches == 0) {
      break;
    }
  }
  return {all, stands};
}
std::string labels_of(const All& all) {
  std::string labels;
  for (const Shown& one : all) {
    labels += std::to_string(one.label) + " ";
  }
  return labels;
}

template <class Source> void check_repeats(const Source& source) {
  const All whole = shown(source, 1).first;
  REQUIRE(whole.size() == 2 * (pictures - 3));
  // What is random differs between epochs.
  const auto half = static_cast<std::ptrdiff_t>(whole.size() / 2);
  CHECK(labels_of({whole.begin(), whole.begin() + half}) !=
        labels_of({whole.begin() + half, whole.end()}));
  std::set<std::string> different;
  for (const Shown& one : whole) {
    different.insert(one.pixels);
  }
  CHECK(different.size() > whole.size() * 9 / 10);
  for (const unsigned workers : {2U, 7U}) {
    const All again = shown(source, workers).first;
    CHECK(labels_of(again) == labels_of(whole));
    CHECK(again == whole);
  }
  for (const std::size_t batches : {1U, 9U, 19U, 30U}) {
    auto [all, stands] = shown(source, 4, {}, batches);
    REQUIRE(all.size() < whole.size());
    for (const Shown& one : shown(source, 2, stands).first) {
      all.push_back(one);
    }
    INFO("after " << batches << " batches");
    CHECK(labels_of(all) == labels_of(whole));
    CHECK(all == whole);
  }
}

template <class Source> void check_ranks(const Source& source) {
  constexpr std::size_t world = 3;
  constexpr std::size_t steps = 2 * ((pictures / world + 15) / 16);
  std::array<std::set<int>, 2> of_epoch;
  std::size_t in_all = 0;
  for (std::uint32_t rank = 0; rank != world; ++rank) {
    ps::HostDevice device;
    auto stream = device.stream();
    auto pipeline = chain<ps::Pinned>(source, 3, {.rank = rank, .world = world}) |
                    ps::AsyncCopier{device, {.batch = 16}};
    std::vector<std::size_t> sizes;
    for (auto batch : pipeline.on(stream)) {
      device.sync(stream);
      const std::size_t epoch = sizes.size() * 2 / steps;
      All here;
      append(here, batch);
      for (const Shown& one : here) {
        INFO("rank " << rank << ", label " << one.label);
        CHECK_FALSE(is_bad(one.label));
        CHECK(of_epoch.at(epoch).insert(one.label).second); // no other rank has it
      }
      in_all += here.size();
      sizes.push_back(here.size());
    }
    CHECK(sizes.size() == steps);
    CHECK(std::count(sizes.begin(), sizes.end(), 0U) == 0);
  }
  CHECK(in_all == 2 * (pictures - 3));
  CHECK(of_epoch[0] == of_epoch[1]);
}

} // namespace

TEST_CASE("a shuffled run over a folder is the same whatever the workers, and goes on anywhere") {
  const TempDir dir;
  check_repeats(folder(dir));
}
TEST_CASE("a shuffled run over archives is the same whatever the workers, and goes on anywhere") {
  const TempDir dir;
  check_repeats(archives(dir));
}
TEST_CASE("three ranks share pictures, with equally many batches though some cannot be decoded") {
  const TempDir dir;
  const TempDir other;
  check_ranks(folder(dir));
  check_ranks(archives(other));
}
TEST_CASE("each run's Report tells of its own damaged files, also while it runs") {
  const TempDir dir;
  std::vector<std::string> list;
  for (int i = 0; i != pictures; ++i) {
    std::string file = file_of(is_bad(i) ? 0 : i);
    file.resize(i % 3 == 2 ? file.size() - 2 : file.size());
    list.push_back(dir.write(std::to_string(i) + ".jpg", std::as_bytes(std::span{file})));
  }
  auto pipeline = ps::Reader{ps::files(std::move(list)), {.batch = 10}} |
                  ps::jpeg<3, 8, 8, ps::Pageable>({.workers = 4});
  const auto told = [](std::uint64_t count) {
    return "kept " + std::to_string(count) + " records whose file";
  };
  ps::Position late;
  for (int run = 0; run != 3; ++run) {
    std::size_t notes = 0;
    for (auto batch : pipeline.batches()) {
      const std::string note = pipeline.report().stages[1].note;
      notes += note.find("kept ") == 0 && note.find("the first at record 2:") != std::string::npos;
      late = batch.index() == pictures - 20 ? batch.position() : late;
    }
    CHECK(notes == pictures / 10);
    CHECK(pipeline.report().stages[1].note.find(told(pictures / 3)) == 0);
  }
  for (auto batch : pipeline.batches({.from = late})) {
    static_cast<void>(batch);
  }
  CHECK(pipeline.report().stages[1].note.find(told(4)) == 0);
}
