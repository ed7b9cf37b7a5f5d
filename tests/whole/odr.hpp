// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// Templates that two translation units of one program use with the same arguments.
struct Sum {
  std::uint64_t* total;
  void operator()(penstock::Batch<const std::uint32_t, penstock::Pageable> batch) const {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      *total += batch.data()[i];
    }
  }
};

inline std::uint64_t sum_of(std::span<const std::uint32_t> numbers) {
  std::uint64_t total = 0;
  auto pipeline = penstock::Reader{penstock::memory(numbers)} | penstock::Consumer{Sum{&total}};
  pipeline.run();
  return total;
}

std::uint64_t sum_in_the_other_unit(std::span<const std::uint32_t> numbers);
