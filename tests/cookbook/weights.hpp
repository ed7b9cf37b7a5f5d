// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/safetensors.hpp>
#include <penstock/host/convert.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/slice.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/convert.cuh>
#endif

#include <cstddef>
#include <string>
#include <string_view>

namespace ps = penstock;

struct Same {
  PENSTOCK_HD std::byte operator()(std::byte byte) const { return byte; }
};

/// Returns the bytes of one tensor of a model, in the memory of a device.
template <ps::AnyDevice D>
ps::DeviceArray<std::byte, D> tensor_on(D& device, const std::string& model,
                                        std::string_view name) {
  auto source = ps::safetensors(model);
  source.open();
  const ps::TensorInfo& tensor = source.tensor(name);
  auto memory = ps::device_array<std::byte>(device, tensor.bytes);
  auto bytes = ps::Reader{ps::take(ps::drop(source, tensor.at), tensor.bytes), ps::to_pinned} |
               ps::AsyncCopier{device};
  auto stream = device.stream();
  for (auto batch : bytes.on(stream)) {
    ps::transform(stream, batch.data(), batch.size(), memory.data() + batch.index(), Same{});
  }
  device.sync(stream);
  return memory;
}
