// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite on the host device.

#include "support/host_gate.hpp"

#include <penstock/host/sort.hpp>

using TestDevice = penstock::HostDevice;
using TestGate = penstock::tests::HostGate;

#include "suite/sort_suite.hpp"
