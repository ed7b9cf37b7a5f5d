// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/formats/detail/array_header.hpp>
#include <penstock/formats/detail/npy_header.hpp>
#include <penstock/formats/detail/zip_directory.hpp>
#include <penstock/formats/npz_options.hpp>
#include <penstock/formats/zip_member.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/held_bytes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::detail {

/// The array of one name in .npz files, which are ZIP archives of .npy files.
class NpzFormat {
 public:
  static constexpr const char* call = "npz";
  static constexpr std::string_view suffix = ".npy";
  static constexpr bool all_columns_a_file = true;

  /// `left` is for all arrays of a source.
  NpzFormat(std::string_view name, Inflate inflate, Shared<BytesLeft> left)
      : member_{joined({name, suffix})}, inflate_{inflate}, left_{std::move(left)} {}

  /// Returns what is in a file. Throws SourceError, and std::bad_alloc.
  [[gnu::cold]] CheckedArray array(const HeaderFile& file, const WantedArray& wanted) const {
    const ZipDirectory directory{file};
    const ZipEntry& entry = directory.find(member_);
    const ZipMember member{file, entry};
    const std::uint64_t begin = member.begin();
    if (member.is_stored()) {
      const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
        file.read(begin + at, into);
      };
      CheckedArray array =
          checked({file.path(), {member_, begin, true}, entry.bytes, read}, wanted);
      array.offset += begin;
      return array;
    }
    Shared<HeldBytes> held = member.inflated(begin, inflate_, left_);
    const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
      std::copy_n(held->bytes().data() + at, into.size(), into.data());
    };
    CheckedArray array = checked({file.path(), {member_, begin, false}, entry.bytes, read}, wanted);
    array.in_memory = std::move(held);
    return array;
  }
  /// Returns what messages call the array in the file.
  std::string named(const std::string& path) const { return joined({member_, " in ", path}); }

 private:
  static CheckedArray checked(const HeaderFile& file, const WantedArray& wanted) {
    return checked_array(file, npy_header(file), wanted);
  }

  std::string member_;
  Inflate inflate_;
  Shared<BytesLeft> left_;
};

} // namespace penstock::detail
