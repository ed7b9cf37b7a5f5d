// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The program of several_bench.cpp, compiled by nvcc: for GPUs.
#include "several_bench.cpp"
