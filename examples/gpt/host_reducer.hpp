// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/meeting.hpp"
#include "reducer.hpp"
#include "shared_memory.hpp"

#include <penstock/host/device.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace transformer {

/// Adds up what ranks have on host devices of one host, in memory that they share: what NCCL is to
/// GPUs. Values are added in the order of the ranks, so all ranks have the same bits, each time.
template <class W> class HostReducer final : public Reducer<W, penstock::HostDevice> {
 public:
  /// Returns when all ranks are here. `patience`: for how long a rank waits for the others; 0: for
  /// ever. Throws std::runtime_error.
  HostReducer(Meeting& meeting, std::chrono::seconds patience)
      : rank_{meeting.ranks().rank}, world_{meeting.ranks().world},
        memory_{meeting, 2 * world_ * piece * sizeof(W), patience} {}

  void sum(penstock::HostStream& stream, W* values, std::size_t count) override {
    stream.enqueue([this, values, count] {
      for (std::size_t first = 0; first < count; first += piece) {
        add_up(values + first, std::min(piece, count - first));
      }
    });
  }
  // The work itself throws if a rank does not come: that breaks the device down, and each call of
  // it throws then.
  void keep_pace(penstock::HostStream&) override {}
  void sync(penstock::HostStream& stream) override { stream.sync(); }

 private:
  static constexpr std::size_t piece = std::size_t{1} << 16;

  // Pieces take turns in two places. A rank that writes a place has passed the barrier of the piece
  // in the other one: so all ranks have read what lay here.
  void add_up(W* values, std::size_t count) {
    W* const place = reinterpret_cast<W*>(memory_.data()) + (turn_++ % 2) * world_ * piece;
    std::copy_n(values, count, place + rank_ * piece);
    memory_.wait_for_all();
    std::copy_n(place, count, values);
    for (std::size_t rank = 1; rank < world_; ++rank) {
      const W* const of_rank = place + rank * piece;
      for (std::size_t i = 0; i < count; ++i) {
        values[i] += of_rank[i];
      }
    }
  }

  std::size_t rank_;
  std::size_t world_;
  SharedMemory memory_;
  std::size_t turn_ = 0;
};

} // namespace transformer
