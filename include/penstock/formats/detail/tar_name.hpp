// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace penstock::detail {

/// A member's name, cut as WebDataset cuts it: at the first dot behind the last slash.
struct TarName {
  std::string_view key;    // none: the member belongs to no sample
  std::string_view ending; // without its dot

  explicit TarName(std::string_view name) noexcept {
    const std::size_t base = name.rfind('/') + 1; // 0 if there is no slash
    const std::size_t dot = name.find('.', base);
    const std::string_view outermost = name.substr(0, name.find('/'));
    const bool of_the_format =
        outermost.size() > 4 && outermost.starts_with("__") && outermost.ends_with("__");
    if (dot != std::string_view::npos && dot != base && !of_the_format) {
      key = name.substr(0, dot);
      ending = name.substr(dot + 1);
    }
  }
};

} // namespace penstock::detail
