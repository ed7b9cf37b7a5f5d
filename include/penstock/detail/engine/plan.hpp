// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// What the stages of a chain say of themselves before the first is built: all host stages share
/// one number of records a slot.
struct Plan {
  std::size_t largest{}; // bytes of a record, among those that Decoders give
  bool whole{};          // a stage on the host must see whole records
  bool ragged{};         // a slot is a batch
  bool to_device{};
  bool fills_up{};         // a copier makes batches of its own of what lies in the slots
  std::size_t batch{};     // that the copier was asked for, of what the Reader gives
  unsigned recounts{};     // Decoders that give another number of records
  std::size_t recounted{}; // the batch that the copier behind it was asked for
  bool batched{};          // there is that copier: those behind it do not count
  std::size_t group{1};    // records that it takes together
  unsigned workers{};      // the most that a stage has that does work for each record
  unsigned local_world{1}; // ranks that share this host's processors
  unsigned devices{1};     // of this process that pipelines feed

  /// Returns how many pipelines run side by side on this host.
  std::uint64_t parts() const noexcept { return std::uint64_t{local_world} * devices; }

  /// Note what a host stage sees and gives. Stages after a device have slots of their own.
  /// @{
  void sees_records() { whole = whole || !to_device; }
  void works(unsigned with) noexcept {
    sees_records();
    workers = to_device ? workers : std::max(workers, with);
  }
  template <class Schema> void gives(std::size_t record_bytes) {
    if (to_device) {
      return;
    }
    largest = std::max(largest, record_bytes);
    ragged = ragged || schema_traits<Schema>::ragged;
  }
  /// @}
};

} // namespace penstock::detail
