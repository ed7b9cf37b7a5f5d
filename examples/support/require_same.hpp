// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "meeting.hpp"

#include <penstock/io/crc32c.hpp>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

/// Throws std::invalid_argument unless the text is the same on all ranks: else these would wait for
/// what others never do. `what` names in the error what the text is of, which are several things.
inline void require_same(Meeting& meeting, const std::string& text, const char* what) {
  const std::uint32_t mine = penstock::crc32c(std::as_bytes(std::span{text}));
  std::uint32_t of_first = mine;
  meeting.share(std::as_writable_bytes(std::span{&of_first, 1}));
  if (of_first != mine) {
    throw std::invalid_argument{std::string{what} +
                                " are not those of rank 0: give all ranks the same"};
  }
}
