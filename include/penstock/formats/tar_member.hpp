// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/formats/detail/tar_header.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

/// A regular member of a tar archive: what tar_members() returns.
struct TarMember {
  /// Its name, with folders, as the archive has it.
  std::string name;
  std::uint64_t offset = 0; ///< The byte of the archive where its bytes begin.
  std::uint64_t bytes = 0;  ///< How many there are.

  /// Returns the key of its sample: the name up to the first dot behind the last slash. Empty if it
  /// belongs to none.
  std::string_view key() const noexcept { return detail::TarName{name}.key; }
  /// Returns its ending, all behind that dot.
  std::string_view ending() const noexcept { return detail::TarName{name}.ending; }
};

} // namespace penstock
