// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/vector.hpp>
#include <penstock/formats/detail/array_header.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
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

/// The text in the header of a .npy file: a dictionary as Python writes it, with the three keys
/// descr, fortran_order and shape, in any order.
class NpyText {
 public:
  /// The text begins at byte `begin` of the file. Both must outlive this.
  NpyText(const HeaderFile& file, std::string_view text, std::uint64_t begin)
      : file_{file}, text_{text}, begin_{begin} {}

  /// Fills all but the offset. Throws SourceError.
  [[gnu::cold]] void read(ArrayHeader& header) {
    constexpr unsigned of_type = 1, of_order = 2, of_shape = 4;
    unsigned seen = 0;
    bool fortran = false;
    take('{', "a dictionary");
    while (!is_next('}')) {
      const std::size_t key_at = at_;
      const std::string_view key = string();
      take(':', "a colon behind the key");
      const unsigned which = key == "descr"           ? of_type
                             : key == "fortran_order" ? of_order
                             : key == "shape"         ? of_shape
                                                      : 0;
      if (which == 0 || (seen & which) != 0) {
        refuse(key_at, which == 0 ? "none of the keys descr, fortran_order and shape"
                                  : "a key for the second time");
      }
      seen |= which;
      which == of_type ? type(header) : which == of_order ? order(fortran) : shape(header);
      if (!is_next(',')) {
        break;
      }
      ++at_;
    }
    take('}', "the end of the dictionary");
    skip_spaces();
    if (at_ != text_.size()) {
      refuse(at_, "more text behind the dictionary");
    }
    if (seen != (of_type | of_order | of_shape)) {
      refuse(0, "a dictionary without all of the keys descr, fortran_order and shape");
    }
    const auto more_than_one = [](std::uint64_t extent) { return extent > 1; };
    const auto* const extents = header.extents;
    if (fortran && std::count_if(extents, extents + header.dims, more_than_one) > 1) {
      file_.refuse(begin_, {"begins an array in Fortran order, whose records do not lie together: "
                            "save np.ascontiguousarray(a)."});
    }
  }

 private:
  void skip_spaces() {
    while (at_ != text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  bool is_next(char c) {
    skip_spaces();
    return at_ != text_.size() && text_[at_] == c;
  }
  void take(char c, std::string_view what) {
    if (!is_next(c)) {
      file_.refuse(begin_ + at_,
                   {"has ", here(), " in its header, where ", what,
                    " is expected: the file is damaged. Write it again by np.save()."});
    }
    ++at_;
  }
  std::string here() const {
    return at_ == text_.size() ? std::string{"the end"} : "\"" + shown(text_.substr(at_)) + "\"";
  }
  [[noreturn, gnu::cold]] void refuse(std::size_t at, std::string_view what) const {
    file_.refuse(begin_ + at, {"has ", what, " in its header, \"", shown(text_.substr(at)),
                               "\": the file is damaged, or of a later version of the format. "
                               "Write it again by np.save()."});
  }

  std::string_view string() {
    if (is_next('u') && text_.find_first_of("'\"", at_) == at_ + 1) {
      ++at_; // as Python 2 wrote some
    }
    const char quote = at_ == text_.size() ? '\0' : text_[at_];
    const std::size_t end =
        quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string_view::npos;
    if (end == std::string_view::npos) {
      file_.refuse(begin_ + at_, {"has ", here(),
                                  " in its header, where a string is expected: the file is "
                                  "damaged. Write it again by np.save()."});
    }
    const std::string_view text = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return text;
  }
  std::uint64_t number() {
    skip_spaces();
    const std::size_t first = at_;
    std::uint64_t value = 0;
    for (; at_ != text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, std::uint64_t{10}, &value) ||
          __builtin_add_overflow(value, static_cast<std::uint64_t>(text_[at_] - '0'), &value)) {
        refuse(first, "an extent of more than 64 bits");
      }
    }
    if (at_ == first || (text_[first] == '0' && at_ != first + 1)) {
      at_ = first;
      refuse(first, "no extent, a number of decimal digits,");
    }
    if (at_ != text_.size() && text_[at_] == 'L') {
      ++at_; // as Python 2 wrote some
    }
    return value;
  }

  void order(bool& fortran) {
    skip_spaces();
    fortran = text_.substr(at_, 4) == "True";
    if (!fortran && text_.substr(at_, 5) != "False") {
      refuse(at_, "neither True nor False for fortran_order");
    }
    at_ += fortran ? 4 : 5;
  }
  void shape(ArrayHeader& header) {
    take('(', "a tuple of extents");
    bool comma = true;
    while (!is_next(')')) {
      if (!comma) {
        take(',', "a comma");
      }
      if (header.dims == ArrayHeader::most_extents) {
        refuse(at_, "more than 64 extents");
      }
      header.extents[header.dims++] = number();
      comma = is_next(',');
      at_ += comma ? 1 : 0;
    }
    if (header.dims == 1 && !comma) {
      refuse(at_, "a number in brackets, and no tuple,");
    }
    ++at_;
  }
  void type(ArrayHeader& header) {
    if (is_next('[') || is_next('(')) {
      file_.refuse(begin_ + at_, {"begins an array of structures, ", here(),
                                  ": save each field as an array of its own, a['name'], and read "
                                  "them as columns."});
    }
    const std::size_t first = at_;
    const std::string_view text = string();
    if (const char* const cure = npy_cure(text)) {
      file_.refuse(begin_ + first, {"begins an array of ", cure});
    }
    const std::optional<NpyType> found = npy_type(text);
    if (!found) {
      file_.refuse(begin_ + first,
                   {"has values of type \"", shown(text),
                    "\", which is not read: convert them once, a.astype('float32')."});
    }
    header.type = found->type;
    header.swapped = found->swapped;
  }

  const HeaderFile& file_;
  std::string_view text_;
  std::uint64_t begin_;
  std::size_t at_ = 0;
};

/// Reads the header of a .npy file, of version 1, 2 or 3, as NumPy describes the format:
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Allocates at most 64
/// KiB. Throws SourceError.
[[gnu::cold]] inline ArrayHeader npy_header(const HeaderFile& file) {
  constexpr std::size_t most_bytes = std::size_t{64} << 10;
  if (!file.begins_with("\x93NUMPY")) {
    refuse_foreign(file);
    file.refuse(0,
                {"does not begin as a .npy file does: it is empty, damaged or of another format. "
                 "Write it again by np.save()."});
  }
  const auto version = file.number<std::uint8_t>(6);
  if (version < 1 || version > 3 || file.number<std::uint8_t>(7) != 0) {
    file.refuse(
        6, {"has version ", unsigned{version}, ".", unsigned{file.number<std::uint8_t>(7)},
            " of the .npy format, and 1.0, 2.0 and 3.0 are read: write it again by np.save()."});
  }
  const std::size_t begin = version == 1 ? 10 : 12;
  const std::uint64_t bytes =
      version == 1 ? file.number<std::uint16_t>(8) : file.number<std::uint32_t>(8);
  if (bytes > most_bytes) {
    file.refuse(8, {"says that its header has ", bytes, " bytes, more than the ", most_bytes,
                    " that are read: the file is damaged, or holds structures of very many fields. "
                    "Save each field as an array of its own."});
  }
  if (bytes > file.size() - begin) {
    file.refuse(8, {"says that its header has ", bytes, " bytes, and the file has ",
                    file.size() - begin, " more: it was cut. Write or fetch it again."});
  }
  Vector<std::byte> text(std::size_t{bytes});
  file.read(begin, {text.data(), text.size()});
  ArrayHeader header;
  NpyText{file, {reinterpret_cast<const char*>(text.data()), text.size()}, begin}.read(header);
  header.offset = begin + bytes;
  return header;
}

} // namespace penstock::detail
