// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Reads a folder of S3's: prints how many records it has, their sum, and the requests of the first
// run. check_s3.py runs it.

#include <penstock/io/s3.hpp>
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <vector>

namespace ps = penstock;

int main(int argc, char** argv) {
  try {
    if (argc != 2) {
      return 2;
    }
    const ps::S3Io s3{{.http = {.connections = 8}}};
    std::uint64_t sum = 0;
    auto source = ps::records<std::uint32_t>(argv[1], {}, s3);
    source.open();
    const auto requests = s3.counts().requests;
    auto pipeline =
        ps::Reader{source} | ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Pageable> batch) {
          for (std::size_t i = 0; i != batch.size(); ++i) {
            sum += batch.data()[i];
          }
        }};
    pipeline.run();
    std::cout << source.size() << ' ' << sum << ' ' << requests << '\n';
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
