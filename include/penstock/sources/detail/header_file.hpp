// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/sources/detail/utf8.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace penstock::detail {

/// A file whose header is looked at: reads what lies in it, and refuses it in words that name the
/// file and the byte. Parsers take it instead of a file, so that they can be fuzzed.
class HeaderFile {
 public:
  /// `read(at, into)` fills `into` from byte `at` on, which lies within `size` bytes. Both outlive
  /// this.
  using Read = Borrowed<void(std::uint64_t, std::span<std::byte>)>;
  HeaderFile(std::string_view path, std::uint64_t size, Read read)
      : path_{path}, size_{size}, read_{read} {}
  /// A member of a file: where that begins, and whether its bytes lie there as `read` gives them.
  struct Member {
    std::string_view name;
    std::uint64_t begin;
    bool as_it_lies;
  };
  /// Is the member of a file, of `size` bytes. Its bytes are counted from 0.
  HeaderFile(std::string_view path, const Member& member, std::uint64_t size, Read read)
      : path_{path}, member_{member}, size_{size}, read_{read} {}

  std::string_view path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }

  /// Fills `into` from byte `at` on. Throws SourceError if the file ends before.
  void read(std::uint64_t at, std::span<std::byte> into) const {
    if (at > size_ || into.size() > size_ - at) {
      refuse(size_, {"ends, and its header goes on to byte ", at + into.size(),
                     ": the file was cut, or is of another format. Write or fetch it again."});
    }
    read_(at, into);
  }
  /// Returns the number at byte `at`.
  template <class T> T number(std::uint64_t at, bool big_endian = false) const {
    std::byte bytes[sizeof(T)];
    read(at, bytes);
    return number_at<T>(bytes, big_endian);
  }
  /// Returns whether the file begins with `text`, which has at most 16 characters.
  bool begins_with(std::string_view text) const {
    std::byte bytes[16];
    if (size_ < text.size()) {
      return false;
    }
    read_(0, std::span{bytes}.first(text.size()));
    return std::memcmp(bytes, text.data(), text.size()) == 0;
  }

  /// Throws SourceError: "PATH at byte AT …", or "MEMBER in PATH at byte AT …".
  [[noreturn, gnu::cold, gnu::noinline]] void refuse(std::uint64_t at,
                                                     std::initializer_list<TextPart> what) const {
    const std::string said = joined(what);
    throw_source_error({"penstock: ", member_.name, member_.name.empty() ? "" : " in ", path_,
                        " at byte ", at, " ", said},
                       path_, member_.begin + (member_.as_it_lies ? at : 0));
  }

 private:
  std::string_view path_;
  Member member_{{}, 0, true};
  std::uint64_t size_;
  Read read_;
};

} // namespace penstock::detail
