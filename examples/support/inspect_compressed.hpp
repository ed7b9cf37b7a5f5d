// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "inspected.hpp"

#include <penstock/formats/interleaved.hpp>
#include <penstock/penstock.hpp>
#if defined(EXAMPLES_HAVE_ZLIB)
#include <penstock/formats/gzip.hpp>
#endif
#if defined(EXAMPLES_HAVE_ZSTD)
#include <penstock/formats/zstd.hpp>
#endif
#if defined(EXAMPLES_HAVE_LZ4)
#include <penstock/formats/lz4.hpp>
#endif

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace ps = penstock;

/// Returns how a file is compressed that begins so: "gzip", "zstd", "lz4", or nothing.
inline std::string compressed_by(const std::string& head) {
  return head.starts_with("\x1f\x8b\x08")       ? "gzip"
         : head.starts_with("\x28\xb5\x2f\xfd") ? "zstd"
         : head.starts_with("\x04\x22\x4d\x18") ? "lz4"
                                                : "";
}

/// Reads the lines of what a file holds, whatever that is.
template <class Codec>
void read_compressed_lines(const std::string& path, Codec codec, Inspected& all) {
  constexpr std::size_t room = std::size_t{64} << 20; // for 64 lines of the longest kind
  using Lines = ps::Batch<const ps::Line, ps::Pageable>;
  Column& column = all.columns.emplace_back(Column{"text", "text"});
  std::uint64_t records = 0;
  auto pipeline = ps::Reader{ps::interleaved<ps::Line>({path}, std::move(codec)),
                             {.batch = 64, .value_bytes = room}} |
                  ps::Consumer{[&](Lines batch) {
                    const auto text = ps::get<"text">(batch);
                    const auto bytes = static_cast<std::size_t>(text.offsets()[batch.size()]);
                    column.add(std::as_bytes(std::span{text.values(), bytes}));
                    records += batch.size();
                  }};
  pipeline.run();
  all.records = records;
}

/// Reads a file that is compressed so.
inline void read_compressed(const std::string& path, const std::string& by,
                            [[maybe_unused]] Inspected& all) {
#if defined(EXAMPLES_HAVE_ZLIB)
  if (by == "gzip") {
    return read_compressed_lines(path, ps::Gzip{}, all);
  }
#endif
#if defined(EXAMPLES_HAVE_ZSTD)
  if (by == "zstd") {
    return read_compressed_lines(path, ps::Zstd{}, all);
  }
#endif
#if defined(EXAMPLES_HAVE_LZ4)
  if (by == "lz4") {
    return read_compressed_lines(path, ps::Lz4{}, all);
  }
#endif
  throw NotBuiltIn{path + " is compressed by " + by +
                   ", and this program was built without that "
                   "library: build it where it is, or decompress the file"};
}
