// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How much faster is a GPU fed from a packed file than from the plain one? Both lie in the page
// cache. Values are the 2 GiB of bfloat16 weights of N(0, 0.02), and of 16-bit tokens, the n-th of
// 50,257 about 1 / n as often as the first. Bytes of values count. packed/CONTENDER/BATCH:
//   KIND_plain     records() | AsyncCopier
//   KIND_packed    packed() | AsyncCopier | unpack()
// unpack_bench's unpack/link is the limit of the former. Each byte is compared before anything is
// timed. To be run with --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true.
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
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using Value = std::uint16_t;

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t all_bytes = 2048 * MiB;
constexpr std::size_t some_values = 16 * MiB; // that are made, and then repeated

std::vector<Value> weights() {
  std::mt19937_64 random{1};
  std::normal_distribution<float> normal{0.0F, 0.02F};
  std::vector<Value> values(some_values);
  for (Value& value : values) {
    const float its = normal(random);
    std::uint32_t word;
    std::memcpy(&word, &its, sizeof word);
    value = static_cast<Value>(word >> 16);
  }
  return values;
}
std::vector<Value> tokens() {
  std::mt19937_64 random{2};
  std::uniform_real_distribution<double> share{0, std::log(50'257.0)};
  std::vector<Value> values(some_values);
  for (Value& value : values) {
    const auto rank = static_cast<std::uint64_t>(std::exp(share(random))) - 1;
    value = static_cast<Value>(rank * 40'503 % 50'257);
  }
  return values;
}

/// The same values in two files, which are gone when this dies.
class Files {
 public:
  Files(const std::string& folder, const std::string& kind, ps::PackedColumnShape shape,
        std::vector<Value> some)
      : some_{std::move(some)}, plain_{folder + "/penstock_" + kind + ".bin"},
        packed_{folder + "/penstock_" + kind + ".packed"} {
    const auto bytes = std::as_bytes(std::span{some_});
    std::ofstream plain{plain_, std::ios::binary};
    ps::PackedWriter writer{packed_, {std::move(shape)}};
    for (std::size_t at = 0; at != all_bytes; at += bytes.size()) {
      plain.write(reinterpret_cast<const char*>(bytes.data()),
                  static_cast<std::streamsize>(bytes.size()));
      writer.add(0, bytes);
    }
    if (!plain.flush()) {
      throw std::runtime_error{plain_ + " cannot be written"};
    }
    writer.finish();
    ratio_ =
        static_cast<double>(all_bytes) / static_cast<double>(std::filesystem::file_size(packed_));
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
  double ratio() const noexcept { return ratio_; }
  /// Returns whether these are all values.
  bool same(const std::vector<std::byte>& all) const {
    const auto bytes = std::as_bytes(std::span{some_});
    bool same = all.size() == all_bytes;
    for (std::size_t at = 0; same && at != all_bytes; at += bytes.size()) {
      same = std::memcmp(all.data() + at, bytes.data(), bytes.size()) == 0;
    }
    return same;
  }

 private:
  std::vector<Value> some_;
  std::string plain_;
  std::string packed_;
  double ratio_ = 1;
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
        check(cudaMemcpyAsync(there_.get() + batch.index() * sizeof(Value), batch.data(),
                              batch.size_bytes(), cudaMemcpyDeviceToDevice, stream_.get()),
              "cudaMemcpyAsync");
      }
    }
    sync(stream_);
    if (!checked_) {
      return 0;
    }
    std::vector<std::byte> all(all_bytes);
    check(cudaMemcpy(all.data(), there_.get(), all_bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return files_.same(all) ? 1 : 0;
  }
  std::string label() const override {
    return "ratio " + std::to_string(files_.ratio()) + ", held back by " +
           pipeline_.report().limiting_stage;
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
    const Files w{options.folder, "weights", {"x", {'V', 2}, {}}, weights()};
    const Files t{options.folder, "tokens", ps::packed_column<Value>("x"), tokens()};
    ps::CudaDevice gpu;
    add_kind<ps::BFloat16>(gpu, "weights", w);
    add_kind<Value>(gpu, "tokens", t);
    return run_all();
  });
}
