// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: deleted (member )?(function|constructor)
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
#ifdef PENSTOCK_REFUSED
void clear(ps::Batch<Frame, ps::Pageable>) {}
#else
void clear(ps::Batch<const Frame, ps::Pageable>) {}
#endif
int main() {
  const ps::Batch<const Frame, ps::Pageable> frames;
  clear(frames);
}
