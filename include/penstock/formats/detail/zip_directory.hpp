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
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

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

/// Puts the numbers of an extra field of 64 bits in the place of those that have all 32 bits set.
/// Returns false if there is no such field, or if it has too few.
[[gnu::cold]] inline bool take_zip64(std::span<const std::byte> extra,
                                     std::initializer_list<std::uint64_t*> values) {
  const auto stands_there = [](const std::uint64_t* value) { return *value == 0xFFFF'FFFF; };
  if (std::none_of(values.begin(), values.end(), stands_there)) {
    return true;
  }
  while (extra.size() >= 4) {
    const auto kind = zip_number<std::uint16_t>(extra.data());
    const auto bytes = zip_number<std::uint16_t>(extra.data() + 2);
    extra = extra.subspan(4);
    if (bytes > extra.size()) {
      return false;
    }
    std::span<const std::byte> field = extra.first(bytes);
    extra = extra.subspan(bytes);
    if (kind != 1) {
      continue;
    }
    for (std::uint64_t* const value : values) {
      if (stands_there(value)) {
        if (field.size() < sizeof *value) {
          return false;
        }
        *value = zip_number<std::uint64_t>(field.data());
        field = field.subspan(sizeof *value);
      }
    }
    return true;
  }
  return false;
}

/// What the directory of an archive says of a member.
struct ZipEntry {
  std::string_view name;   ///< As it lies in the directory.
  std::uint64_t at{};      ///< Where the directory says it.
  std::uint16_t flags{};   ///< Bit 0: encrypted; bit 3: its own header need not say its sizes.
  std::uint16_t method{};  ///< How it is compressed; 0: stored as it is.
  std::uint32_t crc{};     ///< CRC-32 of its bytes.
  std::uint64_t packed{};  ///< How many bytes it takes in the file.
  std::uint64_t bytes{};   ///< How many it has.
  std::uint64_t offset{};  ///< Where its own header begins in the file.
  std::uint64_t most_at{}; ///< Where at the latest it ends: what lies behind it begins there.
};

/// The directory of a ZIP archive, read and checked: members have different names and do not
/// overlap, and the first begins where the file does. Names are compared, and open nothing.
class ZipDirectory {
 public:
  /// Reads it. Allocates a few times the directory's bytes, of which it takes at most 64 MiB.
  /// `file` must outlive this. Throws SourceError.
  [[gnu::cold]] explicit ZipDirectory(const HeaderFile& file)
      : file_{file}, end_{ZipEndParser{file}.parse()}, bytes_(std::size_t{end_.bytes}) {
    file_.read(end_.directory, {bytes_.data(), bytes_.size()});
    std::size_t at = 0;
    while (entries_.size() != end_.members) {
      at += add(at);
    }
    if (at != bytes_.size()) {
      file_.refuse(end_.directory + at,
                   {"ends the last of ", end_.members,
                    " members, and the directory of the archive has ", bytes_.size() - at,
                    " bytes more: the file is damaged. Write or fetch it again."});
    }
    check_names();
    check_places();
  }
  ZipDirectory(const ZipDirectory&) = delete;
  ZipDirectory& operator=(const ZipDirectory&) = delete;

  /// Its members, as it lists them. They live as long as this does.
  const Vector<ZipEntry>& entries() const noexcept { return entries_; }
  /// Returns the member of this name. Throws SourceError if there is none.
  [[gnu::cold]] const ZipEntry& find(std::string_view name) const {
    constexpr std::size_t most_listed = 8;
    const auto* const found = std::find_if(entries_.begin(), entries_.end(),
                                           [&](const ZipEntry& its) { return its.name == name; });
    if (found == entries_.end()) {
      std::string all;
      for (std::size_t i = 0; i != std::min(entries_.size(), most_listed); ++i) {
        all += (i == 0 ? ": " : ", ") + shown(entries_[i].name);
      }
      file_.refuse(end_.directory,
                   {"lists ", entries_.size(), " members", all,
                    entries_.size() > most_listed ? ", ..." : "", ". None is ", name,
                    entries_.empty()
                        ? ": write the array into it by np.savez()."
                        : ": give ps::npz, or the column, the name of one of them, without .npy."});
    }
    return *found;
  }

 private:
  static constexpr std::size_t fixed_bytes = 46;
  static constexpr std::size_t header_bytes = 30; // a member's own, without its name

  // Takes the entry at `at`. Returns its bytes.
  std::size_t add(std::size_t at) {
    const std::span left = std::span{bytes_.data(), bytes_.size()}.subspan(at);
    const std::byte* const from = left.data();
    const std::uint64_t place = end_.directory + at;
    if (left.size() < fixed_bytes || zip_number<std::uint32_t>(from) != 0x02014b50) {
      file_.refuse(place, {"has no member number ", entries_.size(),
                           " in the directory of the archive, which has ", end_.members,
                           ": the file is damaged. Write or fetch it again."});
    }
    const std::size_t name = zip_number<std::uint16_t>(from + 28);
    const std::size_t extra = zip_number<std::uint16_t>(from + 30);
    const std::size_t all = fixed_bytes + name + extra + zip_number<std::uint16_t>(from + 32);
    if (all > left.size()) {
      file_.refuse(place, {"has a member of ", all,
                           " bytes in the directory of the archive, which "
                           "has ",
                           left.size(), " more: the file is damaged. Write or fetch it again."});
    }
    ZipEntry entry{{reinterpret_cast<const char*>(from + fixed_bytes), name},
                   place,
                   zip_number<std::uint16_t>(from + 8),
                   zip_number<std::uint16_t>(from + 10),
                   zip_number<std::uint32_t>(from + 16),
                   zip_number<std::uint32_t>(from + 20),
                   zip_number<std::uint32_t>(from + 24),
                   zip_number<std::uint32_t>(from + 42),
                   0};
    if (!take_zip64(left.subspan(fixed_bytes + name, extra),
                    {&entry.bytes, &entry.packed, &entry.offset})) {
      refuse(entry, {"whose sizes stand in a field of 64 bits, which is missing"});
    }
    if (zip_number<std::uint16_t>(from + 34) != 0) {
      refuse(entry, {"which lies on another disk of an archive that was split"});
    }
    entries_.push_back(entry);
    return all;
  }
  void check_names() const {
    const auto in_order = pointers([](const ZipEntry* a, const ZipEntry* b) {
      return a->name != b->name ? a->name < b->name : a < b;
    });
    const auto* const twice =
        std::adjacent_find(in_order.begin(), in_order.end(),
                           [](const ZipEntry* a, const ZipEntry* b) { return a->name == b->name; });
    if (twice != in_order.end()) {
      refuse(*twice[1], {"which is there for the second time"});
    }
  }
  void check_places() {
    const auto in_order = pointers([](const ZipEntry* a, const ZipEntry* b) {
      return a->offset != b->offset ? a->offset < b->offset : a < b;
    });
    for (std::size_t i = 0; i != in_order.size(); ++i) {
      ZipEntry& entry = *in_order[i];
      const ZipEntry* const next = i + 1 == in_order.size() ? nullptr : in_order[i + 1];
      entry.most_at = next ? next->offset : end_.directory;
      if (i == 0 && entry.offset != 0) {
        refuse(entry, {"the first in the file, which begins only at byte ", entry.offset});
      }
      const std::uint64_t header = header_bytes + entry.name.size();
      const std::uint64_t room = entry.most_at - std::min(entry.offset, entry.most_at);
      if (room < header || room - header < entry.packed) {
        refuse(entry, {"which has ", entry.packed, " bytes behind byte ", entry.offset,
                       ", where until byte ", entry.most_at, ", at which ",
                       next ? joined({"\"", shown(next->name), "\" begins"})
                            : std::string{"the directory begins"},
                       ", there are only ", room});
      }
    }
  }
  template <class Less> Vector<ZipEntry*> pointers(Less less) {
    return sorted<ZipEntry*>(entries_.data(), less);
  }
  template <class Less> Vector<const ZipEntry*> pointers(Less less) const {
    return sorted<const ZipEntry*>(entries_.data(), less);
  }
  template <class Pointer, class Less> Vector<Pointer> sorted(Pointer first, Less less) const {
    Vector<Pointer> all;
    all.reserve(entries_.size());
    for (std::size_t i = 0; i != entries_.size(); ++i) {
      all.push_back(first + i);
    }
    std::sort(all.begin(), all.end(), less);
    return all;
  }
  [[noreturn, gnu::cold]] void refuse(const ZipEntry& entry,
                                      std::initializer_list<TextPart> what) const {
    file_.refuse(entry.at, {"lists the member \"", shown(entry.name), "\", ", joined(what),
                            ". The archive is damaged, or made to mislead: write it anew."});
  }

  const HeaderFile& file_;
  const ZipEnd end_;
  Vector<std::byte> bytes_;
  Vector<ZipEntry> entries_;
};

} // namespace penstock::detail
