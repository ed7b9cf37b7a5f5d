// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Decodes any bytes as a PNG file, by a worker's decoder.

#include "fuzz/pictures.hpp"
#include "fuzz/target.hpp"

#include <penstock/formats/png.hpp>

#include <cstddef>
#include <span>

PENSTOCK_FUZZ_TARGET(fuzz_png) {
  decode_any<penstock::detail::LibPng>(input, "penstock: png: ");
}
