// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/packed.hpp>
#include <penstock/data/packed_batch.hpp>
#include <penstock/host/detail/lanes.hpp>
#include <penstock/host/detail/unpack_chunk.hpp>
#include <penstock/host/device.hpp>

#include <cstddef>
#include <cstdint>

// Work on a host stream, with the signature that cuda/unpack.cuh has for a cudaStream_t.
namespace penstock {

/// Unpacks a chunk on this thread. Returns whether it was whole, as far as a decoder can tell:
/// docs/packed.md says which damage it sees. If it was not, or the chunk's numbers fit no chunk,
/// some of `out` may be written, and nothing else. Any thread; throws nothing.
inline bool unpack(const PackedChunk& chunk) noexcept {
  return detail::ChunkUnpacker<detail::HostLanes>{chunk}.run();
}

/// Unpacks `count` chunks, and sets whole[i] to 1 if chunk number i was whole, else to 0. All of it
/// is device memory, and stays until the stream has done it. Returns at once.
inline void unpack(HostStream& stream, const PackedChunk* chunks, std::size_t count,
                   std::uint8_t* whole) {
  if (count == 0) {
    return;
  }
  stream.enqueue([chunks, count, whole] {
    for (std::size_t i = 0; i != count; ++i) {
      whole[i] = unpack(chunks[i]) ? 1 : 0;
    }
  });
}

/// Unpacks a packed batch, and sets `*damaged` if a chunk is not whole. It must stay, with all that
/// it names, until the stream has done it. Returns at once.
template <std::size_t Columns> void unpack(HostStream& stream, const PackedBatch<Columns>& batch) {
  stream.enqueue([&batch] {
    for (std::uint32_t at = batch.piece_count; at-- != 0;) {
      const PackedPiece& piece = batch.pieces[at];
      if (!batch.is_itself(at)) {
        *batch.damaged = batch.another;
        return;
      }
      for (std::uint32_t i = piece.head.chunks; i-- != 0;) {
        PackedChunk chunk;
        if (!batch.chunk(piece, i, chunk) || !unpack(chunk)) {
          *batch.damaged = batch.chunk_in(at, i);
        }
      }
    }
  });
}

} // namespace penstock
