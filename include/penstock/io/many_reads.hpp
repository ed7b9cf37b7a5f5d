// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/owned.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace penstock {

/// A part of a file that is to be read.
struct FileRead {
  std::size_t file{};        ///< Which of the files.
  std::uint64_t offset{};    ///< Where in it.
  std::span<std::byte> into; ///< Where to; not empty.
  std::size_t got{};         ///< How many bytes came, from the first on.
};

/// Whether an Io reads many parts of files at once, as UringIo does. Its type ManyReads is made
/// once for some files: `ManyReads(io, descriptors)`, a std::span<const int>, with -1 for a file
/// that it is to leave alone. It has
/// - `most`: how many parts it takes at once;
/// - `most_bytes`: the bytes of the largest record that gains by it;
/// - `usable()`: whether it reads anything at all;
/// - `read(std::span<FileRead> parts)`: reads what it can of these, of whole parts, some bytes, or
///   none, and sets `got`. When it returns, nothing more is written to them. Whoever calls it reads
///   the rest as if there were no ManyReads, so it has no errors. Any number of threads at once;
/// - `note()`: returns for the Report's note what became of it, perhaps nothing. Any thread.
template <class Io>
concept ReadsMany =
    std::constructible_from<typename Io::ManyReads, const Io&, std::span<const int>> &&
    requires(typename Io::ManyReads& many, std::span<FileRead> parts) {
      { std::as_const(many).usable() } noexcept -> std::same_as<bool>;
      { many.read(parts) } noexcept;
      { std::as_const(many).note() } -> std::same_as<std::string>;
    };

namespace detail {

/// What Io reads many parts of files with; nothing if it cannot.
template <class Io> struct ManyReadsOf {};
template <ReadsMany Io> struct ManyReadsOf<Io> {
  Owned<typename Io::ManyReads> many;
};

} // namespace detail
} // namespace penstock
