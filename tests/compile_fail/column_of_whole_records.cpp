// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: this batch has no named columns: its records are whole, use data\(\)
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
int first_byte(ps::Batch<const Frame, ps::Pageable> frames) {
#ifdef PENSTOCK_REFUSED
  return ps::get<"bytes">(frames)[0];
#else
  return frames.data()[0].bytes[0];
#endif
}

int main() {
  return first_byte({});
}
