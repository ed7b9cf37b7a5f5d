// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// loader.hpp: nothing of penstock is seen here
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

/// The bytes of a file as numbers from 0 to 1, batch by batch.
class Loader {
 public:
  Loader(const std::string& path, std::size_t batch);
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;
  ~Loader();

  /// Good until the next call. Empty at the end; the call after that begins anew.
  std::span<const float> next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The same numbers into a new file.
class Converter {
 public:
  Converter(const std::string& from, const std::string& to);
  ~Converter();

  /// Returns how many numbers the file has.
  std::uint64_t run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
