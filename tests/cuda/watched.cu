// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A program for `17_doctor --run` to watch. It knows nothing of that.
//
//   watched ends|leaves|hurries|becomes|forks ITEMS
//
// ends: returns 7. leaves: goes on for some seconds and ends by _exit(). hurries: ends by
// quick_exit(). becomes: has exec() make another program of it, which does nothing. forks: has a
// child that calls CUDA too, which cannot work there, and returns the child's exit code.

#include "cuda/watch_items.cuh"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const std::string_view what = argc == 3 ? argv[1] : "";
  const auto items = static_cast<std::size_t>(argc == 3 ? std::atoll(argv[2]) : 0);
  std::cout << "sum " << penstock::tests::score_items(items) << std::endl;
  if (what == "leaves") {
    std::this_thread::sleep_for(std::chrono::seconds{5});
    _exit(0);
  }
  if (what == "hurries") {
    std::quick_exit(6);
  }
  if (what == "becomes") {
    execl("/bin/true", "true", nullptr);
  }
  if (what == "forks") {
    const pid_t child = fork();
    if (child == 0) {
      void* memory = nullptr;
      cudaMalloc(&memory, 1);
      std::exit(9);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  }
  return 7;
}
