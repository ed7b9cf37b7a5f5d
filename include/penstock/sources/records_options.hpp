// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/direct.hpp>

#include <cstddef>
#include <cstdint>

namespace penstock {

/// Options of records().
struct RecordsOptions {
  /// Bytes to pass over at the start of each file.
  std::uint64_t offset = 0;
  /// Bytes of one record, if T is a single byte; 0: one T.
  std::size_t record_bytes = 0;
  /// Leaves out what a file has after its last whole record, as one may that is still being
  /// written; without it such a file is refused.
  bool drop_partial = false;
  /// Whether files are read past the page cache. Such reads leave nothing there for the next run,
  /// so `automatic` makes none if all files together fit into half of the memory that is free.
  DirectReads direct = DirectReads::automatic;
  /// Takes files whatever they begin with. Without it a file that is compressed is refused, and so
  /// is one of another format unless `offset` passes over how it begins; records of one byte are
  /// taken from any. Of more than 256 files the others are looked at only if their names end as
  /// those of compressed ones do.
  bool as_it_is = false;
};

} // namespace penstock
