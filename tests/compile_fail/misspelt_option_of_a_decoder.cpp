// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: these are no DecoderOptions. By name, in this order: \.workers, .*, \.on_error\.
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  auto pipeline = ps::Reader{ps::records<int>("numbers")} |
                  ps::Decoder{[](const int& in, float& out) { out = static_cast<float>(in); },
#ifdef PENSTOCK_REFUSED
                              {.num_workers = 4}
#else
                              {.workers = 4}
#endif
                  } |
                  ps::Writer{"floats"};
  pipeline.run();
}
