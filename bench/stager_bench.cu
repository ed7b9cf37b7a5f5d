// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How much of the link's rate is left with a PinnedStager between, for data that cannot be read in
// place?
//
// The file of feed_bench.cu goes from the page cache into pageable memory, from there into pinned
// memory, by threads of their own, and to the same light kernel. Runs are timed, checked and
// repeated as in feed_bench.cu:
//
//   stager_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//                --benchmark_enable_random_interleaving=true
//
// stager/CONTENDER/BATCH:
//   run            Reader | PinnedStager | AsyncCopier | Consumer, all options at their defaults
//   run_R_S        run with R workers that read and S that stage
//   two_hops_R_S   by hand: R threads read 1 MiB each into 48 MiB, S copy into 48 MiB of pinned
//                  memory, copies of up to 8 MiB, two in flight
//   link           cudaMemcpyAsync of 256 MiB pieces of pinned memory, and nothing else

#include "support/from_file.hpp"
#include "support/hand_written.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

// On sixteen processors.
constexpr std::pair<unsigned, unsigned> workers[] = {{6, 4}, {6, 6}, {8, 6}, {8, 8}, {10, 4}};

class Staged : FromFile {
 public:
  explicit Staged(const FileOptions& options) : FromFile{options} {}

  void add_link() {
    add("stager/link/256MiB", options_.bytes, of_memory_.of(Link::usual_piece),
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
};

} // namespace

int main(int argc, char** argv) {
  return program<FileOptions>(argc, argv, [](const FileOptions& options) {
    prepare_file(options);
    Staged staged{options};
    staged.add_link();
    staged.add_all(mebibytes);
    staged.add_all(images);
    return run_all();
  });
}
