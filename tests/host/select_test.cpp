// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The suite of selections on the host device.

#include "support/host_gate.hpp"

#include <penstock/host/algorithm.hpp>

using TestDevice = penstock::HostDevice;
using TestGate = penstock::tests::HostGate;

#include "suite/select_suite.hpp"
