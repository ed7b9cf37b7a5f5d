// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/error.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/patience.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

namespace penstock {

/// What push() of a Channel does while the Channel is full.
enum class WhenFull : std::uint8_t {
  block,       ///< It waits until the Reader has taken a record.
  drop_oldest, ///< It drops the record that has waited longest: what is read is as new as can be.
  drop_newest, ///< It drops its own record.
};

/// Options of a Channel: `ps::Channel<Frame> box{{.room = 8, .when_full = ...}}`.
struct ChannelOptions {
  /// How many records may wait, at least 1. The Channel has memory for twice as many.
  std::size_t room = 64;
  /// What becomes of one more.
  WhenFull when_full = WhenFull::block;
};

namespace detail {

/// Records of `each` bytes that threads push, and one reads. It takes the records that wait from
/// their queue at once, and copies them while others push: there are two queues, of which only it
/// knows the front one.
class Mailbox {
 public:
  [[gnu::cold]] Mailbox(const ChannelOptions& options, std::size_t each);

  bool push(const void* record, const std::stop_token& stop);
  [[gnu::cold]] void close();
  std::uint64_t dropped() const;
  [[gnu::cold]] void note(std::string& to) const;

  /// Reads as many records as wait, and `into` has room for, once there are any.
  Filled fill(std::span<std::byte> into, std::uint64_t first, const Patience& patience);

 private:
  // A ring of `room` records.
  struct Queue {
    Vector<std::byte> bytes;
    std::size_t first{};
    std::size_t size{};
  };
  std::size_t waiting() const noexcept { return front_.size + back_.size; }
  void drop_oldest() noexcept;
  // Copies records of the front queue that are no longer in it.
  void copy(std::size_t first, std::size_t count, std::byte* into) const noexcept;

  const ChannelOptions options_;
  const std::size_t each_;
  mutable std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::condition_variable_any taken_;
  Queue front_; // what came before all that the other has; filled by nobody
  Queue back_;
  std::uint64_t dropped_{};
  bool reading_{};
  bool closed_{};
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE Mailbox::Mailbox(const ChannelOptions& options, std::size_t each)
    : options_{options}, each_{each} {
  if (options.room == 0 || options.room > ~std::size_t{0} / each) {
    throw_error<OptionError>({"penstock: Channel: .room is ", options.room,
                              ": give it at least 1, and as many records as memory has room "
                              "for twice."});
  }
  front_.bytes = Vector<std::byte>(options.room * each, std::byte{});
  back_.bytes = Vector<std::byte>(options.room * each, std::byte{});
}

PENSTOCK_INLINE bool Mailbox::push(const void* record, const std::stop_token& stop) {
  {
    std::unique_lock lock{mutex_};
    const auto has_room = [this] { return closed_ || waiting() < options_.room; };
    if (!has_room() && options_.when_full == WhenFull::block &&
        !taken_.wait(lock, stop, has_room)) {
      return false;
    }
    if (closed_) {
      return false;
    }
    if (waiting() == options_.room) {
      ++dropped_;
      if (options_.when_full == WhenFull::drop_newest) {
        return false;
      }
      drop_oldest();
    }
    const std::size_t place = (back_.first + back_.size) % options_.room;
    std::copy_n(static_cast<const std::byte*>(record), each_, back_.bytes.data() + place * each_);
    ++back_.size;
  }
  arrived_.notify_one();
  return true;
}

PENSTOCK_INLINE void Mailbox::close() {
  {
    const std::scoped_lock lock{mutex_};
    closed_ = true;
  }
  arrived_.notify_all();
  taken_.notify_all();
}

PENSTOCK_INLINE std::uint64_t Mailbox::dropped() const {
  const std::scoped_lock lock{mutex_};
  return dropped_;
}

PENSTOCK_INLINE void Mailbox::note(std::string& to) const {
  if (const std::uint64_t lost = dropped(); lost != 0) {
    to += joined({"the Channel has dropped ", lost, " records so far, since its room for ",
                  options_.room, " was full"});
  }
}

PENSTOCK_INLINE Filled Mailbox::fill(std::span<std::byte> into, std::uint64_t first,
                                     const Patience& patience) {
  std::unique_lock lock{mutex_};
  if (reading_) {
    throw_source_error({"penstock: another run reads this Channel now: give each pipeline a "
                        "Channel of its own, and push each record to all of them."},
                       "a Channel", 0, first);
  }
  reading_ = true;
  const bool came = patience.wait(arrived_, lock, [this] { return closed_ || waiting() != 0; });
  const bool ends = came && waiting() == 0;
  if (came && front_.size == 0) {
    std::swap(front_, back_);
  }
  const std::size_t from = front_.first;
  const std::size_t count = came ? std::min(front_.size, into.size() / each_) : 0;
  front_.first = (from + count) % options_.room;
  front_.size -= count;
  lock.unlock();
  if (count != 0) {
    taken_.notify_all();
    copy(from, count, into.data());
  }
  lock.lock();
  reading_ = false;
  return ends ? Filled{0} : for_now(count);
}

PENSTOCK_INLINE void Mailbox::drop_oldest() noexcept {
  Queue& oldest = front_.size != 0 ? front_ : back_;
  oldest.first = (oldest.first + 1) % options_.room;
  --oldest.size;
}

PENSTOCK_INLINE void Mailbox::copy(std::size_t first, std::size_t count,
                                   std::byte* into) const noexcept {
  const std::size_t before_end = std::min(count, options_.room - first);
  std::copy_n(front_.bytes.data() + first * each_, before_end * each_, into);
  std::copy_n(front_.bytes.data(), (count - before_end) * each_, into + before_end * each_);
}
#endif

} // namespace detail

/// A source of records that your threads push when they have them:
/// `ps::Channel<Frame> box{{.room = 8, .when_full = ps::WhenFull::drop_oldest}}`, with
/// `ps::Reader{box, …}` on one side and `box.push(frame)` on the other. It has no known size, and
/// ends when it is closed and all that waited is read. The Reader's time without a record counts as
/// starved, and its note in the Report says how many records were dropped.
///
/// Copies share the records, so that none must outlive another. One run at a time may read them,
/// and the next goes on where it stopped. Any thread may call each member, but read().
template <class T> class Channel {
  static_assert(std::is_trivially_copyable_v<T> && !detail::schema_traits<T>::named,
                "penstock: Channel<T> takes a plain record, which is trivially copyable: push a "
                "struct, and let a Decoder make columns of it; push an index or a pointer for what "
                "cannot be copied byte by byte.");

 public:
  /// The type of its records.
  using schema = T;

  /// Allocates room for the records. Throws OptionError.
  explicit Channel(const ChannelOptions& options = {})
      : box_{detail::new_shared<detail::Mailbox>(options, sizeof(T))} {}

  /// Adds a record behind all that wait. Returns whether it is there: false if the Channel is
  /// closed, or if it was full and `.when_full` drops the newest. With WhenFull::block it blocks
  /// while the Channel is full, until a record is read, the Channel is closed or `stop` is
  /// requested, and then returns false; otherwise it waits at most while another thread copies one
  /// record. It allocates nothing.
  bool push(const T& record, const std::stop_token& stop = {}) { return box_->push(&record, stop); }
  /// Says that no more will come: push() then returns false, and the run ends behind the last
  /// record. Call it again if you like.
  void close() { box_->close(); }
  /// Returns how many records were dropped since the Channel was made.
  std::uint64_t dropped() const { return box_->dropped(); }

  /// For the Reader.
  /// @{
  /// Returns unknown_size.
  std::uint64_t size() const noexcept { return unknown_size; }
  /// Blocks until a record waits, the Channel is closed or `patience` is over. One thread at a
  /// time: throws SourceError if another is inside.
  template <HostSpace Where> Filled read(Batch<T, Where> into, const Patience& patience) const {
    return box_->fill({reinterpret_cast<std::byte*>(into.data()), into.size_bytes()}, into.index(),
                      patience);
  }
  /// Says how many records were dropped, if any were.
  void note(std::string& to) const { box_->note(to); }
  /// @}

 private:
  detail::Shared<detail::Mailbox> box_;
};

} // namespace penstock
