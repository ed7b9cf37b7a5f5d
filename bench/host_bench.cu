// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How near to its limits does a pipeline get on this host, without an option? A file of 8.6 GB in
// the page cache, and its copy in memory, go to a light kernel in batches of 4 MiB. bench/run host
// prints a table of it.
//
//   host_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//              --benchmark_enable_random_interleaving=true
//
// host/ROW/DATA, where DATA is disk (the page cache) or tmpfs (/dev/shm, pages of 4 KiB), and T is
// a number of threads that read, from half of the processors to all, but at most 24:
//   link     (host/link/256MiB) the link alone
//   read_T   plain threads that read 1 MiB each into memory of their own, and copy nothing
//   each_T   threads that each read 4 MiB and copy that themselves
//   ring_T   a loop by hand: a ring of 48 MiB in pinned memory, and one thread that copies
//   run      Reader to_pinned | AsyncCopier | Consumer, at the defaults
//   run_T    run with T workers

#include "support/from_file.hpp"
#include "support/hand_written.hpp"
#include "support/reads_and_copies.hpp"

#include <penstock/machine/usable.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace {

using namespace penstock_bench;

constexpr Size usual{"4MiB", 4 * MiB, MiB};

class Host : FromFile {
 public:
  Host(const FileOptions& options, std::string data) : FromFile{options}, data_{std::move(data)} {}

  void add_link() {
    add("host/link/256MiB", options_.bytes, of_memory_.of(Link::usual_piece),
        [this](bool checked) { return std::make_unique<Link>(options_.bytes, checked); });
  }
  void add_all() {
    add(
        "host/read_" + std::to_string(all_) + "/" + data_, options_.bytes, [] { return 0; },
        [this](bool) { return std::make_unique<Reads>(options_.path, options_.bytes, all_); });
    for (const unsigned threads : counts({all_ * 3 / 4, all_})) {
      add_row(
          "each", threads,
          [=, this](const Work& work) {
            return std::make_unique<ReadsAndCopies>(options_.path, options_.bytes, threads, work);
          },
          threads);
    }
    for (const unsigned threads : counts({8, 10, 12, 14, 16, all_ / 2, all_ * 5 / 8, all_ * 3 / 4,
                                          all_ - 3, all_ - 2, all_ - 1, all_})) {
      add_row("ring", threads, [=, this](const Work& work) {
        return std::make_unique<ThreeGrains>(options_.path,
                                             LoopOptions{.bytes = options_.bytes,
                                                         .batch_bytes = usual.batch,
                                                         .in_flight = 2,
                                                         .readers = threads},
                                             work);
      });
      add_run(threads);
    }
    add_run(0);
  }

 private:
  // Leaves out what this host has not, and more than a link takes; what was less than 0 is among
  // it.
  std::set<unsigned> counts(std::set<unsigned> asked) const {
    constexpr unsigned most = 24;
    std::erase_if(asked,
                  [&](unsigned count) { return count == 0 || count > std::min(all_, most); });
    asked.insert(std::min(all_, most));
    return asked;
  }
  template <class F> void add_row(std::string row, unsigned threads, F make, unsigned lanes = 1) {
    row += threads != 0 ? "_" + std::to_string(threads) : "";
    add("host/" + row + "/" + data_, options_.bytes, of_file_.of(usual.batch), [=](bool checked) {
      return make(Work{{.batch_bytes = usual.batch, .lanes = lanes, .checked = checked}});
    });
  }
  void add_run(unsigned workers) {
    add_row("run", workers, [=, this](const Work& work) {
      return by_run(file_reader(usual, {.workers = workers}) | copier(usual.batch / usual.record) |
                        consumer<std::uint8_t>(work),
                    work);
    });
  }

  const std::string data_;
  const unsigned all_ = penstock::usable_processors();
};

} // namespace

int main(int argc, char** argv) {
  return program<FileOptions>(argc, argv, [](const FileOptions& options) {
    prepare_file(options);
    Host disk{options, "disk"};
    disk.add_link();
    disk.add_all();
    std::optional<FileCopy> copy;
    std::optional<Host> tmpfs;
    const char* const folder = "/dev/shm";
    if (std::filesystem::space(folder).available > options.bytes) {
      copy.emplace(folder, OpenFile{options.path, O_RDONLY}, options.bytes);
      FileOptions in_memory = options;
      in_memory.path = copy->path();
      tmpfs.emplace(in_memory, "tmpfs");
      tmpfs->add_all();
    } else {
      std::cerr << folder
                << " has no room for a copy of the file: the rows of tmpfs are left out\n";
    }
    return run_all();
  });
}
