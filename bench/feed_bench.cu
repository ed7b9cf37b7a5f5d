// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How fast does a file in the page cache, or memory that is full already, get to a light kernel?
//
// The kernel turns each byte into a bf16 between 0 and 1 and writes it. A run is all of the file,
// 8.6 GB if nothing else is said, from call to return: threads start, fill and drain included.
// Every contender is checked once (a checksum of what the kernels wrote, against the host's,
// of two runs), and made and warmed by one run for each repetition, so that no two live at once;
// repetitions of all are interleaved:
//
//   feed_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//              --benchmark_enable_random_interleaving=true
//
// feed/CONTENDER/BATCH, of penstock's:
//   run               Reader to_pinned | AsyncCopier | Consumer, by run()
//   loop              the same in the application's own loop
//   replayed          run with a replayed Consumer, in 4 lanes, at 16 KiB in 16
//   run_twice         run over two epochs, for the slope between two lengths
//   run_heavy         run with a kernel that takes 1.5 ms a batch
//   full_ring         run from a source that has nothing to do: its memory is full already
//   full_ring_replayed
//   copier            full_ring without the kernel: what the copier alone can do
// and without penstock:
//   link              cudaMemcpyAsync of 256 MiB pieces of pinned memory, and nothing else
//   one_grain_R       by hand, R readers: one slot is one read, one copy, one kernel
//   three_grains      by hand: reads, copies of adjacent slots and batches each of their best size
//   three_grains_two  the same with two copies in flight instead of all there is room for

#include "support/hand_written.hpp"
#include "support/pipelines.hpp"

#include <penstock/cuda.hpp>
#include <penstock/replayed.hpp>

#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

struct Size {
  const char* name;
  std::size_t batch;
  std::size_t record;
  // What was best for three grains by hand.
  std::size_t read_bytes;
  std::size_t copy_bytes;
};
constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = 1024 * KiB;
constexpr Size sizes[] = {
    {"16KiB", 16 * KiB, 16 * KiB, 512 * KiB, 4 * MiB},
    {"64KiB", 64 * KiB, 16 * KiB, 512 * KiB, 4 * MiB},
    {"256KiB", 256 * KiB, 16 * KiB, MiB, 8 * MiB},
    {"1MiB", MiB, 16 * KiB, MiB, 8 * MiB},
    {"37.6MB", image_batch_bytes, image_bytes, MiB, 4 * MiB},
    {"256MB", 256'000'000, 16 * KiB, MiB, 8 * MiB},
};

class Feed {
  // First, since what they return is deduced.
  void add_one(const std::string& contender, const Size& size, Expected& expected, Make make) {
    add("feed/" + contender + "/" + size.name, options_.bytes, expected.of(size.batch),
        std::move(make));
  }
  auto reader(const Size& size, std::uint64_t epochs = 1) const {
    return ps::Reader{ps::records<std::uint8_t>(options_.path, {.record_bytes = size.record}),
                      ps::to_pinned,
                      {.epochs = epochs}};
  }
  auto full_ring() const {
    return ps::Reader{ps::generate<Block>(options_.bytes / sizeof(Block), full_), ps::to_pinned};
  }
  auto copier(std::size_t records) { return ps::AsyncCopier{gpu_, {.batch = records}}; }
  template <class T> static auto replayed_consumer(const Work& work, unsigned lanes) {
    return ps::Consumer{ps::replayed(
        [work](ps::FrozenBatch<const T, ps::Device> batch, cudaStream_t stream) {
          work(bytes_of(batch), batch.size_bytes(), stream, batch.lane());
        },
        {.lanes = lanes})};
  }

 public:
  explicit Feed(const FileOptions& options)
      : options_{options}, file_{options.path, O_RDONLY},
        of_file_{options.bytes, [this](auto at, auto into) { file_.read(at, into); }},
        of_full_ring_{options.bytes, [this](auto at, auto into) { full_.fill(at, into); }} {}

  void add_link() {
    add("feed/link/256MiB", options_.bytes, of_full_ring_.of(Link::usual_piece),
        [this](bool checked) { return std::make_unique<Link>(options_.bytes, checked); });
  }

  void add_pipelines(const Size& size) {
    const std::size_t batch = size.batch;
    const bool tiny = batch < 64 * KiB;
    add_one("run", size, of_file_, [=, this](bool checked) {
      const Work work{{.batch_bytes = batch, .checked = checked}};
      return by_run(reader(size) | copier(batch / size.record) | consumer<std::uint8_t>(work),
                    work);
    });
    if (!tiny) {
      add_one("loop", size, of_file_, [=, this](bool checked) {
        const Work work{{.batch_bytes = batch, .checked = checked}};
        return by_loop(reader(size) | copier(batch / size.record), work);
      });
      add(
          "feed/run_twice/" + std::string{size.name}, 2 * options_.bytes,
          [=, this] { return 2 * of_file_.sum(batch); },
          [=, this](bool checked) {
            const Work work{{.batch_bytes = batch, .checked = checked}};
            return by_run(
                reader(size, 2) | copier(batch / size.record) | consumer<std::uint8_t>(work), work);
          });
    }
    add_one("full_ring", size, of_full_ring_, [=, this](bool checked) {
      const Work work{{.batch_bytes = batch, .checked = checked}};
      return by_run(full_ring() | copier(batch / sizeof(Block)) | consumer<Block>(work), work);
    });
    if (batch == MiB || batch == image_batch_bytes) {
      add_one("copier", size, of_full_ring_, [=, this](bool checked) {
        const Work work{{.batch_bytes = batch, .kernel = false, .checked = checked}};
        return by_run(full_ring() | copier(batch / sizeof(Block)) | consumer<Block>(work), work);
      });
    }
    if (batch == image_batch_bytes) {
      add_one("run_heavy", size, of_file_, [=, this](bool checked) {
        const Work work{{.batch_bytes = batch,
                         .rounds = rounds_for(1.5e-3, image_batch_bytes),
                         .checked = checked}};
        return by_run(reader(size) | copier(batch / size.record) | consumer<std::uint8_t>(work),
                      work);
      });
    }
    if (batch <= MiB) {
      const unsigned lanes = tiny ? 16 : 4;
      add_one("replayed", size, of_file_, [=, this](bool checked) {
        const Work work{{.batch_bytes = batch, .lanes = lanes, .checked = checked}};
        return by_run(reader(size) | copier(batch / size.record) |
                          replayed_consumer<std::uint8_t>(work, lanes),
                      work);
      });
      add_one("full_ring_replayed", size, of_full_ring_, [=, this](bool checked) {
        const Work work{{.batch_bytes = batch, .lanes = lanes, .checked = checked}};
        return by_run(full_ring() | copier(batch / sizeof(Block)) |
                          replayed_consumer<Block>(work, lanes),
                      work);
      });
    }
  }

  void add_by_hand(const Size& size) {
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
      // The slots of larger batches would leave no memory to lock; four readers pay at 64 KiB only.
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
  FileOptions options_;
  OpenFile file_;
  AlwaysFull full_;
  Expected of_file_;
  Expected of_full_ring_;
  ps::CudaDevice gpu_;
};

} // namespace

int main(int argc, char** argv) try {
  benchmark::Initialize(&argc, argv);
  const FileOptions options{argc, argv};
  prepare_file(options);
  Feed feed{options};
  feed.add_link();
  for (const Size& size : sizes) {
    feed.add_pipelines(size);
    feed.add_by_hand(size);
  }
  return run_all();
} catch (const std::exception& error) {
  std::cerr << "feed_bench: " << error.what() << '\n';
  return 1;
}
