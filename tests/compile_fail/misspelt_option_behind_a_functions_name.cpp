// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: these are no DecoderOptions. By name, in this order: \.workers, .*, \.on_error\.
#include <penstock/penstock.hpp>

namespace ps = penstock;

void to_float(const int& in, float& out) {
  out = static_cast<float>(in);
}

int main() {
  auto pipeline = ps::Reader{ps::records<int>("numbers")} |
                  ps::Decoder{to_float,
#ifdef PENSTOCK_REFUSED
                              {.skips = 4}
#else
                              {.on_error = {.skips = 4}}
#endif
                  } |
                  ps::Writer{"floats"};
  pipeline.run();
}
