// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite on the host device, whose copies come late in three different orders.

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
    // Of all calls, a graph's launches among them.
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
