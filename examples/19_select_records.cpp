// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 19_select_records: a file of events goes through the GPU, and those of high energy into another
// file, in order. Only the device knows how many of a batch it keeps: its Kernel fills a Counted
// batch. The memory that select() needs comes from a Scratch.
//
//   19_select_records [--device auto|cuda|host] [IN OUT]
//
// IN has events of 8 bytes, a number and an energy from 0 to 1. Without files it makes a million.
// It prints how many of how many events it kept, and the Report. It fails if a plain loop over IN
// keeps others.

#include "support/arguments.hpp"
#include "support/temporary_file.hpp"

#include <penstock/callables/scratch.hpp>
#include <penstock/host/algorithm.hpp>
#include <penstock/penstock.hpp>
#include <penstock/with_device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

namespace ps = penstock;

struct Event {
  std::uint32_t number;
  float energy;

  bool operator==(const Event&) const = default;
};

struct IsHigh {
  PENSTOCK_HD bool operator()(const Event& event) const { return event.energy > 0.9F; }
};

template <ps::AnyDevice D>
ps::Report select_records(D& device, const std::string& in, const std::string& out) {
  ps::Scratch scratch{device, std::size_t{4} << 20};
  auto pipeline =
      ps::Reader{ps::records<Event>(in), ps::to_pinned} | ps::AsyncCopier{device} |
      ps::Kernel{[&](ps::Batch<const Event, ps::Device> all,
                     ps::Batch<ps::Counted<Event>, ps::Device> kept, ps::Stream<D> stream) {
        auto frame = scratch.on(stream);
        auto workspace = frame.workspace();
        ps::select(stream, all.data(), all.size(), IsHigh{}, kept.data(), kept.count(), workspace);
      }} |
      ps::AsyncCopier{ps::to_host} | ps::Writer{out};
  return pipeline.run();
}

bool read(std::ifstream& file, Event& event) {
  return static_cast<bool>(file.read(reinterpret_cast<char*>(&event), sizeof event));
}

/// Returns how many events a plain loop keeps. Throws if `out` has others.
std::uint64_t check(const std::string& in, const std::string& out) {
  std::ifstream before{in, std::ios::binary};
  std::ifstream after{out, std::ios::binary};
  std::uint64_t kept = 0;
  Event event{};
  Event found{};
  while (read(before, event)) {
    if (IsHigh{}(event) && (!read(after, found) || !(found == event))) {
      throw std::runtime_error{out + ": event number " + std::to_string(kept) + " is wrong"};
    }
    kept += IsHigh{}(event) ? 1U : 0U;
  }
  if (read(after, found)) {
    throw std::runtime_error{out + " has more than " + std::to_string(kept) + " events"};
  }
  return kept;
}

std::string some_events() {
  std::string bytes;
  std::uint32_t state = 1;
  for (std::uint32_t number = 0; number < 1'000'003; ++number) {
    state = state * 1664525 + 1013904223;
    const Event event{number, static_cast<float>(state >> 8) / (1 << 24)};
    bytes.append(reinterpret_cast<const char*>(&event), sizeof event);
  }
  return bytes;
}

int main(int argc, char** argv) try {
  const Arguments args{argc, argv, 2, "IN OUT"};
  std::optional<TemporaryFile> made;
  std::optional<TemporaryFile> place;
  const std::string in = args.files.empty() ? made.emplace(some_events()).path() : args.files[0];
  const std::string out = args.files.empty() ? place.emplace("").path() : args.files[1];
  return ps::with_device(args.device, [&](auto& device) {
    const auto attached = device.attach();
    const ps::Report report = select_records(device, in, out);
    std::cout << check(in, out) << " of " << report.stages.front().records
              << " events are of high energy\n"
              << report;
    return 0;
  });
} catch (const std::exception& error) {
  std::cerr << "19_select_records: " << error.what() << '\n';
  return 1;
}

// prints with --device host:
//   99924 of 1000003 events are of high energy
//   99924 records, … on host
//   …
