// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Looks for EXIF data in any bytes, as those of a JPEG and of a PNG file, and reads any bytes as
// EXIF data.

#include "fuzz/target.hpp"

#include <penstock/formats/detail/upright.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

PENSTOCK_FUZZ_TARGET(fuzz_exif) {
  using namespace penstock::detail;
  // Alone in its memory, so that a sanitizer sees a byte read behind it.
  const std::unique_ptr<std::uint8_t[]> alone{new std::uint8_t[input.size()]};
  for (std::size_t i = 0; i != input.size(); ++i) {
    alone[i] = static_cast<std::uint8_t>(input[i]);
  }
  const FileBytes file{alone.get(), input.size()};
  for (const FileBytes exif : {exif_of_jpeg(file), exif_of_png(file), file}) {
    must(exif.empty() ||
         (exif.data() >= file.data() && exif.data() + exif.size() <= file.data() + file.size()));
    const unsigned orientation = exif_orientation(exif);
    must(orientation >= 1 && orientation <= 8);
  }
}
