// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: each column of the schema To, but for the picture, goes along from one in From
#include <penstock/formats/jpeg.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>

namespace ps = penstock;

struct Encoded : ps::Columns<ps::Field<"jpg", ps::Ragged<std::uint8_t>>, ps::Field<"cls", int>> {};
#ifdef PENSTOCK_REFUSED
using Label = float;
#else
using Label = int;
#endif
struct Picture : ps::Columns<ps::Field<"pixels", std::uint8_t, 3, 8, 8>, ps::Field<"cls", Label>> {
};

int main() {
  auto stage = ps::jpeg<Encoded, Picture>();
  static_cast<void>(stage);
}
