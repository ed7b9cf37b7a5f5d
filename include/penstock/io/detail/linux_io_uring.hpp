// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

/// \file
/// The kernel's words for io_uring, without macros that come with them and whose names a program
/// may want for itself.

#pragma push_macro("BLOCK_SIZE")
#pragma push_macro("BLOCK_SIZE_BITS")
#pragma push_macro("NR_FILE")
#include <linux/io_uring.h>
#pragma pop_macro("BLOCK_SIZE")
#pragma pop_macro("BLOCK_SIZE_BITS")
#pragma pop_macro("NR_FILE")
