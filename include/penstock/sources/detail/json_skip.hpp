// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/sources/detail/json_text.hpp>

#include <string>

namespace penstock::detail {

/// Reads a value of any kind, and keeps nothing of it. Arrays and objects may nest `depth` deep: as
/// many as the format's own reader of safetensors takes. Throws SourceError.
[[gnu::cold]] inline void skip_json(JsonText& json, unsigned depth = 125) {
  const bool object = json.is_next('{');
  if (json.is_next('"')) {
    json.string();
  } else if (object || json.is_next('[')) {
    if (depth == 0) {
      json.fail(json.at(), {"values that nest more than 125 deep"});
    }
    const char end = object ? '}' : ']';
    json.expect(object ? '{' : '[');
    for (bool more = !json.take(end); more; more = json.next_of(end)) {
      if (object) {
        json.string();
        json.expect(':');
      }
      skip_json(json, depth - 1);
    }
  } else if (!json.take("null") && !json.take("true") && !json.take("false")) {
    json.any_number();
  }
}

} // namespace penstock::detail
