// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string_view>

namespace penstock::detail {

/// The type that a .npy file names for its values.
struct NpyType {
  ValueType type{};
  bool swapped{}; // the bytes of a value lie in the other order than in memory
};

/// A type by a name of NumPy's, on Linux: `long` has 8 bytes.
struct NpyName {
  std::string_view name;
  ValueType type;
};
// A name has no sign for the order of bytes before it; a letter may have one.
inline constexpr NpyName npy_names[]{
    {"bool", {'b', 1}},    {"bool_", {'b', 1}},  {"int8", {'i', 1}},    {"byte", {'i', 1}},
    {"int16", {'i', 2}},   {"short", {'i', 2}},  {"int32", {'i', 4}},   {"intc", {'i', 4}},
    {"int64", {'i', 8}},   {"int", {'i', 8}},    {"long", {'i', 8}},    {"longlong", {'i', 8}},
    {"intp", {'i', 8}},    {"uint8", {'u', 1}},  {"ubyte", {'u', 1}},   {"uint16", {'u', 2}},
    {"ushort", {'u', 2}},  {"uint32", {'u', 4}}, {"uintc", {'u', 4}},   {"uint64", {'u', 8}},
    {"uint", {'u', 8}},    {"ulong", {'u', 8}},  {"uintp", {'u', 8}},   {"ulonglong", {'u', 8}},
    {"float16", {'f', 2}}, {"half", {'f', 2}},   {"float32", {'f', 4}}, {"single", {'f', 4}},
    {"float64", {'f', 8}}, {"double", {'f', 8}}, {"float", {'f', 8}},
};
inline constexpr NpyName npy_letters[]{
    {"?", {'b', 1}}, {"b", {'i', 1}}, {"h", {'i', 2}}, {"i", {'i', 4}}, {"l", {'i', 8}},
    {"q", {'i', 8}}, {"p", {'i', 8}}, {"n", {'i', 8}}, {"B", {'u', 1}}, {"H", {'u', 2}},
    {"I", {'u', 4}}, {"L", {'u', 8}}, {"Q", {'u', 8}}, {"P", {'u', 8}}, {"N", {'u', 8}},
    {"e", {'f', 2}}, {"f", {'f', 4}}, {"d", {'f', 8}},
};

/// Returns the type of a name in a list; none if it is not there.
template <std::size_t Count>
constexpr std::optional<ValueType> named_in(const NpyName (&names)[Count],
                                            std::string_view name) noexcept {
  const auto* const found = std::find_if(std::begin(names), std::end(names),
                                         [&](const NpyName& one) { return one.name == name; });
  return found == std::end(names) ? std::nullopt : std::optional{found->type};
}

/// Returns the text of a type without the sign for the order of bytes before it.
inline std::string_view without_order(std::string_view text) noexcept {
  text.remove_prefix(text.find_first_of("<>|=") == 0 ? 1 : 0);
  return text;
}

/// Returns the type of a letter and a number of bytes behind it, as NumPy writes it: "f4".
inline std::optional<ValueType> lettered(std::string_view text) noexcept {
  unsigned bytes = 0;
  for (const char digit : text.substr(std::min<std::size_t>(text.size(), 1))) {
    if (digit < '0' || digit > '9' || bytes > 99) {
      return {};
    }
    bytes = bytes * 10 + static_cast<unsigned>(digit - '0');
  }
  const char kind = text.empty() ? '\0' : text[0];
  const bool power = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  const bool known = kind == 'b'                  ? bytes == 1
                     : kind == 'i' || kind == 'u' ? power
                     : kind == 'f'                ? power && bytes != 1
                                                  : kind == 'V' && bytes == 2;
  return known ? std::optional{ValueType{kind, bytes}} : std::nullopt;
}

/// Returns the type that a header's text stands for, as np.dtype() takes it; none for one that is
/// not read, or that NumPy does not know.
inline std::optional<NpyType> npy_type(std::string_view text) noexcept {
  if (const auto named = named_in(npy_names, text)) {
    return NpyType{*named, false};
  }
  const std::string_view letters = without_order(text);
  const auto letter = named_in(npy_letters, letters);
  const auto type = letter ? letter : lettered(letters);
  const bool little = std::endian::native == std::endian::little;
  const bool other = text.starts_with(little ? '>' : '<');
  return type ? std::optional{NpyType{*type, other && type->bytes != 1}} : std::nullopt;
}

/// Returns what values of a type are that is refused, and what helps; null for one that NumPy does
/// not know either.
inline const char* npy_cure(std::string_view text) noexcept {
  const std::string_view rest = without_order(text);
  const auto is = [&](std::initializer_list<std::string_view> names, std::string_view letters) {
    const bool letter = !rest.empty() && letters.find(rest[0]) != std::string_view::npos &&
                        (rest.size() == 1 || (rest[1] >= '0' && rest[1] <= '9') || rest[1] == '[');
    return letter || std::find(names.begin(), names.end(), rest) != names.end();
  };
  if (text.find_first_of(",(") != std::string_view::npos) {
    return "structures: save each field as an array of its own, a['name'], and read them as "
           "columns.";
  }
  if (is({"object", "object_"}, "O")) {
    return "Python objects, which are pickled: save numbers, a.astype('float32').";
  }
  if (is({"str", "str_", "bytes", "bytes_"}, "SaU") || rest == "c") {
    return "strings: save their bytes as numbers, and where each begins, or write one text.";
  }
  if (is({"datetime64", "timedelta64"}, "Mm") || rest.starts_with("datetime64[") ||
      rest.starts_with("timedelta64[")) {
    return "dates or times: save them as numbers, a.view('int64').";
  }
  if (is({"complex64", "complex128", "complex256", "complex", "csingle", "cdouble", "clongdouble"},
         "cFDG")) {
    return "complex numbers: save them as pairs, a.view('float32').reshape(*a.shape, 2) for "
           "complex64.";
  }
  if (is({"longdouble", "float128", "float96"}, "g") || rest == "f16" || rest == "f12") {
    return "long doubles, which differ from machine to machine: save a.astype('float64').";
  }
  return nullptr;
}

} // namespace penstock::detail
