// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The program of gpt_feed_bench.cpp, compiled by nvcc: for a GPU.
#include "gpt_feed_bench.cpp"
