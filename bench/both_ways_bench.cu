// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How fast does a file in the page cache get to the GPU and back into host memory, and into a file?
//
// A run is all of the file, from call to return: threads start, fill and drain included. Bytes
// count once each way, and once on the way into a file. Every contender is checked once (by the sum
// of all words that came back, in two runs). For each repetition it is made and warmed by one run;
// repetitions of all contenders are interleaved:
//
//   both_ways_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//                   --benchmark_enable_random_interleaving=true
//
// both_ways/CONTENDER/BATCH, with penstock:
//   run       Reader to_pinned | AsyncCopier | AsyncCopier to_host | Consumer, which looks at a
//             word of each page
//   in_place  run with a Kernel between that changes each byte in place
//   kernel    run with a Kernel between that fills another batch
//   written   Reader to_pinned | AsyncCopier | Kernel in place | AsyncCopier to_host | Writer, into
//             a new file in memory (/dev/shm); written_W with W workers, and disk_written_W into
//             a new file beside the one read
// and without penstock:
//   duplex    cudaMemcpyAsync of 256 MiB pieces of pinned memory both ways at once, on two streams
//   back      such copies to the host only
//   read_R    R threads that read the file into memory, 1 MiB each
//   writes_W  W threads that write pinned memory into such a file, 1 MiB each, and disk_writes_W

#include "support/from_file.hpp"
#include "support/threads.hpp"

#include <penstock/cuda/algorithm.cuh>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

/// Inverts sixteen bytes at a time.
struct Invert {
  const uint4* in;
  uint4* out;
  PENSTOCK_HD void operator()(std::size_t i) const {
    const uint4 v = in[i];
    out[i] = {~v.x, ~v.y, ~v.z, ~v.w};
  }
};

/// Adds up the words of `bytes`; the sum of inverted words follows from it.
std::uint64_t sum_of(std::span<const std::uint8_t> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at + sizeof sum <= bytes.size(); at += sizeof sum) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    sum += word;
  }
  return sum;
}

/// A consumer's sum of the words that came back: every word if it is to be checked, else one a
/// page.
class Arrived {
 public:
  explicit Arrived(bool checked) : checked_{checked} {}
  void operator()(const std::uint8_t* data, std::size_t bytes) const {
    std::uint64_t sum = 0;
    if (checked_) {
      sum = sum_of({data, bytes});
    } else {
      for (std::size_t at = 0; at < bytes; at += 4096) {
        sum += data[at];
      }
    }
    sum_->fetch_add(sum, std::memory_order_relaxed);
  }
  std::uint64_t checksum() const {
    const std::uint64_t sum = sum_->exchange(0);
    benchmark::DoNotOptimize(sum);
    return checked_ ? sum : 0;
  }

 private:
  bool checked_;
  std::shared_ptr<std::atomic<std::uint64_t>> sum_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

/// A pipeline that ends in host memory, driven by run().
template <class P> class BackPipeline : public Contender {
 public:
  BackPipeline(P pipeline, Arrived arrived)
      : pipeline_{std::move(pipeline)}, arrived_{std::move(arrived)} {
    pipeline_.prepare();
  }
  std::uint64_t run() override {
    pipeline_.run();
    return arrived_.checksum();
  }
  std::string label() const override { return label_of(pipeline_.report()); }

 private:
  P pipeline_;
  Arrived arrived_;
};

/// Copies pieces of pinned memory to the device, and others back, at once.
class Duplex : public Contender {
 public:
  Duplex(std::uint64_t bytes, bool there) : bytes_{bytes}, there_{there} {}
  std::uint64_t run() override {
    for (std::uint64_t at = 0; at < bytes_; at += piece) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece, bytes_ - at));
      if (there_) {
        copy_to_device(to_[0].get(), from_[0].get(), size, streams_[0]);
      }
      check(cudaMemcpyAsync(from_[1].get(), to_[1].get(), size, cudaMemcpyDeviceToHost,
                            streams_[1].get()),
            "cudaMemcpyAsync");
    }
    sync(streams_[0]);
    sync(streams_[1]);
    return 0;
  }

 private:
  static constexpr std::size_t piece = Link::usual_piece;
  std::uint64_t bytes_;
  bool there_;
  PinnedBytes from_[2] = {make_pinned(piece), make_pinned(piece)};
  DeviceBytes to_[2] = {make_on_device(piece), make_on_device(piece)};
  Stream streams_[2] = {make_stream(), make_stream()};
};

/// Threads that read, or write, one MiB after another, from memory as large as a pipeline's ring.
class Threads : public Contender {
 public:
  Threads(const std::string& path, std::uint64_t bytes, unsigned threads, bool write)
      : path_{path}, bytes_{bytes}, threads_{threads}, write_{write},
        memory_{make_pinned(threads_ * pieces() * MiB)} {}
  std::uint64_t run() override {
    if (write_) {
      std::filesystem::remove(path_);
    }
    const OpenFile file{path_, write_ ? O_RDWR | O_CREAT | O_TRUNC : O_RDONLY};
    std::atomic<std::uint64_t> next{0};
    on_threads(threads_, [&](std::size_t thread) {
      std::uint8_t* const mine = memory_.get() + thread * pieces() * MiB;
      std::size_t turn = 0;
      for (std::uint64_t at = next.fetch_add(MiB); at < bytes_; at = next.fetch_add(MiB)) {
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(MiB, bytes_ - at));
        std::uint8_t* const piece = mine + turn++ % pieces() * MiB;
        write_ ? file.write(at, {piece, size}) : file.read(at, {piece, size});
      }
    });
    return 0;
  }

 private:
  std::size_t pieces() const noexcept { return std::max(48U / threads_, 1U); }

  std::string path_;
  std::uint64_t bytes_;
  unsigned threads_;
  bool write_;
  PinnedBytes memory_;
};

/// A pipeline that ends in a file.
template <class P> class WrittenPipeline : public Contender {
 public:
  WrittenPipeline(P pipeline, std::string path, std::uint64_t bytes, bool checked)
      : pipeline_{std::move(pipeline)}, path_{std::move(path)}, bytes_{bytes}, checked_{checked} {
    pipeline_.prepare();
  }
  ~WrittenPipeline() override { std::filesystem::remove(path_); }
  std::uint64_t run() override {
    // As for the writes alone: some file systems write out a file that takes another's place.
    std::filesystem::remove(path_);
    pipeline_.run();
    if (!checked_) {
      return 0;
    }
    std::atomic<std::uint64_t> sum{0};
    const OpenFile file{path_, O_RDONLY};
    in_chunks(bytes_, [&](std::uint64_t at, std::span<std::uint8_t> buffer) {
      file.read(at, buffer);
      sum += sum_of(buffer);
    });
    return sum;
  }
  std::string label() const override { return label_of(pipeline_.report()); }

 private:
  P pipeline_;
  std::string path_;
  std::uint64_t bytes_;
  bool checked_;
};

class BothWays : FromFile {
  static void invert(const std::uint8_t* in, std::uint8_t* out, std::size_t bytes,
                     cudaStream_t stream) {
    ps::for_each(stream, bytes / sizeof(uint4),
                 Invert{reinterpret_cast<const uint4*>(in), reinterpret_cast<uint4*>(out)});
  }

  auto to_device(const Size& size) { return copier(size.batch / size.record); }
  static auto in_place() {
    return ps::Kernel{[](ps::Batch<std::uint8_t, ps::Device> batch, cudaStream_t stream) {
      invert(batch.data(), batch.data(), batch.size_bytes(), stream);
    }};
  }

 public:
  explicit BothWays(const FileOptions& options) : FromFile{options} {}

  void add_limits() {
    const auto none = [] { return std::uint64_t{0}; };
    add("both_ways/duplex/256MiB", 2 * options_.bytes, none,
        [this](bool) { return std::make_unique<Duplex>(options_.bytes, true); });
    add("both_ways/back/256MiB", options_.bytes, none,
        [this](bool) { return std::make_unique<Duplex>(options_.bytes, false); });
    for (const unsigned threads : {4U, 8U, 15U}) {
      add("both_ways/read_" + std::to_string(threads) + "/1MiB", options_.bytes, none,
          [=, this](bool) {
            return std::make_unique<Threads>(options_.path, options_.bytes, threads, false);
          });
    }
    for (const unsigned threads : {1U, 2U, 4U}) {
      for (const Place& place : places_) {
        add(place.name + ("writes_" + std::to_string(threads)) + "/1MiB", options_.bytes, none,
            [=, this](bool) {
              return std::make_unique<Threads>(place.path, options_.bytes, threads, true);
            });
      }
    }
  }

  void add_pipelines(const Size& size) {
    add_back("run", size, false, [=, this] { return file_reader(size) | to_device(size); });
    add_back("in_place", size, true,
             [=, this] { return file_reader(size) | to_device(size) | in_place(); });
    add_back("kernel", size, true, [=, this] {
      return file_reader(size) | to_device(size) |
             ps::Kernel{[](ps::Batch<const std::uint8_t, ps::Device> in,
                           ps::Batch<std::uint8_t, ps::Device> out, cudaStream_t stream) {
                          invert(in.data(), out.data(), in.size_bytes(), stream);
                        },
                        {.extents = {size.record}}};
    });
    for (const unsigned workers : {0U, 1U, 2U, 4U}) {
      for (const Place& place : places_) {
        const std::string suffix = workers != 0 ? "_" + std::to_string(workers) : "";
        add(place.name + ("written" + suffix) + "/" + size.name, options_.bytes, sum(true),
            [=, this](bool checked) -> std::unique_ptr<Contender> {
              auto pipeline = file_reader(size) | to_device(size) | in_place() |
                              ps::AsyncCopier{ps::to_host} |
                              ps::Writer{place.path, {.workers = workers}};
              return std::make_unique<WrittenPipeline<decltype(pipeline)>>(
                  std::move(pipeline), place.path, options_.bytes, checked);
            });
      }
    }
  }

 private:
  template <class MakePipeline>
  void add_back(const char* contender, const Size& size, bool inverted, MakePipeline make) {
    add("both_ways/" + std::string{contender} + "/" + size.name, 2 * options_.bytes, sum(inverted),
        [=](bool checked) -> std::unique_ptr<Contender> {
          const Arrived arrived{checked};
          auto pipeline = make() | ps::AsyncCopier{ps::to_host} |
                          ps::Consumer{[arrived](ps::Batch<const std::uint8_t, ps::Pinned> batch) {
                                         arrived(batch.data(), batch.size_bytes());
                                       },
                                       {.workers = 4}};
          return std::make_unique<BackPipeline<decltype(pipeline)>>(std::move(pipeline), arrived);
        });
  }
  std::function<std::uint64_t()> sum(bool inverted) {
    return [=, this] {
      if (!summed_) {
        in_chunks(options_.bytes, [this](std::uint64_t at, std::span<std::uint8_t> buffer) {
          file_.read(at, buffer);
          sum_ += sum_of(buffer);
        });
        summed_ = true;
      }
      // The inverse of a word w is -w - 1.
      return inverted ? -sum_ - options_.bytes / sizeof(std::uint64_t) : sum_.load();
    };
  }

  struct Place {
    std::string name;
    std::string path;
  };
  const std::vector<Place> places_{
      {"both_ways/", "/dev/shm/penstock-bench-written.bin"},
      {"both_ways/disk_", options_.path + ".written"},
  };
  std::atomic<std::uint64_t> sum_{0};
  bool summed_{};
};

} // namespace

int main(int argc, char** argv) {
  return program<FileOptions>(argc, argv, [](const FileOptions& options) {
    prepare_file(options);
    BothWays both_ways{options};
    both_ways.add_limits();
    for (const Size& size : {mebibytes, images}) {
      both_ways.add_pipelines(size);
    }
    return run_all();
  });
}
