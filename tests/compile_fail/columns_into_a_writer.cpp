// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: Last gives columns, which lie in arrays of their own, and Next writes records one after
// the other
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ps = penstock;

struct Sample : ps::Columns<ps::Field<"image", std::uint8_t, 4>, ps::Field<"label", std::int32_t>> {
};
struct Row {
  std::uint8_t image[4];
  std::int32_t label;
};

#ifdef PENSTOCK_REFUSED
void fill(ps::Batch<const std::int32_t, ps::Pageable> in, ps::Batch<Sample, ps::Pageable> out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    ps::get<"label">(out)[i] = in.data()[i];
  }
}
#else
void fill(ps::Batch<const std::int32_t, ps::Pageable> in, ps::Batch<Row, ps::Pageable> out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    out.data()[i] = {{}, in.data()[i]};
  }
}
#endif

int main() {
  const std::vector<std::int32_t> labels(10);
  auto pipeline = ps::Reader{ps::memory(labels)} | ps::Decoder{fill} | ps::Writer{"samples"};
  pipeline.prepare();
}
