// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout.hpp"

#include <penstock/penstock.hpp>
#include <penstock/with_device.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace weights {

#if defined(__CUDACC__)
/// Throws unless CUDA has done what was asked of it.
inline void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw std::runtime_error{std::string{what} + " failed: " + cudaGetErrorString(status)};
  }
}

/// Has each GPU reach the others' memory, where it can: else copies go through the host. Returns
/// whether all can.
inline bool let_reach(std::deque<penstock::CudaDevice>& gpus) {
  bool all = true;
  for (std::size_t from = 0; from != gpus.size(); ++from) {
    const auto attached = gpus[from].attach();
    for (std::size_t to = 0; to != gpus.size(); ++to) {
      if (to != from) {
        all = cudaDeviceEnablePeerAccess(static_cast<int>(to), 0) == cudaSuccess && all;
      }
    }
    cudaGetLastError(); // that it cannot is no error
  }
  return all;
}
#endif

/// The devices of this process, each with a share: GPU number i, if they are GPUs, has the i-th.
/// What a device has read it copies to the others itself.
template <penstock::AnyDevice D> class PeerTeam {
 public:
  /// Copies a device's pieces to the others, on streams that the device's pipeline does not wait
  /// for.
  class Gather {
   public:
    Gather(D& device, std::size_t share, std::vector<std::byte*> memories)
        : device_{device}, share_{share}, memories_{std::move(memories)}, read_{device.event()} {
      // Two fill NVLink, and a GPU that has many runs some of them in turn.
      for (std::size_t i = 1; i < std::min<std::size_t>(memories_.size(), 3); ++i) {
        streams_.push_back(device.stream());
      }
    }
    Gather(const Gather&) = delete;
    Gather& operator=(const Gather&) = delete;
    // Nobody may free the others' memory while a copy is on its way to it.
    ~Gather() {
      try {
        finish();
      } catch (const penstock::DeviceError&) { // then no copy is on its way any more
      }
    }

    /// Enqueues what brings this device's piece of a row to the others, behind what is on `stream`.
    void row(penstock::Stream<D> stream, const Row& row) {
      device_.record(read_, stream);
      for (auto& one : streams_) {
        device_.wait(one, read_);
      }
      // Each begins with the one behind it: no device gets all at once.
      for (std::size_t i = 1; i < memories_.size(); ++i) {
        copy(streams_[i % streams_.size()], (share_ + i) % memories_.size(),
             row.at + share_ * row.each, row.each);
      }
    }
    /// Blocks until all rows are there.
    void finish() {
      for (auto& stream : streams_) {
        device_.sync(stream);
      }
    }

   private:
    void copy(typename D::stream_type& stream, std::size_t other, std::uint64_t at,
              std::size_t bytes) {
      std::byte* const to = memories_[other] + at;
      const std::byte* const from = memories_[share_] + at;
      if constexpr (std::is_same_v<D, penstock::HostDevice>) {
        stream.enqueue([=] { std::memcpy(to, from, bytes); });
      } else {
#if defined(__CUDACC__)
        check_cuda(cudaMemcpyPeerAsync(to, static_cast<int>(other), from, static_cast<int>(share_),
                                       bytes, stream),
                   "cudaMemcpyPeerAsync");
#endif
      }
    }

    D& device_;
    std::size_t share_;
    std::vector<std::byte*> memories_;
    typename D::event_type read_;
    std::vector<typename D::stream_type> streams_;
  };

  explicit PeerTeam(std::deque<D>& devices) : devices_{devices} {
    if (devices.size() > 1) {
      if constexpr (std::is_same_v<D, penstock::HostDevice>) {
        way_ = "copies on the host";
      } else {
        way_ = let_reach(devices) ? "copies between GPUs" : "copies between GPUs through the host";
      }
    }
  }

  /// Returns how many shares there are.
  std::size_t shares() const { return devices_.size(); }
  /// Returns the share of this process's first device.
  std::size_t first() const { return 0; }
  /// Returns whether this process speaks for all.
  bool speaks() const { return true; }
  /// Returns how the shares are gathered; nothing if there is nothing to gather.
  const std::string& way() const { return way_; }
  /// Returns the values of all devices, given those of this process's.
  std::vector<double> all(std::vector<double> here) const { return here; }
  /// Nothing: no device waits for another one's pieces.
  void give_up() noexcept {}
  /// Returns what gathers for a device; `memories` has the memory of each one.
  Gather gather(std::size_t device, std::vector<std::byte*> memories) {
    return Gather{devices_[device], device, std::move(memories)};
  }

 private:
  std::deque<D>& devices_;
  std::string way_;
};

} // namespace weights
