// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of kernels and the way back on the host device, whose copies come late.

#include <penstock/formats/lines.hpp>
#include <penstock/penstock.hpp>

#include <chrono>
#include <cstdint>
#include <thread>

using TestDevice = penstock::HostDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  for (const std::uint64_t seed : {0, 3}) {
    D device{{.late_seed = seed}};
    f(device);
  }
}

inline void delay(penstock::HostStream& stream, std::chrono::microseconds time) {
  stream.enqueue([time] { std::this_thread::sleep_for(time); });
}

#include "suite/both_ways_suite.hpp"

namespace ps = penstock;

TEST_CASE("a second copier has a batch of its own, and leaves the first one's to it") {
  const ps::tests::TempDir dir;
  std::string text;
  for (int line = 0; line != 1000; ++line) {
    text += std::string(static_cast<std::size_t>(line % 7), 'x') + "\n";
  }
  const std::string path = dir.write("lines", text);
  ps::HostDevice device;
  const auto lengths = [](ps::Batch<const ps::Line, ps::Device> in,
                          ps::Batch<std::uint64_t, ps::Device> out, ps::HostStream& stream) {
    stream.enqueue([in, out] {
      for (std::size_t i = 0; i != in.size(); ++i) {
        out.data()[i] = ps::get<"text">(in)[i].size();
      }
    });
  };
  for (const bool drop_last : {false, true}) {
    for (const std::size_t batch : {64, 32, 0}) {
      CAPTURE(drop_last, batch);
      auto pipeline =
          ps::Reader{ps::lines(path), ps::to_pinned, {.batch = 64, .drop_last = drop_last}} |
          ps::AsyncCopier{device, {.batch = 64}} | ps::Kernel{lengths} |
          ps::AsyncCopier{ps::to_host} | ps::AsyncCopier{device, {.batch = batch}} |
          ps::AsyncCopier{ps::to_host};
      std::uint64_t record = 0;
      bool right = true;
      for (auto each : pipeline.batches()) {
        for (std::size_t i = 0; i != each.size(); ++i) {
          right = right && each.data()[i] == record++ % 7;
        }
      }
      CHECK(right);
      // Of 1000 lines the first copier's last batch has 40; the second one's is short as well.
      const std::uint64_t whole = 1000 / 64 * 64;
      CHECK(record == (!drop_last ? 1000 : batch == 0 ? 0 : whole / batch * batch));
    }
  }
}
