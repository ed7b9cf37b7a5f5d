// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The compiled part, for programs whose sources are all compiled with PENSTOCK_COMPILED: one
/// source among theirs, or a library. See docs/compatibility.md. It needs what a header of penstock
/// needs, and no CUDA.
#if defined(PENSTOCK_BODIES) && !PENSTOCK_BODIES
#error                                                                                             \
    "penstock: a header of penstock stands before penstock.cpp in this source: let it come first."
#endif
#define PENSTOCK_IMPLEMENTATION
#include <penstock/penstock.hpp>
// The headers that one includes by name, and that have bodies.
#include <penstock/io/folder_tree.hpp>
#include <penstock/io/uring.hpp>
#include <penstock/pipeline/fan_out.hpp>
#include <penstock/run/json.hpp>
#include <penstock/run/report_json.hpp>
#include <penstock/run/report_prometheus.hpp>
#include <penstock/sources/channel.hpp>
#include <penstock/sources/concat.hpp>
#include <penstock/sources/detail/largest_sums.hpp>
#include <penstock/sources/fifo.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/windows.hpp>
#include <penstock/sources/zip.hpp>
