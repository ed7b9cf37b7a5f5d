// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <cerrno>
#include <cstdint>
#include <numeric>
#include <system_error>

#include <sys/socket.h>

namespace ps = penstock;

/// Temperatures that a sensor sends, each in a packet of its own, until it hangs up.
struct Sensor {
  using schema = double;
  int socket;

  std::uint64_t size() const { return ps::unknown_size; }
  template <ps::HostSpace Where>
  ps::Filled read(ps::Batch<double, Where> into, const ps::Patience& patience) const {
    if (!patience.readable(socket)) {
      return ps::for_now(0); // the run ends
    }
    const auto got = ::recv(socket, into.data(), sizeof(double), 0);
    if (got < 0) {
      throw std::system_error{errno, std::generic_category(), "the sensor"};
    }
    return got > 0 ? ps::for_now(1) : 0; // fewer, and not for now: the end
  }
};

/// Returns the mean of all that come until the sensor hangs up.
inline double mean_of(Sensor sensor) {
  double sum = 0;
  auto pipeline = ps::Reader{sensor, {.batch = 64}} |
                  ps::Consumer{[&](ps::Batch<const double, ps::Pageable> some) {
                    sum = std::accumulate(some.data(), some.data() + some.size(), sum);
                  }};
  const ps::Report& report = pipeline.run();
  return sum / static_cast<double>(report.records);
}
