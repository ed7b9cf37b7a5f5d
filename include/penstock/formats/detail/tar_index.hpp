// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/tar_header.hpp>
#include <penstock/formats/tar_member.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/new_file.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/utf8.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Goes through a tar archive from header to header, and reads no data.
class TarWalk {
 public:
  explicit TarWalk(const HeaderFile& file) : file_{file} {}
  /// Goes through a file that only goes forward, whose size nobody knows: reads no byte twice, and
  /// none behind the archive's end. The caller sees to what is there.
  struct Streamed {};
  TarWalk(const HeaderFile& file, Streamed) : file_{file}, ahead_{tar_block}, to_end_{false} {}

  /// Goes to the next member that is no directory. Returns what it is, '0' for a regular file; none
  /// at the archive's end. Throws SourceError for what is no archive, a damaged or a cut one, and
  /// for a member behind which programs differ on where the next one begins.
  std::optional<char> next(TarMember& to) {
    std::optional<PaxRecords> pax;
    std::optional<std::string> long_name;
    for (;;) {
      const std::uint64_t at = at_;
      if (at >= file_.size()) {
        file_.refuse(file_.size(), {"ends without the blocks of zeros that end a tar archive: it "
                                    "was cut, or is still being written. Copy or download it "
                                    "again."});
      }
      const std::span<const std::byte> block = block_at(at);
      if (is_zero(block)) {
        if (pax || long_name) {
          file_.refuse(at, {"ends the archive where a header has announced a member: copy or "
                            "download it again."});
        }
        if (to_end_) {
          check_nothing_from(at + tar_block);
        }
        return {};
      }
      const TarHeader header{file_, at, block};
      char type = header.type();
      std::uint64_t bytes = header.bytes();
      std::string name = header.name();
      if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
        const std::string said = announced(at, bytes);
        take(at, type, said, pax, long_name);
        continue;
      }
      bytes = pax && pax->bytes ? *pax->bytes : bytes;
      if (pax && !pax->path.empty()) {
        name = std::move(pax->path);
      } else if (long_name) {
        name = std::move(*long_name);
      }
      if (type == 'S') {
        bytes += more_of_sparse(at, header, name);
      } else if (pax && pax->sparse) {
        type = 'S';
        if (!pax->sparse_name.empty()) {
          name = std::move(pax->sparse_name);
        }
      }
      constexpr std::string_view without_bytes{"123456"};
      if (bytes != 0 && without_bytes.find(type) != std::string_view::npos) {
        file_.refuse(at, {"has the member ", shown(name), ", ", tar_kind(type).is,
                          " that has bytes, and programs differ on whether they are there: write "
                          "the archive again."});
      }
      skip(at, bytes, name);
      if (type != '5') {
        to = {std::move(name), at + tar_block, bytes};
        return type;
      }
      pax.reset();
      long_name.reset();
    }
  }

 private:
  static bool is_zero(std::span<const std::byte> bytes) noexcept {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; });
  }
  std::span<const std::byte> block_at(std::uint64_t at) {
    if (file_.size() - at < tar_block) {
      if (at == 0) {
        refuse_foreign(file_, {}, false);
      }
      file_.refuse(at, {at == 0 ? "has less than the one block that a tar archive has at least: it "
                                  "was cut, or is of another format. Check the path."
                                : "ends in the middle of a block: the archive was cut. Copy or "
                                  "download it again."});
    }
    if (at < begin_ || at + tar_block > end_) {
      begin_ = at;
      end_ = at + std::min<std::uint64_t>(file_.size() - at, ahead_);
      file_.read(begin_, std::span{piece_}.first(end_ - begin_));
    }
    return std::span{piece_}.subspan(at - begin_, tar_block);
  }
  // Goes behind a member's bytes and the zeros behind them.
  void skip(std::uint64_t at, std::uint64_t bytes, const std::string& name) {
    const std::uint64_t left = file_.size() - at - tar_block;
    if (bytes > left) {
      file_.refuse(at, {"begins the member ", shown(name), ", of whose ", bytes, " bytes only ",
                        left, " are there: copy or download the archive again."});
    }
    at_ = at + tar_block + (bytes + tar_block - 1) / tar_block * tar_block;
  }
  // Returns how many bytes of blocks go on with a sparse file's header.
  [[gnu::cold]] std::uint64_t more_of_sparse(std::uint64_t at, const TarHeader& header,
                                             const std::string& name) {
    if (!header.is_gnu()) {
      file_.refuse(at, {"has the member ", shown(name),
                        ", a sparse file whose format is not GNU's: write the archive without "
                        "sparse files."});
    }
    constexpr std::size_t more_at = 504;
    std::uint64_t bytes = 0;
    bool more = header.has_more_of_sparse();
    while (more) {
      bytes += tar_block;
      more = block_at(at + bytes)[more_at] != std::byte{};
    }
    return bytes;
  }
  // Returns what a header has behind it that tells of the next member.
  std::string announced(std::uint64_t at, std::uint64_t bytes) {
    constexpr std::uint64_t most = std::uint64_t{1} << 20;
    if (bytes > most) {
      file_.refuse(at, {"has a header of ", bytes,
                        " bytes that tells of the next member, and at "
                        "most ",
                        most, " are read: write the archive again with shorter names."});
    }
    skip(at, bytes, "that tells of the next one");
    std::string said(bytes, '\0');
    file_.read(at + tar_block, std::as_writable_bytes(std::span{said}));
    return said;
  }
  void take(std::uint64_t at, char type, const std::string& said, std::optional<PaxRecords>& pax,
            std::optional<std::string>& long_name) const {
    // Programs differ in which of two that say the same they believe.
    const auto once = [&](bool first) {
      if (!first) {
        file_.refuse(at, {"names one member twice, by headers that tell of the next one: write the "
                          "archive again."});
      }
    };
    if (type == 'x') {
      once(!pax);
      pax = read_pax(file_, at + tar_block, said);
    } else if (type == 'L') {
      once(!long_name);
      long_name = said.substr(0, said.find('\0'));
    } else if (type == 'g') {
      const PaxRecords all = read_pax(file_, at + tar_block, said);
      if (!all.path.empty() || all.bytes || all.sparse) {
        file_.refuse(at, {"has a global pax header that gives all members one name, size or map "
                          "of a sparse file: write the archive again."});
      }
    }
    once(!(pax && !pax->path.empty() && long_name));
  }
  // Programs fill archives up to 10 KiB or so, and what stands there else would be lost unseen.
  [[gnu::cold]] void check_nothing_from(std::uint64_t at) {
    constexpr std::uint64_t most = std::uint64_t{4} << 20;
    const auto check = [&](bool holds) {
      if (!holds) {
        file_.refuse(at, {"goes on behind the zeros that end a tar archive, as several in one file "
                          "do: give each a file of its own, or join them by tar --concatenate."});
      }
    };
    if (at < file_.size() && file_.size() - at > most) {
      file_.refuse(at, {"has ", file_.size() - at,
                        " bytes behind the zeros that end a tar archive, and at most ", most,
                        " are looked at: if these are zeros too, write the archive again with a "
                        "lower --blocking-factor; else give each of several archives a file of its "
                        "own."});
    }
    while (at < file_.size()) {
      const auto some = std::min<std::uint64_t>(file_.size() - at, piece_.size());
      const auto piece = std::span{piece_}.first(some);
      end_ = 0; // of what is kept
      file_.read(at, piece);
      check(is_zero(piece));
      at += some;
    }
  }

  const HeaderFile& file_;
  std::array<std::byte, 4096> piece_;
  const std::size_t ahead_ = piece_.size(); // are read at once
  const bool to_end_ = true;
  std::uint64_t begin_ = 0; // of what the piece has of the file
  std::uint64_t end_ = 0;
  std::uint64_t at_ = 0;
};

/// The members of a tar archive but directories, in its order.
class TarIndex {
 public:
  /// Walks through an archive. Throws SourceError.
  [[gnu::cold]] explicit TarIndex(const HeaderFile& file) {
    TarWalk walk{file};
    TarMember member;
    while (const std::optional<char> type = walk.next(member)) {
      members_.push_back({member.offset, member.bytes});
      types_ += *type;
      names_ += member.name; // no name has a zero byte
      names_ += '\0';
    }
  }

  /// Calls f(name, data, bytes, type) for each member, of type '0' if it is a regular file.
  template <class F> void each(F f) const {
    const char* name = names_.c_str();
    for (std::size_t i = 0; i != members_.size(); ++i) {
      const std::string_view its = name;
      f(its, members_[i].data, members_[i].bytes, types_[i]);
      name += its.size() + 1;
    }
  }

  /// Returns the bytes of a file that keeps the index of an archive of this status.
  [[gnu::cold]] std::string kept(const FileStatus& archive) const {
    std::string text{magic};
    const auto add = [&](std::uint64_t number) {
      text.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    add(archive.size);
    add(archive.modified);
    add(members_.size());
    for (const Member& member : members_) {
      add(member.data);
      add(member.bytes);
    }
    text += types_;
    text += names_;
    add(crc32c(std::as_bytes(std::span{text})));
    return text;
  }
  /// Returns the index that such a file keeps; none if it is of another archive, or damaged.
  [[gnu::cold]] static std::optional<TarIndex> from_kept(std::string_view text,
                                                         const FileStatus& archive) {
    const auto number = [&](std::size_t at) {
      return number_at<std::uint64_t>(reinterpret_cast<const std::byte*>(text.data()) + at, false);
    };
    constexpr std::size_t head = magic.size() + 3 * sizeof(std::uint64_t);
    if (text.size() < head + sizeof(std::uint64_t) || !text.starts_with(magic) ||
        number(magic.size()) != archive.size || number(magic.size() + 8) != archive.modified ||
        number(text.size() - 8) != crc32c(std::as_bytes(std::span{text}.first(text.size() - 8)))) {
      return {};
    }
    const std::uint64_t count = number(magic.size() + 16);
    text.remove_suffix(sizeof(std::uint64_t));
    constexpr std::size_t each = 2 * sizeof(std::uint64_t);
    if (count > (text.size() - head) / (each + 1)) {
      return {};
    }
    TarIndex index;
    for (std::size_t i = 0; i != count; ++i) {
      const Member member{number(head + each * i), number(head + each * i + 8)};
      if (member.data > archive.size || member.bytes > archive.size - member.data ||
          member.data < tar_block) {
        return {};
      }
      index.members_.push_back(member);
    }
    index.types_ = text.substr(head + each * count, count);
    index.names_ = text.substr(head + (each + 1) * count);
    const auto names = std::count(index.names_.begin(), index.names_.end(), '\0');
    const bool ended = index.names_.empty() || index.names_.back() == '\0';
    return ended && static_cast<std::uint64_t>(names) == count ? std::optional{std::move(index)}
                                                               : std::nullopt;
  }

 private:
  struct Member {
    std::uint64_t data;
    std::uint64_t bytes;
  };
  static constexpr std::string_view magic{"penstock tar 2\n"};

  TarIndex() = default;

  std::vector<Member> members_;
  std::string types_; // a letter each
  std::string names_; // one behind the other, each with a zero byte
};

/// An index, and why it could not be kept beside its archive, if it should have been.
struct FoundIndex {
  TarIndex index;
  std::string not_kept{};
};

/// Returns the path of the file that keeps an archive's index.
[[gnu::cold]] inline std::string path_of_index(const std::string& archive) {
  const std::string folder = folder_of(archive);
  return joined({folder, ".", std::string_view{archive}.substr(folder.size()), ".penstock-index"});
}

/// Returns the members of an archive. If `keep`, by the index beside it, which it writes where
/// there is none that is right. Throws SourceError.
template <class Io>
[[gnu::cold]] FoundIndex find_index(const Io& io, const File<Io>& archive, bool keep) {
  const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
    read_full(archive, at, into);
  };
  const HeaderFile file{archive.path(), archive.size(), read};
  if (!keep) {
    return {TarIndex{file}};
  }
  FileStatus status;
  if (archive.descriptor().status(status) < 0) {
    return {TarIndex{file}, joined({archive.path(), " does not tell its time"})};
  }
  const std::string path = path_of_index(archive.path());
  try {
    const File<Io> kept{io, path};
    // An index is much smaller than its archive: what is not is none.
    if (kept.size() <= archive.size()) {
      std::string text(kept.size(), '\0');
      read_full(kept, 0, std::as_writable_bytes(std::span{text}));
      if (std::optional<TarIndex> index = TarIndex::from_kept(text, status)) {
        return {std::move(*index)};
      }
    }
  } catch (const SourceError&) {
    // There is none yet, or one that cannot be read: it is made.
  }
  TarIndex index{file};
  try {
    NewFile<Io> kept{io, path};
    const std::string text = index.kept(status);
    kept.write(0, std::as_bytes(std::span{text}));
    kept.commit(false);
  } catch (const SinkError& e) {
    return {std::move(index), e.what()};
  }
  return {std::move(index)};
}

} // namespace penstock::detail
