// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Decodes any bytes as a JPEG file, by a worker's decoder.

#include "fuzz/pictures.hpp"
#include "fuzz/target.hpp"

#include <penstock/formats/jpeg.hpp>

#include <cstddef>
#include <span>

PENSTOCK_FUZZ_TARGET(fuzz_jpeg) {
  decode_any<penstock::detail::TurboJpeg>(input, "penstock: jpeg: ");
}
