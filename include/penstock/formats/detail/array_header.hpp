// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/schema.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/held_bytes.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace penstock::detail {

/// What the header of a file with one array says.
struct ArrayHeader {
  /// NumPy 2 allows as many.
  static constexpr std::size_t most_extents = 64;

  ValueType type{};
  bool swapped{}; // the bytes of a value lie in the other order than in memory
  std::uint64_t offset{};
  std::size_t dims{};
  std::uint64_t extents[most_extents]{};
};

/// What is expected of an array: the type of its values, and the extents of a record, any of which
/// may be dynamic.
struct WantedArray {
  ValueType type;
  bool raw; // records are bytes, of any type and extents
  std::span<const std::size_t> extents;
};

/// An array whose header was checked: so many records, along its first axis.
struct CheckedArray {
  ValueType type{};
  bool swapped{};
  std::uint64_t offset{};
  std::uint64_t records{};
  std::size_t record_bytes{};
  Vector<std::uint64_t> extents{};     // of a record
  Shared<const HeldBytes> in_memory{}; // where the offset counts in these, and not in the file
};

/// Returns a shape in NumPy's form: "(60000, 28, 28)".
template <class Extents> [[gnu::cold]] std::string shape_of(const Extents& extents) {
  std::string text = "(";
  for (std::size_t i = 0; i != extents.size(); ++i) {
    const std::uint64_t extent = extents[i];
    text += i == 0 ? "" : ", ";
    text += extent == dynamic ? std::string{"any"} : joined({extent});
  }
  return text + (extents.size() == 1 ? ",)" : ")");
}

/// Returns extents as they stand behind a column's type: ", 28, 28".
template <class Extents> [[gnu::cold]] std::string listed(const Extents& extents) {
  std::string text;
  for (const std::uint64_t extent : extents) {
    text += joined({", ", extent});
  }
  return text;
}

/// Checks what a header says: values of the wanted type and extents, sizes that can be, and a file
/// that has just this header and these values. Throws SourceError.
[[gnu::cold]] inline CheckedArray checked_array(const HeaderFile& file, const ArrayHeader& header,
                                                const WantedArray& wanted) {
  const std::span all{header.extents, header.dims};
  if (all.empty()) {
    file.refuse(0, {"begins an array of no dimensions, one value, which has no records along an "
                    "axis: save it with one dimension, np.atleast_1d(a)."});
  }
  CheckedArray array{header.type, header.swapped, header.offset, all[0], header.type.bytes, {}, {}};
  const std::span inner = all.subspan(1);
  bool fits = inner.size() == wanted.extents.size();
  std::uint64_t bytes = header.type.bytes;
  for (std::size_t i = 0; i != inner.size(); ++i) {
    if (__builtin_mul_overflow(bytes, inner[i], &bytes)) {
      bytes = ~std::uint64_t{0};
      break;
    }
    fits = fits && (wanted.extents[i] == dynamic || wanted.extents[i] == inner[i]);
  }
  std::uint64_t end = 0;
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max()) ||
      __builtin_mul_overflow(bytes, array.records, &end) ||
      __builtin_add_overflow(end, header.offset, &end)) {
    file.refuse(0, {"begins an array of shape ", shape_of(all), ", whose ", name_of(array.type),
                    " values are more bytes than 64 bits count: the header is damaged. Write or "
                    "fetch the file again."});
  }
  if (!wanted.raw && header.type != wanted.type) {
    file.refuse(0, {"begins an array of ", name_of(header.type), ", and the records wanted are of ",
                    name_of(wanted.type),
                    ": give the type that the file has, or convert it once, a.astype(...)."});
  }
  if (!wanted.raw && !fits) {
    file.refuse(0, {"begins an array of shape ", shape_of(all), ", whose records have shape ",
                    shape_of(inner), ", and those wanted have ", shape_of(wanted.extents),
                    inner.empty()
                        ? ": give a plain type, or a column without extents."
                        : joined({": give a column these extents, ps::Field<\"x\", T",
                                  listed(inner), ">, or take std::byte for rows as they lie."})});
  }
  if (bytes == 0) {
    file.refuse(0, {"begins an array of shape ", shape_of(all),
                    ", whose records have 0 bytes: there is nothing to read. Leave the file out."});
  }
  if (end > file.size()) {
    file.refuse(file.size(),
                {"ends, and its array of shape ", shape_of(all), " goes on to byte ", end,
                 ": the file was cut, or is still being written. Write or fetch it again."});
  }
  if (end < file.size()) {
    file.refuse(end, {"has ", file.size() - end, " bytes behind the end of its array of shape ",
                      shape_of(all),
                      ": the file holds more than one array, or its header is damaged. Write each "
                      "array into a file of its own."});
  }
  array.record_bytes = std::size_t{bytes};
  for (const std::uint64_t extent : inner) {
    array.extents.push_back(extent);
  }
  return array;
}

/// A format of files with one array each, whose header this function reads.
template <ArrayHeader (*Header)(const HeaderFile&)> struct OneArrayAFile {
  /// Returns what is in a file. Throws SourceError.
  static CheckedArray array(const HeaderFile& file, const WantedArray& wanted) {
    return checked_array(file, Header(file), wanted);
  }
  /// Returns what messages call the array in the file.
  static std::string named(const std::string& path) { return path; }
};

} // namespace penstock::detail
