// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/run/report.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// Some calls of CUDA, by all threads together. A call that CUDA's runtime makes of the driver, to
/// do what it was asked for, counts once.
struct WatchedCalls {
  std::uint64_t calls{}; ///< How many.
  double seconds{};      ///< Seconds that they kept their threads, all threads together.
};

/// The calls of one function.
struct WatchedFunction {
  std::string name{};   ///< As in CUDA's reference: "cudaStreamSynchronize".
  WatchedCalls calls{}; ///< Its calls.
};

/// The kernels of one name.
struct WatchedKernel {
  std::string name{};       ///< As the compiler mangled it.
  std::uint64_t launches{}; ///< How often it ran.
  double seconds{};         ///< Seconds that these took, added up.
  std::uint64_t blocks{};   ///< Most blocks of threads in a launch.
  std::uint64_t sizes{};    ///< How many different numbers of blocks there were; 100 if more.
  unsigned threads{};       ///< Most threads in a block.
  unsigned registers{};     ///< Most registers a thread.
  unsigned shared_bytes{};  ///< Most bytes of shared memory a block.
};

/// Copies from and to pageable host memory.
struct PageableCopies {
  std::uint64_t copies{}; ///< How many.
  std::uint64_t bytes{};  ///< Their bytes.
  double seconds{};       ///< Seconds in which at least one ran on the GPU.
};

/// What the program did while the GPU was idle, in seconds. Where threads did different things, the
/// first in this list counts.
struct IdleTimes {
  /// A thread allocated or gave back memory, page-locked or not, and not before the first kernel.
  double allocation_s{};
  double copy_s{};      ///< A thread was in a call that copies or fills.
  double launch_s{};    ///< A thread was in a call that launches.
  double wait_s{};      ///< A thread was in a call that waits for the GPU.
  double other_s{};     ///< A thread was in another call of CUDA, not before the first kernel.
  double between_s{};   ///< No thread was in a call, for less than 20 us.
  double elsewhere_s{}; ///< No thread was in a call, for longer: the program did something else.
  /// How many times it did something else.
  std::uint64_t gaps{};
  /// Seconds of the longest of these.
  double longest_gap_s{};
  /// Before the first kernel a thread allocated, gave back memory, or was in another call: such as
  /// the first one, which makes CUDA ready.
  double setup_s{};
};

/// What the program asked for in the later part of its launches, at least half of them and up to
/// the last one: what a loop does, without the program's set-up and its end.
struct WatchedLoop {
  std::uint64_t launches{};   ///< How many.
  WatchedCalls allocations{}; ///< Memory allocated or page-locked meanwhile.
  WatchedCalls releases{};    ///< Memory given back meanwhile.
};

/// Kernels between two matrix products that are none themselves, where at least 32 of them follow
/// each other.
struct KernelsInARow {
  std::uint64_t rows{};    ///< How many such rows there were.
  std::uint64_t kernels{}; ///< Kernels in them.
  double seconds{}; ///< Seconds from the first one's begin to the last one's end, of all rows.
  double busy_s{};  ///< Seconds of these in which a kernel ran.
};

/// What a program asked of a GPU and what the GPU did, as ps::Watch (diagnose/watch.hpp) and
/// `17_doctor --run` record it. watch_text.hpp prints it, and the doctor names the causes of idle
/// time.
struct WatchSummary {
  double seconds{};            ///< How long the program was watched.
  GpuActivitySummary gpu{};    ///< What the GPU did; its `seconds` are these.
  WatchedCalls launches{};     ///< Kernels and graphs launched.
  WatchedCalls waits{};        ///< Waits for a stream, an event, a context or the device.
  WatchedCalls allocations{};  ///< Memory allocated or page-locked.
  WatchedCalls releases{};     ///< Memory given back.
  WatchedCalls copies{};       ///< Copies and fills.
  PageableCopies pageable{};   ///< Those of them from or to pageable memory.
  WatchedCalls page_locks{};   ///< Page-locked memory allocated, or memory page-locked.
  std::uint64_t page_locked{}; ///< Bytes of that.
  WatchedLoop loop{};          ///< Allocations in the later part.
  IdleTimes idle{};            ///< What the program did while the GPU was idle.
  KernelsInARow in_a_row{};    ///< Many kernels between products.
  unsigned streams{};          ///< Streams with work.
  /// Most bytes of device memory that the program had at once, of what it allocated while it was
  /// watched or, for a Watch, had before.
  std::uint64_t device_bytes{};
  std::uint64_t device_memory{}; ///< Bytes of memory that the GPU has; 0 if not known.
  double memory_bytes_per_s{};   ///< What that memory can do, by CUDA; 0 if not known.
  /// The best rate of a copy of a MiB or more from or to page-locked memory; 0 if there was none.
  double page_locked_bytes_per_s{};
  double link_bytes_per_s{};       ///< What the GPU's PCIe link allows, by Linux; 0 if not known.
  std::uint64_t host_peak_bytes{}; ///< Most host memory that the process had at once.
  double cpu_s{};                  ///< Processor seconds that the process used.
  unsigned processors{};           ///< Processors that it may use.
  /// Records of the GPU's work that came after the time that they are of was summed up. They count,
  /// and what the GPU is told to have been idle is too much by theirs.
  std::uint64_t late{};
  /// By time, longest first.
  std::vector<WatchedFunction> functions{};
  /// By time, longest first.
  std::vector<WatchedKernel> kernels{};
};

} // namespace penstock
