// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Consumers whose work is captured once and replayed, on every device. The including file defines
// TestDevice and for_each_device(f).

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/device_array.hpp>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <stop_token>
#include <utility>

namespace suite {

using D = TestDevice;
using Number = std::uint32_t;
using Numbers = ps::FrozenBatch<const Number>;

/// Counts how often each number came, in as many parts as there are lanes.
struct Mark {
  const Number* in;
  Number* seen;
  PENSTOCK_HD void operator()(std::size_t i) const { seen[in[i]] += 1; }
};
/// Whether batches come one after the other: `state` is the number to come, and how many came
/// wrongly.
struct InTurn {
  const Number* in;
  std::size_t size;
  Number* state;
  PENSTOCK_HD void operator()(std::size_t) const {
    state[1] += in[0] == state[0] ? 0 : 1;
    state[0] = in[0] + static_cast<Number>(size);
  }
};

inline std::vector<Number> numbers(std::size_t n) {
  std::vector<Number> all(n);
  std::iota(all.begin(), all.end(), Number{0});
  return all;
}

template <class Made> auto replays(D& device, const std::vector<Number>& all, std::size_t batch,
                                   Made consumer) {
  return ps::Reader{ps::memory(all), ps::to_pinned} | ps::AsyncCopier{device, {.batch = batch}} |
         std::move(consumer);
}
template <class Device> std::vector<Number> read(const ps::DeviceArray<Number, Device>& array,
                                                 Device& device) {
  auto stream = device.stream();
  return array.read(stream);
}

TEST_CASE("a replayed consumer sees each record once, in every run") {
  struct Sizes {
    std::size_t records, batch;
  };
  // Places of the device's ring: of one group and of several, with groups of each size left over; a
  // short batch at the end, none, nothing but one, and nothing at all.
  const auto check = [](const Sizes& sizes, unsigned lanes) {
    const std::size_t records = sizes.records;
    const std::size_t batch = sizes.batch;
    CAPTURE(records, batch, lanes);
    const std::vector<Number> all = numbers(records);
    for_each_device([&](D& device) {
      const ps::DeviceArray<Number, D> seen{device, records};
      std::size_t calls = 0;
      std::size_t lost_lane = 0;
      auto pipeline = replays(device, all, batch,
                              ps::Consumer{ps::replayed(
                                  [&, at = seen.data()](Numbers in, ps::Stream<D> stream) {
                                    ++calls;
                                    lost_lane += in.lane() < lanes ? 0 : 1;
                                    ps::for_each(stream, in.size(), Mark{in.data(), at});
                                  },
                                  {.lanes = lanes})});
      pipeline.prepare();
      const std::size_t captured = calls;
      CHECK(captured >= 2); // one of each place, at the least
      for (Number runs = 1; runs <= 3; ++runs) {
        CHECK(pipeline.run().records == records);
        CHECK(read(seen, device) == std::vector<Number>(records, runs));
        CHECK(calls == captured + runs * (records % batch != 0 ? 1 : 0));
      }
      CHECK(lost_lane == 0);
      CHECK(pipeline.report().stages.back().note.empty());
    });
  };
  for (const Sizes sizes : {Sizes{1 << 18, 1 << 12}, Sizes{100'000, 777}, Sizes{700'001, 300'000},
                            Sizes{5, 100}, Sizes{300, 100}, Sizes{0, 100}}) {
    check(sizes, 3);
  }
  check({100'000, 777}, 1);
  check({100'000, 777}, 64);
}

TEST_CASE("batches of one lane are replayed one after the other") {
  const std::size_t records = 1'000'000;
  const std::vector<Number> all = numbers(records);
  for_each_device([&](D& device) {
    const ps::DeviceArray<Number, D> state{device, 2};
    auto pipeline =
        replays(device, all, 1000,
                ps::Consumer{ps::replayed([at = state.data()](Numbers in, ps::Stream<D> stream) {
                  ps::for_each(stream, 1, InTurn{in.data(), in.size(), at});
                })});
    pipeline.run();
    CHECK(read(state, device) == std::vector<Number>{records, 0});
  });
}

TEST_CASE("what cannot be captured is called for each batch, and the report says why") {
  const std::size_t records = 10'000;
  const std::vector<Number> all = numbers(records);
  for_each_device([&](D& device) {
    const ps::DeviceArray<Number, D> seen{device, records};
    auto pipeline =
        replays(device, all, 100,
                ps::Consumer{ps::replayed([&, at = seen.data()](Numbers in, ps::Stream<D> stream) {
                  ps::for_each(stream, in.size(), Mark{in.data(), at});
                  device.sync(stream);
                })});
    for (Number runs = 1; runs <= 2; ++runs) {
      CHECK(pipeline.run().records == records);
      CHECK(read(seen, device) == std::vector<Number>(records, runs));
    }
    CHECK(pipeline.report().stages.back().note.rfind("not replayed, since it cannot be captured: ",
                                                     0) == 0);
  });
}

TEST_CASE("a replayed callable that throws ends the run with its record, and the next is whole") {
  const std::size_t records = 1050;
  const std::vector<Number> all = numbers(records);
  for_each_device([&](D& device) {
    const ps::DeviceArray<Number, D> seen{device, records};
    bool fails = true;
    auto pipeline =
        replays(device, all, 100,
                ps::Consumer{ps::replayed([&, at = seen.data()](Numbers in, ps::Stream<D> stream) {
                  if (in.size() != 100 && std::exchange(fails, false)) {
                    throw std::runtime_error{"the short one"};
                  }
                  ps::for_each(stream, in.size(), Mark{in.data(), at});
                })});
    const auto e = tests::caught<ps::StageError>([&] { pipeline.run(); });
    CHECK(e.stage() == "Consumer");
    CHECK(e.record() == 1000);
    pipeline.run();
    std::vector<Number> expected(records, 2);
    std::fill(expected.begin() + 1000, expected.end(), Number{1});
    CHECK(read(seen, device) == expected);
  });
}

TEST_CASE("a replayed run that is stopped ends, and the next is whole") {
  const std::size_t records = std::size_t{2} << 20;
  for_each_device([&](D& device) {
    const ps::DeviceArray<Number, D> seen{device, records};
    std::stop_source stop;
    std::atomic<bool> stops{true};
    auto pipeline =
        ps::Reader{ps::generate<Number>(records,
                                        [&](std::span<Number> out, std::uint64_t first) {
                                          std::iota(out.begin(), out.end(),
                                                    static_cast<Number>(first));
                                          if (first > records / 2 && stops) {
                                            stop.request_stop();
                                          }
                                        }),
                   ps::to_pinned} |
        ps::AsyncCopier{device, {.batch = 4096}} |
        ps::Consumer{ps::replayed(
            [at = seen.data()](Numbers in, ps::Stream<D> stream) {
              ps::for_each(stream, in.size(), Mark{in.data(), at});
            },
            {.lanes = 4})};
    const ps::Report& report = pipeline.run(stop.get_token());
    CHECK(report.stopped);
    const std::uint64_t got = report.records;
    CHECK(got < records);
    // All that was counted was used, in order, and nothing besides.
    std::vector<Number> expected(records, 0);
    std::fill_n(expected.begin(), got, Number{1});
    CHECK(read(seen, device) == expected);
    stops = false;
    CHECK(pipeline.run().records == records);
    std::transform(expected.begin(), expected.end(), expected.begin(),
                   [](Number n) { return n + 1; });
    CHECK(read(seen, device) == expected);
  });
}

TEST_CASE("lanes must be as many as a group has batches, or fewer") {
  const std::vector<Number> all = numbers(1000);
  for_each_device([&](D& device) {
    for (const unsigned lanes : {0U, 65U}) {
      auto pipeline =
          replays(device, all, 100,
                  ps::Consumer{ps::replayed([](Numbers, ps::Stream<D>) {}, {.lanes = lanes})});
      const auto e = tests::caught<ps::OptionError>([&] { pipeline.prepare(); });
      CHECK(tests::has(e, "lanes is " + std::to_string(lanes)));
      CHECK(tests::has(e, "give it 1 to 64"));
    }
  });
}

} // namespace suite
