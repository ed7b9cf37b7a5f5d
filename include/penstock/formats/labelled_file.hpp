// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/column.hpp>
#include <penstock/data/schema.hpp>

#include <cstdint>

namespace penstock {

/// A record of files(): a file's bytes as they are, and its label, -1 if it has none.
struct LabelledFile : Columns<Field<"bytes", Ragged<std::uint8_t>>, Field<"label", std::int32_t>> {
};

} // namespace penstock
