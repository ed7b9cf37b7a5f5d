// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/detail/json_text.hpp>

#include <cstddef>
#include <string>

namespace penstock::detail {

/// Reads an object, and has `f(name, at)` read each of its members' values. The name, at byte `at`,
/// is good until then.
template <class F> void each_json_member(JsonText& json, F f) {
  json.expect('{');
  std::string name;
  for (bool more = !json.take('}'); more; more = json.next_of('}')) {
    const std::size_t at = json.at();
    json.string(name);
    json.expect(':');
    f(name, at);
  }
}

/// Reads a value of any kind, and keeps nothing of it. Arrays and objects may nest `depth` deep: as
/// many as the format's own reader of safetensors takes. Throws SourceError.
[[gnu::cold]] inline void skip_json(JsonText& json, unsigned depth = 125) {
  const bool nests = json.is_next('{') || json.is_next('[');
  if (nests && depth == 0) {
    json.fail(json.at(), {"values that nest more than 125 deep"});
  }
  if (json.is_next('"')) {
    json.string();
  } else if (json.is_next('{')) {
    each_json_member(json, [&](const std::string&, std::size_t) { skip_json(json, depth - 1); });
  } else if (json.take('[')) {
    for (bool more = !json.take(']'); more; more = json.next_of(']')) {
      skip_json(json, depth - 1);
    }
  } else if (!json.take("null") && !json.take("true") && !json.take("false")) {
    json.any_number();
  }
}

} // namespace penstock::detail
