// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The whole core: everything that needs no CUDA toolkit. `penstock/cuda.hpp` adds the GPU.
///
/// \namespace penstock
/// All that the library has; its pages and examples say `namespace ps = penstock`.

// IWYU pragma: begin_exports

// These come before the headers that include them: compilers list the headers on the way to an
// error, and refusals are to be short.
#include <penstock/batch.hpp>
#include <penstock/column.hpp>
#include <penstock/counted.hpp>

#include <penstock/any_batches.hpp>
#include <penstock/any_pipeline.hpp>
#include <penstock/batches.hpp>
#include <penstock/deferred.hpp>
#include <penstock/device.hpp>
#include <penstock/device_array.hpp>
#include <penstock/each_worker.hpp>
#include <penstock/error.hpp>
#include <penstock/fan_out.hpp>
#include <penstock/fence.hpp>
#include <penstock/host/algorithm.hpp>
#include <penstock/host/device.hpp>
#include <penstock/lease.hpp>
#include <penstock/memory.hpp>
#include <penstock/on_error.hpp>
#include <penstock/permutation.hpp>
#include <penstock/pipeline.hpp>
#include <penstock/prepare_options.hpp>
#include <penstock/ranks.hpp>
#include <penstock/replayed.hpp>
#include <penstock/report.hpp>
#include <penstock/ring.hpp>
#include <penstock/row.hpp>
#include <penstock/run_options.hpp>
#include <penstock/schema.hpp>
#include <penstock/scratch.hpp>
#include <penstock/sources/generate.hpp>
#include <penstock/sources/memory.hpp>
#include <penstock/sources/records.hpp>
#include <penstock/sources/windows.hpp>
#include <penstock/sources/zip.hpp>
#include <penstock/stage.hpp>
#include <penstock/stages/async_copier.hpp>
#include <penstock/stages/consumer.hpp>
#include <penstock/stages/decoder.hpp>
#include <penstock/stages/kernel.hpp>
#include <penstock/stages/pinned_stager.hpp>
#include <penstock/stages/reader.hpp>
#include <penstock/stages/writer.hpp>
#include <penstock/usable.hpp>
#include <penstock/version.hpp>
#include <penstock/visit.hpp>
#include <penstock/workspace.hpp>
// IWYU pragma: end_exports
