// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pipelines in which one thing is slow on purpose, on a GPU or on a pretended machine: what the
// verdict is to find.

#include <penstock/diagnose/verdict.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <thread>

namespace penstock_bench {

/// What travels: a page.
struct Page {
  std::byte bytes[4096];
};

/// What the stages of a planted pipeline cost. Seconds.
struct Costs {
  double read_s{};              ///< A read sleeps so long, as for a remote store.
  unsigned burst{1};            ///< Of so many reads one takes all their time.
  double decode_s{};            ///< Decoding a page sleeps so long.
  double decode_cpu_s{};        ///< Decoding a page keeps a processor so long.
  double kernel_s{};            ///< A launch keeps the device so long.
  unsigned launches{1};         ///< Launches a batch.
  bool waits{};                 ///< The callable waits for the device after each batch.
  bool allocates{};             ///< It allocates device memory for each batch, and gives it back.
  std::size_t pageable_bytes{}; ///< It copies so many from pageable memory for each batch.
  double host_cpu_s{};          ///< It keeps its processor so long for each batch.
};

/// The settings that a user would change; 0 is the default.
struct Settings {
  std::uint64_t pages{};
  unsigned readers{};
  std::size_t read_depth{};
  std::size_t slot{}; ///< Pages a slot.
  unsigned decoders{};
  std::size_t decode_depth{};
  std::size_t batch{64}; ///< Pages a batch.
  std::size_t copy_depth{3};
};

/// Keeps the calling thread's processor busy for so many seconds of its own time.
inline void keep_busy(double seconds) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  };
  const double end = seconds > 0 ? now() + seconds : 0;
  while (seconds > 0 && now() < end) {
  }
}
inline void sleep_for(double seconds) {
  if (seconds > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>{seconds});
  }
}

struct PlantedSource {
  using schema = Page;
  Costs costs;
  std::uint64_t pages;

  std::uint64_t size() const { return pages; }
  template <penstock::HostSpace Where> std::size_t read(penstock::Batch<Page, Where> into) const {
    const std::uint64_t slot = into.index() / std::max<std::size_t>(into.size(), 1);
    sleep_for(slot % costs.burst == 0 ? costs.read_s * costs.burst : 0);
    return into.size();
  }
};

struct PlantedDecode {
  Costs costs;

  void operator()(penstock::Batch<const Page, penstock::Pageable> in,
                  penstock::Batch<Page, penstock::Pinned> out) const {
    const auto pages = static_cast<double>(in.size());
    std::copy(in.data(), in.data() + in.size(), out.data());
    sleep_for(costs.decode_s * pages);
    keep_busy(costs.decode_cpu_s * pages);
  }
};

/// A Machine has a `device`, and can launch(seconds, stream), wait(stream), allocate() and
/// copy_pageable(bytes, stream).
template <class Machine> struct PlantedCall {
  using Stream = penstock::Stream<decltype(Machine::device)>;
  Machine* machine;
  Costs costs;

  void operator()(penstock::Batch<const Page, penstock::Device>, Stream stream) const {
    for (unsigned i = 0; i != costs.launches; ++i) {
      machine->launch(costs.kernel_s, stream);
    }
    if (costs.pageable_bytes != 0) {
      machine->copy_pageable(costs.pageable_bytes, stream);
    }
    if (costs.allocates) {
      machine->allocate();
    }
    if (costs.waits) {
      machine->wait(stream);
    }
    keep_busy(costs.host_cpu_s);
  }
};

/// Runs Reader | Decoder | AsyncCopier | Consumer at these costs.
template <class Machine>
penstock::Report run_planted(Machine& machine, const Costs& costs, const Settings& settings,
                             penstock::RunObserver* observe = nullptr) {
  namespace ps = penstock;
  auto pipeline =
      ps::Reader{
          PlantedSource{costs, settings.pages},
          {.workers = settings.readers, .depth = settings.read_depth, .batch = settings.slot}} |
      ps::Decoder{PlantedDecode{costs},
                  ps::to_pinned,
                  {.workers = settings.decoders, .depth = settings.decode_depth}} |
      ps::AsyncCopier{machine.device, {.batch = settings.batch, .depth = settings.copy_depth}} |
      ps::Consumer{PlantedCall<Machine>{&machine, costs}};
  pipeline.prepare();
  return pipeline.run({.observe = observe});
}

/// Runs Reader | Consumer on the host, where a Consumer's page costs what decoding one does.
inline penstock::Report run_planted_on_host(const Costs& costs, const Settings& settings) {
  namespace ps = penstock;
  auto pipeline =
      ps::Reader{
          PlantedSource{costs, settings.pages},
          {.workers = settings.readers, .depth = settings.read_depth, .batch = settings.slot}} |
      ps::Consumer{[costs](ps::Batch<const Page, ps::Pageable> in) {
                     sleep_for(costs.decode_s * static_cast<double>(in.size()));
                     keep_busy(costs.decode_cpu_s * static_cast<double>(in.size()));
                   },
                   {.workers = settings.decoders}};
  pipeline.prepare();
  return pipeline.run();
}

/// Changes the settings as an Advice says, such as "Decoder: .workers 4 -> 9; .depth 5 -> 18".
/// Returns whether it understood all of it.
inline bool follow(std::string_view change, Settings& settings) {
  bool any = false;
  for (std::size_t at = change.find('.'); at != std::string_view::npos;
       at = change.find('.', at + 1)) {
    // An option is of the stage named last: "Decoder: .workers 4 -> 9; Reader: .depth 5 -> 12".
    const std::size_t colon = change.rfind(':', at);
    const std::size_t before = change.rfind("; ", colon);
    const std::size_t name = before == std::string_view::npos ? 0 : before + 2;
    const std::string_view stage =
        colon == std::string_view::npos ? "" : change.substr(name, colon - name);
    const std::string_view option = change.substr(at, change.find(' ', at) - at);
    const std::size_t arrow = change.find("-> ", at);
    if (arrow == std::string_view::npos) {
      return false;
    }
    std::size_t to = 0;
    std::from_chars(change.data() + arrow + 3, change.data() + change.size(), to);
    const bool reader = stage == "Reader";
    if (to == 0 || (!reader && stage != "Decoder" && stage != "AsyncCopier")) {
      return false;
    }
    if (option == ".workers") {
      (reader ? settings.readers : settings.decoders) = static_cast<unsigned>(to);
    } else if (option == ".depth") {
      (reader               ? settings.read_depth
       : stage == "Decoder" ? settings.decode_depth
                            : settings.copy_depth) = to;
    } else if (option == ".batch") {
      (reader ? settings.slot : settings.batch) = to;
    } else {
      return false;
    }
    any = true;
  }
  return any;
}

} // namespace penstock_bench
