// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 13_knn: the 10 nearest neighbours of 256 vectors among all vectors of a file that is larger than
// the GPU memory that the program takes. Batches of vectors stream through; a Consumer multiplies
// each with the queries on tensor cores (cuBLAS, TF32) and keeps the candidates.
//
//   13_knn [--small | FILE]
//
// FILE has vectors of 128 floats, back to back, and nothing else; without one it makes 1 GiB of
// them (--small: 256 MiB). The queries are vectors of the file, evenly spread. It prints the
// Report, how much of the GPU's memory it took, and what it knows of the result.
//
// The result is exact, although TF32 keeps 11 of a float's 24 bits. The norm of each vector bounds
// what rounding may have done to its distance. Candidates are the 64 vectors whose distance may be
// least, by that bound; the host measures them again, from the file and in double. The neighbours
// are certain if the last of them is nearer than the last candidate may be: then it is also nearer
// than every vector that was dropped. The program fails if a query's neighbours are not certain, or
// if for some of the queries a plain loop over the file, in double, finds others. Of equal
// distances the first vector counts as nearer. It needs a GPU and cuBLAS: nvcc -std=c++20 -O2
// -Iinclude examples/13_knn.cu -lcublas

#include "support/blas.hpp"
#include "support/memory_use.hpp"
#include "support/nearest.cuh"
#include "support/temporary_file.hpp"

#include <penstock/cuda.hpp>
#include <penstock/device/device_array.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;

constexpr std::size_t dimensions = 128;
constexpr std::size_t queries = 256;
constexpr std::size_t neighbours = 10;
constexpr std::size_t batch_size = 8192; // 4 MiB of vectors

struct Vector {
  float x[dimensions];
};
/// A neighbour: the square of its distance, and its number.
using Found = std::pair<double, std::uint64_t>;

double squared_distance(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const double difference = static_cast<double>(a.x[i]) - b.x[i];
    sum += difference * difference;
  }
  return sum;
}
double squared_length(const Vector& a) {
  return squared_distance(a, Vector{});
}

/// For ps::generate: numbers from -1 to 1.
void make_vectors(std::span<Vector> out, std::uint64_t first) {
  std::uint64_t n = first * dimensions;
  for (Vector& vector : out) {
    for (float& x : vector.x) {
      std::uint64_t bits = ++n * 0x9E37'79B9'7F4A'7C15U;
      bits = (bits ^ bits >> 32) * 0xD6E8'FEB8'6659'FD93U;
      x = static_cast<float>(bits >> 40) / (1 << 23) - 1;
    }
  }
}

Vector read(const ps::Records<Vector>& file, std::uint64_t index) {
  Vector vector;
  file.read(ps::Batch<Vector, ps::Pageable>{&vector, 1, index});
  return vector;
}

/// Returns the candidates of each query in order, by one run over the file.
std::vector<Candidate> candidates_of(ps::CudaDevice& gpu, const std::string& path,
                                     const std::vector<Vector>& asked) {
  const double before = free_on_gpu_mib();
  std::vector<float> lengths;
  for (const Vector& query : asked) {
    lengths.push_back(static_cast<float>(std::sqrt(squared_length(query))));
  }
  const auto stream = gpu.stream();
  const auto query = ps::device_array<Vector>(gpu, queries);
  const auto length = ps::device_array<float>(gpu, queries);
  const auto norms = ps::device_array<nearest::Norm>(gpu, batch_size);
  const auto products = ps::device_array<float>(gpu, queries * batch_size);
  const auto best = ps::device_array<Candidate>(gpu, queries * kept_each);
  const ps::Workspace<ps::CudaDevice> workspace{gpu, Blas::workspace_bytes};
  Blas blas;
  gpu.copy_to_device(query.data(), asked.data(), queries * sizeof(Vector), stream);
  gpu.copy_to_device(length.data(), lengths.data(), queries * sizeof(float), stream);
  forget(best.data(), best.size(), stream);
  gpu.sync(stream); // the pipeline has a stream of its own

  auto pipeline =
      ps::Reader{ps::records<Vector>(path), ps::to_pinned} |
      ps::AsyncCopier{gpu, {.batch = batch_size}} |
      ps::Consumer{[&](ps::Batch<const Vector, ps::Device> batch, cudaStream_t on) {
        const auto count = static_cast<unsigned>(batch.size());
        norms_of(batch.data()->x, count, dimensions, norms.data(), on);
        const float minus_two = -2;
        const float zero = 0;
        check(cublasGemmEx(blas.on(on, workspace), CUBLAS_OP_T, CUBLAS_OP_N,
                           static_cast<int>(count), queries, dimensions, &minus_two, batch.data(),
                           CUDA_R_32F, dimensions, query.data(), CUDA_R_32F, dimensions, &zero,
                           products.data(), CUDA_R_32F, batch_size, CUBLAS_COMPUTE_32F_FAST_TF32,
                           CUBLAS_GEMM_DEFAULT),
              "cublasGemmEx");
        keep_nearest(norms.data(), products.data(), batch_size, length.data(), queries, count,
                     static_cast<std::uint32_t>(batch.index()), best.data(), on);
      }};
  pipeline.prepare();
  std::cout << pipeline.run();
  const double took = before - free_on_gpu_mib();
  std::cout << took << " MiB of the GPU's memory were taken\n";
  return best.read(stream);
}

/// Returns the nearest of `all`, in order.
std::vector<Found> nearest_of(std::vector<Found> all) {
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(neighbours, all.size()));
  std::partial_sort(all.begin(), end, all.end());
  return {all.begin(), end};
}

/// Measures a query's candidates again, and returns the nearest. Throws if a vector that was
/// dropped might be nearer.
std::vector<Found> certain(const ps::Records<Vector>& file, const Vector& query,
                           std::span<const Candidate> candidates) {
  const double squared = squared_length(query); // the GPU's distances are without it
  std::vector<Found> measured;
  for (const Candidate candidate : candidates) {
    if (candidate != nobody) {
      const std::uint32_t index = index_of(candidate);
      measured.emplace_back(squared_distance(query, read(file, index)), index);
      if (measured.back().first - squared < least_of(candidate)) {
        throw std::runtime_error{"a distance is less than it may be: the bound is wrong"};
      }
    }
  }
  std::vector<Found> found = nearest_of(std::move(measured));
  if (candidates.back() != nobody && found.back().first - squared >= least_of(candidates.back())) {
    throw std::runtime_error{
        "rounding may hide which vectors are the nearest: keep more candidates"};
  }
  return found;
}

/// Finds the nearest by a plain loop over the whole file.
std::vector<Found> by_plain_loop(const ps::Records<Vector>& file, const Vector& query) {
  std::vector<Found> measured;
  std::vector<Vector> some(batch_size);
  for (std::uint64_t at = 0; at < file.size(); at += some.size()) {
    some.resize(std::min<std::uint64_t>(some.size(), file.size() - at));
    file.read(ps::Batch<Vector, ps::Pageable>{some.data(), some.size(), at});
    for (std::size_t i = 0; i < some.size(); ++i) {
      measured.emplace_back(squared_distance(query, some[i]), at + i);
    }
  }
  return nearest_of(std::move(measured));
}

} // namespace

int main(int argc, char** argv) try {
  const std::string arg = argc > 1 ? argv[1] : "";
  const bool small = arg == "--small";
  if (argc > 2 || (!small && arg.starts_with("-"))) {
    throw std::invalid_argument{"usage: 13_knn [--small | FILE]"};
  }
  ps::CudaDevice gpu;
  const auto attached = gpu.attach();
  std::optional<TemporaryFile> made;
  if (small || arg.empty()) {
    const std::uint64_t bytes = std::uint64_t{small ? 256U : 1024U} << 20;
    auto maker = ps::Reader{ps::generate<Vector>(bytes / sizeof(Vector), &make_vectors)} |
                 ps::Writer{made.emplace("").path()};
    maker.run();
  }
  const std::string path = made ? made->path() : arg;
  auto file = ps::records<Vector>(path);
  file.open();
  if (file.size() < neighbours || file.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw std::runtime_error{path + " has " + std::to_string(file.size()) +
                             " vectors: this program takes 10 to 4294967295"};
  }
  std::vector<Vector> asked;
  for (std::size_t q = 0; q < queries; ++q) {
    asked.push_back(read(file, q * file.size() / queries));
  }

  const std::vector<Candidate> candidates = candidates_of(gpu, path, asked);
  std::vector<std::vector<Found>> found;
  for (std::size_t q = 0; q < queries; ++q) {
    found.push_back(
        certain(file, asked[q], std::span{candidates}.subspan(q * kept_each, kept_each)));
  }
  constexpr std::size_t step = queries / 4;
  for (std::size_t q = 0; q < queries; q += step) {
    if (found[q] != by_plain_loop(file, asked[q])) {
      throw std::runtime_error{"a plain loop finds other neighbours of query " + std::to_string(q)};
    }
  }
  std::cout << "the " << neighbours << " nearest of " << file.size() << " vectors, certain for all "
            << queries << " queries, found by a plain loop too for 4\nof vector 0:";
  for (const auto& [squared, index] : found[0]) {
    std::cout << ' ' << index << " (" << std::sqrt(squared) << ')';
  }
  std::cout << '\n';
  return 0;
} catch (const std::exception& error) {
  std::cerr << "13_knn: " << error.what() << '\n';
  return 1;
}
