// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with DLPack tensors, and cures: tests/tools/check_refusals.py.

#include <penstock/formats/dlpack.hpp>
#include <penstock/formats/dlpack_source.hpp>
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Point {
  float x, y;
};
struct Sample : ps::Columns<ps::Field<"x", float, 3>, ps::Field<"text", ps::Ragged<char>>> {};
template <class T> using OnHost = ps::SharedLease<ps::Batch<const T, ps::Pageable>>;

// refused tensor_of_structs: DLPack has tensors of numbers, and these records are none
int main() {
#ifdef PENSTOCK_REFUSED
  OnHost<Point> batch;
#else
  OnHost<float> batch;
#endif
  auto* tensor = ps::to_dlpack(batch);
  tensor->deleter(tensor);
}

// refused tensor_on_no_device: this batch lies on a device: say on which
int main() {
  ps::HostDevice device;
  ps::SharedLease<ps::Batch<const float, ps::Device>> batch;
#ifdef PENSTOCK_REFUSED
  auto* tensor = ps::to_dlpack(batch);
#else
  auto* tensor = ps::to_dlpack(batch, ps::dlpack_device(batch, device));
#endif
  tensor->deleter(tensor);
}

// refused offsets_of_fixed_columns: only a Ragged column has offsets
int main() {
  OnHost<Sample> batch;
#ifdef PENSTOCK_REFUSED
  auto* tensor = ps::offsets_to_dlpack<"x">(batch);
#else
  auto* tensor = ps::offsets_to_dlpack<"text">(batch);
#endif
  tensor->deleter(tensor);
}

// refused source_of_structs: DLPack has tensors of numbers: take a number
int main() {
  ps::dl::Managed* tensor = nullptr;
#ifdef PENSTOCK_REFUSED
  auto source = ps::from_dlpack<Point>(tensor);
#else
  auto source = ps::from_dlpack<float>(tensor);
#endif
  static_cast<void>(source.size());
}
