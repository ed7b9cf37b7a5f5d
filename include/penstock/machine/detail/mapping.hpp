// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/threads.hpp>
#include <penstock/error.hpp>
#include <penstock/machine/detail/processor_set.hpp>
#include <penstock/machine/usable.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <system_error>
#include <thread>

#include <sys/mman.h>
#include <unistd.h>

namespace penstock::detail {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;
inline constexpr std::size_t most_touch_workers = 8;
/// The fewest bytes that a started thread touches: its start costs some 20 us.
inline constexpr std::size_t least_touch_bytes = std::size_t{16} << 20;

/// Returns how many threads first touch a mapping, this one included.
std::size_t touch_workers(std::size_t bytes, std::size_t cores) noexcept;

/// Writes to each page of [at, at + bytes), which makes the kernel provide it now and not in the
/// middle of a run. `workers` is 1 or more, this thread among them. Blocks; does the part of each
/// thread that cannot be started.
template <class Thread = std::thread>
[[gnu::cold]] void touch_pages(std::byte* at, std::size_t bytes, std::size_t workers) noexcept {
  const auto touch = [at, bytes](std::size_t from, std::size_t to) noexcept {
    for (std::size_t offset = from; offset < std::min(to, bytes); offset += page) {
      *static_cast<volatile std::byte*>(at + offset) = std::byte{0};
    }
  };
  // Each thread gets whole huge pages: two that fault in the same one would wait for each other.
  std::array<Thread, most_touch_workers> others;
  workers = std::min(workers, others.size());
  const std::size_t part = (bytes / workers / huge_page + 1) * huge_page;
  for (std::size_t k = 1; k < workers; ++k) {
    try {
      others[k] = start_thread<Thread>([=] { touch(k * part, (k + 1) * part); });
    } catch (const std::exception&) {
      touch(k * part, (k + 1) * part);
    }
  }
  touch(0, part);
  for (Thread& other : others) {
    if (other.joinable()) {
      other.join();
    }
  }
}

/// Unmaps what map_pages() returned to this process; does nothing for null. Never throws.
void unmap_pages(void* at, std::size_t bytes) noexcept;

/// Returns `bytes` of zeroed host memory, a multiple of `page`, as one anonymous mapping. Blocks
/// until all pages are there, huge ones if the system has them; from 2 MiB on, the start is aligned
/// to that. A forked child does not have the pages. To be given to unmap_pages() with the same
/// count. Any thread. Throws Error with the byte count. `near`: the pages are first touched from
/// these processors, if any, and the kernel then takes them from the memory there.
[[gnu::cold]] void* map_pages(std::size_t bytes, const ProcessorSet& near = {});
/// Does that, from `near()`, the processors near a device. What is less than a huge page is
/// touched where the caller is: to find those processors and start a thread there takes longer.
template <class F> void* map_pages_near(std::size_t bytes, F near) {
  return bytes < huge_page ? map_pages(bytes) : map_pages(bytes, near());
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::size_t touch_workers(std::size_t bytes, std::size_t cores) noexcept {
  return std::clamp<std::size_t>(std::min(cores, bytes / least_touch_bytes), 1, most_touch_workers);
}

PENSTOCK_INLINE void unmap_pages(void* at, std::size_t bytes) noexcept {
  if (at != nullptr) {
    ::munmap(at, bytes);
  }
}

PENSTOCK_INLINE void* map_pages(std::size_t bytes, const ProcessorSet& near) {
  if (bytes == 0 || bytes % page != 0) {
    throw_error<Error>({"penstock: cannot map ", bytes,
                        " bytes of host memory: the size must be a multiple of ", page,
                        ", and not 0."});
  }
  // Asked for here, since it may throw. Takes longer than to touch a few pages.
  const std::size_t cores = bytes < 2 * least_touch_bytes ? 1 : usable_processors();
  const std::size_t spare = bytes >= huge_page ? huge_page - page : 0;
  const bool too_many = bytes > std::numeric_limits<std::size_t>::max() - spare;
  void* const got = too_many ? MAP_FAILED
                             : ::mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) {
    throw_error<Error>({"penstock: cannot map ", bytes, " bytes of host memory: ",
                        std::generic_category().message(too_many ? ENOMEM : errno),
                        ". Take fewer or smaller slots (a smaller depth), or raise the limits on "
                        "this process's memory (ulimit -v, ulimit -l, the container's)."});
  }
  auto* at = static_cast<std::byte*>(got);
  if (spare != 0) {
    const std::size_t past = reinterpret_cast<std::uintptr_t>(at) % huge_page;
    const std::size_t head = past == 0 ? 0 : huge_page - past;
    // Trimming can fail only for want of mappings: then the part to trim stays, untouched.
    if (head != 0) {
      ::munmap(at, head);
    }
    at += head;
    // The system's last page may be larger than ours.
    const auto system_page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t last = (system_page - bytes % system_page) % system_page;
    if (spare - head > last) {
      ::munmap(at + bytes + last, spare - head - last);
    }
    // Only advice: without huge pages all works, slower.
    ::madvise(at, bytes, MADV_HUGEPAGE);
  }
  // Kept from a forked child: the kernel would have to copy pages that a device may write to.
  ::madvise(at, bytes, MADV_DONTFORK);
  const auto touch = [=, &near]() noexcept {
    const std::size_t here = near.empty() ? cores : std::min<std::size_t>(cores, near.count());
    touch_pages(at, bytes, touch_workers(bytes, here));
  };
  if (near.empty()) {
    touch();
    return at;
  }
  // On a thread of its own: the caller's may be the user's, and stays where it is.
  try {
    start_thread([&] {
      near.hold_this_thread();
      touch();
    }).join();
  } catch (const std::exception&) {
    touch();
  }
  return at;
}
#endif

} // namespace penstock::detail
