// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with decoders of pictures, and cures: tests/tools/check_refusals.py.

#include <penstock/formats/jpeg.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>

namespace ps = penstock;

// refused jpeg_of_no_bytes: what is to be decoded lies in the one column of bytes of the schema
// From
#ifdef PENSTOCK_REFUSED
using Bytes = std::uint8_t;
#else
using Bytes = ps::Ragged<std::uint8_t>;
#endif
struct Encoded : ps::Columns<ps::Field<"jpg", Bytes>, ps::Field<"cls", int>> {};
struct Picture : ps::Columns<ps::Field<"pixels", std::uint8_t, 3, 8, 8>, ps::Field<"cls", int>> {};

int main() {
  auto stage = ps::jpeg<Encoded, Picture>();
  static_cast<void>(stage);
}

// refused jpeg_of_two_files: what is to be decoded lies in the one column of bytes of the schema
// From
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

// refused jpeg_into_no_picture: a decoded picture goes to the one column of the schema To that has
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

// refused jpeg_into_channels_last: a decoded picture has its channels first, 3 \(red
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

// refused jpeg_into_device_memory: pictures are decoded into host memory
#ifdef PENSTOCK_REFUSED
using Where = ps::Device;
#else
using Where = ps::Pageable;
#endif

int main() {
  auto stage = ps::jpeg<3, 8, 8, Where>();
  static_cast<void>(stage);
}

// refused jpeg_with_a_column_from_nowhere: each column of the schema To, but for the picture, goes
// along from one in From
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
