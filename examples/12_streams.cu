// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 12_streams: multiplies 64 matrices in host memory by one that lies on the GPU, and uses each
// product on the host. It does this in four ways:
//
//   pinned           page-locked memory; copy, multiply, copy back, wait, one item after the other
//   pageable         the same with memory as malloc gives it
//   pinned, streams  four streams by hand, so that copies and products of several items overlap
//   pipeline         Reader | AsyncCopier | Kernel | AsyncCopier{to_host} | Consumer, from pageable
//                    memory; it page-locks its rings alone
//
//   12_streams [--small] [--items N] [--size N]
//
// Without a size (of the matrices' sides, a multiple of 64) it takes the one at which a product
// takes as long as a copy, where overlap is worth most. First it prints how much host memory
// page-locking 512 MiB takes, in place and in a copy. Then it prints a row for each way: the median
// time of five runs, without set-up; for how long of it the GPU multiplied, by events; the memory
// that the way takes on the GPU and on the host, without the items' own, and how much is
// page-locked, with the items' own; how many times as fast as "pinned" it is. Last comes the
// pipeline's Report.
//
// It compares every product of every way, bit by bit: the numbers are small integers, so that sums
// are exact in whatever order cuBLAS adds. It compares one column of each item with the CPU's. It
// needs a GPU and cuBLAS: nvcc -std=c++20 -O2 -Iinclude examples/12_streams.cu -lcublas

#include "support/blas.hpp"
#include "support/memory_use.hpp"
#include "support/products.hpp"

#include <penstock/cuda.hpp>
#include <penstock/device/device_array.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <iomanip>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

namespace ps = penstock;

/// A stream used by hand, and what one item needs there.
struct Lane {
  explicit Lane(Work& work)
      : stream{work.gpu.stream()}, in{work.gpu, work.floats}, out{work.gpu, work.floats},
        workspace{work.gpu, Blas::workspace_bytes} {}

  void enqueue(Work& work, std::size_t i, float* product) {
    work.gpu.copy_to_device(in.data(), work.item(i), work.bytes, stream);
    work.multiply(i, in.data(), out.data(), stream, workspace);
    work.gpu.copy_to_host(product, out.data(), work.bytes, stream);
  }

  ps::CudaStream stream;
  ps::DeviceArray<float, ps::CudaDevice> in, out;
  ps::Workspace<ps::CudaDevice> workspace;
};

/// Measures what a way costs: make it before the way's set-up.
class Row {
 public:
  /// `pinned`: the time of the way "pinned"; 0 for that way itself.
  explicit Row(const char* name, double pinned = 0) : name_{name}, pinned_{pinned} {}

  /// Prints the row, and returns the median time of a run. `page_locked` is in bytes.
  template <class Run> double print(Work& work, std::size_t page_locked, Run run) const {
    const auto timed = [&] {
      work.begin();
      const auto start = std::chrono::steady_clock::now();
      run();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      return std::pair{took.count(), work.end()};
    };
    timed(); // looks at every product, and takes all memory
    const double on_gpu = on_gpu_ - free_on_gpu_mib();
    const double on_host = process_mib("RssAnon") - on_host_;

    work.use_as = Work::Use::compare_a_column;
    std::array<std::pair<double, double>, 5> runs;
    std::generate(runs.begin(), runs.end(), timed);
    work.use_as = Work::Use::compare_all;
    std::sort(runs.begin(), runs.end());
    const auto [seconds, products_ms] = runs[runs.size() / 2];
    std::cout << std::left << std::setw(16) << name_ << std::right << std::setw(9) << seconds * 1e3
              << std::setw(13) << products_ms << std::setw(9) << on_gpu << std::setw(10) << on_host
              << std::setw(13) << static_cast<double>(page_locked) / mib << std::setw(15)
              << (pinned_ != 0 ? pinned_ : seconds) / seconds << '\n';
    return seconds;
  }

 private:
  const char* name_;
  double pinned_;
  double on_gpu_ = free_on_gpu_mib();
  double on_host_ = process_mib("RssAnon");
};

/// Takes one item after the other. A copy from or to pageable memory is then as cudaMemcpy.
void one_by_one(Work& work, Lane& lane, float* product) {
  for (std::size_t i = 0; i < work.items; ++i) {
    lane.enqueue(work, i, product);
    work.gpu.sync(lane.stream);
    work.use(i, product);
  }
}

void pageable(Work& work, const Row& row) {
  const Floats product = make_floats(work.floats);
  Lane lane{work};
  row.print(work, 0, [&] { one_by_one(work, lane, product.get()); });
}

double pinned_one_stream(Work& work, const Row& row) {
  const PinnedInPlace items{work.item(0), work.items * work.floats};
  const Pinned product{work.gpu, work.floats};
  Lane lane{work};
  return row.print(work, (work.items + 1) * work.bytes,
                   [&] { one_by_one(work, lane, product.data()); });
}

void pinned_streams(Work& work, const Row& row) {
  constexpr std::size_t streams = 4;
  const PinnedInPlace items{work.item(0), work.items * work.floats};
  const Pinned products{work.gpu, streams * work.floats};
  std::deque<Lane> lanes;
  for (std::size_t k = 0; k < streams; ++k) {
    lanes.emplace_back(work);
  }
  row.print(work, (work.items + streams) * work.bytes, [&] {
    for (std::size_t i = 0; i < work.items + streams; ++i) {
      Lane& lane = lanes[i % streams];
      float* const product = products.data() + i % streams * work.floats;
      if (i >= streams) {
        work.gpu.sync(lane.stream);
        work.use(i - streams, product);
      }
      if (i < work.items) {
        lane.enqueue(work, i, product);
      }
    }
  });
}

void pipeline(Work& work, const Row& row) {
  const ps::Workspace<ps::CudaDevice> workspace{work.gpu, Blas::workspace_bytes};
  const std::uint64_t before = work.gpu.pinned_bytes();
  auto pipeline =
      ps::Reader{ps::memory(work.all(), {.record_bytes = work.bytes}), ps::to_pinned} |
      ps::AsyncCopier{work.gpu, {.batch = 1, .depth = 4}} |
      ps::Kernel{[&](ps::Batch<const std::byte, ps::Device> in,
                     ps::Batch<std::byte, ps::Device> out, cudaStream_t stream) {
                   work.multiply(in.index(), reinterpret_cast<const float*>(in.data()),
                                 reinterpret_cast<float*>(out.data()), stream, workspace);
                 },
                 {.extents = {work.bytes}}} |
      ps::AsyncCopier{ps::to_host} |
      ps::Consumer{[&](ps::Batch<const std::byte, ps::Pinned> product) {
        work.use(product.index(), reinterpret_cast<const float*>(product.data()));
      }};
  pipeline.prepare();
  row.print(work, work.gpu.pinned_bytes() - before, [&] { pipeline.run(); });
  std::cout << pipeline.report();
}

/// Prints how much host memory page-locking takes at most, in times the data: first in place, then
/// in a copy, and before all else. The peak that Linux knows of a process (VmHWM) never falls.
void compare_pinning(ps::CudaDevice& gpu) {
  constexpr std::size_t count = (std::size_t{512} << 20) / sizeof(float);
  const double before = process_mib("VmRSS");
  const auto peak = [before] { return (process_mib("VmHWM") - before) / 512; };
  const Floats data = make_floats(count);
  {
    const PinnedInPlace pinned{data.get(), count};
  }
  const double in_place = peak();
  const Pinned copy{gpu, count};
  std::copy_n(data.get(), count, copy.data());
  std::cout << "512 MiB page-locked take, at their peak, " << in_place
            << " times as much host memory in place, and " << peak() << " times in a copy\n";
}

} // namespace

int main(int argc, char** argv) try {
  std::size_t items = 64;
  std::size_t size = 0; // to be found
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    std::size_t* const number = arg == "--items" ? &items : arg == "--size" ? &size : nullptr;
    const std::string value = number && i + 1 < argc ? argv[++i] : "";
    const char* const end = value.data() + value.size();
    if (arg == "--small") {
      size = 256;
    } else if (value.empty() || std::from_chars(value.data(), end, *number).ptr != end ||
               *number == 0 || size % 64 != 0) {
      throw std::invalid_argument{"what is \"" + arg + ' ' + value +
                                  "\"? Usage: 12_streams [--small] [--items N] [--size N], where "
                                  "a size is a multiple of 64"};
    }
  }
  ps::CudaDevice gpu;
  const auto attached = gpu.attach();
  std::cout << std::fixed << std::setprecision(2);
  compare_pinning(gpu);
  Work work{gpu, size != 0 ? size : balanced_size(gpu), items};
  std::cout << items << " items of " << static_cast<double>(work.bytes) / mib << " MiB on "
            << gpu.name() << '\n'
            << std::setw(25) << "ms" << std::setw(13) << "products ms" << std::setw(9) << "GPU MiB"
            << std::setw(10) << "host MiB" << std::setw(13) << "page-locked" << std::setw(15)
            << "times as fast" << '\n';
  const double pinned = pinned_one_stream(work, Row{"pinned"});
  pageable(work, Row{"pageable", pinned});
  pinned_streams(work, Row{"pinned, streams", pinned});
  pipeline(work, Row{"pipeline", pinned});
  std::cout << "all products are the same, bit by bit\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << "12_streams: " << error.what() << '\n';
  return 1;
}
