// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of conversions on the host device.

#include "support/host_gate.hpp"

#include <penstock/host/convert.hpp>
#include <penstock/host/normalize.hpp>

using TestDevice = penstock::HostDevice;
using TestGate = penstock::tests::HostGate;

#include "suite/convert_suite.hpp"
