// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "input_file.hpp"
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
#include <ios>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace ps = penstock;

/// Returns how a file is compressed that begins so: "gzip", "zstd", "lz4", or nothing.
inline std::string compressed_by(const std::string& head) {
  return head.starts_with("\x1f\x8b\x08")       ? "gzip"
         : head.starts_with("\x28\xb5\x2f\xfd") ? "zstd"
         : head.starts_with("\x04\x22\x4d\x18") ? "lz4"
                                                : "";
}

/// Returns the first bytes that come out of a file, at most as many as say what it holds.
template <class Codec> std::string first_bytes(const std::string& path, Codec codec) {
  std::string in(std::size_t{128} << 10, '\0');
  InputFile file{path};
  file.read(in.data(), static_cast<std::streamsize>(in.size()));
  std::span left = std::as_bytes(std::span{in}.first(static_cast<std::size_t>(file.gcount())));
  std::string out(512, '\0');
  std::size_t made = 0;
  for (bool goes_on = true; goes_on && made != out.size();) {
    const ps::Decompressed got =
        codec.feed(left, std::as_writable_bytes(std::span{out}).subspan(made));
    goes_on = got.used + got.made != 0 && got.state != ps::Decompressed::State::damaged;
    left = left.subspan(got.used);
    made += got.made;
  }
  out.resize(made);
  return out;
}

/// Reads the lines or TFRecords, whose one column has this name, of what a file holds.
template <class T, ps::Name name, class Codec>
void read_compressed_records(const std::string& path, Codec codec, const char* type,
                             Inspected& all) {
  constexpr std::size_t room = std::size_t{64} << 20; // for 64 lines of the longest kind
  Column& column =
      all.columns.emplace_back(Column{std::is_same_v<T, ps::Line> ? "text" : "bytes", type});
  std::uint64_t records = 0;
  auto pipeline = ps::Reader{ps::interleaved<T>({path}, std::move(codec), {}, input_io()),
                             {.batch = std::is_same_v<T, ps::Line> ? 64 : 1, .value_bytes = room}} |
                  ps::Consumer{[&](ps::Batch<const T, ps::Pageable> batch) {
                    const auto values = ps::get<name>(batch);
                    const auto bytes = static_cast<std::size_t>(values.offsets()[batch.size()]);
                    column.add(std::as_bytes(std::span{values.values(), bytes}));
                    records += batch.size();
                  }};
  pipeline.run();
  all.records = records;
}

/// Reads what a file holds, by what `kind(its first bytes)` says: "lines", "tfrecord", or another
/// kind, which is refused.
template <class Codec, class Kind>
void read_inside(const std::string& path, const Codec& codec, Kind kind, Inspected& all) {
  const std::string is = kind(first_bytes(path, codec));
  all.format = is + ", " + Codec::name;
  if (is == "tfrecord") {
    read_compressed_records<ps::TfRecord, "bytes">(path, codec, "uint8", all);
  } else if (is == "lines") {
    read_compressed_records<ps::Line, "text">(path, codec, "text", all);
  } else {
    throw std::runtime_error{path + " is compressed by " + Codec::name + " and holds " + is +
                             ", of which this program reads only what is not compressed: "
                             "decompress it, or name its columns or type in ps::interleaved"};
  }
}

/// Reads a file that is compressed so.
template <class Kind>
void read_compressed(const std::string& path, const std::string& by, [[maybe_unused]] Kind kind,
                     [[maybe_unused]] Inspected& all) {
#if defined(EXAMPLES_HAVE_ZLIB)
  if (by == "gzip") {
    return read_inside(path, ps::Gzip{}, kind, all);
  }
#endif
#if defined(EXAMPLES_HAVE_ZSTD)
  if (by == "zstd") {
    return read_inside(path, ps::Zstd{}, kind, all);
  }
#endif
#if defined(EXAMPLES_HAVE_LZ4)
  if (by == "lz4") {
    return read_inside(path, ps::Lz4{}, kind, all);
  }
#endif
  throw NotBuiltIn{path + " is compressed by " + by +
                   ", and this program was built without that "
                   "library: build it where it is, or decompress the file"};
}
