// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../link.hpp"
#include "../meeting.hpp"
#include "../nccl_id.hpp"
#include "layout.hpp"

#include <penstock/cuda.hpp>
#include <penstock/cuda/nccl.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace weights {

/// The GPUs of all ranks, of which each has the share of its rank. NCCL gathers them.
class NcclTeam {
 public:
  /// Gathers each row in place, on a stream that the GPU's pipeline does not wait for.
  class Gather {
   public:
    Gather(NcclTeam& team, std::byte* memory)
        : team_{team}, memory_{memory}, read_{team.gpu_.event()} {}

    /// Enqueues what brings a row to all GPUs, behind what is on `stream`. All ranks must call it
    /// for the same rows, in the same order.
    void row(cudaStream_t stream, const Row& row) {
      read_.record(stream);
      team_.stream_.wait(read_);
      team_.nccl_.all_gather(team_.stream_, memory_ + row.at + team_.ranks_.rank * row.each,
                             row.each, memory_ + row.at);
    }
    /// Blocks until all rows are there.
    void finish() { team_.nccl_.sync(team_.stream_); }

   private:
    NcclTeam& team_;
    std::byte* memory_;
    penstock::CudaEvent read_;
  };

  /// Makes the communicator, and has it gather pieces of so many bytes once, or large ones if these
  /// are larger still, and small ones: NCCL connects GPUs only then, for each protocol anew.
  NcclTeam(penstock::CudaDevice& gpu, Meeting& meeting, std::uint64_t piece)
      : gpu_{gpu}, ranks_{meeting.ranks()},
        nccl_{gpu, ranks_, nccl_id(meeting), {.timeout = std::chrono::minutes{1}}},
        stream_{gpu.stream()}, sent_{gpu, 4096, true},
        shared_{gpu, ranks_.world * sizeof(double), false} {
    constexpr std::uint64_t large = std::uint64_t{64} << 20;
    piece = std::min(piece, large);
    const DeviceMemory<penstock::CudaDevice> row{gpu, ranks_.world * piece, false};
    nccl_.all_gather(stream_, row.at + ranks_.rank * piece, piece, row.at);
    nccl_.sync(stream_);
    all({0});
  }

  /// Returns how many shares there are.
  std::size_t shares() const { return ranks_.world; }
  /// Returns this rank's share.
  std::size_t first() const { return ranks_.rank; }
  /// Returns whether this rank speaks for all.
  bool speaks() const { return ranks_.rank == 0; }
  /// Returns how the shares are gathered.
  std::string way() const { return "NCCL"; }
  /// Returns the values of all GPUs, given this rank's. Blocks until all ranks have called it.
  std::vector<double> all(const std::vector<double>& here) {
    auto* const values = reinterpret_cast<double*>(shared_.at);
    double* const mine = values + ranks_.rank;
    std::memcpy(sent_.at, here.data(), sizeof(double));
    gpu_.copy_to_device(mine, sent_.at, sizeof(double), stream_);
    nccl_.all_gather(stream_, mine, 1, values);
    std::vector<double> of_all(ranks_.world);
    for (double& value : of_all) {
      gpu_.copy_to_host(sent_.at, values + (&value - of_all.data()), sizeof(double), stream_);
      nccl_.sync(stream_);
      std::memcpy(&value, sent_.at, sizeof(double));
    }
    return of_all;
  }
  /// Waits for no rank any more. To be called before memory that is gathered goes.
  void give_up() noexcept { nccl_.abort(); }
  /// Returns what gathers for this rank's GPU.
  Gather gather(std::size_t, const std::vector<std::byte*>& memories) {
    return Gather{*this, memories.front()};
  }

 private:
  penstock::CudaDevice& gpu_;
  penstock::Ranks ranks_;
  penstock::Nccl nccl_;
  penstock::CudaStream stream_;
  DeviceMemory<penstock::CudaDevice> sent_;
  DeviceMemory<penstock::CudaDevice> shared_;
};

} // namespace weights
