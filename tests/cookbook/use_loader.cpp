// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a program sees of the class: its header alone.

#include "loader.hpp"

#include "use_loader.hpp"

#ifdef PENSTOCK_HD
#error "loader.hpp includes a header of penstock."
#endif

double sum_of(const std::string& path) {
  double sum = 0;
  Loader loader{path, 1000};
  for (std::span<const float> batch; !(batch = loader.next()).empty();) {
    for (const float number : batch) {
      sum += number;
    }
  }
  return sum;
}
