// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What is asked of NCCL, with an NCCL and a CUDA of the test's own in their places: no test needs a
// GPU or libnccl.

#include "../../examples/gpt/nccl_reducer.hpp"

#include <penstock/cuda/nccl.hpp>
#include <penstock/host/device.hpp>

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/fake_cuda.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
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
  std::atomic<bool> graphs = false; // while there are any, an abort waits

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
  const ncclResult_t status = fake->call("abort");
  while (fake->graphs) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return status;
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

TEST_CASE("ranks join by the id that rank 0 has made") {
  Faked nccl;
  HostDevice device;
  ncclUniqueId id = Nccl::new_id();
  id.internal[127] = 'j';
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const Nccl joined{device, {rank, 3, rank, 3}, id};
  }
  CHECK(nccl.ids == 1);
  CHECK(nccl.calls == std::vector<std::string>{"init 0 of 3 by iij", "destroy",
                                               "init 1 of 3 by iij", "destroy",
                                               "init 2 of 3 by iij", "destroy"});
}

TEST_CASE("calls are handed on, with NCCL's name of the type") {
  Faked nccl;
  HostDevice device;
  {
    Nccl made{device, Ranks{}, Nccl::new_id()};
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
  using Bytes = int;
  constexpr Bytes MPI_BYTE = 1;
  constexpr int MPI_COMM_WORLD = 0;
  const auto MPI_Bcast = [](void*, std::size_t, Bytes, int, int) {};
  Faked fakes;
  ps::HostDevice gpu;
  const ps::Ranks me;
  constexpr std::size_t count = 5;
  std::array<float, count> values{};
  float* const gradients = values.data();
  cudaStream_t stream = nullptr;
  ncclUniqueId id{};
  if (me.rank == 0) {
    id = ps::Nccl::new_id();
  }
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD); // or a store, or a file
  ps::Nccl nccl{gpu, me, id, {.timeout = std::chrono::seconds{60}}};
  nccl.all_reduce(stream, gradients, count, gradients, ps::Reduction::mean);
  nccl.sync(stream); // throws if a rank is gone, or late by more than 60 s
  CHECK(fakes.calls.back() == "all_reduce 5 of type 7 by 4");
}

TEST_CASE("examples/gpt adds up gradients where they lie, one step ahead at most") {
  Faked nccl;
  HostDevice device;
  {
    transformer::NcclReducer<float> reducer{device, {}, Nccl::new_id(), {}};
    std::array<float, 9> values{};
    reducer.sum(nullptr, values.data(), 7);
    reducer.keep_pace(nullptr);
    fake_cuda::runtime().not_ready = 3;
    reducer.keep_pace(nullptr);
    CHECK(fake_cuda::runtime().not_ready == 0);
    fake_cuda::runtime().not_ready = 3;
    reducer.sync(nullptr);
    CHECK(fake_cuda::runtime().not_ready == 0);
  }
  CHECK(nccl.calls ==
        std::vector<std::string>{"init 0 of 1 by iii", "all_reduce 7 of type 7 by 0", "destroy"});
}

TEST_CASE("NVLink's multicast stays off, unless the user has set it") {
  Faked nccl;
  HostDevice device;
  ::unsetenv("NCCL_NVLS_ENABLE");
  const Nccl made{device, Ranks{}, Nccl::new_id()};
  CHECK(std::string{std::getenv("NCCL_NVLS_ENABLE")} == "0");
  ::setenv("NCCL_NVLS_ENABLE", "2", 1);
  const Nccl other{device, Ranks{}, Nccl::new_id()};
  CHECK(std::string{std::getenv("NCCL_NVLS_ENABLE")} == "2");
}

TEST_CASE("a call that fails is an NcclError with what NCCL says") {
  Faked nccl;
  HostDevice device;
  Nccl made{device, Ranks{}, Nccl::new_id()};
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
  CHECK(has(caught<NcclError>([&] { const Nccl refused{device, Ranks{}, Nccl::new_id()}; }),
            "penstock: ncclGetUniqueId failed: unhandled system error. NCCL_DEBUG=WARN"));
}

TEST_CASE("a communicator is aborted where other ranks may be gone") {
  Faked nccl;
  HostDevice device;
  const auto last_call = [&nccl] { return nccl.calls.back(); };
  {
    const Nccl made{device, Ranks{}, Nccl::new_id()};
  }
  CHECK(last_call() == "destroy");
  try {
    const Nccl made{device, Ranks{}, Nccl::new_id()};
    throw std::runtime_error{"mine"};
  } catch (const std::runtime_error&) {
    CHECK(last_call() == "abort");
  }
  {
    const Nccl made{device, Ranks{}, Nccl::new_id()};
  }
  CHECK(last_call() == "destroy");
  nccl.state = ncclSystemError;
  {
    const Nccl made{device, Ranks{}, Nccl::new_id()};
  }
  CHECK(last_call() == "abort");
}

TEST_CASE("a wait ends when what was enqueued is done") {
  Faked nccl;
  HostDevice device;
  Nccl made{device, Ranks{}, Nccl::new_id(), {.timeout = std::chrono::milliseconds{0}}};
  const CudaEvent event;
  fake_cuda::runtime().not_ready = 50;
  made.sync(nullptr);
  CHECK(fake_cuda::runtime().not_ready == 0);
  fake_cuda::runtime().not_ready = 50;
  made.sync(event);
  CHECK(fake_cuda::runtime().not_ready == 0);
  CHECK(nccl.calls == std::vector<std::string>{"init 0 of 1 by iii"});
}

TEST_CASE("a collective that outlasts its time is aborted, and is one error from then on") {
  Faked nccl;
  HostDevice device;
  float one = 0;
  {
    Nccl made{device, {2, 4, 2, 4}, Nccl::new_id(), {.timeout = std::chrono::milliseconds{30}}};
    made.all_reduce(nullptr, &one, 1, &one);
    fake_cuda::runtime().not_ready = 1'000'000'000;
    const auto begun = std::chrono::steady_clock::now();
    const auto error = caught<NcclError>([&] { made.sync(nullptr); });
    const auto took = std::chrono::steady_clock::now() - begun;
    fake_cuda::runtime().not_ready = 0;
    CHECK(took >= std::chrono::milliseconds{30});
    CHECK(
        std::string{error.what()} ==
        "penstock: rank 2 of 4: ncclAllReduce has outlasted 30 ms. Give NcclOptions::timeout more "
        "if a rank may need that. Another rank may be gone, or make other calls: see what the "
        "ranks have printed, and start all anew.");
    CHECK(error.call() == "ncclAllReduce");
    CHECK(error.code() == ncclRemoteError);
    CHECK(made.get() == nullptr);
    const std::string said = error.what();
    CHECK(caught<NcclError>([&] { made.sync(nullptr); }).what() == said);
    CHECK(caught<NcclError>([&] { made.sync(CudaEvent{}); }).what() == said);
    CHECK(caught<NcclError>([&] { made.all_reduce(nullptr, &one, 1, &one); }).what() == said);
    CHECK(caught<NcclError>([&] { made.all_gather(nullptr, &one, 1, &one); }).what() == said);
    Nccl moved{std::move(made)};
    CHECK(caught<NcclError>([&] { moved.broadcast(nullptr, &one, 1); }).what() == said);
  }
  CHECK(nccl.calls ==
        std::vector<std::string>{"init 2 of 4 by iii", "all_reduce 1 of type 7 by 0", "abort"});
}

TEST_CASE("an error that NCCL reports while one waits is aborted at once") {
  Faked nccl;
  HostDevice device;
  std::optional<Nccl> held{std::in_place, device, Ranks{1, 2, 1, 2}, Nccl::new_id()};
  Nccl& made = *held;
  float one = 0;
  made.broadcast(nullptr, &one, 1);
  fake_cuda::runtime().not_ready = 1'000'000'000;
  nccl.state = ncclSystemError;
  nccl.last_error = "peer\nclosed";
  const auto error = caught<NcclError>([&] { made.sync(nullptr); });
  fake_cuda::runtime().not_ready = 0;
  CHECK(has(error,
            "penstock: rank 1 of 2: ncclBroadcast failed: unhandled system error. peer?closed"
            " Another rank may be gone"));
  CHECK(error.code() == ncclSystemError);
  CHECK(caught<NcclError>([&] { made.sync(nullptr); }).what() == std::string{error.what()});
  held.reset();
  CHECK(nccl.calls.back() == "abort");

  nccl.state = ncclSuccess;
  Nccl second{device, {1, 2, 1, 2}, Nccl::new_id()};
  nccl.state = ncclSystemError; // and what was enqueued is done
  CHECK(has(caught<NcclError>([&] { second.sync(nullptr); }), "ncclCommInitRank failed"));
}

TEST_CASE("one that was given up says so") {
  Faked nccl;
  HostDevice device;
  {
    Nccl made{device, Ranks{}, Nccl::new_id()};
    made.abort();
    made.abort();
    CHECK(
        has(caught<NcclError>([&] { made.sync(nullptr); }), "given up by abort(), or moved from"));
  }
  CHECK(nccl.calls == std::vector<std::string>{"init 0 of 1 by iii", "abort"});
}

TEST_CASE("an error does not wait for the graphs that NCCL waits for") {
  Faked nccl;
  HostDevice device;
  {
    Nccl made{device, Ranks{0, 2, 0, 2}, Nccl::new_id(), {.timeout = std::chrono::milliseconds{1}}};
    nccl.graphs = true;
    fake_cuda::runtime().not_ready = 1'000'000'000;
    caught<NcclError>([&] { made.sync(nullptr); });
    fake_cuda::runtime().not_ready = 0;
    nccl.graphs = false; // they go first
  }
  CHECK(nccl.calls.back() == "abort");
}
