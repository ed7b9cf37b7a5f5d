// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/sources/detail/utf8.hpp>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace penstock::detail {

/// What a member is that is no regular file, and what helps if its bytes are wanted.
struct TarKind {
  std::string is;
  const char* cure;
};

/// Returns the kind of a header's type.
[[gnu::cold]] inline TarKind tar_kind(char type) {
  struct {
    std::string_view types;
    const char* is;
    const char* cure;
  } const kinds[]{
      {"1", "a hard link", "write the archive with --hard-dereference"},
      {"2", "a symbolic link", "write the archive with --dereference"},
      {"346", "a device or a pipe", "write the archive without it"},
      {"5", "a directory", "write the archive without it"},
      {"M", "the rest of a file that another volume begins", "join the volumes"},
      {"S", "a sparse file", "write the archive without --sparse"},
      {"V", "a volume label", "write the archive without --label"},
  };
  const auto* const kind = std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& one) {
    return one.types.find(type) != std::string_view::npos;
  });
  if (kind != std::end(kinds)) {
    return {kind->is, kind->cure};
  }
  return {joined({"of the type \"", shown(std::string_view{&type, 1}), "\""}),
          "write the archive without it"};
}

} // namespace penstock::detail
