// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace weights {

/// Returns a safetensors file of three small tensors.
inline std::string some_weights() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("wte.weight":{"dtype":"F32","shape":[1000,768],"data_offsets":[0,3072000]},)"
      R"("ln_f.bias":{"dtype":"BF16","shape":[769],"data_offsets":[3072000,3073538]},)"
      R"("wpe.weight":{"dtype":"F32","shape":[64,768],"data_offsets":[3073538,3270146]}})";
  std::string file(1, static_cast<char>(header.size() % 256));
  file += static_cast<char>(header.size() / 256);
  file += std::string(6, '\0') + header;
  std::uint32_t state = 1;
  for (int i = 0; i < 3'270'146; ++i) {
    state = state * 1664525 + 1013904223;
    file += static_cast<char>(state >> 24);
  }
  return file;
}

} // namespace weights
