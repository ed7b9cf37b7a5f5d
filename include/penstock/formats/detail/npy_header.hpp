// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/vector.hpp>
#include <penstock/formats/detail/array_header.hpp>
#include <penstock/formats/detail/npy_type.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::detail {

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
