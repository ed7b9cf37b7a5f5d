// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

namespace penstock::detail {

/// Frames that were decompressed a short while ago: threads that read parts of one decompress it
/// once. Any number of threads.
class FrameCache {
 public:
  /// Which frame of which file.
  struct Key {
    const void* file;
    std::size_t frame;
    bool operator==(const Key&) const = default;
  };

  /// Keeps frames of up to `keep` bytes together that nobody uses.
  explicit FrameCache(std::uint64_t keep) : keep_{keep} {}

  /// Calls take() with the frame, which has `bytes` bytes. If nobody has it, fill() puts it into a
  /// std::span first; others that want it wait meanwhile. Throws what fill() throws, to each who
  /// asks.
  template <class Fill, class Take>
  void use(const Key& key, std::size_t bytes, Fill fill, Take take) {
    Place* place = find(key, bytes);
    struct Leaver {
      FrameCache& cache;
      Place& place;
      ~Leaver() { cache.leave(place); }
    } const leaver{*this, *place};
    if (!place->filled) {
      if (place->room < bytes) {
        place->bytes.reset();
        place->room = 0;
        place->bytes = std::make_unique_for_overwrite<std::byte[]>(bytes);
        place->room = bytes;
      }
      fill(std::span{place->bytes.get(), bytes});
      const std::lock_guard lock{mutex_};
      place->filled = true;
      filled_.notify_all();
    }
    take(std::span<const std::byte>{place->bytes.get(), bytes});
  }

 private:
  static constexpr std::size_t most_places = 256; // that are looked through
  struct Place {
    Key key{};
    std::unique_ptr<std::byte[]> bytes{};
    std::size_t room{};
    std::uint64_t counted{}; // of held_
    std::uint64_t used{};    // when it was
    unsigned users{};
    bool filled{};
  };

  Place* find(const Key& key, std::size_t bytes) {
    std::unique_lock lock{mutex_};
    for (;;) {
      Place* const there = with(key);
      if (!there) {
        break;
      }
      if (there->filled) {
        ++there->users;
        there->used = ++now_;
        return there;
      }
      filled_.wait(lock);
    }
    Place& place = choose(bytes);
    held_ += std::max<std::uint64_t>(bytes, place.counted) - place.counted;
    place.counted = std::max<std::uint64_t>(bytes, place.counted);
    place.key = key;
    place.filled = false;
    place.users = 1;
    place.used = ++now_;
    return &place;
  }
  void leave(Place& place) noexcept {
    const std::lock_guard lock{mutex_};
    --place.users;
    if (!place.filled) { // it could not be
      place.key = {};
      filled_.notify_all();
    }
  }
  Place* with(const Key& key) noexcept {
    for (const Owned<Place>& place : places_) {
      if (place->key == key) {
        return place.get();
      }
    }
    return nullptr;
  }
  // Returns a place that nobody uses, of those the one whose turn is longest ago, or a new one.
  Place& choose(std::size_t bytes) {
    Place* oldest = idle();
    if (!oldest || (held_ + bytes <= keep_ && places_.size() < most_places)) {
      places_.push_back(Owned<Place>{new Place});
      return *places_.back();
    }
    Place& chosen = *oldest;
    chosen.users = 1; // so that it is not idle
    while (held_ + bytes > keep_ + chosen.counted && (oldest = idle()) && oldest->counted != 0) {
      drop(*oldest);
    }
    return chosen;
  }
  Place* idle() noexcept {
    Place* oldest = nullptr;
    for (const Owned<Place>& place : places_) {
      if (place->users == 0 && (!oldest || place->used < oldest->used)) {
        oldest = place.get();
      }
    }
    return oldest;
  }
  void drop(Place& place) noexcept {
    held_ -= place.counted;
    place.key = {};
    place.bytes.reset();
    place.room = 0;
    place.counted = place.used = 0;
  }

  const std::uint64_t keep_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::uint64_t held_{};
  std::uint64_t now_{};
  Vector<Owned<Place>> places_;
};

} // namespace penstock::detail
