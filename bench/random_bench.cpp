// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How fast do records at random places of a file get into memory?
//
// random/WAY/RECORD/THREADS, with the file in the page cache: each of THREADS threads reads a
// thousand records at a time, at places that a ps::Permutation says, into 1 MiB or more of 48 MiB.
//   in_order     1 MiB a read, from front to back: what reading without an order gives
//   shared       pread of each record, one descriptor for all threads
//   own          pread of each record, a descriptor a thread
//   mapped       memcpy from the file, mapped into memory: a file that is cut kills the process
//   checked_map  process_vm_readv of 256 records at a time from such a mapping of this process,
//                which gives an error for a page that is gone
//   uring        64 reads at a time by io_uring, a ring and a registered file a thread
// cold/WAY/RECORD/THREADS: the same past the page cache (O_DIRECT), from the disk, of fewer
// records, `own` and `uring`.
//
// cpu_s_per_gb is the CPU time of the process. The file has 4 GB, or --bytes=N. To be run with
// --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true. It needs no GPU.

#include "support/contender.hpp"
#include "support/cpu_time.hpp"
#include "support/file.hpp"
#include "support/threads.hpp"

#include <penstock/order/permutation.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

[[noreturn]] void fail(const char* call) {
  throw std::system_error{errno, std::generic_category(), call};
}

/// One read.
struct Piece {
  std::uint64_t at;
  std::byte* to;
};

/// An io_uring of one thread, for reads of one file.
class Ring {
 public:
  static constexpr unsigned depth = 64;

  explicit Ring(int file) {
    io_uring_params params{};
    descriptor_ = static_cast<int>(syscall(__NR_io_uring_setup, depth, &params));
    if (descriptor_ < 0) {
      fail("io_uring_setup");
    }
    sq_ = map(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    cq_ = map(params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
    entries_ = reinterpret_cast<io_uring_sqe*>(
        map(params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    params_ = params;
    if (syscall(__NR_io_uring_register, descriptor_, IORING_REGISTER_FILES, &file, 1) != 0) {
      fail("io_uring_register");
    }
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() { close(descriptor_); } // the mappings go with the process

  /// Does at most `depth` reads of `bytes` each.
  void read(std::span<const Piece> pieces, std::size_t bytes) {
    unsigned* const tail = at<unsigned>(sq_, params_.sq_off.tail);
    unsigned* const array = at<unsigned>(sq_, params_.sq_off.array);
    const unsigned mask = *at<unsigned>(sq_, params_.sq_off.ring_mask);
    unsigned next = *tail;
    for (const Piece& piece : pieces) {
      const unsigned place = next++ & mask;
      io_uring_sqe& entry = entries_[place];
      entry = {};
      entry.opcode = IORING_OP_READ;
      entry.flags = IOSQE_FIXED_FILE;
      entry.off = piece.at;
      entry.addr = reinterpret_cast<std::uintptr_t>(piece.to);
      entry.len = static_cast<unsigned>(bytes);
      array[place] = place;
    }
    std::atomic_ref{*tail}.store(next, std::memory_order_release);
    const auto count = static_cast<unsigned>(pieces.size());
    if (syscall(__NR_io_uring_enter, descriptor_, count, count, IORING_ENTER_GETEVENTS, nullptr,
                0) != static_cast<long>(count)) {
      fail("io_uring_enter");
    }
    unsigned* const head = at<unsigned>(cq_, params_.cq_off.head);
    const unsigned end =
        std::atomic_ref{*at<unsigned>(cq_, params_.cq_off.tail)}.load(std::memory_order_acquire);
    const unsigned cq_mask = *at<unsigned>(cq_, params_.cq_off.ring_mask);
    const auto* const done = at<io_uring_cqe>(cq_, params_.cq_off.cqes);
    for (unsigned i = *head; i != end; ++i) {
      if (done[i & cq_mask].res != static_cast<int>(bytes)) {
        errno = -std::min(done[i & cq_mask].res, 0);
        fail("read by io_uring");
      }
    }
    std::atomic_ref{*head}.store(end, std::memory_order_release);
  }

 private:
  std::byte* map(std::size_t bytes, std::uint64_t what) const {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                          descriptor_, static_cast<off_t>(what));
    if (at == MAP_FAILED) {
      fail("mmap of an io_uring");
    }
    return static_cast<std::byte*>(at);
  }
  template <class T> static T* at(std::byte* base, unsigned offset) {
    return reinterpret_cast<T*>(base + offset);
  }

  int descriptor_;
  io_uring_params params_;
  std::byte* sq_;
  std::byte* cq_;
  io_uring_sqe* entries_;
};

enum class Way { in_order, shared, own, mapped, checked_map, uring };

struct Question {
  std::string path;
  std::uint64_t file_bytes;
  std::size_t record;
  unsigned threads;
  std::uint64_t records; // to read
  bool cold = false;
};

/// What all contenders of one file share: the file mapped into memory, and memory to read into.
class Memory {
 public:
  static constexpr std::size_t pool_bytes = 48 * MiB;

  Memory(const std::string& path, std::uint64_t bytes)
      : file_{open(path.c_str(), O_RDONLY)},
        map_{mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_, 0)},
        pool_{
            mmap(nullptr, pool_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)} {
    if (file_ < 0 || map_ == MAP_FAILED || pool_ == MAP_FAILED) {
      fail("open or mmap");
    }
    madvise(pool_, pool_bytes, MADV_HUGEPAGE);
    std::memset(pool_, 1, pool_bytes);
  }

  int file() const { return file_; }
  std::byte* map() const { return static_cast<std::byte*>(map_); }
  std::byte* pool() const { return static_cast<std::byte*>(pool_); }

 private:
  int file_;
  void* map_;
  void* pool_;
};

class Reads : public Contender {
 public:
  Reads(Way way, Question question, const Memory& memory, bool checked)
      : way_{way}, question_{std::move(question)}, memory_{memory}, checked_{checked} {}

  /// Returns the sum of the places that the records say they have: each begins with a hash of it.
  std::uint64_t run() override {
    const std::size_t record = way_ == Way::in_order ? MiB : question_.record;
    const std::uint64_t count =
        way_ == Way::in_order ? question_.records * question_.record / MiB : question_.records;
    const ps::Permutation order{question_.file_bytes / record, 1, ++epoch_};
    const std::size_t some = std::max<std::size_t>(MiB / record, 1);
    const std::size_t each = Memory::pool_bytes / question_.threads;
    const std::size_t slots = each / (some * record); // of each thread
    std::atomic<std::uint64_t> next{0};
    std::atomic<std::uint64_t> sum{0};
    on_threads(question_.threads, [&](std::size_t thread) {
      const bool own = way_ != Way::shared && way_ != Way::in_order;
      const int file =
          own ? open(question_.path.c_str(), O_RDONLY | (question_.cold ? O_DIRECT : 0))
              : memory_.file();
      std::unique_ptr<Ring> ring{way_ == Way::uring ? new Ring{file} : nullptr};
      std::vector<Piece> pieces;
      std::uint64_t mine = 0;
      std::size_t turn = 0;
      for (std::uint64_t first = 0; (first = next.fetch_add(some)) < count;) {
        std::byte* const to = memory_.pool() + thread * each + turn++ % slots * some * record;
        pieces.clear();
        for (std::uint64_t i = first; i != std::min<std::uint64_t>(count, first + some); ++i) {
          pieces.push_back(
              {(way_ == Way::in_order ? i : order(i)) * record, to + (i - first) * record});
        }
        read(pieces, record, file, ring.get());
        for (std::size_t i = 0; checked_ && i != pieces.size(); ++i) {
          mine += std::memcmp(pieces[i].to, memory_.map() + pieces[i].at, record) == 0 ? 1 : 0;
        }
      }
      sum += mine;
      if (own) {
        close(file);
      }
    });
    return sum;
  }

 private:
  void read(std::span<const Piece> pieces, std::size_t bytes, int file, Ring* ring) const {
    if (way_ == Way::mapped) {
      for (const Piece& piece : pieces) {
        std::memcpy(piece.to, memory_.map() + piece.at, bytes);
      }
    } else if (way_ == Way::checked_map) {
      constexpr std::size_t most = 256;
      iovec from[most];
      for (std::size_t done = 0; done != pieces.size();) {
        const std::size_t count = std::min(pieces.size() - done, most);
        for (std::size_t i = 0; i != count; ++i) {
          from[i] = {memory_.map() + pieces[done + i].at, bytes};
        }
        const iovec to{pieces[done].to, count * bytes}; // they lie back to back
        if (process_vm_readv(getpid(), &to, 1, from, count, 0) !=
            static_cast<ssize_t>(count * bytes)) {
          fail("process_vm_readv");
        }
        done += count;
      }
    } else if (way_ == Way::uring) {
      for (std::size_t done = 0; done != pieces.size();) {
        const std::size_t count = std::min<std::size_t>(pieces.size() - done, Ring::depth);
        ring->read(pieces.subspan(done, count), bytes);
        done += count;
      }
    } else {
      for (const Piece& piece : pieces) {
        if (pread(file, piece.to, bytes, static_cast<off_t>(piece.at)) !=
            static_cast<ssize_t>(bytes)) {
          fail("pread");
        }
      }
    }
  }

  Way way_;
  Question question_;
  const Memory& memory_;
  bool checked_;
  std::uint64_t epoch_{};
};

void add(const std::string& name, Way way, const Question& question, const Memory& memory) {
  const std::uint64_t bytes = question.records * question.record;
  const std::uint64_t expected = way == Way::in_order ? bytes / MiB : question.records;
  const auto checked = std::make_shared<Checked>(
      [=, &memory](bool check) { return std::make_unique<Reads>(way, question, memory, check); },
      [expected] { return expected; });
  add_contender(name, checked, [bytes](benchmark::State& state, Contender& contender) {
    double cpu_s = 0;
    for (auto _ : state) {
      const double before = cpu_seconds();
      state.SetIterationTime(seconds_of_run(contender));
      cpu_s = cpu_seconds() - before;
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
    state.counters["cpu_s_per_gb"] = cpu_s * 1e9 / static_cast<double>(bytes);
  });
}

} // namespace

int main(int argc, char** argv) {
  return program<FileOptions>(argc, argv, [](const FileOptions& given) {
    FileOptions options = given;
    prepare_file(options);
    const Memory memory{options.path, options.bytes};
    constexpr std::pair<const char*, Way> ways[] = {
        {"in_order", Way::in_order}, {"shared", Way::shared},           {"own", Way::own},
        {"mapped", Way::mapped},     {"checked_map", Way::checked_map}, {"uring", Way::uring}};
    constexpr std::pair<const char*, std::size_t> records[] = {
        {"1KiB", KiB}, {"16KiB", 16 * KiB}, {"147KiB", image_bytes}};
    for (const auto& [size, record] : records) {
      for (const unsigned threads : {4U, 8U, 10U, 12U, 16U}) {
        const Question warm{options.path, options.bytes, record, threads,
                            std::min<std::uint64_t>(options.bytes, 512 * MiB) / record};
        const std::string rest = std::string{"/"} + size + "/" + std::to_string(threads);
        for (const auto& [name, way] : ways) {
          add("random/" + (name + rest), way, warm, memory);
        }
        Question cold = warm;
        cold.records = std::min<std::uint64_t>(warm.records, 64 * MiB / record);
        cold.cold = true;
        if (record != KiB && (threads == 4 || threads == 16)) { // direct reads are of whole sectors
          cold.record = record / 4096 * 4096;
          add("cold/own" + rest, Way::own, cold, memory);
          add("cold/uring" + rest, Way::uring, cold, memory);
        }
      }
    }
    return run_all();
  });
}
