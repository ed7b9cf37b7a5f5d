// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>

namespace penstock::tests {

/// A new, empty directory, removed at the end with all that is in it.
class TempDir {
 public:
  TempDir() {
    path_ = (std::filesystem::temp_directory_path() / "penstock_XXXXXX").string();
    if (!::mkdtemp(path_.data())) {
      throw std::system_error{errno, std::generic_category(), path_};
    }
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const noexcept { return path_; }
  /// Returns the path that `name` would have in it.
  std::string operator/(const std::string& name) const { return path_ + '/' + name; }

  /// Makes the file `name` of these bytes; returns its path.
  std::string write(const std::string& name, std::span<const std::byte> bytes) const {
    const std::string path = *this / name;
    std::ofstream file{path, std::ios::binary};
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) {
      throw std::system_error{errno, std::generic_category(), path};
    }
    return path;
  }
  std::string write(const std::string& name, const std::string& text) const {
    return write(name, std::as_bytes(std::span{text}));
  }

 private:
  std::string path_;
};

/// Returns the bytes of a file at once: byte by byte, a sanitizer would take most of a test's time.
inline std::string content_of(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  std::string bytes(std::filesystem::file_size(path), '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
    throw std::system_error{EIO, std::generic_category(), path};
  }
  return bytes;
}

} // namespace penstock::tests
