// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: what a Reader reads must be trivially copyable: no std::string
#include <penstock/penstock.hpp>

#include <string>

namespace ps = penstock;

int main() {
  auto pipeline =
#ifdef PENSTOCK_REFUSED
      ps::Reader{ps::records<std::string>("names")} |
      ps::Consumer{[](ps::Batch<const std::string, ps::Pageable>) {}};
#else
      ps::Reader{ps::records<char>("names")} |
      ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
#endif
  pipeline.run();
}
