// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/crc32c.hpp>
#include <penstock/penstock.hpp>
#include <penstock/run/json.hpp>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

// What 15_inspect says of a file.

namespace ps = penstock;

struct Column {
  std::string name;
  std::string type;
  std::vector<std::uint64_t> extents{}; // of a record
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;

  void add(std::span<const std::byte> more) {
    bytes += more.size();
    crc = ps::crc32c(more, crc);
  }
};

struct Inspected {
  std::string format;
  std::optional<std::uint64_t> records; // none: columns differ
  std::vector<Column> columns;
  std::vector<std::string> files;
};

/// A format that needs a library which this program was built without.
struct NotBuiltIn : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs a source's records through a pipeline, to `take`, in order. Shows progress on a terminal.
template <class Source, class Take> void deliver(const Source& source, Take take) {
  using Batch = ps::Batch<const typename Source::schema, ps::Pageable>;
  auto pipeline = ps::Reader{source} | ps::Consumer{[&](Batch batch) { take(batch); }};
  const bool shows = ::isatty(STDERR_FILENO) == 1;
  ps::RunOptions options;
  if (shows) {
    options.progress = [](const ps::Report& so_far) {
      std::cerr << '\r' << so_far.records << " of " << so_far.records_in_all << " records";
    };
  }
  pipeline.run(options);
  std::cerr << (shows ? "\r\x1b[K" : "");
}
/// Reads an opened source of plain records as one column. Returns how many there are.
template <class Source> std::uint64_t read_column(const Source& source, Column& column) {
  deliver(source, [&](auto batch) {
    column.add({reinterpret_cast<const std::byte*>(batch.data()), batch.size_bytes()});
  });
  return source.size();
}

inline ps::Json as_json(const Inspected& all) {
  std::vector<ps::Json> columns;
  for (const Column& column : all.columns) {
    const std::vector<ps::Json> extents(column.extents.begin(), column.extents.end());
    columns.push_back(ps::Json::object({{"name", column.name},
                                        {"type", column.type},
                                        {"extents", ps::Json::array(extents)},
                                        {"bytes", column.bytes},
                                        {"crc32c", column.crc}}));
  }
  return ps::Json::object({{"format", all.format},
                           {"records", all.records ? ps::Json{*all.records} : ps::Json{nullptr}},
                           {"columns", ps::Json::array(columns)},
                           {"files", ps::Json::array({all.files.begin(), all.files.end()})}});
}

inline void print(const Inspected& all) {
  std::cout << all.files.front() << ": " << all.format << ", ";
  all.records ? std::cout << *all.records : std::cout << "different numbers of";
  std::cout << " records\n";
  for (const Column& column : all.columns) {
    const std::vector<ps::Json> extents(column.extents.begin(), column.extents.end());
    std::cout << "  " << ps::Json{column.name}.text() << "  " << column.type << ' '
              << ps::Json::array(extents).text() << "  " << column.bytes << " bytes  crc32c "
              << column.crc << '\n';
  }
}
