// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The core and the GPU. It needs the CUDA runtime, and neither nvcc nor CUB: algorithms on the GPU
// are in cuda/algorithm.cuh.
// IWYU pragma: begin_exports
#include <penstock/cuda/device.hpp>
#include <penstock/cuda/error.hpp>
#include <penstock/cuda/event.hpp>
#include <penstock/cuda/stream.hpp>
#include <penstock/penstock.hpp>
// IWYU pragma: end_exports
