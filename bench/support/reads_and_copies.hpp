// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Threads without a ring: each has memory of its own.

#include "support/contender.hpp"
#include "support/file.hpp"
#include "support/gpu.hpp"
#include "support/light.cuh"
#include "support/threads.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock_bench {

/// Each thread reads pieces of a file into memory of its own, and nothing else.
class Reads : public Contender {
 public:
  Reads(const std::string& path, std::uint64_t bytes, unsigned threads)
      : file_{path, O_RDONLY}, bytes_{bytes}, threads_{threads} {}

  std::uint64_t run() override {
    std::atomic<std::uint64_t> next{0};
    on_threads(threads_, [&](std::size_t thread) {
      for (std::uint64_t at = next.fetch_add(MiB); at < bytes_; at = next.fetch_add(MiB)) {
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(MiB, bytes_ - at));
        file_.read(at, {pinned_.get() + thread * MiB, size});
      }
    });
    return 0;
  }

 private:
  OpenFile file_;
  std::uint64_t bytes_;
  unsigned threads_;
  PinnedBytes pinned_ = make_pinned(threads_ * MiB);
};

/// Each thread reads a batch of 4 MiB, copies it to the GPU and works on it there, before it reads
/// the next one. The work has a lane for each thread.
class ReadsAndCopies : public Contender {
 public:
  ReadsAndCopies(const std::string& path, std::uint64_t bytes, unsigned threads, const Work& work)
      : file_{path, O_RDONLY}, bytes_{bytes}, threads_{threads}, work_{work}, streams_(threads) {
    std::generate(streams_.begin(), streams_.end(), make_stream);
  }

  std::uint64_t run() override {
    std::atomic<std::uint64_t> next{0};
    on_threads(threads_, [&](std::size_t thread) {
      std::uint8_t* const pinned = pinned_.get() + thread * piece;
      std::uint8_t* const on_device = on_device_.get() + thread * piece;
      const Stream& stream = streams_[thread];
      for (std::uint64_t at = next.fetch_add(piece); at < bytes_; at = next.fetch_add(piece)) {
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece, bytes_ - at));
        file_.read(at, {pinned, size});
        copy_to_device(on_device, pinned, size, stream);
        work_(on_device, size, stream.get(), static_cast<unsigned>(thread));
        sync(stream);
      }
    });
    return work_.checksum();
  }

 private:
  static constexpr std::size_t piece = 4 * MiB;

  OpenFile file_;
  std::uint64_t bytes_;
  unsigned threads_;
  Work work_;
  std::vector<Stream> streams_;
  PinnedBytes pinned_ = make_pinned(threads_ * piece);
  DeviceBytes on_device_ = make_on_device(threads_ * piece);
};

} // namespace penstock_bench
