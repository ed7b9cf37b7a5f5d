// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>

#include <unistd.h>

/// 256 MiB of words in a temporary file that is removed with this object. The words are made of
/// syllables, short ones are more frequent, and every run makes the same.
class TextLikeFile {
 public:
  explicit TextLikeFile(bool wanted) {
    if (!wanted) {
      return;
    }
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string{folder && *folder ? folder : "/tmp"} + "/02_histogram_XXXXXX";
    const int file = ::mkstemp(path_.data());
    if (file < 0) {
      throw std::system_error{errno, std::generic_category(), "cannot make " + path_};
    }
    std::string text;
    std::uint64_t random = 42;
    for (std::size_t written = 0; written < bytes; written += text.size()) {
      fill(text, random);
      text.resize(std::min(text.size(), bytes - written));
      if (::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        const int error = errno;
        ::close(file);
        ::unlink(path_.c_str());
        throw std::system_error{error, std::generic_category(),
                                "cannot write 256 MiB to " + path_ + " (see TMPDIR)"};
      }
    }
    ::close(file);
  }
  TextLikeFile(const TextLikeFile&) = delete;
  TextLikeFile& operator=(const TextLikeFile&) = delete;
  ~TextLikeFile() {
    if (!path_.empty()) {
      ::unlink(path_.c_str());
    }
  }

  const std::string& path() const noexcept { return path_; }

 private:
  static constexpr std::size_t bytes = std::size_t{256} << 20;

  static void fill(std::string& text, std::uint64_t& random) {
    static constexpr const char* consonants = "tnshrdlcmwfgypbvk";
    static constexpr const char* vowels = "eaoiu";
    text.clear();
    while (text.size() < std::size_t{1} << 20) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      std::uint64_t bits = random >> 24;
      // The minimum of two draws favours the first letters.
      for (std::uint64_t left = 1 + std::min(bits % 4, bits / 4 % 4); left != 0; --left) {
        bits /= 16;
        text += consonants[std::min(bits % 17, bits / 17 % 17)];
        text += vowels[std::min(bits / 3 % 5, bits / 7 % 5)];
      }
      text += random >> 60 == 0 ? (random >> 59 & 1) != 0 ? ".\n" : ", " : " ";
    }
  }

  std::string path_;
};
