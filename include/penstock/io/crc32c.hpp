// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define PENSTOCK_CRC32C_TARGET "sse4.2"
#else
#include <arm_acle.h>
#include <sys/auxv.h>
#define PENSTOCK_CRC32C_TARGET "+crc"
#endif

namespace penstock {
namespace detail {

/// Goes on with the sum by eight tables, on any processor.
std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes, std::uint32_t sum);

/// Whether the processor has an instruction for it: x86 from SSE4.2 on, most of Arm's.
bool has_crc32c() noexcept;
/// Goes on with the sum by that instruction.
[[gnu::target(PENSTOCK_CRC32C_TARGET)]] std::uint32_t
crc32c_by_instruction(std::span<const std::byte> bytes, std::uint32_t before);

/// Goes on with the sum by eight bytes. It stays in 64 bits, as x86 has it.
[[gnu::target(PENSTOCK_CRC32C_TARGET)]] inline std::uint64_t crc32c_of(std::uint64_t sum,
                                                                       std::uint64_t word) {
#if defined(__x86_64__)
  return _mm_crc32_u64(sum, word);
#else
  return __crc32cd(static_cast<std::uint32_t>(sum), word);
#endif
}

#if PENSTOCK_BODIES
PENSTOCK_INLINE bool has_crc32c() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") != 0;
#else
  return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#endif
}

/// What so many bytes of zero behind it do to a sum: it is linear in the sum's bits.
template <std::size_t Zeros> class Crc32cBehind {
 public:
  [[gnu::target(PENSTOCK_CRC32C_TARGET)]] Crc32cBehind() {
    for (unsigned bit = 0; bit != 32; ++bit) {
      std::uint64_t sum = std::uint64_t{1} << bit;
      for (std::size_t i = 0; i != Zeros / 8; ++i) {
        sum = crc32c_of(sum, 0);
      }
      for (unsigned byte = 0; byte != 256; ++byte) {
        of_[bit / 8][byte] ^= (byte >> bit % 8 & 1) != 0 ? static_cast<std::uint32_t>(sum) : 0;
      }
    }
  }
  std::uint32_t operator()(std::uint64_t sum) const noexcept {
    return of_[0][sum & 0xFF] ^ of_[1][sum >> 8 & 0xFF] ^ of_[2][sum >> 16 & 0xFF] ^
           of_[3][sum >> 24 & 0xFF];
  }

 private:
  std::array<std::array<std::uint32_t, 256>, 4> of_{};
};

PENSTOCK_INLINE std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes,
                                               std::uint32_t sum) {
  using Tables = std::array<std::array<std::uint32_t, 256>, 8>;
  // tables[n][b] is what byte b does to the sum with n bytes of zero behind it.
  static const Tables tables = [] {
    Tables all{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t of_byte = byte;
      for (int bit = 0; bit < 8; ++bit) {
        of_byte = of_byte >> 1 ^ ((of_byte & 1) != 0 ? 0x82F6'3B78U : 0);
      }
      all[0][byte] = of_byte;
    }
    for (std::size_t n = 1; n < 8; ++n) {
      for (std::size_t byte = 0; byte < 256; ++byte) {
        const std::uint32_t before = all[n - 1][byte];
        all[n][byte] = before >> 8 ^ all[0][before & 0xFF];
      }
    }
    return all;
  }();
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const std::uint32_t low = sum ^ (byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24);
    sum = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^
          tables[4][low >> 24] ^ tables[3][byte(4)] ^ tables[2][byte(5)] ^ tables[1][byte(6)] ^
          tables[0][byte(7)];
  }
  for (std::size_t i = 0; i != bytes.size(); ++i) {
    sum = sum >> 8 ^ tables[0][(sum ^ byte(i)) & 0xFF];
  }
  return sum;
}

PENSTOCK_INLINE std::uint32_t crc32c_by_instruction(std::span<const std::byte> bytes,
                                                    std::uint32_t before) {
  // On x86 the instruction takes three cycles, and one can begin in each: so three sums side by
  // side.
  constexpr std::size_t part = 512;
  static const Crc32cBehind<part> behind;
  const auto word = [&](std::size_t at) {
    std::uint64_t its;
    std::memcpy(&its, bytes.data() + at, sizeof its);
    return its;
  };
  std::uint64_t sum = before;
  for (; bytes.size() >= 3 * part; bytes = bytes.subspan(3 * part)) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t at = 0; at != part; at += 8) {
      sum = crc32c_of(sum, word(at));
      second = crc32c_of(second, word(part + at));
      third = crc32c_of(third, word(2 * part + at));
    }
    sum = behind(behind(sum) ^ second) ^ third;
  }
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    sum = crc32c_of(sum, word(0));
  }
  auto last = static_cast<std::uint32_t>(sum);
  for (const std::byte byte : bytes) {
#if defined(__x86_64__)
    last = _mm_crc32_u8(last, std::to_integer<std::uint8_t>(byte));
#else
    last = __crc32cb(last, std::to_integer<std::uint8_t>(byte));
#endif
  }
  return last;
}
#endif

} // namespace detail

/// Returns the CRC-32C (RFC 3720, B.4) of these bytes, behind others whose CRC-32C is `before`. Any
/// thread. Takes some 15 GB/s on one thread by x86's instruction, a tenth without one.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

#if PENSTOCK_BODIES
PENSTOCK_INLINE std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  static const bool by_instruction = detail::has_crc32c();
  return ~(by_instruction ? detail::crc32c_by_instruction(bytes, ~before)
                          : detail::crc32c_by_tables(bytes, ~before));
}
#endif

} // namespace penstock

#undef PENSTOCK_CRC32C_TARGET
