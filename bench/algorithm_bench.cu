// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How near do the algorithms of cuda/*.cuh come to the speed of the GPU's memory, and to that of
// thrust and CUB?
//
// A run is twenty calls on one stream, from the first to the wait for the last. Bytes read and
// bytes written both count. algorithm/CONTENDER/SIZE, of 256 MiB of input if the name has no size:
//   copy                   cudaMemcpyAsync on the device: the limit
//   u8_to_bf16, u8_to_f32, bf16_to_u8
//                          convert()
//   square, square_thrust  transform(), and thrust::transform with par_nosync, of floats
//   select, select_cub     select() that keeps every third 32-bit number, and CUB's
// To be run with --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true. The tests
// check the results.

#include "support/contender.hpp"
#include "support/gpu.hpp"

#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>
#include <penstock/cuda/convert.cuh>
#include <penstock/data/float16.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <cub/device/device_select.cuh>
#include <thrust/execution_policy.h>
#include <thrust/transform.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t in_bytes = 256 * MiB;
constexpr std::size_t out_bytes = 1024 * MiB;
constexpr int calls = 20;

struct Square {
  PENSTOCK_HD float operator()(float x) const { return x * x; }
};
struct EveryThird {
  PENSTOCK_HD bool operator()(std::uint32_t x) const { return x % 3 == 0; }
};
struct Scramble {
  std::uint32_t* at;
  PENSTOCK_HD void operator()(std::size_t i) const {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761U;
    x ^= x >> 15;
    at[i] = x * 2246822519U >> 1; // a float that is no NaN
  }
};
/// Shared by all contenders: memory filled with numbers.
class Memory {
 public:
  Memory() {
    ps::for_each(stream, in_bytes / 4, Scramble{in_as<std::uint32_t>()});
    gpu.sync(stream);
  }
  template <class T> T* in_as() const noexcept { return reinterpret_cast<T*>(in.get()); }
  template <class T> T* out_as() const noexcept { return reinterpret_cast<T*>(out.get()); }

  ps::CudaDevice gpu;
  ps::CudaStream stream = gpu.stream();
  DeviceBytes in = make_on_device(in_bytes);
  DeviceBytes out = make_on_device(out_bytes);
  DeviceBytes scratch_bytes = make_on_device(out_bytes);
  DeviceBytes count = make_on_device(256);
  ps::Workspace<ps::CudaDevice> workspace{gpu, out_bytes};
};

/// CUB says how much memory it needs, and then gets all there is.
template <class F> void by_cub(const Memory& memory, F call) {
  std::size_t bytes = 0;
  check(call(nullptr, bytes), "CUB's question");
  if (bytes > out_bytes) {
    throw std::runtime_error{"CUB needs " + std::to_string(bytes) + " bytes"};
  }
  check(call(memory.scratch_bytes.get(), bytes), "CUB");
}

class Calls : public Contender {
 public:
  Calls(Memory& memory, std::function<void()> call) : memory_{memory}, call_{std::move(call)} {}
  std::uint64_t run() override {
    for (int i = 0; i < calls; ++i) {
      call_();
    }
    memory_.gpu.sync(memory_.stream);
    return 0;
  }

 private:
  Memory& memory_;
  std::function<void()> call_;
};

/// `bytes`: the bytes that a call reads and writes.
void add_call(Memory& memory, const std::string& name, std::size_t bytes,
              std::function<void()> call) {
  add(
      "algorithm/" + name, calls * bytes, [] { return std::uint64_t{0}; },
      [&memory, call = std::move(call)](bool) { return std::make_unique<Calls>(memory, call); });
}

void add_maps(Memory& m) {
  const auto* u8 = m.in_as<std::uint8_t>();
  const auto* f32 = m.in_as<float>();
  constexpr std::size_t floats = in_bytes / 4;
  add_call(m, "copy/256MiB", 2 * in_bytes, [&m] {
    check(cudaMemcpyAsync(m.out.get(), m.in.get(), in_bytes, cudaMemcpyDeviceToDevice,
                          m.stream.get()),
          "cudaMemcpyAsync");
  });
  add_call(m, "u8_to_bf16/256MiB", 3 * in_bytes,
           [&m, u8] { ps::convert(m.stream, u8, in_bytes, m.out_as<ps::BFloat16>(), 1 / 255.0F); });
  add_call(m, "u8_to_f32/256MiB", 5 * in_bytes,
           [&m, u8] { ps::convert(m.stream, u8, in_bytes, m.out_as<float>(), 1 / 255.0F); });
  add_call(m, "bf16_to_u8/256MiB", in_bytes + in_bytes / 2, [&m] {
    ps::convert(m.stream, m.in_as<const ps::BFloat16>(), in_bytes / 2, m.out_as<std::uint8_t>(),
                255.0F);
  });
  add_call(m, "square/256MiB", 2 * in_bytes,
           [&m, f32] { ps::transform(m.stream, f32, floats, m.out_as<float>(), Square{}); });
  add_call(m, "square_thrust/256MiB", 2 * in_bytes, [&m, f32] {
    thrust::transform(thrust::cuda::par_nosync.on(m.stream.get()), f32, f32 + floats,
                      m.out_as<float>(), Square{});
  });
}

void add_selection(Memory& m) {
  const auto* u32 = m.in_as<std::uint32_t>();
  constexpr std::size_t n = in_bytes / 4;
  auto* const count = reinterpret_cast<std::uint64_t*>(m.count.get());
  add_call(m, "select/256MiB", in_bytes + in_bytes / 3, [&m, u32, count] {
    ps::select(m.stream, u32, n, EveryThird{}, m.out_as<std::uint32_t>(), count, m.workspace);
  });
  add_call(m, "select_cub/256MiB", in_bytes + in_bytes / 3, [&m, u32, count] {
    by_cub(m, [&](void* at, std::size_t& bytes) {
      return cub::DeviceSelect::If(at, bytes, u32, m.out_as<std::uint32_t>(), count, n,
                                   EveryThird{}, m.stream.get());
    });
  });
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    Memory memory;
    const auto here = memory.gpu.attach();
    add_maps(memory);
    add_selection(memory);
    return run_all();
  });
}
