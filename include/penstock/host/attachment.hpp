// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

namespace penstock {

/// What HostDevice::attach() returns: a guard of nothing. Its destructor keeps compilers from
/// warning of an unused variable.
struct HostAttachment {
  ~HostAttachment() {}
};

} // namespace penstock
