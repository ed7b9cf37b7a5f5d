// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/node.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::detail {

/// Returns the name of the next node of a kind: "Decoder", and then "Decoder 2".
[[gnu::cold]] inline std::string name_of_next(std::string_view kind,
                                              const Vector<Owned<Node>>& nodes) {
  std::size_t same = 0;
  for (const auto& node : nodes) {
    const std::string_view name = node->name();
    same += name.starts_with(kind) && (name.size() == kind.size() || name[kind.size()] == ' ') ? 1U
                                                                                               : 0U;
  }
  return same == 0 ? std::string{kind} : joined({kind, " ", same + 1});
}

} // namespace penstock::detail
