// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Batches of any schema, kept until after the run.

#include "suite/through.hpp"
#include "support/temp_dir.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace suite {

/// Returns the bytes that a batch has in each of its arrays; for Ragged values, the bytes that
/// there is room for.
template <class S> std::vector<std::size_t> bytes_of_parts(const ps::detail::BatchView<S>& view) {
  if constexpr (!ps::detail::HasColumns<S>) {
    return {view.size * view.sizes[0]};
  } else {
    std::vector<std::size_t> bytes;
    const std::size_t* sizes = view.sizes;
    const auto column = [&]<class Traits>(Traits) {
      if constexpr (Traits::ragged) {
        bytes.push_back((view.size + 1) * sizeof(std::int64_t));
        bytes.push_back(*sizes++ * Traits::value_bytes);
      } else {
        bytes.push_back(view.size * Traits::value_bytes * Traits::fixed);
        for (std::size_t i = 0; i != Traits::sizes; ++i) {
          bytes.back() *= *sizes++;
        }
      }
    };
    [&]<class... Fields>(ps::Columns<Fields...>*) {
      (column(ps::detail::column_traits<Fields>{}), ...);
    }(static_cast<typename ps::detail::columns_of<S>::type*>(nullptr));
    return bytes;
  }
}

/// The batches of a run, each array copied to memory of its own.
template <class S> class Kept {
 public:
  using Batch = ps::Batch<const S, ps::Pinned>;

  explicit Kept(std::span<std::byte> room) : room_{room} { clear(); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  void clear() {
    std::fill(room_.begin(), room_.end(), std::byte{0xEE});
    used_ = 0;
    batches.clear();
    misaligned.clear();
  }

  /// Says what is wrong with the batches' numbers; empty if nothing. They are to be in order, of
  /// `batch` records each but for a short batch at each epoch's end.
  std::string out_of_turn(std::size_t batch, std::size_t records, std::size_t epochs) const {
    std::uint64_t index = 0;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const Batch& b = batches[i];
      const std::uint64_t source = index % records;
      const std::uint64_t size = std::min<std::uint64_t>(batch, records - source);
      if (b.index() != index || b.source_index() != source || b.size() != size) {
        return "batch " + std::to_string(i) + " has " + std::to_string(b.size()) +
               " records from " + std::to_string(b.index()) + ", in the source " +
               std::to_string(b.source_index()) + ", instead of " + std::to_string(size) +
               " from " + std::to_string(index) + ", " + std::to_string(source);
      }
      index += size;
    }
    return index == records * epochs ? "" : std::to_string(index) + " records in all";
  }

  std::vector<Batch> batches;
  /// Names the array and batch that does not lie as alignment() says; empty if all do.
  std::string misaligned;

 protected:
  ~Kept() = default;

  /// `copy(to, from, bytes)` copies, now or later.
  template <class Copy> void keep(ps::detail::BatchView<S> view, Copy copy) {
    const std::vector<std::size_t> bytes = bytes_of_parts(view);
    for (std::size_t part = 0; part < bytes.size(); ++part) {
      const std::size_t end = (used_ + bytes[part] + 255) / 256 * 256;
      if (end > room_.size()) {
        throw std::runtime_error{"no room for batch " + std::to_string(batches.size())};
      }
      if (reinterpret_cast<std::uintptr_t>(view.parts[part]) % view.alignment != 0) {
        misaligned = "array " + std::to_string(part) + " of batch " +
                     std::to_string(batches.size()) + ", by " + std::to_string(view.alignment);
      }
      if (bytes[part] != 0) {
        copy(room_.data() + used_, view.parts[part], bytes[part]);
      }
      view.parts[part] = room_.data() + used_;
      used_ = end;
    }
    batches.emplace_back(view);
  }

 private:
  std::span<std::byte> room_;
  std::size_t used_{};
};

/// The memory of a Kept, which must outlive it.
template <class D> struct PinnedRoom {
  PinnedRoom(D& on, std::size_t asked)
      : device{on}, bytes{(asked / 4096 + 1) * 4096},
        data{static_cast<std::byte*>(device.allocate_pinned(bytes))} {}
  PinnedRoom(const PinnedRoom&) = delete;
  PinnedRoom& operator=(const PinnedRoom&) = delete;
  ~PinnedRoom() { device.deallocate_pinned(data, bytes); }

  D& device;
  std::size_t bytes;
  std::byte* data;
};

/// Keeps the batches that arrive on the device.
template <class S, class D> class Keeper : private PinnedRoom<D>, public Kept<S> {
 public:
  /// `room` bytes for all batches, each array rounded up to 256.
  Keeper(D& on, std::size_t room)
      : PinnedRoom<D>{on, room},
        Kept<S>{std::span{this->PinnedRoom<D>::data, this->PinnedRoom<D>::bytes}} {}

  void operator()(ps::Batch<const S, ps::Device> batch, ps::Stream<D> stream) {
    this->keep(batch.view(), [&](void* to, const void* from, std::size_t n) {
      this->device.copy_to_host(to, from, n, stream);
    });
  }
};

/// Keeps the batches that arrive on the host.
template <class S, class Where> class HostKeeper : private std::vector<std::byte>, public Kept<S> {
  using Room = std::vector<std::byte>;

 public:
  explicit HostKeeper(std::size_t bytes)
      : Room((bytes / 256 + 1) * 256), Kept<S>{std::span{Room::data(), Room::size()}} {}

  void operator()(ps::Batch<const S, Where> batch) {
    this->keep(batch.view(),
               [](void* to, const void* from, std::size_t n) { std::memcpy(to, from, n); });
  }
};

/// Returns whether the batches hold `expected`, the records of one epoch.
template <class T> bool hold(const std::vector<ps::Batch<const T, ps::Pinned>>& batches,
                             const std::vector<T>& expected) {
  return std::all_of(batches.begin(), batches.end(), [&](const auto& b) {
    return b.source_index() + b.size() <= expected.size() &&
           std::memcmp(b.data(), expected.data() + b.source_index(), b.size_bytes()) == 0;
  });
}

/// Writes `bytes` as files into the directory; the second of them is empty, the others have whole
/// records.
inline std::vector<std::string> in_files(const tests::TempDir& dir,
                                         std::span<const std::byte> bytes, std::size_t record,
                                         std::size_t files) {
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < files; ++i) {
    const std::size_t half = (bytes.size() / record + 1) / 2 * record;
    const auto part = bytes.first(i + 1 == files ? bytes.size() : i == 1 ? 0 : half);
    paths.push_back(dir.write("part-" + std::to_string(i), part));
    bytes = bytes.subspan(part.size());
  }
  return paths;
}

} // namespace suite
