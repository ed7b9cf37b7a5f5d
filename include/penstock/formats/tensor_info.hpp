// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// What the elements of a tensor are: all types that safetensors 0.8 names, in its order, which is
/// that of their sizes.
enum class TensorType : std::uint8_t {
  boolean,     ///< BOOL: a byte, 0 or 1.
  f4,          ///< F4: 4 bits, e2m1, two to a byte.
  f6_e2m3,     ///< F6_E2M3: 6 bits, four to three bytes.
  f6_e3m2,     ///< F6_E3M2: 6 bits, four to three bytes.
  u8,          ///< U8.
  i8,          ///< I8.
  f8_e5m2,     ///< F8_E5M2.
  f8_e4m3,     ///< F8_E4M3.
  f8_e8m0,     ///< F8_E8M0: a power of two.
  f8_e4m3fnuz, ///< F8_E4M3FNUZ: without infinities and -0.
  f8_e5m2fnuz, ///< F8_E5M2FNUZ: without infinities and -0.
  i16,         ///< I16.
  u16,         ///< U16.
  f16,         ///< F16: IEEE's half.
  bf16,        ///< BF16: the upper half of a float.
  i32,         ///< I32.
  u32,         ///< U32.
  f32,         ///< F32.
  c64,         ///< C64: two floats, real and imaginary part.
  f64,         ///< F64.
  i64,         ///< I64.
  u64,         ///< U64.
};

namespace detail {

struct TensorTypeRow {
  std::string_view name;
  unsigned bits;
};
inline constexpr std::array<TensorTypeRow, 22> tensor_types{
    {{"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
     {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
     {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
     {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
     {"I64", 64},        {"U64", 64}}};
static_assert(tensor_types.size() == static_cast<std::size_t>(TensorType::u64) + 1);

} // namespace detail

/// Returns how many bits one element takes.
constexpr unsigned bits_of(TensorType type) noexcept {
  return detail::tensor_types[static_cast<std::size_t>(type)].bits;
}
/// Returns the type's name as safetensors writes it, such as "BF16".
constexpr std::string_view name_of(TensorType type) noexcept {
  return detail::tensor_types[static_cast<std::size_t>(type)].name;
}

/// A tensor of a file: what it is, and where its bytes lie. These are little-endian, row by row,
/// without gaps.
struct TensorInfo {
  std::string name;                 ///< Its name, in UTF-8.
  TensorType type{};                ///< What its elements are.
  std::vector<std::uint64_t> shape; ///< Its extents, the slowest first; none: one element.
  std::size_t file{};               ///< The number of its file, from 0, in the source's files().
  std::uint64_t offset{};           ///< Where it begins, in bytes from the file's start.
  std::uint64_t bytes{};            ///< How many bytes it has.
  std::uint64_t at{};               ///< Where it begins in the source, in bytes.
};

} // namespace penstock
