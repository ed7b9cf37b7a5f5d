// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/file.hpp"

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>

namespace penstock_bench {

/// Anonymous memory.
class Mapped {
 public:
  /// Asks for huge pages, or for none. They are there when it returns.
  static Mapped memory(std::uint64_t bytes, bool huge) {
    Mapped made{bytes};
    ::madvise(made.at_, made.bytes_, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return made;
  }
  Mapped(Mapped&& other) noexcept : at_{std::exchange(other.at_, nullptr)}, bytes_{other.bytes_} {}
  Mapped& operator=(Mapped&&) = delete;
  ~Mapped() {
    if (at_ != nullptr) {
      ::munmap(at_, bytes_);
    }
  }

  std::uint8_t* data() const { return static_cast<std::uint8_t*>(at_); }
  std::span<const Block> blocks() const {
    return {static_cast<const Block*>(at_), bytes_ / sizeof(Block)};
  }

 private:
  explicit Mapped(std::uint64_t bytes)
      : at_{::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)},
        bytes_{bytes} {
    if (at_ == MAP_FAILED) {
      throw std::system_error{errno, std::generic_category(),
                              "mmap of " + std::to_string(bytes) + " bytes"};
    }
  }

  void* at_;
  std::size_t bytes_;
};

/// Returns the sum of all 64-bit words of the file.
inline std::uint64_t words_of(const OpenFile& file, std::uint64_t bytes) {
  std::atomic<std::uint64_t> sum{0};
  in_chunks(bytes, [&](std::uint64_t at, std::span<std::uint8_t> buffer) {
    file.read(at, buffer);
    std::uint64_t part = 0;
    for (std::size_t i = 0; i < buffer.size(); i += sizeof part) {
      std::uint64_t word = 0;
      std::memcpy(&word, buffer.data() + i, sizeof word);
      part += word;
    }
    sum += part;
  });
  return sum;
}

} // namespace penstock_bench
