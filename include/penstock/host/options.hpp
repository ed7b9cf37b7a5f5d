// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>

namespace penstock {

/// How a HostDevice behaves. By default it is as fast as it can be. With a rate or a time it
/// pretends to be another machine: its threads do the work, and sleep until that machine would have
/// done it. Nothing spins. Over many pieces of work, rates and times are right to within a few
/// percent, unless the work itself takes longer.
struct HostOptions {
  /// If not 0, each copy starts late, by 0 to 400 microseconds, the n-th always by the same for one
  /// seed. So copies of different streams finish in other orders; within a stream nothing changes.
  std::uint64_t late_seed = 0;
  /// How much later a copy starts, in nanoseconds for each KiB. Copies of two streams do not slow
  /// each other down by this, as they do on a bus.
  std::uint64_t copy_ns_per_kib = 0;
  /// If not 0, bytes a second of the bus to the device. It makes one copy at a time, so all streams
  /// share it. The other direction is a bus of its own.
  double to_device_bytes_per_s = 0;
  /// If not 0, bytes a second of the bus to the host, likewise.
  double to_host_bytes_per_s = 0;
  /// The share of a bus's rate that a copy from or to pageable memory gets, more than 0 and at most
  /// 1. Such a copy has the bus for itself, and keeps the caller until it is done. Pageable is all
  /// memory that allocate_pinned() of this device did not return. Without a bus it is copied as any
  /// other. By default what an H200 showed: 7.5 of 48.2 GB/s in copies of 1 MiB.
  double pageable_share = 0.155;
  /// Seconds that a launch keeps the calling thread: HostStream::enqueue(), HostGraph::launch(). On
  /// average, with what it takes to hand the work over: if the system wakes the thread up too late,
  /// the launches that follow are shorter, until 10 milliseconds are made up for. A wait for room
  /// in the stream comes on top.
  double launch_s = 0;
  /// Seconds that each piece of enqueued work takes at least. The device runs one at a time,
  /// whatever their streams, as kernels that fill a GPU run. So do those of a graph. Copies run
  /// meanwhile. Only work that takes longer by itself runs beside that of other streams.
  double kernel_s = 0;
  /// If not 0, bytes of memory that the device has: allocate() fails beyond.
  std::uint64_t memory_bytes = 0;
};

/// How a call fails, for HostDevice::fail_call().
struct HostFault {
  /// All later calls fail too, not only that one.
  bool persistent = false;
  /// The device is unusable afterwards, as a GPU is after a trap.
  bool sticky = false;
  int code = 2; ///< What DeviceError::code() is.
};

} // namespace penstock
