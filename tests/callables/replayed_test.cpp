// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of replayed work on the host device, whose copies come late in three different orders.

#include <penstock/penstock.hpp>

#include <cstdint>

using TestDevice = penstock::HostDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    D device{{.late_seed = seed}};
    f(device);
  }
}

#include "suite/replay_suite.hpp"

#include "support/failing_device.hpp"

namespace suite {

TEST_CASE("whichever call of a replayed run fails, it is an error, and the next run is whole") {
  const std::size_t records = 100'000;
  const std::vector<Number> all = numbers(records);
  tests::FailingDevice device;
  const ps::DeviceArray<Number, tests::FailingDevice> seen{device, records};
  auto pipeline = ps::Reader{ps::memory(all), ps::to_pinned, {.batch = 5000}} |
                  ps::AsyncCopier{device, {.batch = 100}} |
                  ps::Consumer{ps::replayed(
                      [at = seen.data()](Numbers in, ps::HostStream& stream) {
                        ps::for_each(stream, in.size(), Mark{in.data(), at});
                      },
                      {.lanes = 2})};
  pipeline.prepare();
  std::size_t failed = 0;
  for (std::uint64_t k = 1; k <= 60; ++k) {
    CAPTURE(k);
    // The k-th of all calls fails, a graph's launches included.
    device.fail_call(k);
    try {
      pipeline.run();
    } catch (const ps::StageError&) {
      ++failed;
    }
    device.fail_call(0);
    auto stream = device.stream();
    const std::vector<Number> before = seen.read(stream);
    CHECK(pipeline.run().records == records);
    const std::vector<Number> after = seen.read(stream);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < records; ++i) {
      wrong += after[i] == before[i] + 1 ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
  CHECK(failed > 30);
}

TEST_CASE("a device that is lost while work is captured is an error of prepare()") {
  const std::vector<Number> all = numbers(1000);
  tests::FailingDevice device;
  auto pipeline =
      replays(device, all, 100, ps::Consumer{ps::replayed([&](Numbers, ps::HostStream&) {
                device.fail_call(1, {.sticky = true});
              })});
  const auto e = tests::caught<ps::DeviceError>([&] { pipeline.prepare(); });
  CHECK(e.sticky());
  CHECK(e.call() == "capture");
}

struct Trap {
  const Number* in;
  void operator()(std::size_t i) const {
    if (in[i] == 70'007) {
      throw std::runtime_error{"trapped"};
    }
  }
};

TEST_CASE("work that traps as it is replayed is named, and nothing waits for the device") {
  const std::vector<Number> all = numbers(100'000);
  ps::HostDevice device;
  auto pipeline = replays(device, all, 100,
                          ps::Consumer{ps::replayed(
                              [](Numbers in, ps::HostStream& stream) {
                                ps::for_each(stream, in.size(), Trap{in.data()});
                              },
                              {.lanes = 4})});
  const auto e = tests::caught<ps::StageError>([&] { pipeline.run(); });
  CHECK(tests::has(e, "trapped"));
  CHECK(e.enqueued_by() == "Consumer");
  const auto again = tests::caught<ps::StageError>([&] { pipeline.run(); });
  CHECK(std::string{again.what()} == e.what());
}

TEST_CASE("more places than are worth a graph are said in the report") {
  const std::vector<Number> all = numbers(1000);
  ps::HostDevice device;
  std::size_t calls = 0;
  auto pipeline = replays(device, all, ps::CopierOptions{.batch = 1, .depth = 300'000},
                          ps::Consumer{ps::replayed([&](Numbers, ps::HostStream&) { ++calls; })});
  pipeline.prepare();
  CHECK(calls == 0);
  const std::string note = pipeline.report().stages.back().note;
  CHECK(note.starts_with("not replayed, since it cannot be captured: penstock: the device's ring "
                         "has 300000 places"));
}

struct NoGraphs : ps::HostDevice {
  using graph_type = void;
};

TEST_CASE("a device that captures nothing is given each batch by the callable") {
  const std::size_t records = 10'000;
  const std::vector<Number> all = numbers(records);
  NoGraphs device;
  const ps::DeviceArray<Number, NoGraphs> seen{device, records};
  auto pipeline = ps::Reader{ps::memory(all), ps::to_pinned} |
                  ps::AsyncCopier{device, {.batch = 100}} |
                  ps::Consumer{ps::replayed([at = seen.data()](Numbers in, ps::HostStream& stream) {
                    ps::for_each(stream, in.size(), Mark{in.data(), at});
                  })};
  CHECK(pipeline.run().records == records);
  CHECK(pipeline.report().stages.back().note == "not replayed: this device captures nothing");
  auto stream = device.stream();
  CHECK(seen.read(stream) == std::vector<Number>(records, 1));
}

} // namespace suite
