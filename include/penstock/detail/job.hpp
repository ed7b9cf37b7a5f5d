// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace penstock::detail {

/// What a thread is started with: one type for all, since std::thread is compiled anew for each.
using Job = std::function<void()>;

} // namespace penstock::detail
