// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: reads whole windows, and From gives fewer tokens for now: write them into a file first
#include <penstock/penstock.hpp>
#include <penstock/sources/fifo.hpp>
#include <penstock/sources/windows.hpp>

#include <string>

namespace ps = penstock;

int main() {
  const std::string path = "letters";
#ifdef PENSTOCK_REFUSED
  const auto letters = ps::fifo<char>(path);
#else
  const auto letters = ps::records<char>(path);
#endif
  auto pipeline = ps::Reader{ps::windows(letters, {.length = 10})} |
                  ps::Consumer{[](ps::Batch<const ps::Window<char>, ps::Pageable>) {}};
  pipeline.run();
}
