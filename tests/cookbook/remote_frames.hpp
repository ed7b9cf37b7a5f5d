// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/http.hpp>
#include <penstock/penstock.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;

template <class Use> void use_frames(const std::vector<std::string>& urls, Use use) {
  // clang-format off
  ps::HttpIo io{{.connections = 16, .deadline = std::chrono::minutes{2}}};
  auto pipeline = ps::Reader{ps::records<char>(urls, {.record_bytes = 512}, io),
                             {.workers = 16}}
                  | ps::Consumer{std::move(use)};
  // clang-format on
  pipeline.run();
}
