// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: these are no WriterOptions. By name, in this order: \.workers, \.durable\.
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  auto pipeline = ps::Reader{ps::records<int>("numbers")} | ps::Writer{"copy",
#ifdef PENSTOCK_REFUSED
                                                                       {.sync = true}
#else
                                                                       {.durable = true}
#endif
                                                            };
  pipeline.run();
}
