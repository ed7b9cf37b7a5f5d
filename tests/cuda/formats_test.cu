// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A pipeline of each format by nvcc, which hands its host compiler other code than it was given.

#include "support/catch.hpp"

#include <penstock/cuda.hpp>
#include <penstock/formats/files.hpp>
#include <penstock/formats/jpeg.hpp>
#include <penstock/formats/lines.hpp>
#include <penstock/formats/mnist.hpp>
#include <penstock/formats/npy.hpp>
#include <penstock/formats/npz.hpp>
#include <penstock/formats/png.hpp>
#include <penstock/formats/safetensors.hpp>
#include <penstock/formats/tar.hpp>
#include <penstock/formats/tfrecord.hpp>
#include <penstock/formats/tokens.hpp>
#include <penstock/formats/zlib_inflate.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/windows.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace ps = penstock;

namespace {

constexpr const char* lacking = "/penstock/lacks/this";

struct Image
    : ps::Columns<ps::Field<"pixels", std::uint8_t, 28, 28>, ps::Field<"label", std::uint8_t>> {};
struct Pixels : ps::Columns<ps::Field<"pixels", std::uint8_t, 3, 32, 32>> {};
struct Sample
    : ps::Columns<ps::Field<"jpg", ps::Ragged<std::uint8_t>>, ps::Field<"cls", std::int32_t>> {};

// Returns how opening failed, since there is no such file.
template <class In, class Chain> std::string how_it_fails(Chain chain) {
  auto pipeline = std::move(chain) | ps::Consumer{[](ps::Batch<const In, ps::Pageable>) {}};
  try {
    pipeline.prepare();
  } catch (const ps::SourceError& e) {
    return e.what();
  }
  return "it opened";
}
template <class Source> void check(Source source) {
  CHECK_THAT(how_it_fails<typename Source::schema>(ps::Reader{std::move(source), {.workers = 2}}),
             Catch::Contains(lacking));
}

// Pictures of files, made by a Decoder.
template <class Decoder> void check_pictures(Decoder decoder) {
  CHECK_THAT(how_it_fails<Pixels>(ps::Reader{ps::files(lacking)} | std::move(decoder)),
             Catch::Contains(lacking));
}

} // namespace

TEST_CASE("nvcc compiles a Reader of each format, which names the file that is lacking") {
  check(ps::files(lacking));
  check(ps::lines(lacking));
  check(ps::mnist<Image>(lacking, lacking));
  check(ps::npy<Image>(lacking, lacking));
  check(ps::npz<float>(lacking, "x"));
  check(ps::npz<float>(lacking, "x", {.inflate = ps::zlib_inflate}));
  check(ps::safetensors(lacking));
  check(ps::tar<Sample>(lacking));
  check(ps::tfrecord(lacking));
  check(ps::windows(ps::tokens<std::uint16_t>(lacking), {.length = 4}));
  check_pictures(ps::Decoder{ps::jpeg<ps::LabelledFile, Pixels, ps::Pageable>({})});
  check_pictures(ps::Decoder{ps::png<ps::LabelledFile, Pixels, ps::Pageable>({})});
}
