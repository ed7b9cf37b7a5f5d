// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/links/ring_memory.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

inline std::int64_t* offsets_of(const RingMemory& places, std::size_t place,
                                std::size_t part) noexcept {
  return reinterpret_cast<std::int64_t*>(places.data(place, part));
}

/// Marks the first `records` records of a place as not put yet, in each Ragged column, but for
/// those before `first`. To be called before they are filled.
inline void open_ragged(const RingMemory& places, std::size_t place, std::size_t records,
                        std::size_t first = 0) noexcept {
  for (std::size_t part = 0; part < places.layout().parts.size(); ++part) {
    if (places.layout().parts[part].kind == Array::offsets) {
      std::int64_t* offsets = offsets_of(places, place, part);
      offsets[0] = 0;
      std::fill(offsets + first + 1, offsets + records + 1, std::int64_t{-1});
    }
  }
}

/// Throws Error with the number of the first record that was not put; `first` is that of the
/// place's first. To be called after they are filled.
inline void check_ragged(const RingMemory& places, std::size_t place, std::size_t records,
                         std::uint64_t first) {
  for (std::size_t part = 0; part < places.layout().parts.size(); ++part) {
    if (places.layout().parts[part].kind == Array::offsets) {
      const std::int64_t* offsets = offsets_of(places, place, part);
      for (std::size_t i = 0; i < records; ++i) {
        if (offsets[i + 1] == -1) {
          throw_error<Error>(
              {"penstock: record ", first + i,
               " of a Ragged column was not put: put every record of the batch, an empty one "
               "with a count of 0."});
        }
      }
    }
  }
}

} // namespace penstock::detail
