// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>
#include <penstock/sources/channel.hpp>

#include <chrono>
#include <cstdint>
#include <thread>

namespace ps = penstock;

/// What a camera gives.
struct Frame {
  std::uint64_t number;
  std::uint8_t pixels[64 * 64];
};

/// What became of a camera's frames.
struct Watched {
  std::uint64_t seen{};
  std::uint64_t dropped{};
  std::uint64_t last{}; ///< the number of the last one seen
};

/// Looks at a camera's frames until it has given so many.
inline Watched watch(std::uint64_t frames) {
  using namespace std::chrono_literals;
  Watched watched;
  ps::Channel<Frame> box{{.room = 8, .when_full = ps::WhenFull::drop_oldest}};
  auto pipeline = ps::Reader{box, {.ahead = 8, .flush = 1ms}} |
                  ps::Consumer{[&](ps::Batch<const Frame, ps::Pageable> some) {
                    watched.seen += some.size();
                    watched.last = some.data()[some.size() - 1].number;
                  }};
  std::jthread camera{[box, frames]() mutable {
    for (Frame frame{}; frame.number != frames; ++frame.number) {
      box.push(frame); // in the camera's thread
    }
    box.close();
  }};
  pipeline.run();
  watched.dropped = box.dropped();
  return watched;
}
