// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of permutations on a GPU.

#include <penstock/cuda/algorithm.cuh>
#include <penstock/cuda/device.hpp>

using TestDevice = penstock::CudaDevice;

#include "suite/permutation_suite.hpp"
