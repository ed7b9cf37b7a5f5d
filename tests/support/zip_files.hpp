// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/format_files.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::tests {

/// Returns the CRC-32 that ZIP has, by the plainest loop.
inline std::uint32_t crc32_of(std::string_view bytes) {
  std::uint32_t sum = 0xFFFF'FFFF;
  for (const char byte : bytes) {
    sum ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit != 8; ++bit) {
      sum = sum >> 1 ^ ((sum & 1) != 0 ? 0xEDB8'8320U : 0);
    }
  }
  return ~sum;
}

/// A member to be put into an archive.
struct ZipPart {
  std::string name;
  std::string packed;
  std::uint16_t method = 0;
  std::optional<std::uint32_t> crc{};   ///< That of `packed`, if it is not said.
  std::optional<std::uint64_t> bytes{}; ///< Those of `packed`, if they are not said.
  std::uint16_t flags = 0;
  bool zip64_here = false;  ///< Its own header has its sizes in 64 bits, as NumPy writes them.
  bool zip64_there = false; ///< The directory has.
};

/// An archive, and where its records lie.
struct ZipBytes {
  std::string bytes;
  std::vector<std::size_t> headers{}; ///< The members' own.
  std::vector<std::size_t> entries{}; ///< In the directory.
  std::size_t end64{};                ///< Where the end in 64 bits begins, if there is one.
  std::size_t end{};

  /// Returns the archive with a number in the place of another.
  template <class T> std::string with(std::size_t at, T number) const {
    std::string changed = bytes;
    return changed.replace(at, sizeof number, bytes_of(number));
  }
};

/// Returns the name and the packed bytes of a record behind the four fields that all have.
inline std::string zip_sizes(const ZipPart& part, bool zip64, bool unknown) {
  const std::uint64_t bytes = unknown ? 0 : part.bytes.value_or(part.packed.size());
  const std::uint64_t packed = unknown ? 0 : part.packed.size();
  const std::uint32_t crc = unknown ? 0 : part.crc.value_or(crc32_of(part.packed));
  constexpr std::uint32_t elsewhere = 0xFFFF'FFFF;
  return bytes_of(crc) + bytes_of(zip64 ? elsewhere : static_cast<std::uint32_t>(packed)) +
         bytes_of(zip64 ? elsewhere : static_cast<std::uint32_t>(bytes)) +
         bytes_of(static_cast<std::uint16_t>(part.name.size())) +
         bytes_of(std::uint16_t{zip64 ? std::uint16_t{20} : std::uint16_t{0}});
}
inline std::string zip64_extra(const ZipPart& part, bool zip64) {
  return !zip64 ? std::string{}
                : bytes_of(std::uint16_t{1}) + bytes_of(std::uint16_t{16}) +
                      bytes_of(part.bytes.value_or(part.packed.size())) +
                      bytes_of(std::uint64_t{part.packed.size()});
}

/// Returns an archive of these members. With bit 3 of its flags a member has its sizes behind it.
inline ZipBytes zip_file(const std::vector<ZipPart>& parts, bool zip64 = false,
                         const std::string& comment = {}) {
  ZipBytes zip{};
  std::string directory;
  std::vector<std::size_t> entries;
  for (const ZipPart& part : parts) {
    const bool behind = (part.flags & 8) != 0;
    const std::size_t at = zip.bytes.size();
    const std::string how = bytes_of(std::uint16_t{20}) + bytes_of(part.flags) +
                            bytes_of(part.method) + std::string(4, '\0');
    zip.headers.push_back(at);
    zip.bytes += "PK\x03\x04" + how + zip_sizes(part, part.zip64_here, behind) + part.name +
                 zip64_extra(behind ? ZipPart{} : part, part.zip64_here) + part.packed;
    if (behind) {
      const std::string sizes = zip_sizes(part, false, false);
      zip.bytes += "PK\x07\x08" + sizes.substr(0, 12);
    }
    entries.push_back(directory.size());
    directory += "PK\x01\x02" + bytes_of(std::uint16_t{20}) + how +
                 zip_sizes(part, part.zip64_there, false) + std::string(10, '\0') +
                 bytes_of(static_cast<std::uint32_t>(at)) + part.name +
                 zip64_extra(part, part.zip64_there);
  }
  const std::size_t begin = zip.bytes.size();
  for (const std::size_t entry : entries) {
    zip.entries.push_back(begin + entry);
  }
  zip.bytes += directory;
  const std::uint64_t count = parts.size();
  if (zip64) {
    zip.end64 = zip.bytes.size();
    zip.bytes += "PK\x06\x06" + bytes_of(std::uint64_t{44}) +
                 bytes_of(std::uint32_t{45 << 16 | 45}) + std::string(8, '\0') + bytes_of(count) +
                 bytes_of(count) + bytes_of(std::uint64_t{directory.size()}) +
                 bytes_of(std::uint64_t{begin});
    zip.bytes += "PK\x06\x07" + std::string(4, '\0') + bytes_of(std::uint64_t{zip.end64}) +
                 bytes_of(std::uint32_t{1});
  }
  zip.end = zip.bytes.size();
  const std::uint16_t few = zip64 ? 0xFFFF : static_cast<std::uint16_t>(count);
  const auto small = [&](std::size_t number) {
    return bytes_of(zip64 ? 0xFFFF'FFFF : static_cast<std::uint32_t>(number));
  };
  zip.bytes += "PK\x05\x06" + std::string(4, '\0') + bytes_of(few) + bytes_of(few) +
               small(directory.size()) + small(begin) +
               bytes_of(static_cast<std::uint16_t>(comment.size())) + comment;
  return zip;
}

} // namespace penstock::tests
