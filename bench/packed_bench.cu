// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How much faster is a GPU fed from a packed file than from the plain one? Both lie in the page
// cache. A run makes 4 GiB of values: bfloat16 weights of N(0, 0.02); 16-bit and 32-bit tokens, the
// n-th of 50,257 and 131,072 about 1 / n as often as the first; text of made words; and pictures
// and 32-bit floats, which are noise here. Bytes of values count. packed/CONTENDER/BATCH:
//   link           copies of 32 MiB from page-locked memory: the limit without packing
//   KIND_plain     records() | AsyncCopier
//   KIND_packed    packed() | AsyncCopier | unpack()
// The label has the ratio, the codec, and how fast all processors packed. Each byte is compared
// before anything is timed. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true: less than 4 minutes.
//
//   packed_bench [--folder=PATH]: where the files are made, by default /tmp; they are removed

#include "support/contender.hpp"
#include "support/gpu.hpp"

#include <penstock/cuda.hpp>
#include <penstock/cuda/unpack.cuh>
#include <penstock/data/float16.hpp>
#include <penstock/formats/packed/packed_writer.hpp>
#include <penstock/formats/packed/unpack.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using Bytes = std::vector<std::byte>;

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t all_bytes = 4096 * MiB;
constexpr std::size_t some_bytes = 32 * MiB; // that are made, and then repeated

template <class T, class F> Bytes made(F value) {
  Bytes bytes(some_bytes);
  for (std::size_t at = 0; at != some_bytes; at += sizeof(T)) {
    const auto its = static_cast<T>(value());
    std::memcpy(bytes.data() + at, &its, sizeof its);
  }
  return bytes;
}
Bytes weights() {
  std::mt19937_64 random{1};
  std::normal_distribution<float> normal{0.0F, 0.02F};
  return made<std::uint16_t>([&] {
    const float value = normal(random);
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    return word >> 16;
  });
}
template <class T> Bytes tokens(double vocabulary) {
  std::mt19937_64 random{2};
  std::uniform_real_distribution<double> share{0, std::log(vocabulary)};
  return made<T>([&] {
    const auto rank = static_cast<std::uint64_t>(std::exp(share(random))) - 1;
    return rank * 40'503 % static_cast<std::uint64_t>(vocabulary);
  });
}
Bytes text() {
  std::mt19937_64 random{3};
  constexpr std::string_view letters = "eeeeeetttttaaaaoooinnnnshhrrddlcumwfgypbvkjxqz";
  std::vector<std::string> words(30'000);
  for (std::string& word : words) {
    for (std::uint64_t left = 2 + random() % 8; left != 0; --left) {
      word += letters[random() % letters.size()];
    }
    word += random() % 12 == 0 ? ", " : random() % 15 == 0 ? ".\n" : " ";
    word[0] = static_cast<char>(random() % 10 == 0 ? word[0] - 32 : word[0]);
  }
  std::uniform_real_distribution<double> share{0, std::log(30'000.0)};
  std::string_view rest;
  return made<char>([&] {
    rest = rest.empty() ? words[static_cast<std::size_t>(std::exp(share(random))) - 1] : rest;
    const char its = rest.front();
    rest.remove_prefix(1);
    return its;
  });
}
Bytes pictures() {
  std::mt19937_64 random{4};
  return made<std::uint64_t>([&] { return random(); });
}
Bytes floats() {
  std::mt19937_64 random{5};
  std::normal_distribution<float> normal;
  return made<float>([&] { return normal(random); });
}

/// The same values in two files, which are gone when this dies.
class Files {
 public:
  Files(const std::string& folder, const std::string& kind, const ps::PackedColumnShape& shape,
        Bytes some)
      : some_{std::move(some)}, plain_{folder + "/penstock_" + kind + ".bin"},
        packed_{folder + "/penstock_" + kind + ".packed"} {
    std::ofstream plain{plain_, std::ios::binary};
    for (std::size_t at = 0; at != all_bytes; at += some_bytes) {
      plain.write(reinterpret_cast<const char*>(some_.data()), some_bytes);
    }
    if (!plain.flush()) {
      throw std::runtime_error{plain_ + " cannot be written"};
    }
    const auto start = std::chrono::steady_clock::now();
    ps::PackedWriter writer{packed_, {shape}, {.workers = std::thread::hardware_concurrency()}};
    for (std::size_t at = 0; at != all_bytes; at += some_bytes) {
      writer.add(0, some_);
    }
    const ps::PackedColumnInfo info = writer.finish().front();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    label_ = "ratio " +
             std::to_string(static_cast<double>(all_bytes) /
                            static_cast<double>(std::filesystem::file_size(packed_))) +
             " by " + std::string{ps::name_of(info.codec)} + ", packed at " +
             std::to_string(static_cast<double>(all_bytes) / took.count() / 1e9) + " GB/s";
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  ~Files() {
    std::error_code ignored;
    std::filesystem::remove(plain_, ignored);
    std::filesystem::remove(packed_, ignored);
  }

  const std::string& plain() const noexcept { return plain_; }
  const std::string& packed() const noexcept { return packed_; }
  const std::string& label() const noexcept { return label_; }
  /// Returns whether these are all values.
  bool same(const Bytes& all) const {
    bool same = all.size() == all_bytes;
    for (std::size_t at = 0; same && at != all_bytes; at += some_bytes) {
      same = std::memcmp(all.data() + at, some_.data(), some_bytes) == 0;
    }
    return same;
  }

 private:
  Bytes some_;
  std::string plain_;
  std::string packed_;
  std::string label_;
};

class Link : public Contender {
 public:
  std::uint64_t run() override {
    for (std::size_t at = 0; at != all_bytes; at += 32 * MiB) {
      copy_to_device(to_.get() + at % to_bytes, from_.get() + at % to_bytes, 32 * MiB, stream_);
    }
    sync(stream_);
    return 0;
  }

 private:
  static constexpr std::size_t to_bytes = 512 * MiB;
  PinnedBytes from_ = make_pinned(to_bytes);
  DeviceBytes to_ = make_on_device(to_bytes);
  Stream stream_ = make_stream();
};

/// Runs a pipeline, and returns whether all values came, if checked.
template <class P> class Feed : public Contender {
 public:
  Feed(P open, const Files& files, bool checked)
      : files_{files}, there_{make_on_device(checked ? all_bytes : 16)}, pipeline_{std::move(open)},
        checked_{checked} {
    pipeline_.prepare();
  }

  std::uint64_t run() override {
    for (auto batch : pipeline_.on(stream_.get())) {
      if (checked_) {
        check(cudaMemcpyAsync(there_.get() + batch.index() * batch.record_bytes(), batch.data(),
                              batch.size_bytes(), cudaMemcpyDeviceToDevice, stream_.get()),
              "cudaMemcpyAsync");
      }
    }
    sync(stream_);
    if (!checked_) {
      return 0;
    }
    Bytes all(all_bytes);
    check(cudaMemcpy(all.data(), there_.get(), all_bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return files_.same(all) ? 1 : 0;
  }
  std::string label() const override {
    return files_.label() + ", held back by " + pipeline_.report().limiting_stage;
  }

 private:
  const Files& files_;
  Stream stream_ = make_stream();
  DeviceBytes there_;
  P pipeline_;
  bool checked_;
};
template <class P>
std::unique_ptr<Contender> feed(P pipeline, const Files& files, bool checked) {
  return std::make_unique<Feed<P>>(std::move(pipeline), files, checked);
}

template <class T> void add_kind(ps::CudaDevice& gpu, const std::string& kind, const Files& files) {
  for (const std::size_t mebibytes : {4, 32}) {
    const std::size_t batch = mebibytes * MiB / sizeof(T);
    const std::string size = "/" + std::to_string(mebibytes) + "MiB";
    const auto expected = [] { return std::uint64_t{1}; };
    add("packed/" + kind + "_plain" + size, all_bytes, expected, [&, batch](bool checked) {
      return feed(ps::Reader{ps::records<T>(files.plain()), ps::to_pinned} |
                      ps::AsyncCopier{gpu, {.batch = batch}},
                  files, checked);
    });
    add("packed/" + kind + "_packed" + size, all_bytes, expected, [&, batch](bool checked) {
      const auto source = ps::packed<T>(files.packed(), {.batch = batch});
      return feed(ps::Reader{source, ps::to_pinned} | ps::AsyncCopier{gpu} | ps::unpack(source),
                  files, checked);
    });
  }
}

/// What stands on the command line, besides Google Benchmark's options.
struct FolderOptions {
  FolderOptions(int& argc, char** argv) {
    constexpr std::string_view name = "--folder=";
    int kept = 1;
    for (int i = 1; i < argc; ++i) {
      const std::string_view its = argv[i];
      if (its.starts_with(name)) {
        folder = its.substr(name.size());
      } else {
        argv[kept++] = argv[i];
      }
    }
    argc = kept;
    NoOptions{argc, argv};
  }

  std::string folder = "/tmp";
};

} // namespace

int main(int argc, char** argv) {
  return program<FolderOptions>(argc, argv, [](const FolderOptions& options) {
    ps::CudaDevice gpu;
    add(
        "packed/link/32MiB", all_bytes, [] { return std::uint64_t{0}; },
        [](bool) { return std::make_unique<Link>(); });
    std::deque<Files> files;
    const auto kind = [&]<class T>(T, const std::string& name, ps::PackedColumnShape shape,
                                   Bytes some) {
      add_kind<T>(gpu, name, files.emplace_back(options.folder, name, shape, std::move(some)));
    };
    kind(ps::BFloat16{}, "weights", {"x", {'V', 2}, {}}, weights());
    kind(std::uint16_t{}, "tokens16", ps::packed_column<std::uint16_t>("x"),
         tokens<std::uint16_t>(50'257));
    kind(std::uint32_t{}, "tokens32", ps::packed_column<std::uint32_t>("x"),
         tokens<std::uint32_t>(131'072));
    kind(std::uint8_t{}, "text", ps::packed_column<std::uint8_t>("x"), text());
    kind(std::uint8_t{}, "pictures", ps::packed_column<std::uint8_t>("x"), pictures());
    kind(float{}, "floats", ps::packed_column<float>("x"), floats());
    return run_all();
  });
}
