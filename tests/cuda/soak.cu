// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The program of soak.cpp, compiled by nvcc: for a GPU too.
#include "../soak.cpp"
