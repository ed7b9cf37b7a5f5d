// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How much of the link is left to a run that is short? A file in the page cache goes to a light
// kernel, by run(), in batches of 1 MiB, and the same bytes go over the link alone.
//
// short/run/SIZE and short/link/SIZE. Each repetition's contender is made and warmed by a run, as
// in feed_bench: what is timed is a second run. To be run with
//   short_bench [--file=PREFIX] --benchmark_repetitions=9
//               --benchmark_enable_random_interleaving=true

#include "support/from_file.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace penstock_bench;

class Short : FromFile {
 public:
  explicit Short(const FileOptions& options) : FromFile{options} {}

  void add(const std::string& size) {
    penstock_bench::add("short/run/" + size, options_.bytes, of_file_.of(MiB),
                        [this](bool checked) {
                          return run_file(mebibytes, {.batch_bytes = MiB, .checked = checked});
                        });
    penstock_bench::add(
        "short/link/" + size, options_.bytes, of_memory_.of(Link::usual_piece),
        [this](bool checked) { return std::make_unique<Link>(options_.bytes, checked); });
  }
};

} // namespace

int main(int argc, char** argv) {
  return program<FileOptions>(argc, argv, [](const FileOptions& asked) {
    std::vector<std::unique_ptr<Short>> sizes;
    for (const std::uint64_t mebi : {64, 256, 1024, 4096}) {
      FileOptions options = asked;
      const std::string size = std::to_string(mebi) + "MiB";
      options.bytes = mebi * MiB;
      options.path += "." + size;
      prepare_file(options);
      sizes.push_back(std::make_unique<Short>(options));
      sizes.back()->add(size);
    }
    return run_all();
  });
}
