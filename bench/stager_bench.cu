// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What is left of the link with a PinnedStager between, for data that cannot be read in place?
//
// The file of feed_bench.cu, from the page cache into pageable memory, from there into pinned
// memory by threads of their own, and to the same light kernel. Timed, checked and repeated as
// there:
//
//   stager_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//                --benchmark_enable_random_interleaving=true
//
// stager/CONTENDER/BATCH:
//   run            Reader | PinnedStager | AsyncCopier | Consumer, all options at their defaults
//   run_R_S        the same with R workers that read and S that stage
//   two_hops_R_S   by hand: R threads read 1 MiB each into 48 MiB, S copy into 48 MiB of pinned
//                  memory, copies of up to 8 MiB, two in flight
//   link           cudaMemcpyAsync of 256 MiB pieces of pinned memory, and nothing else

#include "support/hand_written.hpp"
#include "support/pipelines.hpp"

#include <penstock/cuda.hpp>

#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

struct Size {
  const char* name;
  std::size_t batch;
  std::size_t record;
};
constexpr Size sizes[] = {{"1MiB", std::size_t{1} << 20, sizeof(Block)},
                          {"37.6MB", image_batch_bytes, image_bytes}};
// Of sixteen processors.
constexpr std::pair<unsigned, unsigned> workers[] = {{6, 4}, {6, 6}, {8, 6}, {8, 8}, {10, 4}};

class Staged {
 public:
  explicit Staged(const FileOptions& options)
      : options_{options}, file_{options.path, O_RDONLY},
        of_file_{options.bytes, [this](auto at, auto into) { file_.read(at, into); }},
        of_link_{options.bytes, [](auto at, auto into) { AlwaysFull{}.fill(at, into); }} {}

  void add_link() {
    add("stager/link/256MiB", options_.bytes, of_link_.of(Link::usual_piece),
        [this](bool checked) { return std::make_unique<Link>(options_.bytes, checked); });
  }
  void add_all(const Size& size) {
    add_pipeline(size, "run", 0, 0);
    for (const auto& [readers, stagers] : workers) {
      const std::string setting = std::to_string(readers) + "_" + std::to_string(stagers);
      add_pipeline(size, "run_" + setting, readers, stagers);
      const LoopOptions options{.bytes = options_.bytes,
                                .batch_bytes = size.batch,
                                .in_flight = 2,
                                .readers = readers,
                                .stagers = stagers};
      add("stager/two_hops_" + setting + "/" + size.name, options_.bytes, of_file_.of(size.batch),
          [=, this](bool checked) {
            const Work work{{.batch_bytes = size.batch, .checked = checked}};
            return std::make_unique<TwoHops>(options_.path, options, work);
          });
    }
  }

 private:
  void add_pipeline(const Size& size, const std::string& name, unsigned readers, unsigned stagers) {
    add("stager/" + name + "/" + size.name, options_.bytes, of_file_.of(size.batch),
        [=, this](bool checked) {
          const Work work{{.batch_bytes = size.batch, .checked = checked}};
          return by_run(
              ps::Reader{ps::records<std::uint8_t>(options_.path, {.record_bytes = size.record}),
                         {.workers = readers}} |
                  ps::PinnedStager{{.workers = stagers}} |
                  ps::AsyncCopier{gpu_, {.batch = size.batch / size.record}} |
                  consumer<std::uint8_t>(work),
              work);
        });
  }

  FileOptions options_;
  OpenFile file_;
  Expected of_file_;
  Expected of_link_;
  ps::CudaDevice gpu_;
};

} // namespace

int main(int argc, char** argv) try {
  benchmark::Initialize(&argc, argv);
  const FileOptions options{argc, argv};
  prepare_file(options);
  Staged staged{options};
  staged.add_link();
  for (const Size& size : sizes) {
    staged.add_all(size);
  }
  return run_all();
} catch (const std::exception& error) {
  std::cerr << "stager_bench: " << error.what() << '\n';
  return 1;
}
