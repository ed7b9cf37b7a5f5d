// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/file.hpp>
#if defined(EXAMPLES_HAVE_CURL)
#include <penstock/io/http.hpp>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <span>
#include <streambuf>
#include <string>

/// What 15_inspect reads files with, and URLs, if there is libcurl.
/// @{
#if defined(EXAMPLES_HAVE_CURL)
using InputIo = penstock::HttpIo;
#else
using InputIo = penstock::PosixIo;
#endif
inline const InputIo& input_io() {
  static const InputIo io;
  return io;
}
/// @}

/// Returns whether a path, or a URL, names a file. Throws what the Io does.
inline bool is_file(const std::string& path) {
  penstock::FileStatus status;
  return input_io().status(path.c_str(), status) == 0 && status.kind == penstock::FileKind::regular;
}

/// A file's bytes for a stream.
class InputBuffer : public std::streambuf {
 public:
  explicit InputBuffer(const std::string& path) : file_{input_io(), path} {}

 private:
  int_type underflow() override {
    const auto some =
        static_cast<std::size_t>(std::min<std::uint64_t>(piece_.size(), file_.size() - next_));
    penstock::read_full(file_, next_, std::as_writable_bytes(std::span{piece_}.first(some)));
    next_ += some;
    setg(piece_.data(), piece_.data(), piece_.data() + some);
    return some == 0 ? traits_type::eof() : traits_type::to_int_type(piece_[0]);
  }
  pos_type seekoff(off_type by, std::ios::seekdir from, std::ios::openmode mode) override {
    const auto here = static_cast<off_type>(next_) - (egptr() - gptr());
    const auto size = static_cast<off_type>(file_.size());
    return seekpos(by + (from == std::ios::cur ? here : from == std::ios::end ? size : 0), mode);
  }
  pos_type seekpos(pos_type to, std::ios::openmode) override {
    const auto at = static_cast<std::uint64_t>(off_type{to});
    if (at > file_.size()) {
      return pos_type{off_type{-1}};
    }
    next_ = at;
    setg(nullptr, nullptr, nullptr);
    return to;
  }

  penstock::File<InputIo> file_;
  std::uint64_t next_ = 0; // byte behind the piece
  std::array<char, std::size_t{64} << 10> piece_{};
};

/// A file as a stream. Throws what File does.
class InputFile : private InputBuffer, public std::istream {
 public:
  explicit InputFile(const std::string& path) : InputBuffer{path}, std::istream{this} {
    exceptions(std::ios::badbit); // so that an error of reading is thrown on
  }
};
