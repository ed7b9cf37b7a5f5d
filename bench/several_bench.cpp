// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How fast are several GPUs of one host fed at once, and what holds them back?
//
// All rows are of one program, one run and one set of data, --bytes of random bytes (8.6 GB), which
// each GPU gets in all, --rounds times (4, for a run to last longer than it takes to begin): a
// row's rate is the sum over its GPUs. Several pipelines share the data as ranks do, and read their
// shares several times. Repetitions of all rows are interleaved. To be run with
// --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true.
//
// several/ROW/GPUS, where DATA is memory_4k or memory_huge (pages of 4 KiB, huge pages), tmpfs (a
// file in --tmpfs, 4 KiB), disk (--file, in the page cache):
//   link               cudaMemcpyAsync of 256 MiB pieces of pinned memory, and nothing else
//   DATA               a thread and a pipeline a GPU: Reader to_pinned | AsyncCopier | Consumer
//   DATA_w8            the same with 8 workers a pipeline
//   turns_DATA         one thread that takes a batch of each GPU's pipeline in turn
//   ranks_DATA         DATA, but as many processes, by --run-ranks, which is examples/run_ranks
// and where all GPUs get all of the data, and not a share:
//   same_DATA          a pipeline a GPU
//   fan_out_DATA       one set of records for all GPUs, by ps::FanOut
//   fan_out_hand_DATA  the same by hand: 12 readers fill one ring
// and with K threads instead of GPUs, each into the same 48 MiB of pinned memory:
//   read_DATA/K        pread, or memcpy
//   beside_DATA/K      the same while all links are at work on pieces that stay in the cache
//
// `processors` are CPU seconds a second, `workers` what one pipeline's Reader has, and
// link_bytes_per_second what the links did beside. With nvcc it is built for GPUs, else for two
// host devices, each of which pretends to have a bus of 1 GB/s.

#include "support/several/data.hpp"
#include "support/several/devices.hpp"
#include "support/several/fan_out.hpp"
#include "support/several/limits.hpp"
#include "support/several/options.hpp"
#include "support/several/pipelines.hpp"
#include "support/several/ranks.hpp"
#include "support/several/row.hpp"

#include <penstock/machine/usable.hpp>
#include <penstock/penstock.hpp>
#include <penstock/pipeline/fan_out.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

class Several {
 public:
  explicit Several(const SeveralOptions& options)
      : options_{options}, devices_{options.gpus}, file_{options.file, O_RDONLY},
        words_{words_of(file_, options.bytes)} {
    for (std::size_t n = 1; n < options.gpus; n *= 2) {
      worlds_.push_back(n);
    }
    worlds_.push_back(options.gpus);
    for (const unsigned quarters : {2U, 3U, 4U}) {
      threads_.push_back(std::max(ps::usable_processors() * quarters / 4, 1U));
    }
    threads_.erase(std::unique(threads_.begin(), threads_.end()), threads_.end());
  }

  void add_links() {
    for (const std::size_t gpus : worlds_) {
      add_row(
          name("link", gpus), gpus * all_bytes(), [] { return std::uint64_t{0}; },
          [=, this](bool) { return std::make_unique<Links>(devices_, gpus, all_bytes()); });
    }
  }

  /// Rows of one kind of data. `source` is for pipelines, `move` for threads by hand.
  template <class Source>
  void add_data(const std::string& data, const Source& source, const Moving::Move& move) {
    for (const std::size_t gpus : worlds_) {
      add_pipelines(data, gpus, source, {});
    }
    for (const unsigned threads : threads_) {
      add_moving("read_" + data, threads, 0, move);
    }
  }
  /// Rows for the data that decides.
  template <class Source>
  void add_more(const std::string& data, const Source& source, const Moving::Move& move) {
    const std::size_t gpus = options_.gpus;
    add_pipelines(data + "_w8", gpus, source, {.workers = 8});
    for (const unsigned threads : threads_) {
      add_moving("beside_" + data, threads, gpus, move);
    }
    add(name("turns_" + data, gpus), gpus, [=, this](bool checked) {
      return std::make_unique<InTurn<Source>>(devices_, gpus, source, how({}), checked);
    });
  }
  /// Rows of all GPUs, where each gets all of the data.
  template <class Source>
  void add_same(const std::string& data, const Source& source, const Moving::Move& move) {
    const std::size_t gpus = options_.gpus;
    add_pipelines("same_" + data, gpus, source, {.same = true});
    add(name("fan_out_" + data, gpus), gpus, [=, this](bool checked) {
      return std::make_unique<FromOneReader<Source>>(devices_, gpus, source, how({.same = true}),
                                                     checked);
    });
    add(name("fan_out_hand_" + data, gpus), gpus, [=, this](bool checked) {
      return std::make_unique<FanOut>(devices_.first(gpus), options_.bytes, how({}).rounds, move,
                                      12, checked);
    });
  }
  void add_ranks(const std::string& data, const std::string& path) {
    if (options_.run_ranks.empty()) {
      return;
    }
    const std::size_t gpus = options_.gpus;
    add(name("ranks_" + data, gpus), gpus, [=, this](bool checked) {
      return std::make_unique<RankProcesses>(
          options_.run_ranks, gpus,
          RankTask{.times = {}, .file = path, .how = how({}), .checked = checked});
    });
  }

  const OpenFile& file() const { return file_; }

 private:
  static std::string name(const std::string& row, std::size_t size) {
    return "several/" + row + '/' + std::to_string(size);
  }
  std::uint64_t all_bytes() const { return options_.rank.how.rounds * options_.bytes; }
  How how(How some) const {
    some.rounds = options_.rank.how.rounds;
    return some;
  }
  // Each GPU gets all bytes.
  void add(const std::string& name, std::size_t gpus, Make make) {
    add_row(
        name, gpus * all_bytes(), [=, this] { return gpus * how({}).rounds * words_; },
        std::move(make));
  }
  template <class Source>
  void add_pipelines(const std::string& row, std::size_t gpus, const Source& source,
                     const How& how) {
    add(name(row, gpus), gpus, [=, this](bool checked) {
      return std::make_unique<Pipelines<Source>>(devices_, gpus, source, this->how(how), checked);
    });
  }
  void add_moving(const std::string& row, unsigned threads, std::size_t links,
                  const Moving::Move& move) {
    add_row(
        name(row, threads), all_bytes(), [] { return std::uint64_t{0}; },
        [=, this](bool) {
          return std::make_unique<Moving>(devices_, links, threads, options_.bytes, how({}).rounds,
                                          move);
        });
  }

  SeveralOptions options_;
  Devices devices_;
  OpenFile file_;
  std::uint64_t words_;
  std::vector<std::size_t> worlds_;
  std::vector<unsigned> threads_;
};

/// A file somewhere, open.
struct Copied {
  Copied(const std::string& folder, const OpenFile& from, std::uint64_t bytes)
      : copy{folder, from, bytes}, file{copy.path(), O_RDONLY} {}
  FileCopy copy;
  OpenFile file;
};
/// Returns null, and says why, if the folder has no room.
std::unique_ptr<Copied> copied(const std::string& what, const std::string& folder,
                               const OpenFile& from, std::uint64_t bytes) {
  try {
    return folder.empty() ? nullptr : std::make_unique<Copied>(folder, from, bytes);
  } catch (const std::exception& error) {
    std::cerr << "several: " << what << " is left out: " << error.what() << '\n';
    return nullptr;
  }
}
Moving::Move reading(const OpenFile& file) {
  return [&file](std::uint64_t at, std::span<std::uint8_t> into) { file.read(at, into); };
}
Moving::Move reading(const Mapped& memory) {
  return [from = memory.data()](std::uint64_t at, std::span<std::uint8_t> into) {
    std::memcpy(into.data(), from + at, into.size());
  };
}
Mapped filled(const OpenFile& from, std::uint64_t bytes, bool huge) {
  Mapped memory = Mapped::memory(bytes, huge);
  in_chunks(bytes, [&](std::uint64_t at, std::span<std::uint8_t> buffer) {
    from.read(at, {memory.data() + at, buffer.size()});
  });
  return memory;
}

} // namespace

int main(int argc, char** argv) {
  return program<SeveralOptions>(argc, argv, [](const SeveralOptions& options) {
    if (!options.rank.times.empty()) {
      return run_as_rank(options.rank);
    }
    char no_arguments[] = "several";
    char* arguments[] = {no_arguments};
    FileOptions on_disk{1, arguments};
    on_disk.path = options.file;
    on_disk.bytes = options.bytes;
    prepare_file(on_disk);
    add_places(options.gpus);

    Several several{options};
    const OpenFile& disk = several.file();
    const Mapped small_pages = filled(disk, options.bytes, false);
    const Mapped huge_pages = filled(disk, options.bytes, true);
    const auto tmpfs = copied("tmpfs", options.tmpfs, disk, options.bytes);

    several.add_links();
    several.add_data("memory_4k", ps::memory(small_pages.blocks()), reading(small_pages));
    several.add_data("memory_huge", ps::memory(huge_pages.blocks()), reading(huge_pages));
    several.add_data("disk", ps::records<Block>(options.file), reading(disk));
    several.add_more("memory_huge", ps::memory(huge_pages.blocks()), reading(huge_pages));
    several.add_more("disk", ps::records<Block>(options.file), reading(disk));
    several.add_same("memory_huge", ps::memory(huge_pages.blocks()), reading(huge_pages));
    several.add_same("disk", ps::records<Block>(options.file), reading(disk));
    several.add_ranks("disk", options.file);
    if (tmpfs) {
      const std::string& path = tmpfs->copy.path();
      several.add_data("tmpfs", ps::records<Block>(path), reading(tmpfs->file));
    }
    return run_all();
  });
}
