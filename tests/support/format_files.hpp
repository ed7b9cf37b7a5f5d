// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/data/batch.hpp>
#include <penstock/error.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::tests {

/// Returns the bytes of a number, the most significant one first or last.
template <class T> std::string bytes_of(T value, bool big_endian = false) {
  std::string bytes(reinterpret_cast<const char*>(&value), sizeof value);
  return big_endian ? std::string{bytes.rbegin(), bytes.rend()} : bytes;
}
/// Returns the bytes of some numbers.
template <class T> std::string all_bytes_of(const std::vector<T>& values, bool big_endian = false) {
  std::string bytes;
  for (const T value : values) {
    bytes += bytes_of(value, big_endian);
  }
  return bytes;
}
/// Returns `count` different values.
template <class T> std::vector<T> some_values(std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i != count; ++i) {
    values[i] = static_cast<T>(i * 1237 + 5);
  }
  return values;
}

/// Returns a .npy file of this header's text and data; the text is padded as NumPy pads it.
inline std::string npy_file(std::string text, const std::string& data, int version = 1) {
  const std::size_t begin = version == 1 ? 10 : 12;
  text.append(63 - (begin + text.size()) % 64, ' ') += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  file += version == 1 ? bytes_of(static_cast<std::uint16_t>(text.size()))
                       : bytes_of(static_cast<std::uint32_t>(text.size()));
  return file + text + data;
}
/// Returns the text of a header as NumPy writes it.
inline std::string npy_text(const std::string& type, const std::string& shape,
                            const std::string& fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}
/// Returns an IDX file of a type's code, extents and data.
inline std::string idx_file(int code, const std::vector<std::uint32_t>& extents,
                            const std::string& data) {
  std::string file{'\0', '\0', static_cast<char>(code), static_cast<char>(extents.size())};
  return file + all_bytes_of(extents, true) + data;
}

/// Returns the bytes of all records of an opened source of plain records, read a few at a time.
template <class Where = Pageable, class S>
std::string read_records(const S& source, std::size_t some = 3) {
  using T = typename S::schema;
  const std::size_t bytes = detail::record_bytes_of(source);
  std::string all(source.size() * bytes, '?');
  for (std::uint64_t first = 0; first < source.size(); first += some) {
    const std::size_t count = std::min<std::uint64_t>(some, source.size() - first);
    // Aligned, as a slot is.
    std::vector<std::max_align_t> room(count * bytes / sizeof(std::max_align_t) + 1);
    T* const data = reinterpret_cast<T*>(room.data());
    const std::size_t got = source.read(Batch<T, Where>{data, count, first, bytes});
    REQUIRE(got == count);
    all.replace(first * bytes, count * bytes, reinterpret_cast<const char*>(data), count * bytes);
  }
  return all;
}
template <class S> std::string opened_and_read(S source) {
  source.open();
  return read_records(source);
}
/// Whether an error says what to do: behind its last colon it tells so.
inline bool has_cure(const Error& e) {
  const std::string what = e.what();
  const std::size_t colon = what.rfind(": ");
  const std::string told = colon == std::string::npos ? "" : what.substr(colon + 1);
  for (const char* verb : {"build", "convert", "fetch", "give", "include", "leave", "name", "raise",
                           "read", "save", "set", "spread", "take", "unpack", "write"}) {
    const std::string word = verb;
    const std::string capital = static_cast<char>(word[0] - 'a' + 'A') + word.substr(1);
    if (told.starts_with(" " + word + " ") ||
        told.find(". " + capital + " ") != std::string::npos) {
      return true;
    }
  }
  return false;
}
/// Returns the error of opening the source, and checks that it names the file and a cure.
template <class S> SourceError refused(S source, const std::string& path) {
  const auto e = caught<SourceError>([&] { source.open(); });
  INFO(e.what());
  CHECK(e.file() == path);
  CHECK(has(e, path));
  CHECK(has_cure(e));
  return e;
}

} // namespace penstock::tests
