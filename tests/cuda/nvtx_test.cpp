// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a tool sees of a program that includes cuda/nvtx.hpp in two of its files. The tool is
// nvtx_injection.cpp; the build gives its path as NVTX_INJECTION. No test needs a GPU.

#include "support/counted_new.hpp"

#include <penstock/cuda/nvtx.hpp>

#include "cuda/nvtx_injection.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>

using namespace penstock;
using detail::TraceRange;
using tests::NvtxCall;
using tests::NvtxCalls;
namespace memory = tests::memory;

void range_in_the_other_unit();

namespace {

// Returns the tool, which NVTX loads at the first range.
NvtxCalls& tool() {
  static NvtxCalls* const calls = []() -> NvtxCalls* {
    ::setenv("NVTX_INJECTION64_PATH", NVTX_INJECTION, 1);
    {
      const TraceRange range{"first", 0};
    }
    // This call does not load the tool: if it is there, NVTX has loaded it.
    void* const library = ::dlopen(NVTX_INJECTION, RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) {
      return nullptr;
    }
    return reinterpret_cast<tests::NvtxCallsFunction*>(::dlsym(library, "nvtx_calls"))();
  }();
  if (calls == nullptr) {
    FAIL("NVTX has not loaded " NVTX_INJECTION);
  }
  return *calls;
}

// Returns the calls that f makes.
template <class F> std::vector<NvtxCall> calls_in(F f) {
  NvtxCalls& all = tool();
  const std::size_t before = all.count;
  f();
  REQUIRE(all.count <= all.calls.size());
  CHECK(all.wrong == 0);
  return {all.calls.begin() + static_cast<std::ptrdiff_t>(before),
          all.calls.begin() + static_cast<std::ptrdiff_t>(all.count)};
}

void check_push(const NvtxCall& call, const std::string& stage, std::uint64_t record) {
  CHECK(call.what == NvtxCall::push);
  CHECK(std::string{call.text.data()} == stage);
  CHECK(call.payload == record);
  CHECK(call.domain == 1);
}
void check_pop(const NvtxCall& call) {
  CHECK(call.what == NvtxCall::pop);
  CHECK(call.domain == 1);
}

} // namespace

TEST_CASE("a range is pushed with the stage's name and the record as payload, and popped") {
  const auto calls = calls_in([] {
    const TraceRange outer{"Reader", 12'288};
    const TraceRange inner{"Consumer", ~std::uint64_t{0}};
  });
  REQUIRE(calls.size() == 4);
  check_push(calls[0], "Reader", 12'288);
  check_push(calls[1], "Consumer", ~std::uint64_t{0});
  check_pop(calls[2]);
  check_pop(calls[3]);
}

TEST_CASE("all ranges are in the one domain penstock, whichever file opens them") {
  const auto calls = calls_in(range_in_the_other_unit);
  REQUIRE(calls.size() == 2);
  check_push(calls[0], "Consumer", 7);
  check_pop(calls[1]);

  CHECK(tool().domains == 1);
  CHECK(tool().calls[0].what == NvtxCall::domain_create);
  CHECK(std::string{tool().calls[0].text.data()} == "penstock");
  CHECK(std::string{tool().calls[1].text.data()} == "first");
}

TEST_CASE("a range is pushed and popped by the thread that it is opened in") {
  constexpr std::uint64_t ranges = 50;
  std::array<std::thread::id, 3> ids;
  const auto calls = calls_in([&] {
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < ids.size(); ++t) {
      threads.emplace_back([&, t] {
        ids[t] = std::this_thread::get_id();
        for (std::uint64_t i = 0; i < ranges; ++i) {
          const TraceRange range{"Reader", t * ranges + i};
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  });
  REQUIRE(calls.size() == 2 * ids.size() * ranges);
  for (std::uint64_t t = 0; t < ids.size(); ++t) {
    std::uint64_t next = 0;
    for (const NvtxCall& call : calls) {
      if (call.thread != ids[t]) {
        continue;
      }
      if (next % 2 == 0) {
        check_push(call, "Reader", t * ranges + next / 2);
      } else {
        check_pop(call);
      }
      ++next;
    }
    CHECK(next == 2 * ranges);
  }
}

TEST_CASE("a range through NVTX allocates nothing") {
  std::uint64_t allocations = 1;
  const auto calls = calls_in([&] {
    const std::uint64_t before = memory::allocations;
    for (std::uint64_t i = 0; i < 100; ++i) {
      const TraceRange range{"a name that is too long to be kept within a std::string", i};
    }
    allocations = memory::allocations - before;
  });
  CHECK(calls.size() == 200);
  CHECK(allocations == 0);
}
