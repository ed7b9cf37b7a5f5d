// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// README's program counts the lines of a file on a device, while it reads on. It needs no GPU.
//
//   seq 100000000 > numbers.txt
//   g++ -std=c++20 -O2 -Iinclude examples/01_hello_pipeline.cpp -pthread -o hello
//   ./hello
//
// It prints what each stage did, and then how many lines the file has, as `wc -l` does.

#include <algorithm>
#include <iostream>
#include <penstock/penstock.hpp>
namespace ps = penstock;

int main() {
  ps::HostDevice gpu; // a thread that stands in for one
  std::ptrdiff_t lines = 0;
  auto pipeline =
      ps::Reader{ps::records<char>("numbers.txt"), ps::to_pinned} // disk -> page-locked memory
      | ps::AsyncCopier{gpu}                                      // -> device memory
      | ps::Consumer{[&](ps::Batch<const char, ps::Device> text, ps::HostStream& stream) {
          stream.enqueue([text, &lines] { // as a launch enqueues a kernel
            lines += std::count(text.data(), text.data() + text.size(), '\n');
          });
        }};
  std::cout << pipeline.run(); // a Report: rates, and which stage held the others back
  std::cout << lines << " lines\n";
}
