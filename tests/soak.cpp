// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A soak: runs pipelines of random shapes, one after the other, for as long as it is told, and
// compares every byte. `soak SECONDS [SEED] [host|cuda]` prints what went through, and exits 1 at
// the first wrong byte, order or count, after naming the shape at fault.

#include "suite/through.hpp"
#include "support/temp_dir.hpp"

#include <penstock/device/device_array.hpp>
#include <penstock/sources/zip.hpp>
#include <penstock/with_device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>

using namespace suite;

namespace {

struct Pair
    : ps::Columns<ps::Field<"bytes", std::byte, ps::dynamic>, ps::Field<"number", std::uint64_t>> {
};

/// One pipeline's shape.
struct Shape {
  std::size_t record{}, records{}, batch{}, depth{}, held{};
  unsigned readers{}, decoders{}, lanes{};
  std::uint64_t epochs{};
  bool file{}, staged{}, decoded{}, columns{}, replayed{};

  template <class Random> static Shape random(Random& next, std::size_t most_bytes) {
    const auto pick = [&](std::size_t low, std::size_t high) {
      return low + static_cast<std::size_t>(next() % (high - low + 1));
    };
    Shape s;
    const std::size_t scale = std::size_t{1} << pick(0, 22);
    s.record = pick(1, scale);
    s.records = pick(0, std::min<std::size_t>(most_bytes / s.record, 40'000));
    s.batch = pick(1, std::max<std::size_t>(s.records / pick(1, 50), 1));
    s.depth = pick(2, 9);
    s.held = pick(0, 1);
    s.readers = static_cast<unsigned>(pick(1, 8));
    s.decoders = static_cast<unsigned>(pick(1, 6));
    s.epochs = pick(1, 3);
    s.file = pick(0, 1) == 1;
    s.staged = pick(0, 1) == 1;
    s.decoded = pick(0, 2) == 0;
    s.columns = pick(0, 3) == 0;
    s.replayed = pick(0, 3) == 0;
    if (s.replayed) { // so that there are groups of each size
      s.batch = pick(1, std::max<std::size_t>(s.records / pick(1, 1000), 1));
    }
    s.lanes = static_cast<unsigned>(std::size_t{1} << pick(0, 6));
    s.lanes -= static_cast<unsigned>(pick(0, s.lanes - 1)); // few lanes as often as many
    return s;
  }
  std::string text() const {
    return "record " + std::to_string(record) + ", records " + std::to_string(records) +
           ", batch " + std::to_string(batch) + ", depth " + std::to_string(depth) + ", held " +
           std::to_string(held) + ", readers " + std::to_string(readers) + ", decoders " +
           std::to_string(decoders) + ", epochs " + std::to_string(epochs) +
           (file ? ", file" : ", memory") + (staged ? ", staged" : "") +
           (decoded ? ", decoded" : "") + (columns ? ", columns" : "") +
           (replayed ? ", replayed in lanes: " + std::to_string(lanes) : "");
  }
};

/// Brings a batch back and compares it; keeps `held` leases for a while.
template <class D> class Checker {
 public:
  Checker(D& device, std::size_t bytes)
      : device_{device}, bytes_{(bytes / 4096 + 1) * 4096},
        back_{static_cast<std::byte*>(device.allocate_pinned(bytes_))} {}
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;
  ~Checker() { device_.deallocate_pinned(back_, bytes_); }

  template <class Stream>
  bool same(const std::byte* data, std::span<const std::byte> expected, Stream& stream) {
    device_.copy_to_host(back_, data, expected.size(), stream);
    device_.sync(stream);
    return std::memcmp(back_, expected.data(), expected.size()) == 0;
  }

 private:
  D& device_;
  std::size_t bytes_;
  std::byte* back_;
};

/// Walks an open pipeline; `check(batch)` returns whether the batch is right.
template <class P, class Stream, class F>
bool walk(P pipeline, Stream& stream, const Shape& shape, F check) {
  std::uint64_t next = 0;
  for (int run = 0; run < 2; ++run) {
    next = 0;
    using Lease = std::remove_cvref_t<decltype(*pipeline.on(stream).begin())>;
    Lease held;
    for (auto batch : pipeline.on(stream)) {
      if (batch.index() != next || batch.source_index() != next % shape.records || !check(batch)) {
        return false;
      }
      next += batch.size();
      if (shape.held != 0) {
        held = std::move(batch);
      }
    }
    if (next != shape.records * shape.epochs) {
      return false;
    }
  }
  return true;
}

/// Returns the numbers of records multiplied, so that their bits differ much.
constexpr std::uint64_t factor = 0x9E3779B97F4A7C15U;
std::vector<std::uint64_t> some_numbers(std::size_t n) {
  std::vector<std::uint64_t> numbers(n);
  for (std::size_t i = 0; i < n; ++i) {
    numbers[i] = i * factor;
  }
  return numbers;
}

/// Returns a record's hash.
PENSTOCK_HD std::uint64_t hash(const std::byte* record, std::size_t bytes) {
  std::uint64_t sum = 1;
  for (std::size_t i = 0; i < bytes; ++i) {
    sum = (sum ^ static_cast<std::uint64_t>(record[i])) * 0x100000001B3U;
  }
  return sum;
}
/// Adds each record's hash to the sum that its number picks.
struct AddHash {
  ps::Column<const std::byte, ps::dynamic> bytes;
  const std::uint64_t* number;
  std::uint64_t* sums;
  PENSTOCK_HD void operator()(std::size_t i) const {
    constexpr std::uint64_t inverse = 0xF1DE83E19937733DU;
    static_assert(inverse * factor == 1);
    sums[number[i] * inverse] += hash(bytes.data() + i * bytes.elements(), bytes.elements());
  }
};

/// Runs a pipeline whose replayed consumer notes which records came.
template <class D, class P>
bool replay(D& device, const Shape& shape, std::span<const std::byte> bytes, P open) {
  const ps::DeviceArray<std::uint64_t, D> sums{device, shape.records * shape.lanes};
  const ps::ReplayOptions lanes{.lanes = shape.lanes};
  auto pipeline = std::move(open) |
                  ps::Consumer{ps::replayed(
                      [&, at = sums.data()](ps::FrozenBatch<const Pair> in, ps::Stream<D> stream) {
                        ps::for_each(stream, in.size(),
                                     AddHash{ps::get<"bytes">(in), ps::get<"number">(in).data(),
                                             at + in.lane() * shape.records});
                      },
                      lanes)};
  for (int run = 0; run < 2; ++run) {
    const ps::Report& report = pipeline.run();
    if (report.records != shape.records * shape.epochs || !report.stages.back().note.empty()) {
      return false;
    }
  }
  auto stream = device.stream();
  const std::vector<std::uint64_t> got = sums.read(stream);
  for (std::size_t i = 0; i < shape.records; ++i) {
    std::uint64_t sum = 0;
    for (std::size_t lane = 0; lane < shape.lanes; ++lane) {
      sum += got[lane * shape.records + i];
    }
    if (sum != 2 * shape.epochs * hash(bytes.data() + i * shape.record, shape.record)) {
      return false;
    }
  }
  return true;
}

template <class D, class Source>
bool run(D& device, const Shape& shape, std::span<const std::byte> bytes, Source source) {
  auto stream = device.stream();
  Checker<D> checker{device, shape.batch * std::max(shape.record, sizeof(std::uint64_t))};
  const ps::ReaderOptions reading{
      .workers = shape.readers, .depth = shape.depth, .epochs = shape.epochs};
  const ps::CopierOptions copying{.batch = shape.batch, .depth = shape.depth};
  const auto plain = [&](const auto& batch) {
    return checker.same(batch.data(),
                        bytes.subspan(batch.source_index() * shape.record, batch.size_bytes()),
                        stream);
  };
  if (shape.columns || shape.replayed) {
    const std::vector<std::uint64_t> numbers = some_numbers(shape.records);
    const auto source_of_both = ps::zip<Pair>(source, ps::memory(numbers));
    if (shape.replayed && shape.staged) {
      return replay(device, shape, bytes,
                    ps::Reader{source_of_both, reading} |
                        ps::PinnedStager{{.workers = 2, .depth = shape.depth}} |
                        ps::AsyncCopier{device, copying});
    }
    if (shape.replayed) {
      return replay(device, shape, bytes,
                    ps::Reader{source_of_both, ps::to_pinned, reading} |
                        ps::AsyncCopier{device, copying});
    }
    const auto both = [&](const auto& batch) {
      const std::uint64_t first = batch.source_index();
      return checker.same(ps::get<"bytes">(batch).data(),
                          bytes.subspan(first * shape.record, batch.size() * shape.record),
                          stream) &&
             checker.same(reinterpret_cast<const std::byte*>(ps::get<"number">(batch).data()),
                          std::as_bytes(std::span{numbers}.subspan(first, batch.size())), stream);
    };
    return walk(ps::Reader{source_of_both, reading} |
                    ps::PinnedStager{{.workers = 2, .depth = shape.depth}} |
                    ps::AsyncCopier{device, copying},
                stream, shape, both);
  }
  if (shape.decoded && shape.record == 1) {
    return walk(ps::Reader{source, reading} |
                    ps::Decoder{[](ps::Batch<const std::byte, ps::Pageable> in,
                                   ps::Batch<std::byte, ps::Pinned> out) {
                                  std::memcpy(out.data(), in.data(), in.size_bytes());
                                },
                                {.workers = shape.decoders, .depth = shape.depth}} |
                    ps::AsyncCopier{device, copying},
                stream, shape, plain);
  }
  if (shape.staged) {
    return walk(ps::Reader{source, reading} | ps::PinnedStager{{.depth = shape.depth}} |
                    ps::AsyncCopier{device, copying},
                stream, shape, plain);
  }
  return walk(ps::Reader{source, ps::to_pinned, reading} | ps::AsyncCopier{device, copying}, stream,
              shape, plain);
}

} // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 10;
  std::mt19937_64 random{count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1};
  constexpr std::size_t most_bytes = std::size_t{64} << 20;
  const auto bytes = some_bytes(most_bytes);
  return ps::with_device(count > 3 ? arguments[3] : "auto", [&](auto& device) {
    const auto attached = device.attach();
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    std::uint64_t runs = 0;
    double moved = 0;
    while (elapsed() < seconds) {
      const Shape shape = Shape::random(random, most_bytes);
      const auto part = std::span{bytes}.first(shape.record * shape.records);
      bool right = false;
      if (shape.file) {
        const penstock::tests::TempDir dir;
        const std::string path = dir / "records";
        std::ofstream{path, std::ios::binary}.write(reinterpret_cast<const char*>(part.data()),
                                                    static_cast<std::streamsize>(part.size()));
        right =
            run(device, shape, part, ps::records<std::byte>(path, {.record_bytes = shape.record}));
      } else {
        right = run(device, shape, part, ps::memory(part, {.record_bytes = shape.record}));
      }
      if (!right) {
        std::printf("WRONG after %llu pipelines: %s\n", static_cast<unsigned long long>(runs),
                    shape.text().c_str());
        return 1;
      }
      ++runs;
      moved += 2 * static_cast<double>(part.size() * shape.epochs) / 1e9;
    }
    std::printf("soak on %s: %llu pipelines, two runs each, %.1f GB in %.0f s, 0 mismatches\n",
                device.name().c_str(), static_cast<unsigned long long>(runs), moved, elapsed());
    return 0;
  });
}
