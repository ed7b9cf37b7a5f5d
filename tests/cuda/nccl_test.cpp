// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What is asked of NCCL, with an NCCL of the test's own in its place: no test needs a GPU or
// libnccl.

#include "../../examples/gpt/nccl_reducer.hpp"

#include <penstock/cuda/nccl.hpp>
#include <penstock/host/device.hpp>

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/environment.hpp"
#include "support/free_port.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace penstock;
using tests::caught;
using tests::has;

namespace {

/// What the NCCL below was asked for.
struct Fake {
  std::mutex mutex;
  std::vector<std::string> calls;
  int ids = 0;
  ncclResult_t refusal = ncclSuccess; // of the next call
  ncclResult_t state = ncclSuccess;
  std::string last_error;

  ncclResult_t call(const std::string& what) {
    const std::scoped_lock lock{mutex};
    calls.push_back(what);
    return std::exchange(refusal, ncclSuccess);
  }
};
Fake* fake = nullptr;

/// A fresh fake, for one test case.
struct Faked : Fake {
  Faked() { fake = this; }
  Faked(const Faked&) = delete;
  Faked& operator=(const Faked&) = delete;
  ~Faked() { fake = nullptr; }
};

std::string number(std::size_t value) {
  return std::to_string(value);
}
ncclComm_t communicator_of(int rank) {
  static std::array<char, 8> places{};
  return reinterpret_cast<ncclComm_t>(&places.at(static_cast<std::size_t>(rank)));
}

static_assert(!std::is_copy_constructible_v<Nccl> && std::is_nothrow_move_constructible_v<Nccl> &&
              std::is_nothrow_move_assignable_v<Nccl>);

} // namespace

extern "C" {
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id->internal, 'i', sizeof id->internal);
  const std::scoped_lock lock{fake->mutex};
  ++fake->ids;
  return std::exchange(fake->refusal, ncclSuccess);
}
ncclResult_t ncclCommInitRank(ncclComm_t* made, int world, ncclUniqueId id, int rank) {
  *made = communicator_of(rank);
  return fake->call("init " + std::to_string(rank) + " of " + std::to_string(world) + " by " +
                    std::string{id.internal, 2} + id.internal[127]);
}
ncclResult_t ncclCommDestroy(ncclComm_t) {
  return fake->call("destroy");
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  return fake->call("abort");
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = fake->state;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) {
  return "unhandled system error";
}
const char* ncclGetLastError(ncclComm_t) {
  return fake->last_error.c_str();
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t, cudaStream_t) {
  return fake->call("all_gather " + number(count) + " of type " + number(type) +
                    (from == to ? "" : " elsewhere"));
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t, cudaStream_t) {
  return fake->call("all_reduce " + number(count) + " of type " + number(type) + " by " +
                    number(operation) + (from == to ? "" : " elsewhere"));
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t, cudaStream_t) {
  return fake->call("broadcast " + number(count) + " of type " + number(type) + " from " +
                    std::to_string(root) + (from == to ? "" : " elsewhere"));
}
}

TEST_CASE("all ranks join by the id that rank 0 has made") {
  const tests::Environment environment;
  Faked nccl;
  const std::uint16_t port = tests::free_port();
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([rank, port] {
      RankWatch watch{{rank, 3, rank, 3}, {.port = port}};
      HostDevice device;
      const Nccl joined{device, watch};
    });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
  CHECK(nccl.ids == 1);
  std::vector<std::string> joined;
  for (const std::string& call : nccl.calls) {
    if (call != "destroy") {
      joined.push_back(call);
    }
  }
  std::sort(joined.begin(), joined.end());
  CHECK(joined ==
        std::vector<std::string>{"init 0 of 3 by iii", "init 1 of 3 by iii", "init 2 of 3 by iii"});
  CHECK(nccl.calls.size() == 6);
}

TEST_CASE("calls are handed on, with NCCL's name of the type") {
  Faked nccl;
  RankWatch watch{{}};
  HostDevice device;
  {
    Nccl made{device, watch};
    CHECK(made.get() == communicator_of(0));
    Nccl shared{std::move(made)};
    made = std::move(shared);
    nccl.calls.clear();
    std::array<float, 4> floats{};
    std::array<Half, 4> halves{};
    std::array<BFloat16, 4> others{};
    std::array<double, 4> doubles{};
    std::array<std::int64_t, 4> numbers{};
    std::array<unsigned, 4> counts{};
    std::array<std::byte, 4> bytes{};
    made.all_gather(nullptr, floats.data(), 1, floats.data() + 1);
    made.all_gather(nullptr, halves.data(), 2, halves.data());
    made.all_reduce(nullptr, others.data(), 3, others.data());
    made.all_reduce(nullptr, doubles.data(), 3, doubles.data(), Reduction::mean);
    made.all_reduce(nullptr, numbers.data(), 2, numbers.data() + 2, Reduction::min);
    made.all_reduce(nullptr, counts.data(), 2, counts.data(), Reduction::max);
    made.broadcast(nullptr, bytes.data(), 4);
    made.broadcast(nullptr, bytes.data(), 4, 3);
  }
  CHECK(nccl.calls ==
        std::vector<std::string>{"all_gather 1 of type 7 elsewhere", "all_gather 2 of type 6",
                                 "all_reduce 3 of type 9 by 0", "all_reduce 3 of type 8 by 4",
                                 "all_reduce 2 of type 4 by 3 elsewhere",
                                 "all_reduce 2 of type 3 by 2", "broadcast 4 of type 1 from 0",
                                 "broadcast 4 of type 1 from 3", "destroy"});
}

TEST_CASE("docs/ranks.md: a mean over all ranks") {
  namespace ps = penstock;
  Faked fakes;
  ps::RankWatch watch{{}};
  ps::HostDevice gpu;
  constexpr std::size_t count = 5;
  std::array<float, count> values{};
  float* const gradients = values.data();
  cudaStream_t stream = nullptr;
  ps::Nccl nccl{gpu, watch};
  nccl.all_reduce(stream, gradients, count, gradients, ps::Reduction::mean);
  CHECK(fakes.calls.back() == "all_reduce 5 of type 7 by 4");
}

TEST_CASE("examples/gpt adds up gradients where they lie") {
  Faked nccl;
  RankWatch watch{{}};
  HostDevice device;
  {
    transformer::NcclReducer<float> reducer{device, watch};
    std::array<float, 9> values{};
    reducer.sum(nullptr, values.data(), 7);
  }
  CHECK(nccl.calls ==
        std::vector<std::string>{"init 0 of 1 by iii", "all_reduce 7 of type 7 by 0", "destroy"});
}

TEST_CASE("NVLink's multicast stays off, unless the user has set it") {
  Faked nccl;
  RankWatch watch{{}};
  HostDevice device;
  ::unsetenv("NCCL_NVLS_ENABLE");
  const Nccl made{device, watch};
  CHECK(std::string{std::getenv("NCCL_NVLS_ENABLE")} == "0");
  ::setenv("NCCL_NVLS_ENABLE", "2", 1);
  const Nccl other{device, watch};
  CHECK(std::string{std::getenv("NCCL_NVLS_ENABLE")} == "2");
}

TEST_CASE("a call that fails is an NcclError with what NCCL says") {
  Faked nccl;
  RankWatch watch{{}};
  HostDevice device;
  Nccl made{device, watch};
  float one = 0;
  nccl.refusal = ncclSystemError;
  nccl.last_error = "socket\nclosed";
  const auto error = caught<NcclError>([&] { made.all_reduce(nullptr, &one, 42, &one); });
  CHECK(std::string{error.what()} ==
        "penstock: ncclAllReduce of 42 values failed: unhandled system error. socket?closed "
        "NCCL_DEBUG=WARN has NCCL say more.");
  CHECK(error.call() == "ncclAllReduce");
  CHECK(error.code() == ncclSystemError);
  CHECK_FALSE(error.sticky());
  nccl.last_error.clear();
  nccl.refusal = ncclUnhandledCudaError;
  CHECK(caught<NcclError>([&] { made.broadcast(nullptr, &one, 1); }).sticky());
  nccl.refusal = ncclSystemError;
  CHECK(has(caught<NcclError>([&] { const Nccl refused{device, watch}; }),
            "penstock: ncclGetUniqueId failed: unhandled system error. NCCL_DEBUG=WARN"));
}

TEST_CASE("a communicator is aborted where other ranks may be gone") {
  Faked nccl;
  RankWatch watch{{}};
  HostDevice device;
  const auto last_call = [&nccl] { return nccl.calls.back(); };
  {
    const Nccl made{device, watch};
  }
  CHECK(last_call() == "destroy");
  try {
    const Nccl made{device, watch};
    throw std::runtime_error{"mine"};
  } catch (const std::runtime_error&) {
    CHECK(last_call() == "abort");
  }
  {
    const Nccl made{device, watch};
  }
  CHECK(last_call() == "destroy");
  nccl.state = ncclSystemError;
  {
    const Nccl made{device, watch};
  }
  CHECK(last_call() == "abort");
}
