// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// All that a first pipeline needs, without the CUDA toolkit. `penstock/cuda.hpp` adds the GPU;
/// other headers are named by their pages.
///
/// \namespace penstock
/// All that the library has; its pages and examples say `namespace ps = penstock`.

// IWYU pragma: begin_exports

// These come before the headers that include them: compilers list the headers on the way to an
// error, and refusals are to be short.
#include <penstock/data/batch.hpp>
#include <penstock/data/column.hpp>
#include <penstock/data/counted.hpp>
#include <penstock/pipeline/pipe_operator.hpp>

#include <penstock/callables/each_worker.hpp>
#include <penstock/callables/replayed.hpp>
#include <penstock/callables/workspace.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/row.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/data/visit.hpp>
#include <penstock/device/device.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/device/fence.hpp>
#include <penstock/error.hpp>
#include <penstock/host/algorithm.hpp>
#include <penstock/host/device.hpp>
#include <penstock/lease.hpp>
#include <penstock/machine/usable.hpp>
#include <penstock/order/ranks.hpp>
#include <penstock/pipeline/any.hpp>
#include <penstock/pipeline/batches.hpp>
#include <penstock/pipeline/detail/instances.hpp>
#include <penstock/pipeline/pipeline.hpp>
#include <penstock/ring/ring.hpp>
#include <penstock/run/options.hpp>
#include <penstock/run/report.hpp>
#include <penstock/sources/generate.hpp>
#include <penstock/sources/memory.hpp>
#include <penstock/sources/records.hpp>
#include <penstock/stage.hpp>
#include <penstock/stages/async_copier.hpp>
#include <penstock/stages/consumer.hpp>
#include <penstock/stages/decoder.hpp>
#include <penstock/stages/kernel.hpp>
#include <penstock/stages/pinned_stager.hpp>
#include <penstock/stages/reader.hpp>
#include <penstock/stages/writer.hpp>
#include <penstock/version.hpp>
// IWYU pragma: end_exports
