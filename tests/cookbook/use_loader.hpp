// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// Of a file's bytes, by a program that knows nothing of penstock.
double sum_of(const std::string& path);
