// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Batches whose number of records only the device knows, on every device. The including file
// defines TestDevice and for_each_device(f).

#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <type_traits>
#include <vector>

namespace suite {

namespace ps = penstock;
namespace tests = penstock::tests;
using D = TestDevice;
using Number = std::uint32_t;
using Numbers = ps::Batch<const Number, ps::Device>;
using Some = ps::Batch<ps::Counted<Number>, ps::Device>;
using SomeRead = ps::Batch<const ps::Counted<Number>, ps::Device>;

// Picks, of each ten thousand numbers, the first thousand, none of the next thousand, and then each
// seventh: batches of a hundred are then full, empty, or neither.
PENSTOCK_HD inline bool is_wanted(Number n) {
  return n % 10000 < 1000 || (n % 10000 >= 2000 && n % 7 == 0);
}
struct Select {
  const Number* in;
  std::size_t size;
  Number* out;
  std::uint64_t* count;
  PENSTOCK_HD void operator()(std::size_t) const {
    std::uint64_t kept = 0;
    for (std::size_t i = 0; i < size; ++i) {
      if (is_wanted(in[i])) {
        out[kept++] = in[i];
      }
    }
    *count = kept;
  }
};
template <class Stream> void select(const Numbers& in, const Some& out, Stream&& stream) {
  ps::for_each(stream, 1, Select{in.data(), in.size(), out.data(), out.count()});
}
// Adds one to each record that is there, and to no more.
struct PlusOne {
  Number* at;
  const std::uint64_t* count;
  PENSTOCK_HD void operator()(std::size_t i) const {
    if (i < *count) {
      ++at[i];
    }
  }
};

struct Pair : ps::Columns<ps::Field<"number", Number>, ps::Field<"halves", std::uint16_t, 2>> {};
struct SelectPairs {
  Numbers in;
  ps::Batch<ps::Counted<Pair>, ps::Device> out;
  PENSTOCK_HD void operator()(std::size_t) const {
    const auto numbers = ps::get<"number">(out);
    const auto halves = ps::get<"halves">(out);
    std::uint64_t kept = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const Number n = in.data()[i];
      if (is_wanted(n)) {
        numbers[kept] = n;
        halves[kept][0] = static_cast<std::uint16_t>(n);
        halves[kept][1] = static_cast<std::uint16_t>(n >> 16);
        ++kept;
      }
    }
    *out.count() = kept;
  }
};
struct AddCount {
  const std::uint64_t* count;
  std::uint64_t* sum;
  PENSTOCK_HD void operator()(std::size_t) const { *sum += *count; }
};
struct WriteCount {
  std::uint64_t* count;
  std::uint64_t is;
  PENSTOCK_HD void operator()(std::size_t) const { *count = is; }
};

inline std::vector<Number> numbers(std::size_t n) {
  std::vector<Number> all(n);
  std::iota(all.begin(), all.end(), Number{0});
  return all;
}
inline std::vector<Number> wanted(const std::vector<Number>& all, unsigned epochs) {
  std::vector<Number> some;
  for (unsigned epoch = 0; epoch < epochs; ++epoch) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(some), is_wanted);
  }
  return some;
}
template <class Device>
auto on_device(Device& device, const std::vector<Number>& all, std::size_t batch,
               unsigned epochs = 1) {
  return ps::Reader{ps::memory(all), ps::to_pinned, {.epochs = epochs}} |
         ps::AsyncCopier{device, {.batch = batch}};
}

TEST_CASE("exactly what was selected comes back, in order, in every run") {
  const auto check = [](std::size_t records, std::size_t batch, std::size_t landing,
                        unsigned streams) {
    CAPTURE(records, batch, landing, streams);
    const std::vector<Number> all = numbers(records);
    const std::vector<Number> expected = wanted(all, 2);
    for_each_device([&](D& device) {
      std::vector<Number> got;
      bool in_order = true;
      auto pipeline =
          on_device(device, all, batch, 2) |
          ps::Kernel{[](Numbers in, Some out, ps::Stream<D> stream) { select(in, out, stream); },
                     {.streams = streams}} |
          ps::Kernel{[](Some some, ps::Stream<D> stream) {
            ps::for_each(stream, some.capacity(), PlusOne{some.data(), some.count()});
          }} |
          ps::AsyncCopier{ps::to_host, {.batch = landing}} |
          ps::Consumer{[&](ps::Batch<const Number, ps::Pinned> back) {
            in_order = in_order && back.index() == got.size();
            for (std::size_t i = 0; i < back.size(); ++i) {
              got.push_back(back.data()[i] - 1);
            }
          }};
      for (int run = 0; run < 3; ++run) {
        got.clear();
        const ps::Report& report = pipeline.run();
        CHECK(report.records == expected.size());
        CHECK(report.dropped == 0);
        CHECK(got == expected);
        CHECK(in_order);
      }
    });
  };
  check(40'000, 100, 0, 1);
  check(40'050, 100, 333, 3);
  check(40'000, 2500, 7, 1);
  check(5, 100, 1000, 1);
  check(0, 100, 0, 2);
}

TEST_CASE("columns of a counted batch come back as far as they are there") {
  const std::vector<Number> all = numbers(20'000);
  const std::vector<Number> expected = wanted(all, 1);
  for_each_device([&](D& device) {
    std::size_t at = 0;
    bool right = true;
    auto pipeline =
        on_device(device, all, 300) |
        ps::Kernel{[](Numbers in, ps::Batch<ps::Counted<Pair>, ps::Device> out,
                      ps::Stream<D> stream) { ps::for_each(stream, 1, SelectPairs{in, out}); }} |
        ps::AsyncCopier{ps::to_host, {.batch = 64}};
    for (auto lease : pipeline.batches()) {
      const ps::Batch<const Pair, ps::Pinned> back = lease;
      const auto number = ps::get<"number">(back);
      const auto halves = ps::get<"halves">(back);
      for (std::size_t i = 0; i < back.size(); ++i, ++at) {
        right = right && at < expected.size() && number[i] == expected[at] &&
                halves[i][0] == (expected[at] & 0xffff) && halves[i][1] == expected[at] >> 16;
      }
    }
    CHECK(right);
    CHECK(at == expected.size());
  });
}

TEST_CASE("a consumer on the device finds a counted batch's number there") {
  const std::vector<Number> all = numbers(20'000);
  for_each_device([&](D& device) {
    auto stream = device.stream();
    const auto sum = ps::device_array<std::uint64_t>(device, 1);
    auto pipeline = on_device(device, all, 300) |
                    ps::Kernel{[](Numbers in, Some out, ps::Stream<D> on) { select(in, out, on); }};
    for (auto lease : pipeline.on(stream)) {
      const SomeRead some = lease;
      CHECK(some.capacity() <= 300);
      ps::for_each(stream, 1, AddCount{some.count(), sum.data()});
    }
    CHECK(sum.read(stream)[0] == wanted(all, 1).size());
  });
}

TEST_CASE("a count beyond the batch is an error that names both, and the next run is whole") {
  const std::vector<Number> all = numbers(1000);
  for_each_device([&](D& device) {
    std::uint64_t count = 101;
    auto pipeline =
        on_device(device, all, 100) | ps::Kernel{[&](Numbers, Some out, ps::Stream<D> stream) {
          ps::for_each(stream, 1, WriteCount{out.count(), count});
        }} |
        ps::AsyncCopier{ps::to_host} | ps::Consumer{[](ps::Batch<const Number, ps::Pinned>) {}};
    const auto e = tests::caught<ps::StageError>([&] { pipeline.run(); });
    CHECK(e.stage() == "AsyncCopier 2");
    CHECK(tests::has(e, "has written 101 into the count of a batch that has room for 100 records"));
    count = 100;
    CHECK(pipeline.run().records == 1000);
    count = 0;
    CHECK(pipeline.run().records == 0);
  });
}

static_assert(std::is_trivially_copyable_v<Some>);
static_assert(std::is_same_v<decltype(SomeRead{}.count()), const std::uint64_t*>);

} // namespace suite
