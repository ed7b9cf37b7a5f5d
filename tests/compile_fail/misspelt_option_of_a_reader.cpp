// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: these are no ReaderOptions. .*: \.workers, .*, \.drop_last, .*, \.on_error\.
#include <penstock/penstock.hpp>

namespace ps = penstock;

int main() {
  auto pipeline = ps::Reader{ps::records<int>("numbers"),
#ifdef PENSTOCK_REFUSED
                             {.num_workers = 4}
#else
                             {.workers = 4}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
