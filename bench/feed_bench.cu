// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How fast does a file in the page cache, or memory that is full already, get to a light kernel?
//
// The kernel turns each byte into a bf16 between 0 and 1 and writes it. A run is all of the file,
// 8.6 GB by default, from call to return: threads start, fill and drain included. Every contender
// is checked once (a checksum of the kernels' output against the host's, in two runs). For each
// repetition it is made and warmed by one run, and no two live at once; repetitions of all
// contenders are interleaved:
//
//   feed_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//              --benchmark_enable_random_interleaving=true
//
// feed/CONTENDER/BATCH, with penstock:
//   run               Reader to_pinned | AsyncCopier | Consumer, by run()
//   loop              run, but in the application's own loop
//   replayed          run with a replayed Consumer, in 4 lanes, at 16 KiB in 16
//   run_twice         run over two epochs, for the slope between two lengths
//   run_heavy         run with a kernel that takes 1.5 ms a batch
//   full_ring         run from a source that has nothing to do: its memory is already full
//   full_ring_replayed
//   copier            full_ring without the kernel: what the copier alone can do
// and without penstock:
//   link              cudaMemcpyAsync of 256 MiB pieces of pinned memory, and nothing else
//   one_grain_R       by hand, R readers: one slot is one read, one copy, one kernel
//   three_grains      by hand: reads, copies of adjacent slots and batches each of their best size
//   graphs            graphs of the kernels of 64 batches, launched by hand, and nothing copied
//   graphs_copied     graphs, and before them copies of 8 MiB from pinned memory
//   three_grains_two  three_grains with two copies in flight, not as many as there is room for

#include "support/from_file.hpp"
#include "support/graph_loop.hpp"
#include "support/hand_written.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace {

using namespace penstock_bench;

struct Grains : Size {
  // The best sizes for three grains by hand.
  std::size_t read_bytes;
  std::size_t copy_bytes;
};
constexpr Grains sizes[] = {
    {{"16KiB", 16 * KiB, 16 * KiB}, 512 * KiB, 4 * MiB},
    {{"64KiB", 64 * KiB, 16 * KiB}, 512 * KiB, 4 * MiB},
    {{"256KiB", 256 * KiB, 16 * KiB}, MiB, 8 * MiB},
    {mebibytes, MiB, 8 * MiB},
    {images, MiB, 4 * MiB},
    {{"256MB", 256'000'000, 16 * KiB}, MiB, 8 * MiB},
};

class Feed : FromFile {
 public:
  explicit Feed(const FileOptions& options) : FromFile{options} {}

  void add_link() {
    add("feed/link/256MiB", options_.bytes, of_memory_.of(Link::usual_piece),
        [this](bool checked) { return std::make_unique<Link>(options_.bytes, checked); });
  }

  void add_pipelines(const Size& size) {
    const std::size_t batch = size.batch;
    const std::size_t blocks = batch / sizeof(Block);
    const bool tiny = batch < 64 * KiB;
    add_one("run", size, of_file_, [=, this](bool checked) {
      return run_file(size, {.batch_bytes = batch, .checked = checked});
    });
    if (!tiny) {
      add_one("loop", size, of_file_, [=, this](bool checked) {
        const Work work{{.batch_bytes = batch, .checked = checked}};
        return by_loop(file_reader(size) | copier(batch / size.record), work);
      });
      add(
          "feed/run_twice/" + std::string{size.name}, 2 * options_.bytes,
          [=, this] { return 2 * of_file_.sum(batch); },
          [=, this](bool checked) {
            return run_file(size, {.batch_bytes = batch, .checked = checked}, {.epochs = 2});
          });
    }
    add_one("full_ring", size, of_memory_, [=, this](bool checked) {
      return run_from<Block>(memory_reader(), blocks, {.batch_bytes = batch, .checked = checked});
    });
    if (batch == MiB || batch == image_batch_bytes) {
      add_one("copier", size, of_memory_, [=, this](bool checked) {
        return run_from<Block>(memory_reader(), blocks,
                               {.batch_bytes = batch, .kernel = false, .checked = checked});
      });
    }
    if (batch == image_batch_bytes) {
      add_one("run_heavy", size, of_file_, [=, this](bool checked) {
        return run_file(
            size, {.batch_bytes = batch, .rounds = rounds_for(1.5e-3, batch), .checked = checked});
      });
    }
    if (batch <= MiB) {
      const unsigned lanes = tiny ? 16 : 4;
      add_one("replayed", size, of_file_, [=, this](bool checked) {
        return replay_from<std::uint8_t>(
            file_reader(size), batch / size.record,
            {.batch_bytes = batch, .lanes = lanes, .checked = checked});
      });
      add_one("full_ring_replayed", size, of_memory_, [=, this](bool checked) {
        return replay_from<Block>(memory_reader(), blocks,
                                  {.batch_bytes = batch, .lanes = lanes, .checked = checked});
      });
      if (tiny) {
        for (const bool copies : {false, true}) {
          add_one(copies ? "graphs_copied" : "graphs", size, of_memory_, [=, this](bool checked) {
            return std::make_unique<GraphLoop>(
                options_.bytes,
                WorkOptions{.batch_bytes = batch, .lanes = lanes, .checked = checked}, copies);
          });
        }
      }
    }
  }

  void add_by_hand(const Grains& size) {
    const LoopOptions grains{.bytes = options_.bytes,
                             .batch_bytes = size.batch,
                             .read_bytes = size.read_bytes,
                             .copy_bytes = size.copy_bytes};
    for (const std::size_t in_flight : {std::size_t{200}, std::size_t{2}}) {
      LoopOptions options = grains;
      options.in_flight = in_flight;
      add_one(in_flight == 2 ? "three_grains_two" : "three_grains", size, of_file_,
              [=, this](bool checked) {
                const Work work{{.batch_bytes = size.batch, .checked = checked}};
                return std::make_unique<ThreeGrains>(options_.path, options, work);
              });
    }
    for (const unsigned readers : {4U, 8U, 12U, 15U}) {
      // With larger batches the slots would leave no memory to lock; four readers are worthwhile at
      // 64 KiB only.
      if (size.batch < 64 * KiB || size.batch > image_batch_bytes ||
          (readers == 4 && size.batch != 64 * KiB)) {
        continue;
      }
      LoopOptions options = grains;
      options.readers = readers;
      add_one("one_grain_" + std::to_string(readers), size, of_file_, [=, this](bool checked) {
        const Work work{{.batch_bytes = size.batch, .checked = checked}};
        return std::make_unique<OneGrain>(options_.path, options, work);
      });
    }
  }

 private:
  void add_one(const std::string& contender, const Size& size, Expected& expected, Make make) {
    add("feed/" + contender + "/" + size.name, options_.bytes, expected.of(size.batch),
        std::move(make));
  }
};

} // namespace

int main(int argc, char** argv) {
  return program<FileOptions>(argc, argv, [](const FileOptions& options) {
    prepare_file(options);
    Feed feed{options};
    feed.add_link();
    for (const Grains& size : sizes) {
      feed.add_pipelines(size);
      feed.add_by_hand(size);
    }
    return run_all();
  });
}
