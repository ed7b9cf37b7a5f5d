// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Consumers whose work is captured once and replayed, on every device. The including file defines
// TestDevice and for_each_device(f).

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/device/device_array.hpp>

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
/// Checks that batches come one after the other: `state` is the next number, and how many came
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

template <class Made> auto replays(D& device, const std::vector<Number>& all,
                                   ps::CopierOptions copying, Made consumer) {
  return ps::Reader{ps::memory(all), ps::to_pinned} | ps::AsyncCopier{device, copying} |
         std::move(consumer);
}
template <class Made> auto replays(D& device, const std::vector<Number>& all, std::size_t batch,
                                   Made consumer) {
  return replays(device, all, ps::CopierOptions{.batch = batch}, std::move(consumer));
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
  // Places of the device's ring: one group and several, with groups of each size left over; with a
  // short batch at the end, without one, with nothing but one, and with nothing at all.
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
      CHECK(captured >= 2); // at least one for each place
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

TEST_CASE("short batches between epochs are called for, and those around them replayed") {
  const std::size_t records = 20'050;
  const std::vector<Number> all = numbers(records);
  for_each_device([&](D& device) {
    const ps::DeviceArray<Number, D> seen{device, records};
    std::size_t calls = 0;
    // The Decoder skips every hundredth record, and more than a batch at an epoch's end.
    auto pipeline =
        ps::Reader{ps::memory(all), {.workers = 2, .epochs = 5, .batch = 128}} |
        ps::Decoder{[](const Number& in, Number& out) {
                      if (in % 100 == 99 || in >= 19'800) {
                        throw std::runtime_error{"left out"};
                      }
                      out = in;
                    },
                    ps::to_pinned,
                    {.workers = 2, .on_error = {.skips = 1 << 20}}} |
        ps::AsyncCopier{device, {.batch = 100}} |
        ps::Consumer{ps::replayed([&, at = seen.data()](Numbers in, ps::Stream<D> stream) {
          ++calls;
          ps::for_each(stream, in.size(), Mark{in.data(), at});
        })};
    pipeline.prepare();
    const std::size_t captured = calls;
    std::vector<Number> expected(records, 0);
    for (Number runs = 1; runs <= 2; ++runs) {
      // 198 times 99 records are 196 batches, and 2 records more.
      CHECK(pipeline.run().records == 5 * 198 * 99);
      CHECK(calls == captured + runs * 5);
    }
    for (std::size_t i = 0; i < 19'800; ++i) {
      expected[i] = i % 100 == 99 ? 0 : 10;
    }
    CHECK(read(seen, device) == expected);
  });
}

/// Records of variable length.
struct Words : ps::Columns<ps::Field<"word", ps::Ragged<Number>>> {};
/// Turns a number into a word that repeats it, up to four times.
struct Spelled {
  void operator()(ps::Batch<const Number, ps::Pageable> in, ps::Batch<Words, ps::Pinned> out) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::size_t count = in.data()[i] % 5;
      std::fill_n(ps::get<"word">(out).put(i, count), count, in.data()[i]);
    }
  }
};
struct MarkWords {
  ps::Column<ps::Ragged<const Number>> words;
  Number* seen;
  PENSTOCK_HD void operator()(std::size_t i) const {
    const auto word = words[i];
    for (std::size_t k = 0; k < word.size(); ++k) {
      seen[word[k]] += 1;
    }
  }
};

TEST_CASE("a replayed consumer takes records of variable length") {
  const std::size_t records = 30'010;
  const std::vector<Number> all = numbers(records);
  for_each_device([&](D& device) {
    const ps::DeviceArray<Number, D> seen{device, records};
    auto pipeline = ps::Reader{ps::memory(all), {.depth = 8, .batch = 100}} |
                    ps::Decoder{Spelled{}, {.workers = 3, .value_bytes = 4096}} |
                    ps::AsyncCopier{device, {.depth = 70}} |
                    ps::Consumer{ps::replayed(
                        [at = seen.data()](ps::FrozenBatch<const Words> in, ps::Stream<D> stream) {
                          ps::for_each(stream, in.size(), MarkWords{ps::get<"word">(in), at});
                        },
                        {.lanes = 3})};
    std::vector<Number> expected(records);
    for (Number runs = 1; runs <= 2; ++runs) {
      pipeline.run();
      for (std::size_t i = 0; i < records; ++i) {
        expected[i] += static_cast<Number>(i % 5);
      }
      CHECK(read(seen, device) == expected);
    }
  });
}

/// Looks at the first and the last byte of a record.
struct Ends {
  const std::byte* in;
  std::size_t record_bytes;
  Number* seen;
  PENSTOCK_HD void operator()(std::size_t i) const {
    seen[static_cast<Number>(in[i * record_bytes])] += 1;
    seen[static_cast<Number>(in[(i + 1) * record_bytes - 1])] += 1;
  }
};

TEST_CASE("a replayed consumer takes records that came in pieces, and counts records") {
  constexpr std::size_t record_bytes = (std::size_t{3} << 20) + 1;
  constexpr std::size_t records = 9;
  std::vector<std::byte> all;
  for (std::size_t i = 0; i < records; ++i) {
    all.insert(all.end(), record_bytes, static_cast<std::byte>(i));
  }
  for_each_device([&](D& device) {
    const ps::DeviceArray<Number, D> seen{device, records};
    bool fails = false;
    auto pipeline =
        ps::Reader{ps::memory(all, {.record_bytes = record_bytes}), ps::to_pinned} |
        ps::AsyncCopier{device, {.batch = 2, .depth = 2}} |
        ps::Consumer{ps::replayed(
            [&, at = seen.data()](ps::FrozenBatch<const std::byte> in, ps::Stream<D> stream) {
              if (std::exchange(fails, false)) {
                throw std::runtime_error{"the short one"};
              }
              ps::for_each(stream, in.size(), Ends{in.data(), in.record_bytes(), at});
            })};
    const ps::Report& report = pipeline.run();
    CHECK(report.records == records);
    CHECK(report.stages.back().records == records);
    CHECK(report.bytes == records * record_bytes);
    CHECK(read(seen, device) == std::vector<Number>(records, 2));
    fails = true;
    CHECK(tests::caught<ps::StageError>([&] { pipeline.run(); }).record() == 8);
    CHECK(pipeline.report().records == 8);
  });
}

TEST_CASE("of very many places no more graphs are made than pay") {
  const std::size_t records = 2'000'010;
  const std::vector<Number> all = numbers(records);
  const auto check = [&](std::size_t depth, std::size_t expected) {
    for_each_device([&](D& device) {
      const ps::DeviceArray<Number, D> seen{device, records};
      std::size_t calls = 0;
      auto pipeline = replays(
          device, all, ps::CopierOptions{.batch = 40, .depth = depth},
          ps::Consumer{ps::replayed([&, at = seen.data()](Numbers in, ps::Stream<D> stream) {
            ++calls;
            ps::for_each(stream, in.size(), Mark{in.data(), at});
          })});
      pipeline.prepare();
      CHECK(calls == expected);
      CHECK(pipeline.run().records == records);
      CHECK(read(seen, device) == std::vector<Number>(records, 1));
      // Batches at the end of a copy that make no group.
      CHECK(calls - expected < 1000);
    });
  };
  // Groups of each size of 4096 places, and of 50,000 none of 4 and of one.
  check(3, 4 * 4096);
  check(50'000, 50'000 / 64 * 64 + 50'000);
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
    // Every record counted was used, in order, and no other.
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

/// For a Kernel: each number three times, plus one.
struct Thrice {
  const Number* in;
  Number* out;
  PENSTOCK_HD void operator()(std::size_t i) const { out[i] = 3 * in[i]; }
};
struct PlusOne {
  Number* at;
  PENSTOCK_HD void operator()(std::size_t i) const { at[i] += 1; }
};
struct CountFrom1 {
  const Number* in;
  Number* seen;
  PENSTOCK_HD void operator()(std::size_t i) const { seen[in[i] - 1] += 1; }
};
struct MarkThird {
  const Number* in;
  Number* seen;
  PENSTOCK_HD void operator()(std::size_t i) const { seen[(in[i] - 1) / 3] += in[i] % 3; }
};

TEST_CASE("replayed kernels, out of place and in place, give each record once, in every run") {
  const auto check = [](std::size_t records, std::size_t batch, unsigned lanes) {
    CAPTURE(records, batch, lanes);
    const std::vector<Number> all = numbers(records);
    for_each_device([&](D& device) {
      const ps::DeviceArray<Number, D> seen{device, records};
      std::size_t calls = 0;
      auto pipeline =
          ps::Reader{ps::memory(all), ps::to_pinned} | ps::AsyncCopier{device, {.batch = batch}} |
          ps::Kernel{ps::replayed(
              [&](Numbers in, ps::FrozenBatch<Number> out, ps::Stream<D> stream) {
                ++calls;
                ps::for_each(stream, in.size(), Thrice{in.data(), out.data()});
              },
              {.lanes = lanes})} |
          ps::Kernel{ps::replayed([&](ps::FrozenBatch<Number> both, ps::Stream<D> stream) {
            ps::for_each(stream, both.size(), PlusOne{both.data()});
          })} |
          ps::Consumer{
              [at = seen.data()](ps::Batch<const Number, ps::Device> in, ps::Stream<D> stream) {
                ps::for_each(stream, in.size(), MarkThird{in.data(), at});
              }};
      pipeline.prepare();
      const std::size_t captured = calls;
      CHECK(captured >= 2);
      for (Number runs = 1; runs <= 3; ++runs) {
        CHECK(pipeline.run().records == records);
        CHECK(read(seen, device) == std::vector<Number>(records, runs));
        CHECK(calls == captured + runs * (records % batch != 0 ? 1 : 0));
      }
      CHECK(pipeline.report().stages[2].note.empty());
    });
  };
  check(1 << 18, 1 << 12, 3);
  check(100'000, 777, 1);
  check(300, 100, 2);
}

TEST_CASE("a kernel that cannot be captured runs loose, and the report says so once") {
  const std::vector<Number> all = numbers(1000);
  for_each_device([&](D& device) {
    const ps::DeviceArray<Number, D> seen{device, all.size()};
    bool waits = true;
    auto pipeline =
        ps::Reader{ps::memory(all), ps::to_pinned} | ps::AsyncCopier{device, {.batch = 100}} |
        ps::Kernel{ps::replayed([&](ps::FrozenBatch<Number> both, ps::Stream<D> stream) {
          if (std::exchange(waits, false)) {
            throw std::runtime_error{"not while it is captured"};
          }
          ps::for_each(stream, both.size(), PlusOne{both.data()});
        })} |
        ps::Consumer{
            [at = seen.data()](ps::Batch<const Number, ps::Device> in, ps::Stream<D> stream) {
              ps::for_each(stream, in.size(), CountFrom1{in.data(), at});
            }};
    CHECK(pipeline.run().records == 1000);
    CHECK(read(seen, device) == std::vector<Number>(1000, 1));
    const std::string note = pipeline.report().stages[2].note;
    CHECK(note.find("not while it is captured") != std::string::npos);
    CHECK(pipeline.report().stages[3].note.empty());
  });
}

TEST_CASE("a replayed kernel on several streams is refused, and so are no lanes") {
  const std::vector<Number> all = numbers(1000);
  D device;
  const auto prepares = [&](ps::KernelOptions options, unsigned lanes) {
    auto pipeline =
        ps::Reader{ps::memory(all), ps::to_pinned} | ps::AsyncCopier{device, {.batch = 100}} |
        ps::Kernel{ps::replayed([](ps::FrozenBatch<Number>, ps::Stream<D>) {}, {.lanes = lanes}),
                   options};
    pipeline.prepare();
  };
  CHECK_THROWS_AS(prepares({.streams = 2}, 1), ps::OptionError);
  CHECK_THROWS_AS(prepares({}, 0), ps::OptionError);
  CHECK_THROWS_AS(prepares({}, 65), ps::OptionError);
  prepares({}, 64);
}

} // namespace suite
