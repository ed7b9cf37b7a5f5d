// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The code of README.md and docs/ that is about a GPU, word for word, and checks that it does what
// the pages say: see tests/docs_test.cpp, and tests/cookbook_test.cpp.

#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>
#include <penstock/sources/zip.hpp>

#include "cookbook/cccl.cuh"
#include "cookbook/device_vector.cuh"

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace ps = penstock;

namespace shown {

struct Frame {
  std::uint8_t value;
};
struct Image {
  float value;
};
struct Decode {
  void operator()(const Frame& frame, Image& image) const { image.value = frame.value / 2.0F; }
};
struct Sample
    : ps::Columns<ps::Field<"image", std::uint8_t, 4, 4>, ps::Field<"label", std::int32_t>> {};

// The kernels below add to it.
__device__ unsigned long long total;

unsigned long long total_so_far() {
  unsigned long long value = 0;
  REQUIRE(cudaMemcpyFromSymbol(&value, total, sizeof value) == cudaSuccess);
  const unsigned long long none = 0;
  REQUIRE(cudaMemcpyToSymbol(total, &none, sizeof none) == cudaSuccess);
  return value;
}

__global__ void classify(const Image* images, std::size_t count) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) {
    atomicAdd(&total, static_cast<unsigned long long>(2 * images[i].value));
  }
}
__global__ void decode(const Frame* frames, Image* images, std::size_t count) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) {
    images[i].value = frames[i].value / 2.0F;
  }
}
unsigned blocks(const ps::Batch<const Image, ps::Device>& images) {
  return static_cast<unsigned>((images.size() + 255) / 256);
}

__global__ void count_lines(const char* text, std::size_t size, unsigned long long* lines) {
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  unsigned long long found = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += threads) {
    found += text[i] == '\n' ? 1 : 0;
  }
  atomicAdd(lines, found);
}

__device__ void add(const ps::Column<const std::uint8_t, 4, 4>& images,
                    const ps::Column<const std::int32_t>& labels) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < images.size()) {
    atomicAdd(&total, static_cast<unsigned long long>(images[i][3][3] + labels[i]));
  }
}
__global__ void train(ps::Column<const std::uint8_t, 4, 4> images,
                      ps::Column<const std::int32_t> labels) {
  add(images, labels);
}
__global__ void train(ps::Batch<const Sample, ps::Device> batch) {
  add(ps::get<"image">(batch), ps::get<"label">(batch));
}

/// Images of n mod 100 and labels of 1, for n of 0 to 999.
class Samples {
 public:
  using schema = Sample;
  std::uint64_t size() const { return 1000; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Sample, Where> into) const {
    for (std::size_t i = 0; i < into.size(); ++i) {
      std::memset(ps::get<"image">(into)[i], static_cast<int>((into.index() + i) % 100), 16);
      ps::get<"label">(into)[i] = 1;
    }
    return into.size();
  }
};
constexpr unsigned long long sum_of_samples = 10 * (99 * 100 / 2) + 1000;

/// Catches the text of std::cout while it lives.
struct Captured {
  Captured() : before{std::cout.rdbuf(text.rdbuf())} {}
  ~Captured() { std::cout.rdbuf(before); }
  std::ostringstream text;
  std::streambuf* before;
};

/// Makes `folder` the current one while it lives.
struct Inside {
  explicit Inside(const std::string& folder) { std::filesystem::current_path(folder); }
  ~Inside() { std::filesystem::current_path(before); }
  std::filesystem::path before = std::filesystem::current_path();
};

} // namespace shown
using namespace shown;

TEST_CASE("overview: files to kernels, decoded and staged") {
  const std::string frames(5'000'000, '\3');
  const ps::tests::TempDir folder;
  folder.write("frames.bin", frames);
  const Inside inside{folder.path()};
  const Captured said;

  ps::CudaDevice gpu;
  auto pipeline = ps::Reader{ps::records<Frame>("frames.bin")} // workers read into pageable memory
                  | ps::Decoder{Decode{}}                      // workers turn Frames into Images
                  | ps::PinnedStager{}                   // workers copy into page-locked memory
                  | ps::AsyncCopier{gpu, {.batch = 256}} // the copy engine, fed by one thread
                  |
                  ps::Consumer{[&](ps::Batch<const Image, ps::Device> images, cudaStream_t stream) {
                    classify<<<blocks(images), 256, 0, stream>>>(images.data(), images.size());
                  }}; // called by the thread that calls run()
  std::cout << pipeline.run();

  CHECK(total_so_far() == 3 * frames.size());
  CHECK(said.text.str().rfind("5000000 records", 0) == 0);
}

TEST_CASE("README: the lines of a file, counted by a kernel") {
  std::string numbers;
  for (int number = 1; number <= 1'000'000; ++number) {
    numbers += std::to_string(number) + '\n';
  }
  const ps::tests::TempDir folder;
  folder.write("numbers.txt", numbers);
  const Inside inside{folder.path()};

  ps::CudaDevice gpu;
  auto lines = ps::device_array<unsigned long long>(gpu, 1); // zeros
  auto pipeline = ps::Reader{ps::records<char>("numbers.txt"), ps::to_pinned} |
                  ps::AsyncCopier{gpu} |
                  ps::Consumer{[&](ps::Batch<const char, ps::Device> text, cudaStream_t stream) {
                    count_lines<<<1024, 256, 0, stream>>>(text.data(), text.size(), lines.data());
                  }};
  pipeline.run();

  const auto stream = gpu.stream();
  CHECK(lines.read(stream)[0] == 1'000'000);
}

TEST_CASE("README: from disk to disk, by a kernel") {
  const std::string frames(5'000'000, '\3');
  const ps::tests::TempDir folder;
  folder.write("frames.bin", frames);
  const Inside inside{folder.path()};

  ps::CudaDevice gpu;
  auto pipeline = ps::Reader{ps::records<Frame>("frames.bin"), ps::to_pinned} // disk -> pinned
                  | ps::AsyncCopier{gpu}                                      // pinned -> device
                  | ps::Kernel{[](ps::Batch<const Frame, ps::Device> in,
                                  ps::Batch<Image, ps::Device> out, cudaStream_t stream) {
                      decode<<<blocks(out), 256, 0, stream>>>(in.data(), out.data(), out.size());
                    }} // on the device
                  | ps::AsyncCopier{ps::to_host} // device -> pinned
                  | ps::Writer{"images.bin"};    // pinned -> disk
  pipeline.run();

  std::ifstream file{"images.bin", std::ios::binary};
  std::vector<Image> images(frames.size() + 1);
  const auto most = static_cast<std::streamsize>(images.size() * sizeof(Image));
  file.read(reinterpret_cast<char*>(images.data()), most);
  CHECK(file.gcount() == static_cast<std::streamsize>(frames.size() * sizeof(Image)));
  images.pop_back();
  CHECK(std::ranges::all_of(images, [](const Image& image) { return image.value == 1.5F; }));
}

TEST_CASE("README: a loop of one's own, two epochs, columns by name") {
  ps::CudaDevice gpu;
  const auto stream = gpu.stream();
  const Samples source;
  const unsigned blocks = 1;

  auto data =
      ps::Reader{source, ps::to_pinned, {.epochs = 2}} | ps::AsyncCopier{gpu, {.batch = 256}};
  for (auto batch : data.on(stream)) {
    train<<<blocks, 256, 0, stream>>>(ps::get<"image">(batch), ps::get<"label">(batch));
  }

  CHECK(total_so_far() == 2 * sum_of_samples);
}

TEST_CASE("stages: a lease is a batch to a kernel, and the Report has the loop") {
  ps::CudaDevice gpu;
  const auto stream = gpu.stream();
  const Samples source;
  const unsigned blocks = 1;
  const Captured said;

  auto data =
      ps::Reader{source, ps::to_pinned, {.epochs = 2}} | ps::AsyncCopier{gpu, {.batch = 256}};
  for (auto batch : data.on(stream)) {        // ready when `stream` comes to it: nothing waits
    train<<<blocks, 256, 0, stream>>>(batch); // a Lease is a Batch to whatever takes one
  } // its place goes back by an event, never by waiting
  std::cout << data.report();

  CHECK(total_so_far() == 2 * sum_of_samples);
  CHECK(said.text.str().find(" loop ") != std::string::npos);
}

TEST_CASE("ranks: a process takes the GPU of its rank on this host") {
  const Captured said;

  const ps::Ranks me = ps::ranks();                    // which of several processes this is
  ps::CudaDevice gpu{static_cast<int>(me.local_rank)}; // each process takes a GPU of its own
  const auto attached = gpu.attach();                  // this thread's calls of CUDA go there
  std::cout << "process " << me.rank << " of " << me.world << '\n';

  CHECK(said.text.str() ==
        "process " + std::to_string(me.rank) + " of " + std::to_string(me.world) + '\n');

  const ps::Ranks second{.rank = 1, .world = 2}; // the only process on its host
  CHECK(ps::detail::checked(second) == ps::Ranks{1, 2, 0, 1});
}

TEST_CASE("cookbook: Thrust and CUB take a device batch, and a vector shows one") {
  std::vector<float> numbers(10'500);
  std::vector<float> first;
  std::vector<float> greatest;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i);
    if (i < 1000) {
      first.push_back(numbers[i] * numbers[i]);
    }
    if (i % 1000 == 999 || i + 1 == numbers.size()) {
      greatest.push_back(numbers[i] * numbers[i]);
    }
  }
  ps::CudaDevice gpu;
  const Looked found = squares_of(gpu, numbers);
  CHECK(found.first_batch == first);
  CHECK(found.greatest == greatest);
}

TEST_CASE("cookbook: a stream_ref, an mdspan over a column, and rings in a pool's memory") {
  struct CountingPool {
    void* allocate(std::size_t bytes) {
      ++allocations;
      return gpu.allocate(bytes);
    }
    void deallocate(void* at, std::size_t bytes) noexcept {
      ++deallocations;
      gpu.deallocate(at, bytes);
    }
    ps::CudaDevice gpu;
    int allocations{};
    int deallocations{};
  };
  struct Shades {
    float of[2][3];
  };
  constexpr std::size_t pictures = 250;
  std::vector<Shades> shades(pictures);
  const std::vector<int> labels(pictures);
  std::vector<float> sums;
  for (std::size_t i = 0; i < pictures; ++i) {
    const auto shade = static_cast<float>(i);
    shades[i] = {{{shade, 2 * shade, 3 * shade}, {4 * shade, 5 * shade, 6 * shade}}};
    sums.push_back(15 * shade);
  }
  const auto source = ps::zip<Picture>(ps::memory(shades), ps::memory(labels));
  CountingPool pool;
  auto stream = pool.gpu.stream();
  CHECK(second_rows(pool, source, cuda::stream_ref{stream.get()}) == sums);
  CHECK(pool.allocations > 1);
  CHECK(pool.deallocations == pool.allocations);
}
