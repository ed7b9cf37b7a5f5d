// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/device/device.hpp>

#include <span>

namespace penstock::detail {

/// Copies the pieces of one copy, together if the device can.
template <AnyDevice D>
void copy_pieces(D& device, std::span<const CopyPiece> pieces, Stream<D> stream) {
  if constexpr (requires { device.copy_to_device(pieces, stream); }) {
    device.copy_to_device(pieces, stream);
  } else {
    for (const CopyPiece& piece : pieces) {
      device.copy_to_device(piece.to, piece.from, piece.bytes, stream);
    }
  }
}

} // namespace penstock::detail
