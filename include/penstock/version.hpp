// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// penstock's version.

/// The version that the build file has: a test compares the two.
/// @{
#define PENSTOCK_VERSION_MAJOR 0
#define PENSTOCK_VERSION_MINOR 1
#define PENSTOCK_VERSION_PATCH 0
#define PENSTOCK_VERSION "0.1.0"
/// @}
