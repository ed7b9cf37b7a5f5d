// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The code of docs/images.md, word for word, and the recipes of docs/cookbook.md on pictures.

#include "cookbook/pictures.hpp"
#include "cookbook/tars.hpp"
#include "support/catch.hpp"
#include "support/file_records.hpp"
#include "support/tar_file.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/jpeg.hpp>
#include <penstock/formats/png.hpp>
#include <penstock/host/normalize.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <turbojpeg.h>

namespace ps = penstock;

namespace {

struct Encoded
    : ps::Columns<ps::Field<"key", ps::Ragged<char>>, ps::Field<"jpg", ps::Ragged<std::uint8_t>>,
                  ps::Field<"cls", std::int32_t>> {};
struct Pixels
    : ps::Columns<ps::Field<"pixels", std::uint8_t, 3, 224, 224>, ps::Field<"cls", std::int32_t>> {
};

std::string some_file() {
  const auto pixels = ps::tests::some_picture(300, 200, 3);
  unsigned char* made = nullptr;
  unsigned long size = 0;
  const tjhandle handle = ::tjInitCompress();
  REQUIRE(::tjCompress2(handle, pixels.data(), 300, 0, 200, TJPF_RGB, &made, &size, TJSAMP_420, 90,
                        0) == 0);
  std::string file{reinterpret_cast<const char*>(made), size};
  ::tjFree(made);
  ::tjDestroy(handle);
  return file;
}

} // namespace

TEST_CASE("pictures come out as floats on the device, and bad ones are noted or left out") {
  const std::string file = some_file();
  ps::tests::FileRecords files{{20, file}};
  files.files[3].resize(file.size() / 2);
  files.files[4] = "none";
  ps::HostDevice device;
  auto stream = device.stream();
  const auto floats = ps::device_array<float>(device, 256 * 3 * 224 * 224);

  ps::ImageNotes notes;
  auto pictures = ps::Reader{files, {.order = {.shuffle = 7}}} |
                  ps::jpeg<3, 224, 224>({.crop = ps::Crop::random,
                                         .flip = true,
                                         .seed = 7,
                                         .notes = &notes,
                                         .on_error = {.skips = 100}}) |
                  ps::AsyncCopier{device, {.batch = 256}};
  for (auto batch : pictures.on(stream)) {
    ps::normalize(stream, ps::get<"image">(batch), floats.data(),
                  {.mean = {0.485F, 0.456F, 0.406F}, .deviation = {0.229F, 0.224F, 0.225F}});
  }
  const std::vector<float> got = floats.read(stream);
  CHECK(*std::max_element(got.begin(), got.end()) > 0.5F);
  CHECK(*std::min_element(got.begin(), got.end()) < -0.5F);
  CHECK(pictures.report().records == 19);
  CHECK(pictures.report().skipped == 1);
  CHECK(notes.count() == 1);
}

TEST_CASE("schemas of one's own, and a size at run time") {
  const std::size_t height = 20;
  const std::size_t width = 30;
  auto grey = ps::png<1, ps::dynamic, ps::dynamic, ps::Pageable>({.size = {height, width}});
  auto own = ps::jpeg<Encoded, Pixels>({.workers = 2});
  static_assert(!decltype(grey)::refused && !decltype(own)::refused);
  CHECK_NOTHROW(grey);
}

TEST_CASE("a folder of pictures trains a model, and bad ones are named") {
  const ps::tests::TempDir dir;
  const std::string file = some_file();
  for (int i = 0; i != 6; ++i) {
    const std::string name = std::to_string(i % 2) + "/" + std::to_string(i) + ".JPG";
    std::filesystem::create_directories(dir / std::to_string(i % 2));
    dir.write(name, std::as_bytes(i == 3 ? std::span{"none"} : std::span{file}));
  }
  ps::HostDevice device;
  std::vector<std::int32_t> labels;
  std::ostringstream log;
  train(
      device, dir.path(), 2, log,
      [&](ps::HostStream& stream, const float* inputs, const std::int32_t* of, std::size_t count) {
        device.sync(stream);
        labels.insert(labels.end(), of, of + count);
        CHECK(*std::max_element(inputs, inputs + 3 * 224 * 224) > 0.5F);
      });
  std::sort(labels.begin(), labels.end());
  CHECK(labels == std::vector<std::int32_t>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1});
  const std::string said = log.str();
  CHECK(std::count(said.begin(), said.end(), '\n') == 2);
  CHECK(said.starts_with(dir / "1/3.JPG: "));
}

TEST_CASE("each rank has its share of a folder's archives") {
  const ps::tests::TempDir dir;
  std::string archive;
  for (int i = 0; i != 8; ++i) {
    archive += ps::tests::tar_member(std::to_string(i) + ".jpeg", some_file()) +
               ps::tests::tar_member(std::to_string(i) + ".cls", std::to_string(i));
  }
  archive += ps::tests::tar_end;
  dir.write("a.tar", std::as_bytes(std::span{archive}));
  std::vector<int> seen;
  for (std::uint32_t rank = 0; rank != 2; ++rank) {
    ps::HostDevice device;
    auto stream = device.stream();
    auto pictures = pictures_of(device, dir.path(), {.rank = rank, .world = 2});
    for (auto batch : pictures.on(stream)) {
      device.sync(stream);
      const auto labels = ps::get<"cls">(batch);
      seen.insert(seen.end(), labels.data(), labels.data() + batch.size());
      break; // of the first epoch
    }
  }
  std::sort(seen.begin(), seen.end());
  CHECK(seen == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(std::filesystem::exists(dir / ".a.tar.penstock-index"));
}
