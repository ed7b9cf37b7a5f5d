// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a Deferred promises in a pipeline, on a GPU.

#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>

#include "suite/deferred_suite.hpp"

TEST_CASE("values of each batch come by one wait for all of them") {
  ps::CudaDevice device;
  values_of_each_batch(device);
}
TEST_CASE("values without room are counted, and the run goes on") {
  ps::CudaDevice device;
  values_without_room(device);
}
