// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/jpeg.hpp>
#include <penstock/formats/tar.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>
#include <string>

namespace ps = penstock;

struct Sample
    : ps::Columns<ps::Field<"jpg;jpeg", ps::Ragged<std::uint8_t>>, ps::Field<"cls", std::int32_t>> {
};
struct Picture
    : ps::Columns<ps::Field<"image", std::uint8_t, 3, 224, 224>, ps::Field<"cls", std::int32_t>> {};

/// Returns a pipeline of this rank's share of a folder's archives, shuffled.
template <ps::AnyDevice D>
auto pictures_of(D& device, const std::string& folder, const ps::Ranks& me) {
  return ps::Reader{ps::tar<Sample>(folder, {.keep_index = true}),
                    {.epochs = 90, .order = {.shuffle = 7, .ranks = me}}} |
         ps::jpeg<Sample, Picture>({.on_error = {.skips = 1000}}) |
         ps::AsyncCopier{device, {.batch = 64}};
}
