// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: what is to be decoded lies in the one column of bytes of the schema From
#include <penstock/formats/jpeg.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>

namespace ps = penstock;

#ifdef PENSTOCK_REFUSED
using Text = std::uint8_t;
#else
using Text = char;
#endif
struct Encoded : ps::Columns<ps::Field<"jpg", ps::Ragged<std::uint8_t>>,
                             ps::Field<"text", ps::Ragged<Text>>, ps::Field<"cls", int>> {};
struct Picture : ps::Columns<ps::Field<"pixels", std::uint8_t, 3, 8, 8>, ps::Field<"cls", int>> {};

int main() {
  auto stage = ps::jpeg<Encoded, Picture>();
  static_cast<void>(stage);
}
