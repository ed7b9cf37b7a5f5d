// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/batch.hpp>
#include <penstock/detail/memory/area.hpp>
#include <penstock/detail/memory/grain.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace penstock::detail {

/// The memory of a ring's places: each array of the schema is one area through the whole ring,
/// place k's part directly before place k+1's; each begins at a multiple of 256 bytes.
class Places {
 public:
  template <class Where, class D>
  static Places in(D* device, std::size_t places, Grain grain, const char* stage) {
    Places made;
    std::size_t bytes = 0;
    for (const Array& part : grain.parts) {
      made.starts_.push_back(bytes);
      const std::size_t more = checked_bytes(places, part.place, stage);
      bytes = checked_bytes(bytes + more + 255, 1, stage) / 256 * 256;
    }
    made.grain_ = std::move(grain);
    // The last array needs no rounding up, which an exact number of pages would feel.
    bytes = made.starts_.back() + places * made.grain_.parts.back().place;
    made.area_ = Area::in<Where>(device, bytes);
    return made;
  }

  const Grain& grain() const noexcept { return grain_; }
  std::byte* data(std::size_t place, std::size_t part = 0) const noexcept {
    return area_.data() + starts_[part] + place * grain_.parts[part].place;
  }
  /// Values of a Ragged column in the first `records` records of a place in host memory.
  std::size_t values(std::size_t place, std::size_t offsets_part,
                     std::size_t records) const noexcept {
    std::int64_t end = 0;
    std::memcpy(&end, data(place, offsets_part) + records * sizeof end, sizeof end);
    return static_cast<std::size_t>(end);
  }
  /// Bytes in array `part` of the first `records` records of a place in host memory.
  std::size_t used(std::size_t place, std::size_t part, std::size_t records) const noexcept {
    const Array& p = grain_.parts[part];
    return p.each * (p.kind == Array::records   ? records
                     : p.kind == Array::offsets ? records + 1
                                                : values(place, part - 1, records));
  }
  std::size_t used(std::size_t place, std::size_t records) const noexcept {
    std::size_t bytes = 0;
    for (std::size_t part = 0; part < grain_.parts.size(); ++part) {
      bytes += used(place, part, records);
    }
    return bytes;
  }

  template <class S>
  BatchView<S> view(std::size_t place, std::size_t units, std::uint64_t index,
                    std::uint64_t source) const noexcept {
    BatchView<S> view;
    for (std::size_t part = 0; part < schema_traits<S>::parts; ++part) {
      view.parts[part] = data(place, part);
    }
    std::copy(grain_.sizes.begin(), grain_.sizes.end(), view.sizes);
    view.size = units / grain_.units;
    view.index = index / grain_.units;
    view.source_index = source / grain_.units;
    view.alignment = grain_.alignment();
    return view;
  }

 private:
  Grain grain_;
  std::vector<std::size_t> starts_;
  Area area_;
};

} // namespace penstock::detail
