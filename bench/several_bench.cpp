// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How fast are several GPUs of one host fed at once, and what holds them back?
//
// All rows are of one program, one run and one set of data, --bytes of random bytes (8.6 GB), which
// each GPU gets in all: a row's rate is the sum over its GPUs. Several pipelines share the data as
// ranks do, and read their shares several times. Repetitions of all rows are interleaved. To be run
// with --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true.
//
// several/ROW/GPUS, where DATA is memory_4k or memory_huge (pages of 4 KiB, huge pages), tmpfs (a
// file in --tmpfs, 4 KiB), tmpfs_huge (in --huge-tmpfs, mounted with huge=always), disk (--file, in
// the page cache):
//   link               cudaMemcpyAsync of 256 MiB pieces of pinned memory, and nothing else
//   DATA               a thread and a pipeline a GPU: Reader to_pinned | AsyncCopier | Consumer
//   DATA_wW, DATA_rR   the same with W workers a pipeline; with rings of R MiB
//   same_DATA          the same, but each pipeline gets all of the data, not its share
//   fan_out_DATA_K     by hand: K readers fill one ring, and each place of it goes to all GPUs
//   fan_out_penstock_DATA  the same by ps::FanOut
//   hand_DATA_wW_lagL  by hand: a ring a GPU, W readers each; a place is copied when L behind it
//   are
//                      full, so that it has left its writer's own cache
//   turns_DATA         one thread that takes a batch of each GPU's pipeline in turn
//   ranks_DATA         DATA, but as many processes, by --run-ranks, which is examples/run_ranks
//   copied_COPY_DATA   DATA, but bytes in memory copied in another way: see byte_copies.hpp
// and with K threads instead of GPUs, each into the same 48 MiB of pinned memory:
//   read_DATA/K        pread, or memcpy
//   beside_DATA/K      the same while all links are at work on pieces that stay in the cache
//   look_DATA/K        reading memory, and keeping nothing
//   COPY_beside_DATA/K the copies beside the links
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

#include <penstock/penstock.hpp>
#include <penstock/usable.hpp>

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
    for (unsigned k = 8; k < ps::usable_processors(); k += 8) {
      threads_.push_back(k);
    }
    threads_.push_back(ps::usable_processors());
  }

  void add_links() {
    for (const std::size_t gpus : worlds_) {
      add_row(
          name("link", gpus), gpus * options_.bytes, [] { return std::uint64_t{0}; },
          [=, this](bool) { return std::make_unique<Links>(devices_, gpus, options_.bytes); });
    }
  }

  /// Rows of one kind of data. `source` is for pipelines, `move` for threads by hand.
  template <class Source>
  void add_data(const std::string& data, const Source& source, const Moving::Move& move) {
    for (const std::size_t gpus : worlds_) {
      add_pipelines(data, gpus, source, {});
    }
    for (const unsigned workers : {8U, 12U, 14U, 16U}) {
      add_pipelines(data + "_w" + std::to_string(workers), options_.gpus, source,
                    {.workers = workers});
    }
    for (const unsigned threads : threads_) {
      add_moving("read_" + data, threads, 0, move);
    }
  }
  /// Rows for the data that decides.
  template <class Source>
  void add_more(const std::string& data, const Source& source, const Moving::Move& move) {
    for (const std::size_t slots : {24, 96}) {
      add_pipelines(data + "_r" + std::to_string(slots), options_.gpus, source, {.depth = slots});
    }
    for (const unsigned threads : threads_) {
      if (threads > 8) {
        add_moving("beside_" + data, threads, options_.gpus, move);
      }
    }
  }
  template <class Source>
  void add_ways(const std::string& data, const Source& source, const Moving::Move& move) {
    const std::size_t gpus = options_.gpus;
    add_pipelines("same_" + data, gpus, source, {.same = true});
    for (const unsigned readers : {8U, 12U, 16U}) {
      add(name("fan_out_" + data + '_' + std::to_string(readers), gpus), gpus,
          [=, this](bool checked) {
            return std::make_unique<FanOut>(devices_.first(gpus), options_.bytes, move,
                                            HandOptions{.readers = readers, .checked = checked});
          });
    }
    add(name("fan_out_penstock_" + data, gpus), gpus, [=, this](bool checked) {
      return std::make_unique<FromOneReader<Source>>(devices_, gpus, source, checked);
    });
    for (const unsigned readers : {8U, 12U}) {
      for (const int lag : {0, 16, 32}) {
        const std::string row =
            "hand_" + data + "_w" + std::to_string(readers) + "_lag" + std::to_string(lag);
        add(name(row, gpus), gpus, [=, this](bool checked) {
          return std::make_unique<HandRings>(
              devices_, gpus, options_.bytes, move,
              HandOptions{.readers = readers, .lag = lag, .checked = checked});
        });
      }
    }
    add(name("turns_" + data, gpus), gpus, [=, this](bool checked) {
      return std::make_unique<InTurn<Source>>(devices_, gpus, source, How{}, checked);
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
          RankTask{.times = {}, .file = path, .how = {}, .checked = checked});
    });
  }
  void add_copies(const std::string& data, std::span<const Block> blocks) {
    for (const NamedCopy& way : byte_copies) {
      add_pipelines(std::string{"copied_"} + way.name + '_' + data, options_.gpus,
                    CopiedBlocks{blocks, way.copy}, {});
    }
  }
  void add_copies_beside(const std::string& data, std::span<const Block> blocks) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(blocks.data());
    for (const NamedCopy& way : byte_copies) {
      for (const unsigned threads : threads_) {
        add_moving(std::string{way.name} + "_beside_" + data, threads, options_.gpus,
                   [=](std::uint64_t at, std::span<std::uint8_t> into) {
                     way.copy(into.data(), from + at, into.size());
                   });
      }
    }
  }
  void add_look(const std::string& data, std::span<const Block> blocks) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(blocks.data());
    for (const unsigned threads : threads_) {
      add_moving("look_" + data, threads, 0, [=](std::uint64_t at, std::span<std::uint8_t> into) {
        read_only(from + at, into.size());
      });
    }
  }

  const OpenFile& file() const { return file_; }

 private:
  static std::string name(const std::string& row, std::size_t size) {
    return "several/" + row + '/' + std::to_string(size);
  }
  // Each GPU gets all bytes.
  void add(const std::string& name, std::size_t gpus, Make make) {
    add_row(name, gpus * options_.bytes, [=, this] { return gpus * words_; }, std::move(make));
  }
  template <class Source>
  void add_pipelines(const std::string& row, std::size_t gpus, const Source& source,
                     const How& how) {
    add(name(row, gpus), gpus, [=, this](bool checked) {
      return std::make_unique<Pipelines<Source>>(devices_, gpus, source, how, checked);
    });
  }
  void add_moving(const std::string& row, unsigned threads, std::size_t links,
                  const Moving::Move& move) {
    add_row(
        name(row, threads), options_.bytes, [] { return std::uint64_t{0}; },
        [=, this](bool) {
          return std::make_unique<Moving>(devices_, links, threads, options_.bytes, move);
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
    const Mapped mapped = Mapped::file(options.file, options.bytes);
    const auto tmpfs = copied("tmpfs", options.tmpfs, disk, options.bytes);
    const auto huge_tmpfs = copied("tmpfs_huge", options.huge_tmpfs, disk, options.bytes);

    several.add_links();
    several.add_data("memory_4k", ps::memory(small_pages.blocks()), reading(small_pages));
    several.add_data("memory_huge", ps::memory(huge_pages.blocks()), reading(huge_pages));
    several.add_data("disk", ps::records<Block>(options.file), reading(disk));
    several.add_more("memory_huge", ps::memory(huge_pages.blocks()), reading(huge_pages));
    several.add_more("disk", ps::records<Block>(options.file), reading(disk));
    several.add_ways("memory_huge", ps::memory(huge_pages.blocks()), reading(huge_pages));
    several.add_ways("disk", ps::records<Block>(options.file), reading(disk));
    several.add_ranks("disk", options.file);
    if (tmpfs) {
      const std::string& path = tmpfs->copy.path();
      several.add_data("tmpfs", ps::records<Block>(path), reading(tmpfs->file));
      several.add_more("tmpfs", ps::records<Block>(path), reading(tmpfs->file));
      several.add_ranks("tmpfs", path);
    }
    if (huge_tmpfs) {
      const std::string& path = huge_tmpfs->copy.path();
      several.add_data("tmpfs_huge", ps::records<Block>(path), reading(huge_tmpfs->file));
    }
    several.add_look("memory_huge", huge_pages.blocks());
    several.add_copies_beside("memory_4k", small_pages.blocks());
    several.add_copies("memory_4k", small_pages.blocks());
    several.add_copies("memory_huge", huge_pages.blocks());
    several.add_copies("mapped", mapped.blocks());
    return run_all();
  });
}
