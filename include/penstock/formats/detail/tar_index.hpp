// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/tar_walk.hpp>
#include <penstock/formats/tar_member.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/new_file.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

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
