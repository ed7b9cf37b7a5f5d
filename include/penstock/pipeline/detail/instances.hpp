// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/detail/device_side/copier.hpp>
#include <penstock/detail/device_side/device_thread.hpp>
#include <penstock/detail/ends/device_lender.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/host/device.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/ring/ring.hpp>
#include <penstock/sources/detail/record_files.hpp>

/// \file
/// Class templates that nearly every pipeline uses with the library's own types. A program with a
/// compiled part has them in that part, see PENSTOCK_INLINE.

/// Instantiates a class template here, or says that the compiled part does.
#if defined(PENSTOCK_IMPLEMENTATION)
#define PENSTOCK_INSTANCE template
#else
#define PENSTOCK_INSTANCE extern template
#endif

#if defined(PENSTOCK_IMPLEMENTATION) || defined(PENSTOCK_COMPILED)
namespace penstock {

PENSTOCK_INSTANCE class Ring<detail::HostSlot, RingPolicy, RingKind::any>;
PENSTOCK_INSTANCE class Ring<detail::HostSlot, RingPolicy, RingKind::with_many>;
PENSTOCK_INSTANCE class DirectFile<PosixIo>;
PENSTOCK_INSTANCE class Timeline<HostDevice, RingPolicy>;

namespace detail {
PENSTOCK_INSTANCE struct FileParts<PosixIo>;
PENSTOCK_INSTANCE class RecordFiles<PosixIo>;
PENSTOCK_INSTANCE struct DeviceLink<HostDevice>;
PENSTOCK_INSTANCE class BatchFiller<HostDevice>;
PENSTOCK_INSTANCE class Copier<HostDevice>;
PENSTOCK_INSTANCE class CopierNode<HostDevice>;
PENSTOCK_INSTANCE class DeviceThread<HostDevice>;
PENSTOCK_INSTANCE class DeviceLender<HostDevice>;
PENSTOCK_INSTANCE class ConsumerWatch<HostDevice>;
} // namespace detail

} // namespace penstock
#endif

#undef PENSTOCK_INSTANCE
