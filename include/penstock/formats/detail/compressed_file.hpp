// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/codec.hpp>
#include <penstock/io/file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// The frames of a file, one after the other, as one stream of what comes out of them. `Input` has
/// path(), size() and read(offset, into). One thread at a time.
template <Codec C, class Input> class CompressedStream {
 public:
  /// What messages call what comes out.
  static constexpr const char* inside = "what comes out";

  /// Reads nothing yet.
  CompressedStream(Input input, C codec)
      : input_{std::move(input)}, codec_{std::move(codec)},
        piece_(static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, input_.size()))) {}

  /// Decompresses bytes into `into`, until it is full or the file ends. Returns how many. Throws
  /// SourceError with the place in the file of what is damaged or cut.
  std::size_t read(std::span<std::byte> into) {
    std::size_t made = 0;
    while (made != into.size()) {
      if (left_.empty() && at_ != input_.size()) {
        fill();
      }
      if (left_.empty() && !inside_) {
        break;
      }
      const Decompressed got = codec_.feed(left_, into.subspan(made));
      if (got.state == Decompressed::State::damaged) {
        refuse({"has ", got.why, "."});
      }
      left_ = left_.subspan(got.used);
      made += got.made;
      inside_ = got.state == Decompressed::State::more;
      if (inside_ && got.used == 0 && got.made == 0) {
        stuck();
      }
    }
    return made;
  }

  const std::string& path() const noexcept { return input_.path(); }
  /// Returns the byte of the file where decompressing stands.
  std::uint64_t offset() const noexcept { return at_ - left_.size(); }
  /// Throws SourceError that says this of the file, at that byte.
  [[noreturn, gnu::cold]] void refuse(std::initializer_list<TextPart> what) const {
    throw_source_error(
        {"penstock: ", path(), " at byte ", offset(), " (", C::name, "): ", joined(what)}, path(),
        offset());
  }

 private:
  static constexpr std::size_t piece_bytes = std::size_t{128} << 10;

  void fill() {
    const auto some = std::span{piece_}.first(
        static_cast<std::size_t>(std::min<std::uint64_t>(piece_.size(), input_.size() - at_)));
    input_.read(at_, some);
    at_ += some.size();
    left_ = some;
  }
  [[gnu::cold]] void stuck() const {
    if (left_.empty() && at_ == input_.size()) {
      refuse({"the file ends in the middle of a frame: it was cut. Copy or download it again."});
    }
    if (!left_.empty()) {
      refuse({"nothing comes of the bytes here: the file is damaged. Copy or download it again."});
    }
  }

  Input input_;
  C codec_;
  std::vector<std::byte> piece_;
  std::span<const std::byte> left_; // of the piece
  std::uint64_t at_{};              // behind the piece
  bool inside_{};                   // a frame
};

/// A file as a CompressedStream reads it.
template <class Io> class CompressedInput {
 public:
  CompressedInput(const Io& io, const std::string& path) : file_{io, path} {}

  const std::string& path() const noexcept { return file_.path(); }
  std::uint64_t size() const noexcept { return file_.size(); }
  void read(std::uint64_t at, std::span<std::byte> into) const { read_full(file_, at, into); }

 private:
  File<Io> file_;
};

} // namespace penstock::detail
