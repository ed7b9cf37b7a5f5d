// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// transform and convert make what plain loops make. The including file defines TestDevice and
// TestGate, which holds one of its streams back.

#include "suite/on_stream.hpp"

#include <penstock/data/float16.hpp>

#include <cmath>
#include <limits>
#include <utility>

namespace suite {

using D = TestDevice;

struct Three {
  std::int32_t a, b, c;
};
struct Turned {
  PENSTOCK_HD Three operator()(const Three& in) const { return {in.c, in.a, in.b + 1}; }
};
struct Spread {
  std::uint32_t factor;
  PENSTOCK_HD std::uint32_t operator()(std::uint8_t in) const { return in * factor + 1; }
};
struct Inverted {
  PENSTOCK_HD std::uint16_t operator()(std::uint16_t in) const {
    return static_cast<std::uint16_t>(~in);
  }
};

// One more element lies behind the output, and must be left alone.
template <class T, class R, class Call, class Make>
void check_elementwise(Call call, Make make) {
  D device;
  auto stream = device.stream();
  constexpr std::size_t most_start = 3;
  for (const std::size_t n : sizes) {
    const auto in = random_values<T>(n + most_start);
    const auto in_there = in_memory_of(device, in);
    for (const std::size_t in_start : {0, 1, 3}) {
      for (const std::size_t out_start : {0, 1, 2, 3}) {
        CAPTURE(n, in_start, out_start);
        const auto out = ps::device_array<R>(device, n + most_start + 1);
        std::vector<R> expected = out.read(stream);
        for (std::size_t i = 0; i < n; ++i) {
          expected[out_start + i] = make(in[in_start + i]);
        }
        call(stream, static_cast<const T*>(in_there.data()) + in_start, n, out.data() + out_start);
        CHECK(differences(out.read(stream), expected) == 0);
      }
    }
  }
}

template <class T, class R> void check_convert(float scale, float bias) {
  CAPTURE(scale, bias, sizeof(T), sizeof(R));
  check_elementwise<T, R>(
      [&](auto& stream, const T* in, std::size_t n, R* out) {
        ps::convert(stream, in, n, out, scale, bias);
      },
      [&](T in) { return static_cast<R>(std::fma(static_cast<float>(in), scale, bias)); });
}

// Rounds by the definition of either type, without a look at bits: to `digits` significant ones,
// from 2^lowest on.
inline float rounded(float value, int digits, int lowest, float largest) {
  if (value == 0 || !std::isfinite(value)) {
    return value;
  }
  const int exponent = std::max(std::ilogb(value), lowest);
  const float quantum = std::ldexp(1.0F, exponent - digits + 1);
  const double size = std::nearbyint(double{value} / quantum) * quantum;
  return std::abs(size) > largest ? std::copysign(INFINITY, value) : static_cast<float>(size);
}
inline float rounded_half(float value) {
  return rounded(value, 11, -14, 65504.0F);
}
inline float rounded_bfloat16(float value) {
  return rounded(value, 8, -126, std::ldexp(255.0F, 120));
}

// Converts these numbers to `R`, on the device.
template <class R, class T>
std::vector<R> converted(const std::vector<T>& in, float scale = 1.0F, float bias = -0.0F) {
  D device;
  auto stream = device.stream();
  const auto in_there = in_memory_of(device, in);
  const auto out = ps::device_array<R>(device, in.size());
  ps::convert(stream, static_cast<const T*>(in_there.data()), in.size(), out.data(), scale, bias);
  return out.read(stream);
}

// Returns all finite numbers of `R`, the middles between them, the neighbours of those, and numbers
// beyond either end.
template <class R> std::vector<float> floats_around() {
  std::vector<float> floats{65519.996F, 65520.0F,        65536.0F,        1e30F,
                            -1e30F,     0x1.FEp127F,     0x1.FEFFFEp127F, 0x1.FFp127F,
                            0x1p-25F,   0x1.000002p-25F, 0x1p-134F,       0x1.8p-134F};
  for (std::uint32_t bits = 0; bits < 0x1'0000; ++bits) {
    R narrow;
    narrow.bits = static_cast<std::uint16_t>(bits);
    R next;
    next.bits = static_cast<std::uint16_t>(bits + 1);
    const auto value = static_cast<float>(narrow);
    const auto middle = static_cast<float>((double{value} + double{static_cast<float>(next)}) / 2);
    for (const float f :
         {value, middle, std::nextafter(middle, INFINITY), std::nextafter(middle, -INFINITY)}) {
      if (std::isfinite(f)) {
        floats.push_back(f);
      }
    }
  }
  return floats;
}

template <class R, class Rounded> void check_float16(Rounded rounded) {
  const std::vector<float> floats = floats_around<R>();
  REQUIRE(floats.size() > 200'000);
  const std::vector<R> narrow = converted<R>(floats);
  const std::vector<float> wide = converted<float>(narrow);
  std::vector<float> expected;
  std::size_t differ_on_the_host = 0;
  for (std::size_t i = 0; i < floats.size(); ++i) {
    expected.push_back(rounded(floats[i]));
    differ_on_the_host += R{floats[i]}.bits != narrow[i].bits;
    differ_on_the_host += static_cast<float>(R{floats[i]}) != expected[i];
  }
  CHECK(differences(wide, expected) == 0);
  CHECK(differ_on_the_host == 0);

  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<R> special = converted<R>(std::vector<float>{nan, -nan, INFINITY, -INFINITY});
  CHECK(R{-0.0F}.bits == 0x8000);
  CHECK(special[0].bits == 0x7FFF);
  CHECK(special[1].bits == 0x7FFF);
  CHECK(R{nan}.bits == 0x7FFF);
  CHECK(std::isnan(static_cast<float>(R{nan})));
  const std::vector<float> back = converted<float>(special);
  CHECK(std::isnan(back[0]));
  CHECK(back[2] == INFINITY);
  CHECK(back[3] == -INFINITY);
}

TEST_CASE("transform makes each element and no other, whatever the starts") {
  check_elementwise<std::uint8_t, std::uint32_t>(
      [](auto& stream, const std::uint8_t* in, std::size_t n, std::uint32_t* out) {
        ps::transform(stream, in, n, out, Spread{3});
      },
      [](std::uint8_t in) { return in * 3U + 1; });
}

TEST_CASE("transform takes types of any size, and works in place") {
  D device;
  auto stream = device.stream();
  for (const std::size_t n : sizes) {
    CAPTURE(n);
    std::vector<Three> threes(n);
    std::vector<Three> turned(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto k = static_cast<std::int32_t>(i);
      threes[i] = {k, 2 * k, -k};
      turned[i] = {-k, k, 2 * k + 1};
    }
    const auto there = in_memory_of(device, threes);
    ps::transform(stream, static_cast<const Three*>(there.data()), n, there.data(), Turned{});
    CHECK(differences(there.read(stream), turned) == 0);

    auto words = random_values<std::uint16_t>(n + 1);
    const auto words_there = in_memory_of(device, words);
    std::uint16_t* const at = words_there.data() + 1;
    ps::transform(stream, static_cast<const std::uint16_t*>(at), n, at, Inverted{});
    for (std::size_t i = 1; i <= n; ++i) {
      words[i] = static_cast<std::uint16_t>(~words[i]);
    }
    CHECK(words_there.read(stream) == words);
  }
}

TEST_CASE("convert scales and adds as std::fma does") {
  check_convert<std::uint8_t, float>(1.0F / 255, -0.5F);
  check_convert<float, double>(1.0F / 3, 0.1F);
  check_convert<std::int64_t, float>(1e-12F, 7.0F);
  check_convert<std::uint8_t, ps::Half>(1.0F / 255, 0.0F);
  check_convert<std::uint8_t, ps::BFloat16>(1.0F / 58, -2.0F);
  check_convert<ps::Half, ps::BFloat16>(0.7F, 0.3F);
}

TEST_CASE("convert to integers rounds to the nearest even and saturates") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> in{0.5F,   1.5F,   2.5F,     -0.5F,     -1.5F, 126.5F,     127.5F,
                              254.5F, 255.5F, -128.5F,  -129,      3e9F,  -3e9F,      1.8e19F,
                              1e30F,  -1e30F, INFINITY, -INFINITY, nan,   0.49999997F};
  CHECK(converted<std::uint8_t>(in) == std::vector<std::uint8_t>{0,   2,   2,   0, 0,   126, 128,
                                                                 254, 255, 0,   0, 255, 0,   255,
                                                                 255, 0,   255, 0, 0,   0});
  CHECK(converted<std::int8_t>(in) ==
        std::vector<std::int8_t>{0,    2,   2,    0,   -2,  126,  127, 127,  127, -128,
                                 -128, 127, -128, 127, 127, -128, 127, -128, 0,   0});
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min();
  CHECK(converted<std::int32_t>(in) ==
        std::vector<std::int32_t>{0,    2,    2,     0,    -2,   126,   128,  254,   256, -128,
                                  -129, most, least, most, most, least, most, least, 0,   0});
  constexpr std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  const auto wide = converted<std::uint64_t>(in);
  CHECK(wide[11] == 3'000'000'000);
  CHECK(wide[12] == 0);
  CHECK(wide[13] == static_cast<std::uint64_t>(1.8e19F));
  CHECK(wide[14] == all);
  CHECK(wide[18] == 0);
}

TEST_CASE("bytes survive the way to a float and back") {
  const auto bytes = random_values<std::uint8_t>(100'003);
  const float scale = 1.0F / 58;
  const auto there = converted<float>(bytes, scale, -2.0F);
  CHECK(converted<std::uint8_t>(there, 58.0F, 116.0F) == bytes);
  const auto halves = converted<ps::Half>(bytes);
  CHECK(converted<std::uint8_t>(halves) == bytes);
  const auto bfloats = converted<ps::BFloat16>(bytes);
  CHECK(converted<std::uint8_t>(bfloats) == bytes);
}

TEST_CASE("the default scale and bias change no number") {
  const std::vector<float> in{-0.0F, 0.0F, 1e-45F, -3.25F, 3e38F, -INFINITY};
  D device;
  auto stream = device.stream();
  const auto there = in_memory_of(device, in);
  const auto out = ps::device_array<float>(device, in.size());
  ps::convert(stream, static_cast<const float*>(there.data()), in.size(), out.data());
  CHECK(differences(out.read(stream), in) == 0);
}

TEST_CASE("a Half is the nearest of its kind, of two the even one") {
  check_float16<ps::Half>(rounded_half);
}

TEST_CASE("a BFloat16 is the nearest of its kind, of two the even one") {
  check_float16<ps::BFloat16>(rounded_bfloat16);
}

TEST_CASE("nothing is touched where there is nothing to convert") {
  D device;
  auto stream = device.stream();
  const float* const no_floats = nullptr;
  ps::convert(stream, no_floats, 0, static_cast<std::uint8_t*>(nullptr));
  ps::transform(stream, static_cast<const std::uint8_t*>(nullptr), 0,
                static_cast<std::uint32_t*>(nullptr), Spread{1});
  device.sync(stream);
  CHECK(stream.is_done());
}

TEST_CASE("transform and convert only queue their work, in the stream's order") {
  D device;
  auto stream = device.stream();
  const auto bytes = random_values<std::uint8_t>(3000);
  const auto there = in_memory_of(device, bytes);
  const auto words = ps::device_array<std::uint32_t>(device, 3000);
  const auto floats = ps::device_array<float>(device, 3000);
  const auto all = [&] {
    ps::transform(stream, static_cast<const std::uint8_t*>(there.data()), 3000, words.data(),
                  Spread{2});
    ps::convert(stream, static_cast<const std::uint32_t*>(words.data()), 3000, floats.data(), 0.5F);
    ps::convert(stream, static_cast<const float*>(floats.data()), 3000, there.data());
  };
  all(); // CUDA loads kernels at their first launch, and may wait for that
  device.sync(stream);

  TestGate gate{device};
  gate.shut(stream);
  all();
  CHECK_FALSE(stream.is_done()); // no call has waited for the gate
  gate.let_go();
  const auto once = [](const std::vector<std::uint8_t>& in) {
    std::vector<std::uint8_t> out(3000);
    for (std::size_t i = 0; i < 3000; ++i) {
      const auto made = std::nearbyint(static_cast<float>(in[i] * 2 + 1) * 0.5F);
      out[i] = static_cast<std::uint8_t>(std::min(made, 255.0F));
    }
    return out;
  };
  CHECK(there.read(stream) == once(once(bytes)));
}

template <class R> void check_normalize(std::size_t start) {
  D device;
  auto stream = device.stream();
  const ps::ChannelScale<3> by{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
  for (const std::size_t pixels : {1, 7, 16, 225, 4096, 12'345}) {
    for (const std::size_t images : {0, 1, 5}) {
      CAPTURE(pixels, images, start, sizeof(R));
      const std::size_t n = images * 3 * pixels;
      const auto in = random_values<std::uint8_t>(n + start);
      const auto there = in_memory_of(device, in);
      const auto out = ps::device_array<R>(device, n + start + 1);
      const std::vector<R> before = out.read(stream);
      ps::normalize(stream, static_cast<const std::uint8_t*>(there.data()) + start, images, pixels,
                    out.data() + start, by);
      const std::vector<R> got = out.read(stream);
      double most = 0;
      for (std::size_t i = 0; i != n; ++i) {
        const std::size_t c = i / pixels % 3;
        const double wanted = (double{1} * in[i + start] / 255 - by.mean[c]) / by.deviation[c];
        // Three roundings of a float near 2, and one of R.
        const double unit = sizeof(R) == 4 ? 0 : std::ldexp(std::max(std::abs(wanted), 1e-3), -8);
        const double away =
            std::abs(static_cast<double>(static_cast<float>(got[i + start])) - wanted);
        most = std::max(most, away - unit);
      }
      CHECK(most < 5e-7);
      CHECK(std::memcmp(&got.back(), &before.back(), sizeof(R)) == 0);
    }
  }
}

TEST_CASE("normalize takes mean and deviation of each channel, whatever the planes' length") {
  for (const std::size_t start : {0, 1, 8}) {
    check_normalize<float>(start);
    check_normalize<ps::BFloat16>(start);
    check_normalize<ps::Half>(start);
  }
}

TEST_CASE("normalize takes a batch's column, of fixed extents or run-time ones") {
  D device;
  auto stream = device.stream();
  const std::vector<std::uint8_t> in{0, 255, 51, 102, 0, 255, 51, 102};
  const auto there = in_memory_of(device, in);
  const auto out = ps::device_array<float>(device, in.size());
  const auto right = [&] {
    const std::vector<float> got = out.read(stream);
    double most = 0;
    for (std::size_t i = 0; i != in.size(); ++i) {
      const std::size_t c = i / 2 % 2;
      const double wanted = c == 0 ? in[i] / 127.5 - 1 : in[i] / 63.75;
      most = std::max(most, std::abs(got[i] - wanted));
    }
    return most < 1e-6;
  };
  const ps::Column<const std::uint8_t, 2, 1, 2> fixed{there.data(), 2};
  ps::normalize(stream, fixed, out.data(), {.mean = {0.5F, 0}, .deviation = {0.5F, 0.25F}});
  CHECK(right());
  const std::size_t sizes_of[]{2, 1};
  const ps::Column<std::uint8_t, 2, ps::dynamic, ps::dynamic> run_time{there.data(), 2, sizes_of};
  ps::normalize(stream, run_time, out.data(), {.mean = {0.5F, 0}, .deviation = {0.5F, 0.25F}});
  CHECK(right());
}

} // namespace suite
