// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include <penstock/cuda/nvtx.hpp>

void range_in_the_other_unit() {
  const penstock::detail::TraceRange range{"Consumer", 7};
}
