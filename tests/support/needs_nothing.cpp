// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/needs.hpp"

std::string penstock::tests::missing() {
  return {};
}
