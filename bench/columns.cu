// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does it cost that a schema has columns? The same bytes as records of one array, of two
// columns and of seven, from page-locked memory to the GPU in the application's own loop, with the
// columns of a copy sent by one call, or one by one. Nothing is read and nothing computed: only the
// transfer is timed. Rounds are interleaved; each line is a median of seven runs, in GB/s, with the
// share of a core that the device thread took in the last run.

#include <penstock/cuda.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ps = penstock;
using ps::Field;

struct Record {
  std::uint8_t bytes[3072];
};
struct Two : ps::Columns<Field<"image", std::uint8_t, 3068>, Field<"label", std::int32_t>> {};
struct Seven : ps::Columns<Field<"a", std::uint8_t, 512>, Field<"b", std::uint8_t, 512>,
                           Field<"c", std::uint8_t, 512>, Field<"d", std::uint8_t, 512>,
                           Field<"e", std::uint8_t, 512>, Field<"f", std::uint8_t, 508>,
                           Field<"g", std::int32_t>> {};
constexpr std::uint64_t record_bytes = 3072;
constexpr std::uint64_t records = 8'000'000'000 / record_bytes;

/// Leaves the memory as it is.
template <class Schema> struct Untouched {
  using schema = Schema;
  std::uint64_t size() const { return records; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Schema, Where> into) const {
    return into.size();
  }
};

/// A GPU that copies each column by a call of its own.
struct OneByOne : ps::CudaDevice {
  using CudaDevice::CudaDevice;
  void copy_to_device(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
    CudaDevice::copy_to_device(to, from, bytes, stream);
  }
};

template <class Schema, class Device> class Contender {
 public:
  double run() {
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t seen = 0;
    for (auto batch : pipeline_.on(stream_)) {
      seen += batch.size();
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    return static_cast<double>(seen * record_bytes) / time.count() / 1e9;
  }
  double cpu() const { return pipeline_.report().stages[1].cpu_share; }

 private:
  Device gpu_;
  decltype(gpu_.stream()) stream_ = gpu_.stream();
  decltype(ps::Reader{Untouched<Schema>{}, ps::to_pinned} | ps::AsyncCopier{gpu_}) pipeline_ =
      ps::Reader{Untouched<Schema>{}, ps::to_pinned} | ps::AsyncCopier{gpu_};
};

struct Line {
  std::string name;
  std::function<double()> run;
  std::function<double()> cpu;
  std::vector<double> speeds{};
};

template <class Schema, class Device> Line line(const char* name) {
  auto contender = std::make_shared<Contender<Schema, Device>>();
  contender->run(); // sets up what prepare() does
  return {name, [contender] { return contender->run(); }, [contender] { return contender->cpu(); }};
}

int main() {
  std::vector<Line> lines{line<Record, ps::CudaDevice>("one array"),
                          line<Two, ps::CudaDevice>("two columns, one call"),
                          line<Two, OneByOne>("two columns, two calls"),
                          line<Seven, ps::CudaDevice>("seven columns, one call"),
                          line<Seven, OneByOne>("seven columns, seven calls")};
  for (int round = 0; round < 7; ++round) {
    for (Line& line : lines) {
      line.speeds.push_back(line.run());
    }
  }
  for (Line& line : lines) {
    std::sort(line.speeds.begin(), line.speeds.end());
    std::printf("%-28s %6.2f GB/s (%.2f to %.2f)  cpu %.2f\n", line.name.c_str(), line.speeds[3],
                line.speeds.front(), line.speeds.back(), line.cpu());
  }
}
