// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <unistd.h>

/// A file in TMPDIR, or /tmp, that is removed with this object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view contents) {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string{folder && *folder ? folder : "/tmp"} + "/penstock_XXXXXX";
    const int file = ::mkstemp(path_.data());
    if (file < 0) {
      throw std::system_error{errno, std::generic_category(), "cannot make " + path_};
    }
    ::close(file);
    if (!std::ofstream{path_, std::ios::binary}.write(
            contents.data(), static_cast<std::streamsize>(contents.size()))) {
      ::unlink(path_.c_str());
      throw std::runtime_error{"cannot write " + path_ + " (see TMPDIR)"};
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { ::unlink(path_.c_str()); }

  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};
