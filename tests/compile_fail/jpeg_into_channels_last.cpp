// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a decoded picture has its channels first, 3 \(red
#include <penstock/formats/jpeg.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>

namespace ps = penstock;

struct Encoded : ps::Columns<ps::Field<"jpg", ps::Ragged<std::uint8_t>>, ps::Field<"cls", int>> {};
#ifdef PENSTOCK_REFUSED
struct Picture : ps::Columns<ps::Field<"pixels", std::uint8_t, 8, 8, 3>, ps::Field<"cls", int>> {};
#else
struct Picture : ps::Columns<ps::Field<"pixels", std::uint8_t, 3, 8, 8>, ps::Field<"cls", int>> {};
#endif

int main() {
  auto stage = ps::jpeg<Encoded, Picture>();
  static_cast<void>(stage);
}
