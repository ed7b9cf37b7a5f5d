// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include <penstock/with_device.hpp>

#include "support/catch.hpp"

#include <stdexcept>
#include <string>
#include <type_traits>

// with_device() in a program that nvcc did not compile; tests/cuda/no_gpu_test.cu tests one that it
// did.

using namespace penstock;

namespace {

std::string error_of(const char* which) {
  try {
    with_device(which, [](auto&) {});
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

} // namespace

TEST_CASE("auto and host give the host device where there is no CUDA") {
  for (const char* which : {"auto", "host"}) {
    CAPTURE(which);
    CHECK(with_device(which, [](auto& device) { return device.name(); }) == "host");
  }
}

TEST_CASE("the device lives for the call, and only for that") {
  CHECK(with_device("host", [](auto& device) {
          static_assert(std::is_same_v<decltype(device), HostDevice&>);
          auto stream = device.stream();
          return device.counts().live_streams;
        }) == 1);
}

TEST_CASE("what the callable returns is returned as it is, references too") {
  int number = 0;
  int& returned = with_device("host", [&](auto&) -> int& { return number; });
  CHECK(&returned == &number);
}

TEST_CASE("what the callable throws comes through") {
  CHECK_THROWS_AS(with_device("host", [](auto&) { throw std::out_of_range{"mine"}; }),
                  std::out_of_range);
}

TEST_CASE("cuda is refused where nvcc did not compile, with the cure") {
  const std::string text = error_of("cuda");
  CAPTURE(text);
  CHECK(text.rfind("penstock: with_device: ", 0) == 0);
  CHECK(text.find("\"cuda\"") != std::string::npos);
  CHECK(text.find("nvcc") != std::string::npos);
  CHECK(text.find("\"host\"") != std::string::npos);
}

TEST_CASE("a device of another name is refused with its name and the three there are") {
  for (const char* which : {"nonsense", "", "Host", "cuda:0"}) {
    const std::string text = error_of(which);
    CAPTURE(text);
    CHECK(text.rfind("penstock: with_device: ", 0) == 0);
    CHECK(text.find("no device \"" + std::string{which} + "\":") != std::string::npos);
    CHECK(text.find("\"auto\", \"cuda\" or \"host\"") != std::string::npos);
  }
}
