// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <cstdint>
#include <typeinfo>
#include <vector>

// The exports of a shared library that hides all else, as plug-ins and Python modules do.
namespace penstock::tests {

using DeviceNumbers = Batch<const std::uint64_t, Device>;

[[gnu::visibility("default")]] AnyBatches<DeviceNumbers>
hidden_batches(const std::vector<std::uint64_t>& data, HostDevice& device, HostStream& stream);
[[gnu::visibility("default")]] const void* hidden_trace_hooks();
[[gnu::visibility("default")]] const void* hidden_pinned_pieces();
[[gnu::visibility("default")]] const void* hidden_page();
[[gnu::visibility("default")]] std::vector<const std::type_info*> hidden_errors();

} // namespace penstock::tests
