// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with sources of arrays and tokens, and cures: tests/tools/check_refusals.py.

#include <penstock/formats/mnist.hpp>
#include <penstock/formats/npy.hpp>
#include <penstock/formats/npz.hpp>
#include <penstock/formats/packed.hpp>
#include <penstock/formats/tokens.hpp>
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>

namespace ps = penstock;

struct Sample : ps::Columns<ps::Field<"x", float, 3>, ps::Field<"y", int>> {};

// refused npy_of_structs: files of arrays hold numbers
#ifdef PENSTOCK_REFUSED
struct T {
  float x, y;
};
#else
using T = std::byte;
#endif

int main() {
  auto pipeline =
      ps::Reader{ps::npy<T>("file")} | ps::Consumer{[](ps::Batch<const T, ps::Pageable>) {}};
  pipeline.run();
}

// refused unpacked_of_structs: a packed file holds numbers
#ifdef PENSTOCK_REFUSED
struct Packed {
  float x, y;
};
#else
using Packed = float;
#endif

int main() {
  auto pipeline = ps::Reader{ps::unpacked<Packed>("file")} |
                  ps::Consumer{[](ps::Batch<const Packed, ps::Pageable>) {}};
  pipeline.run();
}

// refused npy_of_one_file_for_two_columns: npy<Schema>\(files\.\.\.\) takes the files of each
// column
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::npy<Sample>("x.npy");
#else
      ps::npy<Sample>("x.npy", "y.npy");
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}

// refused npz_of_no_array: npz<T>\(files, name\) reads one array of an archive
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::npz<float>("x.npz");
#else
      ps::npz<float>("x.npz", "prices");
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const float, ps::Pageable>) {}};
  pipeline.run();
}

// refused mnist_of_one_file_for_two_columns: mnist<Schema>\(files\.\.\.\) takes the files of each
// column
int main() {
  auto source =
#ifdef PENSTOCK_REFUSED
      ps::mnist<Sample>("x");
#else
      ps::mnist<Sample>("x", "y");
#endif
  auto pipeline = ps::Reader{source} | ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}

// refused tokens_of_floats: tokens<T>\(paths\) reads whole numbers
#ifdef PENSTOCK_REFUSED
using T = float;
#else
using T = std::uint16_t;
#endif

int main() {
  auto pipeline =
      ps::Reader{ps::tokens<T>("file")} | ps::Consumer{[](ps::Batch<const T, ps::Pageable>) {}};
  pipeline.run();
}
