// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Resizing by the definition, and which part of a picture is taken.

#include "support/catch.hpp"
#include "support/file_records.hpp"
#include "support/randomness.hpp"

#include <penstock/formats/detail/crop_box.hpp>
#include <penstock/formats/detail/resizer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <vector>

using namespace penstock;
using namespace penstock::detail;

namespace {

// One value of a row that becomes `out` long, as exactly as doubles are.
template <class At> double exact(std::size_t in, std::size_t out, std::size_t x, At at) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double support = std::max(scale, 1.0);
  const double centre = (static_cast<double>(x) + 0.5) * scale;
  double sum = 0;
  double weights = 0;
  const auto from = static_cast<std::size_t>(std::max(centre - support - 1, 0.0));
  for (std::size_t i = from; i < in && static_cast<double>(i) < centre + support + 1; ++i) {
    const double weight =
        std::max(1 - std::abs(static_cast<double>(i) + 0.5 - centre) / support, 0.0);
    sum += weight * at(i);
    weights += weight;
  }
  return sum / weights;
}

// The largest difference between resize() and the definition.
template <std::size_t stride, class Rows>
double apart(std::size_t width, std::size_t height, const CropBox& box, std::size_t out_width,
             std::size_t out_height) {
  constexpr std::size_t planes = stride == 4 ? 3 : 1;
  std::vector<std::uint8_t> in = tests::some_picture(width, height, stride);
  in.resize(in.size() + row_slack);
  std::vector<std::uint8_t> out(planes * out_width * out_height + 1, 77);
  Resizer<stride, Rows> resize{out_width, out_height};
  resize({in.data(), width, height}, box, false, out.data());
  CHECK(out.back() == 77);
  double most = 0;
  for (std::size_t plane = 0; plane != planes; ++plane) {
    for (std::size_t x = 0; x < out_width; x += out_width / 7 + 1) {
      for (std::size_t y = 0; y < out_height; y += out_height / 5 + 1) {
        const double wanted = exact(box.height, out_height, y, [&](std::size_t row) {
          return exact(box.width, out_width, x, [&](std::size_t column) {
            return static_cast<double>(
                in[((box.top + row) * width + box.left + column) * stride + plane]);
          });
        });
        most = std::max(most, std::abs(wanted - out[(plane * out_height + y) * out_width + x]));
      }
    }
  }
  return most;
}

// Half for rounding, and what ResizeWeights allows where each value has few neighbours.
constexpr double near = 0.55;

// What plain loops and fast ones make of the same picture.
template <std::size_t stride> bool alike(const CropBox& box, std::size_t width, std::size_t height,
                                         bool flip) {
  const std::vector<std::uint8_t> in = [] {
    auto pixels = tests::some_picture(333, 211, stride);
    pixels.resize(pixels.size() + row_slack);
    return pixels;
  }();
  std::vector<std::uint8_t> plain((stride == 4 ? 3 : 1) * width * height + 1, 77);
  std::vector<std::uint8_t> fast = plain;
  Resizer<stride, PlainRows>{width, height}({in.data(), 333, 211}, box, flip, plain.data());
  Resizer<stride, FastRows>{width, height}({in.data(), 333, 211}, box, flip, fast.data());
  return plain == fast && fast.back() == 77;
}

ImageOptions random_crops() {
  return {.crop = Crop::random};
}

} // namespace

TEST_CASE("a resize is the definition's, rounded once") {
  const auto [width, height, out_width, out_height] =
      GENERATE(table<std::size_t, std::size_t, std::size_t, std::size_t>({{500, 375, 224, 224},
                                                                          {224, 224, 224, 224},
                                                                          {100, 80, 224, 300},
                                                                          {1, 1, 9, 7},
                                                                          {1, 50, 9, 7},
                                                                          {2, 3, 1, 1},
                                                                          {3001, 7, 5, 5},
                                                                          {7, 3001, 5, 33},
                                                                          {33, 35, 32, 34},
                                                                          {40000, 2, 1, 1},
                                                                          {15, 15, 16, 17}}));
  CAPTURE(width, height, out_width, out_height);
  const CropBox whole{0, 0, width, height};
  CHECK(apart<4, FastRows>(width, height, whole, out_width, out_height) < near);
  CHECK(apart<1, FastRows>(width, height, whole, out_width, out_height) < near);
  CHECK(apart<4, PlainRows>(width, height, whole, out_width, out_height) < near);
}

TEST_CASE("a part is resized as if there were nothing around it") {
  CHECK(apart<4, FastRows>(500, 375, {100, 37, 211, 300}, 224, 224) < near);
  CHECK(apart<4, FastRows>(500, 375, {499, 374, 1, 1}, 224, 224) < near);
  CHECK(apart<1, FastRows>(500, 375, {250, 0, 250, 375}, 20, 40) < near);
  CHECK(apart<4, FastRows>(500, 375, {0, 100, 500, 3}, 224, 224) < near);
}

TEST_CASE("the processor's own instructions make what plain loops make") {
  for (const std::size_t width : {1, 4, 5, 10, 11, 15, 16, 17, 33, 50, 224, 400}) {
    for (const bool flip : {false, true}) {
      CAPTURE(width, flip);
      CHECK(alike<4>({3, 5, 320, 199}, width, 71, flip));
      CHECK(alike<1>({3, 5, 320, 199}, width, 71, flip));
      CHECK(alike<4>({332, 210, 1, 1}, width, 3, flip));
      CHECK(alike<1>({300, 17, 33, 194}, width, 6, flip));
    }
  }
}

TEST_CASE("one value comes out as it is, whatever the size") {
  constexpr std::size_t side = 260;
  for (const std::size_t size : {1, 4, 7, 8, 9, 50, 260, 300}) {
    Resizer<1> resize{size, size};
    Resizer<1, PlainRows> plainly{size, size};
    int wrong = 0;
    for (int value = 0; value < 256; value += tests::thorough() ? 1 : 5) {
      const auto byte = static_cast<std::uint8_t>(value);
      const std::vector<std::uint8_t> in(side * side + row_slack, byte);
      const std::vector<std::uint8_t> expected(size * size, byte);
      std::vector<std::uint8_t> out(size * size);
      resize({in.data(), side, side}, {0, 0, side, side}, false, out.data());
      wrong += out != expected;
      plainly({in.data(), side, side}, {0, 0, side, side}, false, out.data());
      wrong += out != expected;
    }
    CAPTURE(size);
    CHECK(wrong == 0);
  }
}

TEST_CASE("a picture of the wanted size stays as it is, and can be mirrored") {
  auto in = tests::some_picture(37, 11, 1);
  const std::vector<std::uint8_t> before = in;
  in.resize(in.size() + row_slack);
  std::vector<std::uint8_t> out(before.size());
  Resizer<1> resize{37, 11};
  resize({in.data(), 37, 11}, {0, 0, 37, 11}, false, out.data());
  CHECK(out == before);
  resize({in.data(), 37, 11}, {0, 0, 37, 11}, true, out.data());
  for (std::size_t y = 0; y != 11; ++y) {
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(y * 37),
                 out.begin() + static_cast<std::ptrdiff_t>(y * 37 + 37));
  }
  CHECK(out == before);
}

TEST_CASE("what was worked out for one length is not taken for another") {
  auto in = tests::some_picture(300, 200, 4);
  in.resize(in.size() + row_slack);
  std::vector<std::uint8_t> kept(3 * 20 * 20);
  std::vector<std::uint8_t> fresh = kept;
  Resizer<4> resize{20, 20};
  for (const std::size_t width : {64, 128, 192, 64, 65, 1, 300, 129}) {
    resize({in.data(), 300, 200}, {0, 0, width, width % 190 + 1}, false, kept.data());
    Resizer<4>{20, 20}({in.data(), 300, 200}, {0, 0, width, width % 190 + 1}, false, fresh.data());
    CHECK(kept == fresh);
  }
}

TEST_CASE("weights add up to a whole") {
  for (const auto& [in, out] :
       {std::pair{500, 224}, {1, 5}, {65535, 3}, {3, 65535}, {224, 224}, {320, 10}, {33, 1}}) {
    const ResizeWeights weights{static_cast<std::size_t>(in), static_cast<std::size_t>(out)};
    CAPTURE(in, out);
    CHECK(weights.wide() == (weights.taps() > ResizeWeights::most_narrow));
    int wrong = 0;
    for (std::size_t x = 0; x != weights.out(); ++x) {
      std::int64_t sum = 0;
      for (std::size_t tap = 0; tap != weights.taps(); ++tap) {
        sum += weights.weights(x)[tap];
        wrong += weights.first(x) + tap >= weights.in() && weights.weights(x)[tap] != 0;
      }
      const std::int64_t lacking = (std::int64_t{1} << weights.shift()) - sum;
      wrong += lacking < 0 || lacking > 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("Crop::centre takes the largest part of the wanted ratio, from the middle") {
  CHECK(centred_box(500, 375, 1) == CropBox{62, 0, 375, 375});
  CHECK(centred_box(375, 500, 1) == CropBox{0, 62, 375, 375});
  CHECK(centred_box(400, 300, 2) == CropBox{0, 50, 400, 200});
  CHECK(centred_box(400, 300, 4.0 / 3) == CropBox{0, 0, 400, 300});
  CHECK(centred_box(1, 60000, 1) == CropBox{0, 29999, 1, 1});
  CHECK(centred_box(1, 1, 1000) == CropBox{0, 0, 1, 1});
}

TEST_CASE("Crop::random draws as torchvision does: area and ratio in their ranges, inside") {
  const ImageOptions options = random_crops();
  double areas = 0;
  double ratios = 0;
  double mirrored = 0;
  double lefts = 0;
  constexpr int draws = 20'000;
  for (int i = 0; i != draws; ++i) {
    VisitRandom random{7, {static_cast<std::uint64_t>(i), 0, 0}};
    const CropBox box = random_box(500, 375, options, random);
    REQUIRE((box.width >= 1 && box.height >= 1));
    REQUIRE((box.left + box.width <= 500 && box.top + box.height <= 375));
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    REQUIRE((ratio > 0.74 && ratio < 1.35));
    const double area = static_cast<double>(box.width * box.height) / (500 * 375);
    REQUIRE((area > 0.078 && area <= 1));
    areas += area;
    ratios += ratio;
    lefts += box.width == 500
                 ? 0.5
                 : static_cast<double>(box.left) / static_cast<double>(500 - box.width);
    mirrored += random.next() < 0.5;
  }
  // The same steps in Python, drawn 300,000 times by random.uniform().
  CHECK(areas / draws == Approx(0.43297).margin(0.005));
  CHECK(ratios / draws == Approx(1.04545).margin(0.005));
  CHECK(lefts / draws == Approx(0.5).margin(0.01));
  CHECK(mirrored / draws == Approx(0.5).margin(0.01));
}

TEST_CASE("a picture in which no random part fits gives its middle") {
  const ImageOptions options = random_crops();
  VisitRandom random{1, {}};
  CHECK(random_box(10'000, 10, options, random) == CropBox{4993, 0, 13, 10});
  CHECK(random_box(10, 10'000, options, random) == CropBox{0, 4993, 10, 13});
  CHECK(random_box(1, 1, options, random) == CropBox{0, 0, 1, 1});
}

TEST_CASE("a visit's numbers depend on seed, record and epoch") {
  const auto first = [](std::uint64_t seed, std::uint64_t record, std::uint64_t epoch) {
    return VisitRandom{seed, {record, epoch, 99}}.next();
  };
  CHECK(first(0, 0, 0) == first(0, 0, 0));
  CHECK(first(0, 0, 0) != first(1, 0, 0));
  CHECK(first(0, 0, 0) != first(0, 1, 0));
  CHECK(first(0, 0, 0) != first(0, 0, 1));
  CHECK(first(0, 1, 0) != first(0, 0, 1));
  CHECK(VisitRandom{0, {}}.up_to(0) == 0);
}

TEST_CASE("a part of a picture that its decoder shrinks stays inside") {
  CHECK(shrunk({0, 0, 500, 375}, 2, 250, 188) == CropBox{0, 0, 250, 188});
  CHECK(shrunk({499, 374, 1, 1}, 8, 63, 47) == CropBox{62, 46, 1, 1});
  CHECK(shrunk({10, 10, 100, 100}, 1, 500, 375) == CropBox{10, 10, 100, 100});
}
