// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: what a Decoder fills must be trivially copyable: no std::string
#include <penstock/penstock.hpp>

#include <string>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Person : ps::Columns<
#ifdef PENSTOCK_REFUSED
                    ps::Field<"name", std::string>
#else
                    ps::Field<"name", ps::Ragged<char>>
#endif
                    > {
};

int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} |
      ps::Decoder{[](ps::Batch<const Frame, ps::Pageable>, ps::Batch<Person, ps::Pageable>) {}} |
      ps::Consumer{[](ps::Batch<const Person, ps::Pageable>) {}};
  pipeline.run();
}
