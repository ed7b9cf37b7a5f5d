// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/packed/unpack.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>
#include <string>

namespace ps = penstock;

/// Returns a pipeline of packed tokens, which cross the link packed, in batches of 2^20.
template <ps::AnyDevice D> auto tokens_of(D& device, const std::string& path) {
  const auto source = ps::packed<std::uint16_t>(path, {.batch = 1 << 20});
  return ps::Reader{source, ps::to_pinned, {.epochs = 3, .order = {.shuffle = 7}}} |
         ps::AsyncCopier{device} | ps::unpack(source);
}
