// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <penstock/version.hpp>

#include <string>

TEST_CASE("the version in version.hpp is the build file's") {
  CHECK(std::string{PENSTOCK_VERSION} == PROJECT_VERSION);
}

TEST_CASE("the version's numbers are those of its text") {
  CHECK(std::to_string(PENSTOCK_VERSION_MAJOR) + '.' + std::to_string(PENSTOCK_VERSION_MINOR) +
            '.' + std::to_string(PENSTOCK_VERSION_PATCH) ==
        PENSTOCK_VERSION);
}
