// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/packed.hpp>
#include <penstock/formats/packed/detail/chunk_packer.hpp>
#include <penstock/formats/packed/detail/column_code.hpp>
#include <penstock/formats/packed/detail/rans_encoder.hpp>
#include <penstock/formats/packed/detail/value_classes.hpp>
#include <penstock/formats/packed/packed_info.hpp>
#include <penstock/io/detail/opening.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What is known of a column's values: how often they come, and chunks of them to try codecs on.
class ColumnChoice {
 public:
  ColumnChoice(ValueType type, std::size_t chunk_bytes) : type_{type}, chunk_bytes_{chunk_bytes} {}

  bool learned() const noexcept { return learned_ != 0; }

  /// Counts whole values, on so many threads.
  void learn(std::span<const std::byte> values, unsigned workers = 1) {
    for (auto rest = values; !rest.empty();) {
      const std::size_t begun = learned_ % chunk_bytes_;
      const auto some = rest.first(std::min(chunk_bytes_ - begun, rest.size()));
      if (begun == 0 && samples_.size() == most_samples) {
        halve_samples();
      }
      if (learned_ / chunk_bytes_ % every_ == 0) {
        if (begun == 0) {
          samples_.emplace_back();
        }
        samples_.back().insert(samples_.back().end(), some.begin(), some.end());
      }
      learned_ += some.size();
      rest = rest.subspan(some.size());
    }
    const std::size_t chunks = (values.size() + chunk_bytes_ - 1) / chunk_bytes_;
    const std::size_t parts = std::min<std::size_t>(workers, chunks / least_chunks);
    if (parts < 2) {
      return count(values);
    }
    std::vector<ColumnChoice> others(parts, ColumnChoice{type_, chunk_bytes_});
    const auto count_part = [&](std::size_t i) {
      const std::size_t begin = chunks * i / parts * chunk_bytes_;
      const std::size_t end = std::min(chunks * (i + 1) / parts * chunk_bytes_, values.size());
      others[i].count(values.subspan(begin, end - begin));
    };
    for_all(parts, count_part, [] {}, parts).rethrow_at(0);
    for (const ColumnChoice& other : others) {
      add(other);
    }
  }

  /// Tries each codec that fits the type on the samples. Returns the one that needs the fewest
  /// bytes, and puts each one's ratio into `tried`; raw, unless another needs a fiftieth less, and
  /// a simple one, unless one that is slower to unpack needs a hundredth less.
  ColumnCode choose(std::vector<PackedTry>& tried) const {
    ColumnCode best;
    if (!learned()) {
      return best;
    }
    double most = 1.02;
    for (ColumnCode& code : candidates()) {
      if (code.codec == PackedCodec::raw) {
        continue; // a codec that does not fit after all
      }
      const double ratio = ratio_of(code);
      tried.push_back({code.codec, ratio});
      if (ratio > most) {
        most = ratio * 1.01;
        best = std::move(code);
      }
    }
    return best.codec == PackedCodec::classes ? by_classes(1) : best;
  }

 private:
  static constexpr std::size_t most_samples = 128;
  static constexpr std::size_t least_chunks = 64; // that pay for a thread

  bool has_ranks() const noexcept {
    return (type_.kind == 'u' || type_.kind == 'i') && (type_.bytes == 2 || type_.bytes == 4);
  }

  void count(std::span<const std::byte> chunk) {
    if (type_.bytes == 1) {
      for (const std::byte value : chunk) {
        ++symbols_[std::to_integer<std::size_t>(value)];
      }
    }
    if (type_.bytes == 2) {
      const bool turned = is_turned(type_);
      for (std::size_t i = 0; i != chunk.size(); i += 2) {
        std::uint16_t value;
        std::memcpy(&value, chunk.data() + i, sizeof value);
        ++symbols_[turned_value(value, turned) >> 8];
      }
    }
    if (has_ranks() && all_rank_) {
      type_.bytes == 2 ? count_values<std::uint16_t>(chunk) : count_values<std::uint32_t>(chunk);
    }
  }
  /// Leaves every second one, so that they lie evenly.
  void halve_samples() {
    for (std::size_t i = 1; i != most_samples / 2; ++i) {
      samples_[i] = std::move(samples_[2 * i]);
    }
    samples_.resize(most_samples / 2);
    every_ *= 2;
  }
  /// Adds what another one has counted.
  void add(const ColumnChoice& other) {
    for (std::size_t symbol = 0; symbol != symbols_.size(); ++symbol) {
      symbols_[symbol] += other.symbols_[symbol];
    }
    all_rank_ = all_rank_ && other.all_rank_;
    counts_.resize(all_rank_ ? std::max(counts_.size(), other.counts_.size()) : 0);
    for (std::size_t value = 0; all_rank_ && value != other.counts_.size(); ++value) {
      counts_[value] += other.counts_[value];
    }
  }
  template <class T> void count_values(std::span<const std::byte> chunk) {
    for (std::size_t i = 0; i != chunk.size(); i += sizeof(T)) {
      T value;
      std::memcpy(&value, chunk.data() + i, sizeof value);
      if (value >= counts_.size()) {
        all_rank_ = value < packed_most_ranks;
        if (!all_rank_) {
          counts_ = {};
          return;
        }
        counts_.resize(std::min<std::size_t>(
            packed_most_ranks, std::max<std::size_t>(std::size_t{value} + 1, 2 * counts_.size())));
      }
      ++counts_[value];
    }
  }

  std::vector<ColumnCode> candidates() const {
    std::vector<ColumnCode> all;
    all.push_back({PackedCodec::bits});
    if (type_.bytes == 1) {
      all.push_back({PackedCodec::bytes, {RansFrequencies::of_counts(symbols_)}});
    }
    if (type_ == ValueType{'V', 2} || type_ == ValueType{'f', 2}) {
      all.push_back({PackedCodec::float16, {RansFrequencies::of_counts(symbols_)}});
    }
    if (has_ranks() && all_rank_) {
      all.push_back(by_ranks());
    }
    if (type_.bytes == 1 || (has_ranks() && all_rank_)) {
      all.push_back(by_classes(tried_every()));
    }
    return all;
  }
  template <class Counts> static std::vector<std::uint32_t> by_frequency(const Counts& counts) {
    std::vector<std::uint32_t> values;
    for (std::uint32_t value = 0; value != counts.size(); ++value) {
      if (counts[value] != 0) {
        values.push_back(value);
      }
    }
    std::sort(values.begin(), values.end(), [&](std::uint32_t a, std::uint32_t b) {
      return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
    });
    return values;
  }
  ColumnCode by_ranks() const {
    ColumnCode code{.codec = PackedCodec::ranked, .ranked = by_frequency(counts_)};
    std::array<std::uint64_t, rans_symbols> symbols{};
    for (std::uint32_t rank = 0; rank != code.ranked.size(); ++rank) {
      symbols[RankCode::of(rank).symbol] += counts_[code.ranked[rank]];
    }
    code.frequencies = {RansFrequencies::of_counts(symbols)};
    return code;
  }
  /// Samples from number 0 on, each `tried_every()`-th, make classes to try; the others try codecs,
  /// as classes fit samples that made them too well.
  std::size_t tried_every() const noexcept { return samples_.size() < 4 ? 1 : 2; }
  /// Takes each `every`-th sample.
  ColumnCode by_classes(std::size_t every) const {
    const auto ranked = type_.bytes == 1 ? by_frequency(symbols_) : by_frequency(counts_);
    return type_.bytes == 1   ? by_classes_of<std::uint8_t>(ranked, every)
           : type_.bytes == 2 ? by_classes_of<std::uint16_t>(ranked, every)
                              : by_classes_of<std::uint32_t>(ranked, every);
  }
  template <class T>
  ColumnCode by_classes_of(const std::vector<std::uint32_t>& ranked, std::size_t every) const {
    if (ranked.empty()) {
      return {};
    }
    std::vector<std::uint32_t> number(*std::max_element(ranked.begin(), ranked.end()) +
                                      std::size_t{1});
    for (std::uint32_t i = 0; i != ranked.size(); ++i) {
      number[ranked[i]] = i;
    }
    ValueClasses classes{ranked.size()};
    std::vector<std::uint32_t> chunk;
    for (std::size_t k = 0; k < samples_.size(); k += every) {
      const auto& sample = samples_[k];
      chunk.clear();
      for (std::size_t i = 0; i != sample.size() / sizeof(T); ++i) {
        chunk.push_back(number[value_at<T>(sample, i)]);
      }
      classes.add(chunk);
    }
    classes.sort();
    return classes.code(ranked);
  }

  /// Returns the bytes of the samples over those that they are packed in, with their share of the
  /// tables.
  double ratio_of(const ColumnCode& code) const {
    ChunkPacker packer{type_, code};
    std::size_t before = 0;
    std::size_t after = 0;
    for (std::size_t k = tried_every() - 1; k < samples_.size(); k += tried_every()) {
      const auto& sample = samples_[k];
      before += sample.size();
      after += packer.pack(sample).second.size();
    }
    const double share = static_cast<double>(before) / static_cast<double>(learned_);
    return static_cast<double>(before) /
           (static_cast<double>(after) + static_cast<double>(code.table_bytes()) * share);
  }

  ValueType type_;
  std::size_t chunk_bytes_;
  std::uint64_t learned_ = 0;
  std::uint64_t every_ = 1;
  bool all_rank_ = true;
  std::array<std::uint64_t, rans_symbols> symbols_{};
  std::vector<std::uint64_t> counts_;
  std::vector<std::vector<std::byte>> samples_;
};

} // namespace penstock::detail
