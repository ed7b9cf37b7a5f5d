// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/vector.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

// The format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT. Members lie one after
// the other, each behind a header of its own; behind all lies the directory, which says the same of
// them once more, and behind it a record that says where the directory is. An archive with sizes of
// more than 32 bits has another such record before that one.

/// Returns the number at `at`; a ZIP file has the least significant byte first.
template <class T> T zip_number(const std::byte* at) noexcept {
  return number_at<T>(at, false);
}

/// Where the directory of an archive lies.
struct ZipEnd {
  std::uint64_t directory{};
  std::uint64_t bytes{};
  std::uint64_t members{};
};

/// Finds and checks the records at the end of an archive.
class ZipEndParser {
 public:
  /// `file` must outlive this.
  explicit ZipEndParser(const HeaderFile& file) : file_{file} {}

  /// Allocates at most 64 KiB and a record. Throws SourceError.
  [[gnu::cold]] ZipEnd parse() {
    std::byte record[record_bytes];
    std::uint64_t at = find(record);
    ZipEnd end{zip_number<std::uint32_t>(record + 16), zip_number<std::uint32_t>(record + 12),
               zip_number<std::uint16_t>(record + 10)};
    std::uint64_t here = zip_number<std::uint16_t>(record + 8);
    std::uint64_t disks[]{zip_number<std::uint16_t>(record + 4),
                          zip_number<std::uint16_t>(record + 6)};
    std::byte locator[locator_bytes];
    if (at >= locator_bytes) {
      file_.read(at - locator_bytes, locator);
      if (zip_number<std::uint32_t>(locator) == 0x07064b50) {
        at = take_zip64(at - locator_bytes, locator, end, here, disks);
      }
    }
    if (disks[0] != 0 || disks[1] != 0 || here != end.members) {
      file_.refuse(at, {"ends one of several disks that an archive was split over: write it anew, "
                        "into one file."});
    }
    check(end, at);
    return end;
  }

 private:
  static constexpr std::size_t record_bytes = 22;
  static constexpr std::size_t record64_bytes = 56;
  static constexpr std::size_t locator_bytes = 20;
  static constexpr std::size_t entry_bytes = 46;
  static constexpr std::uint64_t most_directory_bytes = std::uint64_t{64} << 20;

  // Fills the record, and returns where it lies: of what looks like one, it is the last behind
  // which a comment of its length ends the file. The comment may have any bytes, also those of a
  // record.
  std::uint64_t find(std::byte* record) const {
    constexpr std::uint64_t most = record_bytes + 0xFFFF; // with a comment behind it
    Vector<std::byte> tail(std::size_t{std::min(file_.size(), most)});
    const std::uint64_t begin = file_.size() - tail.size();
    file_.read(begin, {tail.data(), tail.size()});
    std::size_t last = tail.size(); // that looks like one
    for (std::size_t at = tail.size() < record_bytes ? 0 : tail.size() - record_bytes + 1;
         at-- != 0;) {
      if (zip_number<std::uint32_t>(tail.data() + at) != 0x06054b50) {
        continue;
      }
      if (comment_at(tail, at) == tail.size() - at - record_bytes) {
        std::copy_n(tail.data() + at, record_bytes, record);
        return begin + at;
      }
      last = last == tail.size() ? at : last;
    }
    if (last == tail.size()) {
      if (!file_.begins_with("PK")) {
        refuse_foreign(file_);
      }
      file_.refuse(file_.size(), {"ends without the end of a ZIP archive, as np.savez() writes it: "
                                  "it was cut, or is of another format. Write or fetch it again."});
    }
    file_.refuse(begin + last,
                 {"ends an archive with a comment of ", unsigned{comment_at(tail, last)},
                  " bytes, and the file has ", tail.size() - last - record_bytes,
                  " more: it was cut, or something was put behind it. Write or fetch it again."});
  }
  static std::uint16_t comment_at(const Vector<std::byte>& tail, std::size_t record) noexcept {
    return zip_number<std::uint16_t>(tail.data() + record + 20);
  }

  // Takes the numbers of the record of 64 bits, and returns where it lies. Other readers take those
  // of 32, so where these are given they must be the same.
  std::uint64_t take_zip64(std::uint64_t locator_at, const std::byte* locator, ZipEnd& end,
                           std::uint64_t& here, std::uint64_t (&disks)[2]) const {
    const auto at = zip_number<std::uint64_t>(locator + 8);
    const bool one_disk =
        zip_number<std::uint32_t>(locator + 4) == 0 && zip_number<std::uint32_t>(locator + 16) <= 1;
    std::byte record[record64_bytes];
    bool there = locator_at >= record64_bytes && at <= locator_at - record64_bytes;
    if (there) {
      file_.read(at, record);
      there = zip_number<std::uint32_t>(record) == 0x06064b50 &&
              zip_number<std::uint64_t>(record + 4) == locator_at - at - 12;
    }
    if (!there) {
      file_.refuse(locator_at, {"says that the end of the archive in 64 bits is told at byte ", at,
                                ", and it is not there: something was put before or into the "
                                "archive, or the file is damaged. Write or fetch it again."});
    }
    struct Twice {
      std::uint64_t& small;
      std::uint64_t small_most;
      std::uint64_t large;
    };
    for (const Twice& number :
         {Twice{disks[0], 0xFFFF, zip_number<std::uint32_t>(record + 16)},
          {disks[1], 0xFFFF, zip_number<std::uint32_t>(record + 20)},
          {here, 0xFFFF, zip_number<std::uint64_t>(record + 24)},
          {end.members, 0xFFFF, zip_number<std::uint64_t>(record + 32)},
          {end.bytes, 0xFFFF'FFFF, zip_number<std::uint64_t>(record + 40)},
          {end.directory, 0xFFFF'FFFF, zip_number<std::uint64_t>(record + 48)}}) {
      if (number.small != number.small_most && number.small != number.large) {
        file_.refuse(at, {"says ", number.large, " in the end of the archive in 64 bits, and ",
                          number.small,
                          " in that of 32: the file is damaged. Write or fetch it again."});
      }
      number.small = number.large;
    }
    disks[0] += one_disk ? 0 : 1;
    return at;
  }

  // The directory must end where its end is told.
  void check(const ZipEnd& end, std::uint64_t at) const {
    std::uint64_t last = 0;
    if (__builtin_add_overflow(end.directory, end.bytes, &last) || last > at) {
      file_.refuse(at, {"says that the directory of the archive lies from byte ", end.directory,
                        " on and has ", end.bytes,
                        " bytes, which is not before the end of the archive: the file is damaged. "
                        "Write or fetch it again."});
    }
    if (last != at) {
      file_.refuse(at, {"says that the directory of the archive ends at byte ", last, ", which is ",
                        at - last,
                        " bytes too early: something was put before or into the archive. Write or "
                        "fetch it again."});
    }
    if (end.bytes > most_directory_bytes) {
      file_.refuse(at, {"says that the directory of the archive has ", end.bytes,
                        " bytes, more than the ", most_directory_bytes,
                        " that are read: spread the arrays over several files."});
    }
    if (end.members > end.bytes / entry_bytes) {
      file_.refuse(at, {"says that the archive has ", end.members, " members, in a directory of ",
                        end.bytes, " bytes: the file is damaged. Write or fetch it again."});
    }
  }

  const HeaderFile& file_;
};

} // namespace penstock::detail
