// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/descriptors.hpp>
#include <penstock/io/detail/http_object.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace penstock::detail {

/// Joins small reads of a thread that come one behind the other, with gaps or without, as those of
/// headers, lines and records do: what lies behind is fetched with them, the more, the longer that
/// goes on. Reads at random places fetch nothing more. Any thread.
class HttpAhead {
 public:
  /// Fills `into` from byte `offset` of an object, by fetch(offset, bytes) where it has to. All of
  /// it lies in the object. Throws what fetch does.
  template <class Fetch>
  void read(const HttpObject& object, std::uint64_t offset, std::span<std::byte> into,
            Fetch fetch) {
    Place& place = places_[thread_number() % places_.size()];
    const std::unique_lock lock{place.mutex, std::try_to_lock};
    if (into.size() > most_small || !lock) {
      return fetch(offset, into);
    }
    const std::uint64_t end = place.begin + place.bytes.size();
    if (place.of == &object && offset >= place.begin && offset + into.size() <= end) {
      return give(place, offset, into);
    }
    // Where other threads have read most of what lay between, the next read stays alone.
    const std::size_t before = place.bytes.size();
    const bool goes_on = place.of == &object && offset >= place.begin &&
                         offset <= end + widest_gap && place.used >= before / 4;
    place.of = nullptr; // if this throws
    place.used = 0;
    if (!goes_on) {
      // The next read may go on here.
      fetch(offset, into);
      place.bytes.clear();
      place.begin = offset + into.size();
    } else {
      const std::size_t more = std::clamp(2 * before, least, most);
      place.bytes.resize(static_cast<std::size_t>(
          std::min<std::uint64_t>(std::max(more, into.size()), object.status.size - offset)));
      fetch(offset, std::span{place.bytes});
      place.begin = offset;
      give(place, offset, into);
    }
    place.of = &object;
  }

 private:
  static constexpr std::size_t most_small = std::size_t{256} << 10;
  static constexpr std::size_t least = std::size_t{64} << 10;
  static constexpr std::size_t most = std::size_t{2} << 20;
  static constexpr std::uint64_t widest_gap = std::uint64_t{64} << 10;

  struct Place {
    std::mutex mutex;
    const HttpObject* of{};
    std::uint64_t begin{}; // of the bytes
    std::vector<std::byte> bytes;
    std::size_t used{}; // of them
  };

  static void give(Place& place, std::uint64_t offset, std::span<std::byte> into) {
    const std::size_t from = offset - place.begin;
    std::copy_n(place.bytes.data() + from, into.size(), into.data());
    place.used += into.size();
  }

  std::array<Place, 64> places_;
};

} // namespace penstock::detail
