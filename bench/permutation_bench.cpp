// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How long does it take to find the next number of an order at random, without a table?
//
// ps::Permutation, its inverse, and CCCL's cuda::random_bijection, a Feistel network of 24 rounds
// over a power of two: each adds up the numbers at 2^20 places, one place after the other, and
// begins anew where the order is shorter. Before each is timed, the numbers at up to 2^22 places
// are checked: each is below the size, and none comes twice. ns_a_number is the time of one. It
// needs no GPU.
//
// CCCL is there if the compiler finds its headers. CUDA 13.0's are too old; PyPI's package
// nvidia-cuda-cccl has newer ones:
//
//   CPLUS_INCLUDE_PATH=FOLDER/nvidia/cu13/include/cccl bench/run permutation
//
// permutation/WAY/SIZE. To be run with --benchmark_repetitions=7
// --benchmark_enable_random_interleaving=true.

#include "support/contender.hpp"
#include "support/cpu_time.hpp"

#include <penstock/order/permutation.hpp>

#if __has_include(<cuda/__random/random_bijection.h>)
#include <cuda/__random/random_bijection.h>
#define HAVE_CCCL
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::uint64_t power(unsigned bits) {
  return std::uint64_t{1} << bits;
}

struct Forth {
  explicit Forth(std::uint64_t size) : permutation{size, 1337, 0} {}
  std::uint64_t operator()(std::uint64_t i) const { return permutation(i); }
  ps::Permutation permutation;
};
struct Back {
  explicit Back(std::uint64_t size) : permutation{size, 1337, 0} {}
  std::uint64_t operator()(std::uint64_t i) const { return permutation.inverse(i); }
  ps::Permutation permutation;
};
#if defined(HAVE_CCCL)
struct Cccl {
  explicit Cccl(std::uint64_t size) : bijection{size, std::mt19937{1337}} {}
  std::uint64_t operator()(std::uint64_t i) const { return bijection(i); }
  cuda::random_bijection<std::uint64_t> bijection;
};
#endif

constexpr std::uint64_t checked_numbers = power(22);
constexpr std::uint64_t timed_numbers = power(20);

/// If checked, returns how many different numbers below the size there are.
template <class Place> class Numbers : public Contender {
 public:
  Numbers(std::uint64_t size, bool checked) : size_{size}, checked_{checked}, place_{size} {}

  std::uint64_t run() override { return checked_ ? different() : sum(); }

 private:
  std::uint64_t different() const {
    std::vector<std::uint64_t> numbers(std::min(size_, checked_numbers));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = place_(i);
    }
    std::sort(numbers.begin(), numbers.end());
    const auto end = std::unique(numbers.begin(), numbers.end());
    return static_cast<std::uint64_t>(std::lower_bound(numbers.begin(), end, size_) -
                                      numbers.begin());
  }
  std::uint64_t sum() const {
    std::uint64_t sum = 0;
    for (std::uint64_t left = timed_numbers; left != 0;) {
      const std::uint64_t count = std::min(left, size_);
      for (std::uint64_t i = 0; i < count; ++i) {
        sum += place_(i);
      }
      left -= count;
    }
    benchmark::DoNotOptimize(sum);
    return 0;
  }

  std::uint64_t size_;
  bool checked_;
  Place place_;
};

template <class Place> void add(const std::string& way, const std::string& name,
                                std::uint64_t size) {
  const auto checked = std::make_shared<Checked>(
      [size](bool check) { return std::make_unique<Numbers<Place>>(size, check); },
      [size] { return std::min(size, checked_numbers); });
  add_contender("permutation/" + way + "/" + name, checked,
                [](benchmark::State& state, Contender& contender) {
                  double seconds = 0;
                  for (auto _ : state) {
                    const double before = cpu_seconds();
                    contender.run();
                    seconds = cpu_seconds() - before;
                    state.SetIterationTime(seconds);
                  }
                  state.counters["ns_a_number"] = 1e9 * seconds / timed_numbers;
                });
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    const struct {
      const char* name;
      std::uint64_t size;
    } sizes[] = {{"2^20-1", power(20) - 1},
                 {"2^20+1", power(20) + 1},
                 {"1281167", 1'281'167},
                 {"2^22-1", power(22) - 1},
                 {"2^22+1", power(22) + 1},
                 {"2^33+1", power(33) + 1},
                 {"1000", 1000},
                 {"17", 17},
                 {"2", 2}};
    for (const auto& [name, size] : sizes) {
      add<Forth>("penstock", name, size);
      add<Back>("inverse", name, size);
#if defined(HAVE_CCCL)
      add<Cccl>("cccl", name, size);
#endif
    }
    return run_all();
  });
}
