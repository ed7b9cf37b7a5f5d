// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The same program, as nvcc compiles it: for a GPU too.
#include "../soak.cpp"
