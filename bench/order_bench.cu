// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does a shuffle cost? A file in the page cache goes to the light kernel of feed_bench, by
// run(), in batches of 4 MiB, as it lies and shuffled record by record.
//
// order/WAY/RECORD:
//   in_order          as it lies
//   shuffled          shuffled, options at their defaults
//   in_order_W        with W workers that read
//   shuffled_W
//   shuffled_uring, shuffled_uring_W  records below 64 KiB in batches by io_uring
//   link              cudaMemcpyAsync of 256 MiB pieces of pinned memory
// cpu_s_per_gb is the CPU time of the process. Checked as in feed_bench, against the records in the
// order that ps::Permutation says. To be run with
//   order_bench [--file=PATH] [--bytes=N] --benchmark_repetitions=5
//               --benchmark_enable_random_interleaving=true

#include "support/cpu_time.hpp"
#include "support/from_file.hpp"
#include "support/hand_written.hpp"

#include <penstock/io/uring.hpp>
#include <penstock/order/permutation.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::uint64_t seed = 1337;

class Ordered : FromFile {
 public:
  explicit Ordered(const FileOptions& options) : FromFile{options} {}

  void add_link() {
    add("order/link/256MiB", of_memory_.of(Link::usual_piece),
        [this](bool checked) { return std::make_unique<Link>(options_.bytes, checked); });
  }
  void add_all(const std::string& record, const Size& size) {
    const auto shuffled = std::make_shared<Expected>(
        options_.bytes,
        [this, bytes = size.record](std::uint64_t at, std::span<std::uint8_t> into) {
          read_shuffled(bytes, at, into);
        });
    for (const unsigned workers : {0U, 12U, 16U}) {
      const std::string with = workers == 0 ? "" : "_" + std::to_string(workers);
      add("order/in_order" + with + "/" + record, of_file_.of(size.batch),
          [this, size, workers](bool checked) { return run(size, workers, {}, checked); });
      add(
          "order/shuffled" + with + "/" + record,
          [shuffled, batch = size.batch] { return shuffled->sum(batch); },
          [this, size, workers](bool checked) {
            return run(size, workers, {.shuffle = seed}, checked);
          });
      if (size.record <= ps::UringIo::ManyReads::most_bytes) {
        add(
            "order/shuffled_uring" + with + "/" + record,
            [shuffled, batch = size.batch] { return shuffled->sum(batch); },
            [this, size, workers](bool checked) {
              return run(size, workers, {.shuffle = seed}, checked, ps::UringIo{});
            });
      }
    }
  }

 private:
  template <class Io = ps::PosixIo>
  std::unique_ptr<Contender> run(const Size& size, unsigned workers, const ps::Order& order,
                                 bool checked, Io io = Io{}) {
    return run_file(size, {.batch_bytes = size.batch, .checked = checked},
                    {.workers = workers, .order = order}, io);
  }
  // Reads what lies at `at` in the shuffled sequence of records of `bytes`.
  void read_shuffled(std::size_t bytes, std::uint64_t at, std::span<std::uint8_t> into) const {
    const ps::Permutation order{options_.bytes / bytes, seed, 0};
    while (!into.empty()) {
      const std::uint64_t within = at % bytes;
      const auto part = std::min<std::size_t>(into.size(), bytes - within);
      file_.read(order(at / bytes) * bytes + within, into.first(part));
      into = into.subspan(part);
      at += part;
    }
  }
  void add(const std::string& name, std::function<std::uint64_t()> expected, Make make) {
    const auto checked = std::make_shared<Checked>(std::move(make), std::move(expected));
    add_contender(name, checked,
                  [bytes = options_.bytes](benchmark::State& state, Contender& contender) {
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
};

} // namespace

int main(int argc, char** argv) {
  return program<FileOptions>(argc, argv, [](const FileOptions& options) {
    prepare_file(options);
    Ordered ordered{options};
    ordered.add_link();
    constexpr std::size_t batch = 4 * MiB;
    ordered.add_all("1KiB", {"4MiB", batch, KiB});
    ordered.add_all("16KiB", {"4MiB", batch, 16 * KiB});
    ordered.add_all("147KiB", {"4.2MB", 28 * image_bytes, image_bytes});
    return run_all();
  });
}
