// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <cstdint>
#include <iomanip>
#include <ostream>

namespace penstock {

/// What a GPU did in some span of time, as GpuActivity (cuda/activity.hpp) recorded it.
/// `os << summary` prints it in one line. Times are seconds of the span in which at least one of
/// the named things went on, so that two kernels side by side count once.
struct GpuActivitySummary {
  /// The span's length in seconds, from the first thing's begin to the last one's end.
  double seconds{};
  /// Seconds in which a kernel ran. A memset counts as a kernel.
  double kernel_s{};
  /// Seconds in which a copy from the host to the GPU ran.
  double to_device_s{};
  /// Seconds in which a copy from the GPU to the host ran.
  double to_host_s{};
  /// Seconds in which any copy ran, also those within the GPU and between GPUs.
  double copy_s{};
  /// Seconds in which a kernel and a copy ran at once.
  double overlap_s{};
  /// Seconds in which anything ran.
  double busy_s{};
  /// Kernels and memsets that began in the span, each node of a graph by itself.
  std::uint64_t kernels{};
  /// Copies to the device that began in the span. Copies that CUDA has merged count as one.
  std::uint64_t copies_to_device{};
  /// Copies from the GPU to the host that began in the span.
  std::uint64_t copies_to_host{};
  /// Copies within the GPU and between GPUs that began in the span.
  std::uint64_t other_copies{};
  /// Bytes of the copies to the device that began in the span.
  std::uint64_t bytes_to_device{};
  /// Bytes of the copies to the host that began in the span.
  std::uint64_t bytes_to_host{};
  /// Records lost in the whole recording: unless it is 0, all other numbers are too low.
  std::uint64_t dropped{};

  /// Returns the share of the span in which a kernel ran; 0 for an empty one.
  double kernel_share() const noexcept { return share(kernel_s); }
  /// Returns the share of the span in which anything ran; 0 for an empty one.
  double busy_share() const noexcept { return share(busy_s); }
  /// Returns the share of the span in which nothing ran; 0 for an empty one.
  double idle_share() const noexcept { return seconds > 0 ? 1 - share(busy_s) : 0.0; }

 private:
  double share(double part) const noexcept { return seconds > 0 ? part / seconds : 0.0; }
};

/// Prints one line, and ends it.
inline std::ostream& operator<<(std::ostream& os, const GpuActivitySummary& gpu) {
  const auto flags = os.flags();
  const auto precision = os.precision();
  const double per_cent = gpu.seconds > 0 ? 100 / gpu.seconds : 0;
  os << std::fixed << std::setprecision(1) << "GPU: kernels " << gpu.kernel_s * per_cent << " % ("
     << gpu.kernels << "), copies " << gpu.copy_s * per_cent << " % (" << gpu.copies_to_device
     << " to the device, " << gpu.copies_to_host << " to the host, " << gpu.other_copies
     << " other), both at once " << gpu.overlap_s * per_cent << " %, idle "
     << gpu.idle_share() * 100 << std::setprecision(3) << " % of " << gpu.seconds << " s";
  if (gpu.dropped != 0) {
    os << "; " << gpu.dropped << " records were lost, so that these figures are too low";
  }
  os << '\n';
  os.flags(flags);
  os.precision(precision);
  return os;
}

} // namespace penstock
