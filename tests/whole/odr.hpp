// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// The same templates with the same arguments, for two translation units that become one program.
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
