// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/needs.hpp"

#include <cuda_runtime_api.h>

std::string penstock::tests::missing() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError(); // or the first test would find the error
    return std::string{"a GPU: "} + cudaGetErrorString(error);
  }
  return count > 0 ? "" : "a GPU";
}
