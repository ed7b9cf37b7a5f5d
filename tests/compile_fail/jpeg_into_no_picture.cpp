// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a decoded picture goes to the one column of the schema To that has
#include <penstock/formats/jpeg.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>

namespace ps = penstock;

struct Encoded : ps::Columns<ps::Field<"jpg", ps::Ragged<std::uint8_t>>, ps::Field<"cls", int>> {};
#ifdef PENSTOCK_REFUSED
using Value = float;
#else
using Value = std::uint8_t;
#endif
struct Picture : ps::Columns<ps::Field<"pixels", Value, 3, 8, 8>, ps::Field<"cls", int>> {};

int main() {
  auto stage = ps::jpeg<Encoded, Picture>();
  static_cast<void>(stage);
}
