// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include <penstock/with_device.hpp>

#include "support/catch.hpp"

#include <cstdlib>
#include <string>

// A program that nvcc compiled, without a GPU: this one sees none on any machine.

using namespace penstock;

namespace {

const bool gpus_are_hidden = ::setenv("CUDA_VISIBLE_DEVICES", "", 1) == 0;

struct Name {
  std::string operator()(auto& device) const { return device.name(); }
};

std::string error_of(const char* which) {
  try {
    with_device(which, Name{});
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

} // namespace

TEST_CASE("auto gives the host device where there is no GPU") {
  REQUIRE(gpus_are_hidden);
  CHECK(with_device("auto", Name{}) == "host");
  CHECK(with_device("host", Name{}) == "host");
}

TEST_CASE("cuda throws what CudaDevice does where there is no GPU") {
  const std::string text = error_of("cuda");
  CAPTURE(text);
  CHECK(text.rfind("penstock: CudaDevice{0}: this process has no GPU", 0) == 0);
}

TEST_CASE("a device of another name is refused under nvcc too") {
  const std::string text = error_of("nonsense");
  CAPTURE(text);
  CHECK(text.find("no device \"nonsense\":") != std::string::npos);
}
