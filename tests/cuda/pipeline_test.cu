// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of pipelines on a GPU.

#include <penstock/cuda.hpp>

using TestDevice = penstock::CudaDevice;

template <class D = TestDevice, class F> void for_each_device(F f) {
  D device;
  f(device);
}

#include "suite/pipeline_suite.hpp"
