// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Is a pipeline as fast as its slowest stage alone? And what does overlap gain if all stages are
// equally slow?
//
// Each "alone" is the stage without penstock, at its own best grain and number of threads; all
// numbers are run, and the results say which is best. The file, and the timing, checking and
// repeating of runs, are those of feed_bench.cu:
//
//   binding_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//                 --benchmark_enable_random_interleaving=true
//
// binding/CONTENDER/BATCH:
//   transfer_alone       cudaMemcpyAsync of 256 MiB pieces of pinned memory
//   transfer_pipeline    Reader to_pinned | AsyncCopier | Consumer with the light kernel
//   kernel_alone         a kernel of 1.5 ms a batch over batches that are on the GPU
//   kernel_pipeline      the pipeline with that kernel
//   decode_alone_N       some milliseconds of arithmetic a MiB, by N threads over an eighth of the
//                        file, mapped into memory, each into 1 MiB of its own
//   decode_by_hand_N     decoding by N threads into pinned memory, which a loop by hand copies
//   decode_pipeline_N    Reader | Decoder to_pinned with N workers | AsyncCopier | Consumer
// The time of the kernel and the number of readers are chosen such that reading, copying and the
// kernel take about as long as each other (see the label):
//   balanced_read, balanced_copy, balanced_kernel    each alone
//   balanced_pipeline    all three in a pipeline
//   balanced_sequential  by hand, one after the other: as many readers, 1 MiB a read
//   balanced_two_buffers by hand: reads one batch while the one before is copied and worked on

#include "support/crew.hpp"
#include "support/from_file.hpp"
#include "support/hand_written.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <sys/mman.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

/// The work of a decoder, some milliseconds a MiB: 64 rounds of mixing for each eight bytes.
void decode(const std::uint8_t* in, std::uint8_t* out, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, in + i, sizeof word);
    for (int round = 0; round < 64; ++round) {
      word = (word ^ (word >> 29)) * 0xbf58476d1ce4e5b9;
    }
    std::memcpy(out + i, &word, sizeof word);
  }
}

/// A file as memory.
class Mapped {
 public:
  Mapped(const std::string& path, std::uint64_t bytes) : bytes_{bytes} {
    const int descriptor = open(path.c_str(), O_RDONLY);
    at_ = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED | MAP_POPULATE, descriptor, 0);
    close(descriptor);
    if (at_ == MAP_FAILED) {
      throw std::system_error{errno, std::generic_category(), "mmap " + path};
    }
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() { munmap(at_, bytes_); }
  const std::uint8_t* data() const { return static_cast<const std::uint8_t*>(at_); }

 private:
  std::uint64_t bytes_;
  void* at_;
};

class DecodeAlone : public Contender {
 public:
  DecodeAlone(const Mapped& file, std::uint64_t bytes, unsigned threads, bool checked)
      : bytes_{bytes}, checked_{checked}, file_{file}, crew_{threads} {}

  std::uint64_t run() override {
    std::atomic<std::uint64_t> next{0};
    std::atomic<std::uint64_t> sum{0};
    crew_.start([&] {
      thread_local std::vector<std::uint8_t> out(MiB);
      for (std::uint64_t at = next.fetch_add(MiB); at < bytes_; at = next.fetch_add(MiB)) {
        decode(file_.data() + at, out.data(), MiB);
        if (checked_) {
          sum.fetch_add(checksum_of(out, at, MiB));
        }
      }
    });
    crew_.wait();
    return sum;
  }

 private:
  std::uint64_t bytes_;
  bool checked_;
  const Mapped& file_;
  Crew crew_;
};

/// By hand: threads that decode into the memory that is copied, and a loop that copies and works.
class DecodeByHand : public Contender {
 public:
  /// Uses of the options: bytes, batch_bytes, read_bytes and readers, which decode.
  DecodeByHand(const Mapped& file, const LoopOptions& options, const Work& work)
      : file_{file}, options_{options}, work_{work}, gpu_{options, work_} {}

  std::uint64_t run() override {
    places_.reset();
    const auto count = static_cast<std::int64_t>(options_.bytes / options_.read_bytes);
    std::atomic<std::int64_t> next{0};
    std::vector<std::jthread> decoders;
    for (unsigned i = 0; i < options_.readers; ++i) {
      decoders.emplace_back([&](std::stop_token given_up) {
        for (std::int64_t n = next++; n < count; n = next++) {
          if (!spin_until(given_up, [&] { return places_.is_empty(n); })) {
            return;
          }
          decode(file_.data() + static_cast<std::size_t>(n) * options_.read_bytes, places_.at(n),
                 options_.read_bytes);
          places_.fill(n);
        }
      });
    }
    gpu_.run(places_);
    return work_.checksum();
  }

 private:
  const Mapped& file_;
  LoopOptions options_;
  Work work_;
  PinnedBytes pinned_ = make_pinned(options_.pinned_bytes);
  Places places_{pinned_.get(), options_.pinned_bytes, options_.read_bytes};
  CopyAndWork gpu_;
};

/// The kernel over batches that are on the GPU.
class KernelAlone : public Contender {
 public:
  KernelAlone(std::uint64_t bytes, std::size_t batch_bytes, const Work& work)
      : bytes_{bytes}, batch_bytes_{batch_bytes}, work_{work} {
    std::vector<std::uint8_t> full(places * batch_bytes);
    AlwaysFull{}.fill(0, full);
    check(cudaMemcpy(batches_.get(), full.data(), full.size(), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  std::uint64_t run() override {
    for (std::uint64_t at = 0; at < bytes_; at += batch_bytes_) {
      const auto size =
          static_cast<std::size_t>(std::min<std::uint64_t>(batch_bytes_, bytes_ - at));
      work_(batches_.get() + at / batch_bytes_ % places * batch_bytes_, size, stream_.get());
    }
    sync(stream_);
    return work_.checksum();
  }

 private:
  static constexpr std::size_t places = 3;

  std::uint64_t bytes_;
  std::size_t batch_bytes_;
  Work work_;
  DeviceBytes batches_ = make_on_device(places * batch_bytes_);
  Stream stream_ = make_stream();
};

/// Threads that read a batch together, 1 MiB at a time.
class BatchReader {
 public:
  BatchReader(const FileOptions& file, std::size_t batch_bytes, unsigned threads)
      : file_{file.path, O_RDONLY}, bytes_{file.bytes}, batch_bytes_{batch_bytes}, crew_{threads} {}

  std::size_t size(std::uint64_t at) const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(batch_bytes_, bytes_ - at));
  }
  void start(std::uint64_t at, std::uint8_t* into) {
    next_ = 0;
    crew_.start([this, at, into] {
      for (std::uint64_t n = next_.fetch_add(MiB); n < size(at); n = next_.fetch_add(MiB)) {
        const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(MiB, size(at) - n));
        file_.read(at + n, {into + n, piece});
      }
    });
  }
  void wait() { crew_.wait(); }

 private:
  OpenFile file_;
  std::uint64_t bytes_;
  std::size_t batch_bytes_;
  std::atomic<std::uint64_t> next_{0};
  Crew crew_;
};

enum class Overlap { none, two_buffers, only_reads };

/// Reads a batch, copies it, works on it; may read the next one meanwhile.
class ByHand : public Contender {
 public:
  ByHand(const FileOptions& file, std::size_t batch_bytes, unsigned readers, Overlap overlap,
         const Work& work)
      : bytes_{file.bytes}, batch_bytes_{batch_bytes}, overlap_{overlap}, work_{work},
        readers_{readers}, reader_{file, batch_bytes, readers} {}

  std::uint64_t run() override {
    if (overlap_ != Overlap::two_buffers) {
      for (std::uint64_t at = 0; at < bytes_; at += batch_bytes_) {
        reader_.start(at, host(at));
        reader_.wait();
        if (overlap_ == Overlap::none) {
          copy(at);
          sync(stream_);
          work(at);
          sync(stream_);
        }
      }
      return overlap_ == Overlap::none ? work_.checksum() : last_read();
    }
    reader_.start(0, host(0));
    reader_.wait();
    for (std::uint64_t at = 0; at < bytes_; at += batch_bytes_) {
      const std::uint64_t next = at + batch_bytes_;
      if (next < bytes_) {
        reader_.start(next, host(next));
      }
      copy(at);
      work(at);
      sync(stream_);
      if (next < bytes_) {
        reader_.wait();
      }
    }
    return work_.checksum();
  }
  std::string label() const override { return std::to_string(readers_) + " readers"; }

  /// Returns the checksum of the last batch only, for a run that only reads.
  std::uint64_t last_read() {
    const std::uint64_t last = (bytes_ - 1) / batch_bytes_ * batch_bytes_;
    return checksum_of({host(last), reader_.size(last)}, last, batch_bytes_);
  }

 private:
  static constexpr std::size_t buffers = 2;

  std::size_t buffer(std::uint64_t at) const {
    return static_cast<std::size_t>(at / batch_bytes_ % buffers) * batch_bytes_;
  }
  std::uint8_t* host(std::uint64_t at) { return pinned_.get() + buffer(at); }
  void copy(std::uint64_t at) {
    copy_to_device(on_device_.get() + buffer(at), host(at), reader_.size(at), stream_);
  }
  void work(std::uint64_t at) {
    work_(on_device_.get() + buffer(at), reader_.size(at), stream_.get());
  }

  std::uint64_t bytes_;
  std::size_t batch_bytes_;
  Overlap overlap_;
  Work work_;
  unsigned readers_;
  PinnedBytes pinned_ = make_pinned(buffers * batch_bytes_);
  DeviceBytes on_device_ = make_on_device(buffers * batch_bytes_);
  Stream stream_ = make_stream();
  BatchReader reader_; // its threads must rest before the memory is freed
};

double best_seconds_of(Contender& contender) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    best = std::min(best, seconds_of_run(contender));
  }
  return best;
}

class Binding : FromFile {
  // Two of them fit into the 48 MiB of a pipeline's ring, as two buffers need.
  static constexpr std::size_t balanced_batch = 16 * MiB;

  /// A kernel and readers that take as long as copying does.
  struct Balance {
    int rounds{};
    unsigned readers{};
  };
  const Balance& balance() {
    if (!balance_) {
      FileOptions some = options_;
      some.bytes = std::min<std::uint64_t>(some.bytes, 8 * file_unit);
      Link link{some.bytes, false, balanced_batch};
      const double copying = best_seconds_of(link);
      unsigned readers = 2;
      for (; readers < 15; ++readers) {
        ByHand reading{some, balanced_batch, readers, Overlap::only_reads,
                       Work{{.batch_bytes = 16}}};
        if (best_seconds_of(reading) <= copying) {
          break;
        }
      }
      const double batches = static_cast<double>(some.bytes) / balanced_batch;
      balance_ = Balance{rounds_for(copying / batches, balanced_batch), readers};
    }
    return *balance_;
  }

 public:
  explicit Binding(const FileOptions& options)
      : FromFile{options}, mapped_{options.path, decoded_bytes_},
        of_decoded_{decoded_bytes_, [this](auto at, auto into) {
                      file_.read(at, into);
                      decode(into.data(), into.data(), into.size());
                    }} {}

  void add_transfer() {
    add("binding/transfer_alone/256MiB", options_.bytes, of_memory_.of(Link::usual_piece),
        [this](bool checked) { return std::make_unique<Link>(options_.bytes, checked); });
    add("binding/transfer_pipeline/37.6MB", options_.bytes, of_file_.of(images.batch),
        [this](bool checked) {
          return run_file(images, {.batch_bytes = images.batch, .checked = checked});
        });
  }
  void add_kernel() {
    const auto heavy = [this](bool checked) {
      if (heavy_rounds_ == 0) {
        heavy_rounds_ = rounds_for(1.5e-3, images.batch);
      }
      return WorkOptions{.batch_bytes = images.batch, .rounds = heavy_rounds_, .checked = checked};
    };
    add("binding/kernel_alone/37.6MB", options_.bytes, of_memory_.of(images.batch),
        [=, this](bool checked) {
          return std::make_unique<KernelAlone>(options_.bytes, images.batch, Work{heavy(checked)});
        });
    add("binding/kernel_pipeline/37.6MB", options_.bytes, of_file_.of(images.batch),
        [=, this](bool checked) { return run_file(images, heavy(checked)); });
  }
  void add_decode() {
    for (const unsigned threads : {14U, 16U}) {
      const std::string size = std::to_string(threads) + "/1MiB";
      const auto add_decoding = [&](const std::string& name, const Make& make) {
        add("binding/decode_" + name + size, decoded_bytes_, of_decoded_.of(MiB), make);
      };
      add_decoding("alone_", [=, this](bool checked) {
        return std::make_unique<DecodeAlone>(mapped_, decoded_bytes_, threads, checked);
      });
      add_decoding("by_hand_", [=, this](bool checked) {
        return std::make_unique<DecodeByHand>(
            mapped_, LoopOptions{.bytes = decoded_bytes_, .batch_bytes = MiB, .readers = threads},
            Work{{.batch_bytes = MiB, .checked = checked}});
      });
      for (const unsigned readers : {0U, 2U}) { // 0: as many as are the default
        add_decoding(readers == 0 ? "pipeline_" : "pipeline_2_", [=, this](bool checked) {
          const Work work{{.batch_bytes = MiB, .checked = checked}};
          const std::span blocks{reinterpret_cast<const Block*>(mapped_.data()),
                                 decoded_bytes_ / sizeof(Block)};
          return by_run(ps::Reader{ps::memory(blocks), {.workers = readers}} |
                            ps::Decoder{[](const Block& in, Block& out) {
                                          decode(in.bytes, out.bytes, sizeof(Block));
                                        },
                                        ps::to_pinned,
                                        {.workers = threads}} |
                            copier(MiB / sizeof(Block)) | consumer<Block>(work),
                        work);
        });
      }
    }
  }
  void add_balanced() {
    constexpr std::size_t batch = balanced_batch;
    const auto kernel = [this](bool checked) {
      return WorkOptions{.batch_bytes = batch, .rounds = balance().rounds, .checked = checked};
    };
    const auto by_hand = [=, this](const char* name, Overlap overlap,
                                   std::function<std::uint64_t()> expected) {
      add(std::string{"binding/balanced_"} + name + "/16MiB", options_.bytes, std::move(expected),
          [=, this](bool checked) {
            return std::make_unique<ByHand>(options_, batch, balance().readers, overlap,
                                            Work{kernel(checked)});
          });
    };
    by_hand("read", Overlap::only_reads, [this] { return last_batch(); });
    by_hand("sequential", Overlap::none, of_file_.of(batch));
    by_hand("two_buffers", Overlap::two_buffers, of_file_.of(batch));
    add("binding/balanced_copy/16MiB", options_.bytes, of_memory_.of(batch),
        [=, this](bool checked) { return std::make_unique<Link>(options_.bytes, checked, batch); });
    add("binding/balanced_kernel/16MiB", options_.bytes, of_memory_.of(batch),
        [=, this](bool checked) {
          return std::make_unique<KernelAlone>(options_.bytes, batch, Work{kernel(checked)});
        });
    add("binding/balanced_pipeline/16MiB", options_.bytes, of_file_.of(batch),
        [=, this](bool checked) {
          return run_file({"16MiB", batch, sizeof(Block)}, kernel(checked),
                          {.workers = balance().readers});
        });
  }

 private:
  std::uint64_t last_batch() {
    const std::uint64_t at = (options_.bytes - 1) / balanced_batch * balanced_batch;
    std::vector<std::uint8_t> last(static_cast<std::size_t>(options_.bytes - at));
    file_.read(at, last);
    return checksum_of(last, at, balanced_batch);
  }

  std::uint64_t decoded_bytes_ = options_.bytes / 8 / MiB * MiB;
  Mapped mapped_;
  Expected of_decoded_;
  int heavy_rounds_{};
  std::optional<Balance> balance_;
};

} // namespace

int main(int argc, char** argv) {
  return program<FileOptions>(argc, argv, [](const FileOptions& options) {
    prepare_file(options);
    Binding binding{options};
    binding.add_transfer();
    binding.add_kernel();
    binding.add_decode();
    binding.add_balanced();
    return run_all();
  });
}
