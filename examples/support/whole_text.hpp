// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <istream>
#include <sstream>
#include <string>
#include <utility>

/// Returns all that a stream has; nothing if it is none, as it then says itself.
inline std::string whole_text(std::istream& in) {
  std::ostringstream all;
  all << in.rdbuf();
  return std::move(all).str();
}
