// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock {

/// A decoded picture and its label, as jpeg() and png() make it of a LabelledFile: one byte a
/// channel and pixel, channel by channel (planar), each row by row from the top left. 3 channels
/// are red, green, blue; 1 is grey. Height and Width may be `dynamic`.
template <std::size_t Channels, std::size_t Height, std::size_t Width>
struct Image
    : Columns<Field<"image", std::uint8_t, Channels, Height, Width>, Field<"label", std::int32_t>> {
};

} // namespace penstock
