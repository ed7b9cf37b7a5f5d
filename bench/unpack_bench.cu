// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How fast does a GPU unpack what PackedWriter has packed, and how much more than a link carries
// comes out behind it?
//
// A run makes 512 MiB of values, in batches that four streams take in turn; each kind of values is
// packed by the codec that ColumnChoice takes for it, in chunks of 16 KiB. The label has the ratio.
// Bytes of values count. unpack/CONTENDER/BATCH:
//   link                plain copies to the GPU: the limit without packing
//   KIND_alone          the packed bytes are on the GPU
//   KIND_over_link      a batch's packed bytes and its chunks' descriptions are copied to it first
// KIND is weights (bfloat16 of N(0, 0.02)), tokens16 and tokens32 (the n-th of 50,257 and 131,072
// comes about 1 / n as often as the first), or bits (numbers below 131,072, equally often). Each
// byte is compared before anything is timed. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true.

#include "support/contender.hpp"
#include "support/gpu.hpp"

#include <penstock/cuda/unpack.cuh>
#include <penstock/formats/packed/detail/chunk_packer.hpp>
#include <penstock/formats/packed/detail/column_choice.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using Bytes = std::vector<std::byte>;

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t all_bytes = 512 * MiB;
constexpr std::size_t some_bytes = 32 * MiB; // that are made, and then repeated
constexpr std::size_t chunk_bytes = std::size_t{16} << 10;
constexpr std::size_t all_chunks = all_bytes / chunk_bytes;

template <class T, class F> Bytes made(F value) {
  Bytes bytes(some_bytes);
  for (std::size_t at = 0; at != some_bytes; at += sizeof(T)) {
    const auto its = static_cast<T>(value());
    std::memcpy(bytes.data() + at, &its, sizeof its);
  }
  return bytes;
}
Bytes weights() {
  std::mt19937_64 random{1};
  std::normal_distribution<float> normal{0.0F, 0.02F};
  return made<std::uint16_t>([&] {
    const float value = normal(random);
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    return word >> 16;
  });
}
template <class T> Bytes tokens(double vocabulary) {
  std::mt19937_64 random{2};
  std::uniform_real_distribution<double> share{0, std::log(vocabulary)};
  return made<T>([&] {
    const auto rank = static_cast<std::uint64_t>(std::exp(share(random))) - 1;
    return rank * 40'503 % static_cast<std::uint64_t>(vocabulary);
  });
}
Bytes numbers() {
  std::mt19937_64 random{3};
  return made<std::uint32_t>([&] { return random() >> 47; });
}

template <class T> DeviceBytes on_device(std::span<const T> values) {
  DeviceBytes there = make_on_device(std::max<std::size_t>(values.size_bytes(), 16));
  check(cudaMemcpy(there.get(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  return there;
}

/// Values, packed, in page-locked memory and on the GPU.
class Packed {
 public:
  Packed(ps::detail::ValueType type, Bytes some) : some_{std::move(some)} {
    ps::detail::ColumnChoice choice{type, chunk_bytes};
    choice.learn(some_);
    std::vector<ps::PackedTry> tried;
    ps::detail::ChunkPacker packer{type, choice.choose(tried)};
    const ps::detail::ColumnCode& code = packer.code();
    const ps::detail::CodeTables tables{type, code};
    tables_ = on_device(std::span<const std::uint32_t>{tables.numbers()});
    const ps::PackedCode its = tables.code(reinterpret_cast<const std::uint32_t*>(tables_.get()));
    Bytes packed;
    std::vector<ps::PackedChunk> chunks;
    const auto values = static_cast<std::uint32_t>(chunk_bytes / type.bytes);
    for (std::size_t i = 0; i != all_chunks; ++i) {
      const auto [codec, bytes] =
          packer.pack(std::span{some_}.subspan(i * chunk_bytes % some_bytes, chunk_bytes));
      places_.push_back(packed.size());
      chunks.push_back({.packed_bytes = static_cast<std::uint32_t>(bytes.size()),
                        .codec = codec,
                        .code = its,
                        .values = values,
                        .wanted = values});
      packed.insert(packed.end(), bytes.begin(), bytes.end());
      packed.resize((packed.size() + 15) / 16 * 16);
    }
    places_.push_back(packed.size());
    ratio_ = static_cast<double>(all_bytes) / static_cast<double>(packed.size());
    pinned_ = make_pinned(packed.size());
    std::memcpy(pinned_.get(), packed.data(), packed.size());
    there_ = on_device(std::span<const std::byte>{packed});
    out_ = make_on_device(all_bytes);
    for (std::size_t i = 0; i != all_chunks; ++i) {
      chunks[i].packed = reinterpret_cast<const std::byte*>(there_.get()) + places_[i];
      chunks[i].out = reinterpret_cast<std::byte*>(out_.get()) + i * chunk_bytes;
    }
    given_ = make_pinned(all_chunks * sizeof(ps::PackedChunk));
    std::memcpy(given_.get(), chunks.data(), all_chunks * sizeof(ps::PackedChunk));
    chunks_ = on_device(std::span<const ps::PackedChunk>{chunks});
    whole_ = make_on_device(all_chunks);
  }

  double ratio() const noexcept { return ratio_; }
  /// Enqueues a batch of chunks, copied before if `over_link`.
  void unpack(std::size_t first, std::size_t count, bool over_link, const Stream& stream) const {
    constexpr std::size_t each = sizeof(ps::PackedChunk);
    if (over_link) {
      copy_to_device(there_.get() + places_[first], pinned_.get() + places_[first],
                     places_[first + count] - places_[first], stream);
      copy_to_device(chunks_.get() + first * each, given_.get() + first * each, count * each,
                     stream);
    }
    ps::unpack(stream.get(), reinterpret_cast<const ps::PackedChunk*>(chunks_.get()) + first, count,
               whole_.get() + first);
  }
  void forget() const { check(cudaMemset(out_.get(), 0, all_bytes), "cudaMemset"); }
  /// Returns how many chunks are whole and right.
  std::uint64_t right() const {
    Bytes values(all_bytes);
    std::vector<std::uint8_t> whole(all_chunks);
    check(cudaMemcpy(values.data(), out_.get(), all_bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    check(cudaMemcpy(whole.data(), whole_.get(), all_chunks, cudaMemcpyDeviceToHost), "cudaMemcpy");
    std::uint64_t count = 0;
    for (std::size_t i = 0; i != all_chunks; ++i) {
      const std::byte* const expected = some_.data() + i * chunk_bytes % some_bytes;
      const bool same = std::memcmp(values.data() + i * chunk_bytes, expected, chunk_bytes) == 0;
      count += whole[i] == 1 && same ? 1U : 0U;
    }
    return count;
  }

 private:
  Bytes some_;
  std::vector<std::size_t> places_; // of each chunk's packed bytes, and their end
  double ratio_ = 1;
  DeviceBytes tables_, there_, out_, chunks_, whole_;
  PinnedBytes pinned_, given_;
};

class Unpacking : public Contender {
 public:
  Unpacking(const Packed& packed, std::size_t batch, bool over_link, bool checked)
      : packed_{packed}, batch_{batch / chunk_bytes}, over_link_{over_link}, checked_{checked} {}

  std::uint64_t run() override {
    if (checked_) {
      packed_.forget();
    }
    for (std::size_t at = 0; at != all_chunks; at += batch_) {
      packed_.unpack(at, batch_, over_link_, streams_[at / batch_ % streams_.size()]);
    }
    for (const Stream& stream : streams_) {
      sync(stream);
    }
    return checked_ ? packed_.right() : 0;
  }
  std::string label() const override { return "ratio " + std::to_string(packed_.ratio()); }

 private:
  const Packed& packed_;
  std::size_t batch_;
  bool over_link_;
  bool checked_;
  std::array<Stream, 4> streams_{make_stream(), make_stream(), make_stream(), make_stream()};
};

class Link : public Contender {
 public:
  std::uint64_t run() override {
    for (std::size_t at = 0; at != all_bytes; at += 32 * MiB) {
      copy_to_device(to_.get() + at, from_.get() + at, 32 * MiB, stream_);
    }
    sync(stream_);
    return 0;
  }

 private:
  PinnedBytes from_ = make_pinned(all_bytes);
  DeviceBytes to_ = make_on_device(all_bytes);
  Stream stream_ = make_stream();
};

void add_kind(const std::string& kind, const Packed& packed) {
  for (const bool over_link : {false, true}) {
    for (const std::size_t batch : {4, 32, 512}) {
      add(
          "unpack/" + kind + (over_link ? "_over_link/" : "_alone/") + std::to_string(batch) +
              "MiB",
          all_bytes, [] { return std::uint64_t{all_chunks}; },
          [&packed, batch, over_link](bool checked) {
            return std::make_unique<Unpacking>(packed, batch * MiB, over_link, checked);
          });
    }
  }
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    const Packed w{{'V', 2}, weights()};
    const Packed t16{{'u', 2}, tokens<std::uint16_t>(50'257)};
    const Packed t32{{'u', 4}, tokens<std::uint32_t>(131'072)};
    const Packed bits{{'u', 4}, numbers()};
    add(
        "unpack/link/32MiB", all_bytes, [] { return std::uint64_t{0}; },
        [](bool) { return std::make_unique<Link>(); });
    add_kind("weights", w);
    add_kind("tokens16", t16);
    add_kind("tokens32", t32);
    add_kind("bits", bits);
    return run_all();
  });
}
