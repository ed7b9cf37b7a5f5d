// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of Counted batches on the host device, whose copies come late in three different
// orders.

#include <penstock/penstock.hpp>

#include <cstdint>

using TestDevice = penstock::HostDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    D device{{.late_seed = seed}};
    f(device);
  }
}

#include "suite/counted_suite.hpp"

namespace suite {

TEST_CASE("of a counted batch no more bytes are copied than there are") {
  const std::vector<Number> all = numbers(20'000);
  const std::uint64_t records = wanted(all, 1).size();
  D device;
  auto pipeline =
      on_device(device, all, 100) |
      ps::Kernel{[](Numbers in, Some out, ps::HostStream& stream) { select(in, out, stream); }} |
      ps::AsyncCopier{ps::to_host} | ps::Consumer{[](ps::Batch<const Number, ps::Pinned>) {}};
  pipeline.prepare();
  const std::uint64_t before = device.counts().copied_bytes;
  pipeline.run();
  const std::uint64_t counts = 200 * sizeof(std::uint64_t);
  CHECK(device.counts().copied_bytes - before == (all.size() + records) * sizeof(Number) + counts);
}

} // namespace suite
