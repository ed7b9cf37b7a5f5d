// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/utf8.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

// Each target is a function of the input. libFuzzer needs one by a name of its own, and fuzz_replay
// calls all: tests/run_fuzz sets PENSTOCK_FUZZ_ALONE.
#if defined(PENSTOCK_FUZZ_ALONE)
#define PENSTOCK_FUZZ_TARGET(name)                                                                 \
  namespace penstock::tests {                                                                      \
  static void name(std::span<const std::byte> input);                                              \
  }                                                                                                \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {              \
    penstock::tests::name(std::as_bytes(std::span{data, size}));                                   \
    return 0;                                                                                      \
  }                                                                                                \
  static void penstock::tests::name(std::span<const std::byte> input)
#else
#define PENSTOCK_FUZZ_TARGET(name)                                                                 \
  namespace penstock::tests {                                                                      \
  void name(std::span<const std::byte> input);                                                     \
  }                                                                                                \
  void penstock::tests::name(std::span<const std::byte> input)
#endif

namespace penstock::tests {

/// Ends the program unless `holds`.
inline void must(bool holds) {
  if (!holds) {
    std::abort();
  }
}

/// Calls f with the input as a file of `size` bytes, those behind the input being 0. f may throw
/// SourceErrors alone, which name the file, or its member a.npy, and a byte of it, and which print.
template <class F> void as_file(std::span<const std::byte> input, std::uint64_t size, F f) {
  const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
    must(at <= size && into.size() <= size - at);
    for (std::size_t i = 0; i != into.size(); ++i) {
      into[i] = at + i < input.size() ? input[at + i] : std::byte{0};
    }
  };
  try {
    f(detail::HeaderFile{"FILE", size, read});
  } catch (const SourceError& e) {
    const std::string said = e.what();
    must(e.file() == "FILE" && e.offset() <= size);
    must(said.starts_with("penstock: FILE at byte ") ||
         said.starts_with("penstock: a.npy in FILE at byte "));
    must(said.size() < 2000);
    for (std::string_view left = said; !left.empty();) {
      const std::size_t bytes = detail::utf8_bytes(left);
      must(bytes != 0 && detail::is_printed(left, bytes));
      left.remove_prefix(bytes);
    }
  }
}

} // namespace penstock::tests
