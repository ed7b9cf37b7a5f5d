// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The program of live_bench.cpp, compiled by nvcc: for a GPU.
#include <penstock/cuda/algorithm.cuh>

#include "live_bench.cpp"
