// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace penstock::tests {

/// Returns what this machine lacks for the tests of this executable: empty if nothing.
std::string missing();

} // namespace penstock::tests
