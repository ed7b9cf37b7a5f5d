// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does it gain that a window's blocks are read ahead?
//
// Records of 4 KiB are read from a file that is not in the page cache, through the cache, by four
// workers: before each run, untimed, the file is dropped from it (posix_fadvise).
//
//   window/in_order           as they lie
//   window/one_by_one         shuffled, each record by itself
//   window/hint/64            shuffled in blocks of 256, 64 of which are mixed at a time
//   window/no_hint/64         the same by a source that does not hear which records come soon
//
// Checked contenders add up the first 8 bytes of each record. The file has 1 GB, or --bytes=N, and
// must lie on a disk, --file=PATH. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true. It needs no GPU.

#include "support/contender.hpp"
#include "support/file.hpp"

#include <penstock/penstock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::size_t record = 4 * KiB;
using Records = ps::Records<std::byte>;

/// The same source without will_read().
class Deaf {
 public:
  using schema = std::byte;

  explicit Deaf(Records source) : source_{std::move(source)} {}
  void open(const ps::PrepareOptions& preparing) { source_.open(preparing); }
  std::uint64_t size() const { return source_.size(); }
  std::size_t record_bytes() const { return source_.record_bytes(); }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<std::byte, Where> into) const {
    return source_.read(into);
  }

 private:
  Records source_;
};

std::uint64_t first_of(const std::byte* at) {
  std::uint64_t first = 0;
  std::memcpy(&first, at, sizeof first);
  return first;
}

auto chain(auto source, const ps::Order& order, std::atomic<std::uint64_t>& sum) {
  return ps::Reader{std::move(source), {.workers = 4, .order = order}} |
         ps::Consumer{[&sum](ps::Batch<const std::byte, ps::Pageable> batch) {
                        std::uint64_t mine = 0;
                        for (std::size_t i = 0; i != batch.size(); ++i) {
                          mine += first_of(batch.data() + i * record);
                        }
                        sum += mine;
                      },
                      {.workers = 1}};
}

template <class Source> class Run : public Contender {
 public:
  Run(Source source, const ps::Order& order) : pipeline_{chain(std::move(source), order, sum_)} {}
  std::uint64_t run() override {
    sum_ = 0;
    pipeline_.run();
    return sum_;
  }

 private:
  std::atomic<std::uint64_t> sum_{0};
  decltype(chain(std::declval<Source>(), ps::Order{},
                 std::declval<std::atomic<std::uint64_t>&>())) pipeline_;
};

void drop(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int error = descriptor < 0 ? errno : posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  if (descriptor >= 0) {
    close(descriptor);
  }
  if (error != 0) {
    throw std::runtime_error{"cannot drop the file from the page cache"};
  }
}

template <class Source>
void add(const std::string& name, const FileOptions& options, const ps::Order& order) {
  const auto expected = [options] {
    std::atomic<std::uint64_t> sum{0};
    const OpenFile file{options.path, O_RDONLY};
    in_chunks(options.bytes, [&](std::uint64_t at, std::span<std::uint8_t> buffer) {
      file.read(at, buffer);
      for (std::size_t i = 0; i < buffer.size(); i += record) {
        sum += first_of(reinterpret_cast<const std::byte*>(buffer.data()) + i);
      }
    });
    return sum.load();
  };
  const auto make = [options, order](bool) {
    return std::make_unique<Run<Source>>(
        Source{ps::records<std::byte>(options.path,
                                      {.record_bytes = record, .direct = ps::DirectReads::none})},
        order);
  };
  add_contender(name, std::make_shared<Checked>(make, expected),
                [options](benchmark::State& state, Contender& contender) {
                  for (auto _ : state) {
                    drop(options.path);
                    state.SetIterationTime(seconds_of_run(contender));
                  }
                  state.SetBytesProcessed(static_cast<std::int64_t>(options.bytes));
                });
}

} // namespace

int main(int argc, char** argv) {
  return program<FileOptions>(argc, argv, [](FileOptions options) {
    prepare_file(options);
    const ps::Order window{.shuffle = 1337, .block = 256, .window = 64};
    add<Records>("window/in_order", options, {});
    add<Records>("window/one_by_one", options, {.shuffle = 1337});
    add<Records>("window/hint/64", options, window);
    add<Deaf>("window/no_hint/64", options, window);
    return run_all();
  });
}
