// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: an AnyPipeline runs by itself, .* end the pipeline with a Consumer or a Writer
#include <penstock/penstock.hpp>

namespace ps = penstock;

ps::AnyPipeline conversion() {
  return ps::Reader{ps::records<int>("numbers")} |
         ps::Decoder{[](const int& number, double& half) { half = number / 2.0; }}
#ifndef PENSTOCK_REFUSED
         | ps::Writer{"halves"}
#endif
  ;
}

int main() {
  conversion().run();
}
