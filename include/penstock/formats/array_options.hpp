// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/direct.hpp>

namespace penstock {

/// Options of npy() and mnist().
struct ArrayOptions {
  /// Whether files are read past the page cache: see RecordsOptions::direct.
  DirectReads direct = DirectReads::automatic;
};

} // namespace penstock
