// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/float16.hpp>
#include <penstock/data/packed.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/formats/packed/detail/chunk_packer.hpp>
#include <penstock/formats/packed/detail/column_choice.hpp>
#include <penstock/formats/packed/detail/column_code.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace penstock::tests {

using Bytes = std::vector<std::byte>;

/// Records of several columns, one of them with an extent that only its file knows.
struct Sample : Columns<Field<"image", std::uint8_t, 3, dynamic>, Field<"label", std::int32_t>,
                        Field<"weight", BFloat16, 2>> {};

template <class T> Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span{values});
  return {bytes.begin(), bytes.end()};
}

/// Values of a kind that data have, and the type that files give them.
struct SomeValues {
  std::string name;
  detail::ValueType type;
  PackedCodec pays; // the codec that makes them smallest
  Bytes bytes;
};

/// Returns `count` tokens below `vocabulary`, the k-th most frequent one about 1 / k as often.
template <class T> std::vector<T> zipf_tokens(std::size_t count, std::uint32_t vocabulary) {
  std::mt19937_64 random{vocabulary};
  const double top = std::log(static_cast<double>(vocabulary));
  std::vector<T> tokens(count);
  for (T& token : tokens) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    const auto rank = static_cast<std::uint32_t>(std::exp(u * top)) - 1;
    token = static_cast<T>(std::uint64_t{rank} * 40'503 % vocabulary); // scattered
  }
  return tokens;
}
/// Returns `count` numbers below `kinds`, of which each comes from what the one before was: of
/// three groups one follows the other, four times in five, and within a group small ones are
/// frequent.
template <class T> std::vector<T> following(std::size_t count, std::uint32_t kinds) {
  std::mt19937_64 random{kinds};
  std::vector<T> values(count);
  std::uint64_t group = 0;
  for (T& value : values) {
    group = random() % 5 != 0 ? (group + 1) % 3 : random() % 3;
    const std::uint64_t most = random() % (kinds / 3) + 1;
    value = static_cast<T>(random() % most * 3 + group);
  }
  return values;
}
/// Returns normal values of this deviation as bfloat16's or, `half`, as halves whose exponents lie
/// alike.
inline std::vector<std::uint16_t> normal_16(std::size_t count, float deviation, bool half) {
  std::mt19937_64 random{count};
  std::normal_distribution<float> normal{0.F, deviation};
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) {
    const float single = normal(random);
    std::uint32_t word;
    std::memcpy(&word, &single, sizeof word);
    const std::uint32_t exponent = std::clamp(word >> 23 & 0xFF, 113U, 142U) - 112;
    value = static_cast<std::uint16_t>(
        half ? (word >> 31 << 15) | exponent << 10 | (word >> 13 & 0x3FF) : word >> 16);
  }
  return values;
}

/// Returns values for each codec, `count` of each kind.
inline std::vector<SomeValues> some_values(std::size_t count) {
  std::mt19937_64 random{7};
  std::vector<float> noise(count);
  std::normal_distribution<float> normal;
  std::generate(noise.begin(), noise.end(), [&] { return normal(random); });
  std::vector<std::uint8_t> text(count);
  std::generate(text.begin(), text.end(), [&] {
    return static_cast<std::uint8_t>('a' + std::min(random() % 26, random() % 26));
  });
  std::vector<std::int64_t> times(count);
  for (std::size_t i = 0; i != count; ++i) {
    times[i] = -5'000'000'000 + static_cast<std::int64_t>(i * 1000 + random() % 999);
  }
  std::vector<std::int8_t> small(count);
  std::generate(small.begin(), small.end(),
                [&] { return static_cast<std::int8_t>(static_cast<int>(random() % 16) - 8); });
  std::vector<std::uint32_t> uniform(count);
  std::generate(uniform.begin(), uniform.end(),
                [&] { return static_cast<std::uint32_t>(random() >> 47); });
  return {
      {"noise", {'f', 4}, PackedCodec::raw, bytes_of(noise)},
      {"text", {'u', 1}, PackedCodec::bytes, bytes_of(text)},
      {"times", {'i', 8}, PackedCodec::bits, bytes_of(times)},
      {"small", {'i', 1}, PackedCodec::bits, bytes_of(small)},
      {"uniform", {'u', 4}, PackedCodec::bits, bytes_of(uniform)},
      {"weights", {'V', 2}, PackedCodec::float16, bytes_of(normal_16(count, 0.02F, false))},
      {"halves", {'f', 2}, PackedCodec::float16, bytes_of(normal_16(count, 0.5F, true))},
      {"tokens",
       {'u', 2},
       PackedCodec::ranked,
       bytes_of(zipf_tokens<std::uint16_t>(count, 30'000))},
      {"wide", {'u', 4}, PackedCodec::ranked, bytes_of(zipf_tokens<std::uint32_t>(count, 30'000))},
      {"letters", {'u', 1}, PackedCodec::classes, bytes_of(following<std::uint8_t>(count, 90))},
      {"words", {'u', 2}, PackedCodec::classes, bytes_of(following<std::uint16_t>(count, 600))},
      {"more", {'i', 4}, PackedCodec::classes, bytes_of(following<std::int32_t>(count, 600))},
  };
}

/// A column of values that is packed in memory.
class PackedInMemory {
 public:
  static constexpr std::size_t chunk_bytes = std::size_t{16} << 10;

  PackedInMemory(detail::ValueType type, std::span<const std::byte> values,
                 const detail::ColumnCode& code)
      : tables_{type, code} {
    detail::ChunkPacker packer{type, code};
    while (!values.empty()) {
      const auto chunk = values.first(std::min(chunk_bytes, values.size()));
      values = values.subspan(chunk.size());
      const auto [codec, packed] = packer.pack(chunk);
      chunks_.push_back({codec, aligned(packed), static_cast<std::uint32_t>(packed.size()),
                         static_cast<std::uint32_t>(chunk.size() / type.bytes)});
      packed_bytes_ += packed.size();
    }
  }

  std::size_t size() const { return chunks_.size(); }
  std::size_t packed_bytes() const { return packed_bytes_; }
  const detail::CodeTables& tables() const { return tables_; }
  /// Returns chunk number `i` as a whole, which goes to `out`.
  PackedChunk chunk(std::size_t i, std::byte* out) const {
    const Chunk& its = chunks_[i];
    return {.packed = reinterpret_cast<const std::byte*>(its.packed.data()),
            .packed_bytes = its.packed_bytes,
            .codec = its.codec,
            .code = tables_.code(),
            .values = its.values,
            .first = 0,
            .wanted = its.values,
            .out = out};
  }

 private:
  struct alignas(16) Sixteen {
    std::byte of[16];
  };
  struct Chunk {
    PackedCodec codec;
    std::vector<Sixteen> packed;
    std::uint32_t packed_bytes;
    std::uint32_t values;
  };
  static std::vector<Sixteen> aligned(std::span<const std::byte> bytes) {
    std::vector<Sixteen> copy((bytes.size() + 15) / 16);
    if (!bytes.empty()) {
      std::memcpy(copy.data(), bytes.data(), bytes.size());
    }
    return copy;
  }

  detail::CodeTables tables_;
  std::vector<Chunk> chunks_;
  std::size_t packed_bytes_ = 0;
};

/// Returns the values packed as their ColumnChoice says.
inline PackedInMemory packed_in_memory(const SomeValues& values) {
  detail::ColumnChoice choice{values.type, PackedInMemory::chunk_bytes};
  choice.learn(values.bytes);
  std::vector<PackedTry> tried;
  return {values.type, values.bytes, choice.choose(tried)};
}

} // namespace penstock::tests
