// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The code of docs/images.md, word for word.

#include "support/catch.hpp"
#include "support/file_records.hpp"

#include <penstock/decoders/jpeg.hpp>
#include <penstock/decoders/png.hpp>
#include <penstock/host/normalize.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <turbojpeg.h>

namespace ps = penstock;

namespace {

struct Encoded
    : ps::Columns<ps::Field<"key", ps::Ragged<char>>, ps::Field<"jpg", ps::Ragged<std::uint8_t>>,
                  ps::Field<"cls", std::int32_t>> {};
struct Picture
    : ps::Columns<ps::Field<"pixels", std::uint8_t, 3, 224, 224>, ps::Field<"cls", std::int32_t>> {
};

} // namespace

TEST_CASE("pictures come out as floats on the device, and bad ones are noted or left out") {
  const auto pixels = ps::tests::some_picture(300, 200, 3);
  unsigned char* made = nullptr;
  unsigned long size = 0;
  const tjhandle handle = ::tjInitCompress();
  REQUIRE(::tjCompress2(handle, pixels.data(), 300, 0, 200, TJPF_RGB, &made, &size, TJSAMP_420, 90,
                        0) == 0);
  ps::tests::FileRecords files{{20, std::string{reinterpret_cast<const char*>(made), size}}};
  ::tjFree(made);
  ::tjDestroy(handle);
  files.files[3].resize(size / 2);
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
  auto own = ps::jpeg<Encoded, Picture>({.workers = 2});
  static_assert(!decltype(grey)::refused && !decltype(own)::refused);
  CHECK_NOTHROW(grey);
}
