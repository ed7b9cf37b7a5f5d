// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How many JPEG files a second become pictures of 3 x 224 x 224 bytes, their middle resized?
//
// images/WAY/THREADS, over a folder of files in the page cache, --folder=PATH, or one of 3000 files
// that it makes:
//   hand       THREADS threads take files by a counter; each opens, reads, decodes and resizes one
//   memory     what hand does, out of memory: libjpeg-turbo and the resizing alone
//   pipeline   Reader{files} | jpeg with THREADS workers | a Consumer that does nothing
//   scaled     the pipeline, and libjpeg-turbo shrinks by a half, a quarter or an eighth
// All ways resize by the same code, and end in memory that they write again and again. Those but
// scaled are checked against one thread. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true. It needs no GPU.

#include "support/contender.hpp"
#include "support/made_pictures.hpp"
#include "support/threads.hpp"

#include <penstock/formats/files.hpp>
#include <penstock/formats/jpeg.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <turbojpeg.h>
#include <unistd.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::size_t side = 224;
constexpr std::size_t picture_bytes = 3 * side * side;

struct Options {
  std::string folder;
  Options(int argc, char** argv) {
    for (const std::string_view argument :
         std::span{argv, static_cast<std::size_t>(argc)}.subspan(1)) {
      if (!argument.starts_with("--folder=")) {
        throw std::runtime_error{"unknown option " + std::string{argument} +
                                 "; there are --folder=PATH and Google Benchmark's"};
      }
      folder = argument.substr(9);
    }
  }
};

std::vector<std::uint8_t> content(const std::string& path, std::vector<std::uint8_t> bytes = {}) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status{};
  if (file < 0 || ::fstat(file, &status) != 0) {
    throw std::runtime_error{"cannot open " + path};
  }
  bytes.resize(static_cast<std::size_t>(status.st_size));
  const auto got = ::pread(file, bytes.data(), bytes.size(), 0);
  ::close(file);
  if (got != status.st_size) {
    throw std::runtime_error{"cannot read " + path};
  }
  return bytes;
}

/// What a thread by hand has.
class Decoder {
 public:
  void operator()(std::span<const std::uint8_t> file, std::uint8_t* out) {
    int width = 0;
    int height = 0;
    int sampling = 0;
    int colours = 0;
    if (::tjDecompressHeader3(handle_.get(), file.data(), file.size(), &width, &height, &sampling,
                              &colours) != 0) {
      throw std::runtime_error{"no JPEG file"};
    }
    const auto w = static_cast<std::size_t>(width);
    const auto h = static_cast<std::size_t>(height);
    pixels_.resize(w * h * 4 + 64);
    ::tjDecompress2(handle_.get(), file.data(), file.size(), pixels_.data(), width, 0, height,
                    TJPF_RGBX, 0);
    const std::size_t least = std::min(w, h);
    resize_({pixels_.data(), w, h}, {(w - least) / 2, (h - least) / 2, least, least}, false, out);
  }

 private:
  struct Destroy {
    void operator()(void* handle) const noexcept { ::tjDestroy(handle); }
  };
  std::unique_ptr<void, Destroy> handle_{::tjInitDecompress()};
  std::vector<std::uint8_t> pixels_;
  ps::detail::Resizer<4> resize_{side, side};
};

std::uint64_t sum_of(const std::uint8_t* picture) {
  return ps::crc32c(std::as_bytes(std::span{picture, picture_bytes}));
}

class ByHand : public Contender {
 public:
  ByHand(const std::vector<std::string>& paths, bool in_memory, unsigned threads, bool checked)
      : paths_{paths}, threads_{threads}, checked_{checked} {
    for (std::size_t i = 0; in_memory && i != paths.size(); ++i) {
      files_.push_back(content(paths[i]));
    }
    for (unsigned i = 0; i != threads; ++i) {
      workers_.push_back(std::make_unique<Worker>());
    }
  }
  std::uint64_t run() override {
    std::atomic<std::size_t> next{0};
    std::atomic<std::uint64_t> sum{0};
    std::vector<std::jthread> threads;
    for (unsigned thread = 0; thread != threads_; ++thread) {
      threads.emplace_back([&, &mine = *workers_[thread]] {
        std::uint64_t my_sum = 0;
        for (std::size_t i = next++; i < paths_.size(); i = next++) {
          std::uint8_t* const out = mine.out.data() + i % slots * picture_bytes;
          if (files_.empty()) {
            mine.file = content(paths_[i], std::move(mine.file));
            mine.decode(mine.file, out);
          } else {
            mine.decode(files_[i], out);
          }
          my_sum += checked_ ? sum_of(out) : 0;
        }
        sum += my_sum;
      });
    }
    threads.clear();
    return sum;
  }

 private:
  static constexpr std::size_t slots = 64;
  struct Worker {
    Decoder decode;
    std::vector<std::uint8_t> file;
    std::vector<std::uint8_t> out = std::vector<std::uint8_t>(slots * picture_bytes);
  };

  const std::vector<std::string>& paths_;
  unsigned threads_;
  bool checked_;
  std::vector<std::vector<std::uint8_t>> files_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

auto pictures(const std::string& folder, unsigned threads, bool scaled, std::uint64_t* sum) {
  using Picture = ps::Image<3, side, side>;
  return ps::Reader{ps::files(folder)} |
         ps::jpeg<3, side, side, ps::Pageable>({.workers = threads, .scaled = scaled}) |
         ps::Consumer{[sum](ps::Batch<const Picture, ps::Pageable> batch) {
           const auto image = ps::get<"image">(batch);
           for (std::size_t i = 0; sum && i != batch.size(); ++i) {
             *sum += sum_of(&image[i][0][0][0]);
           }
         }};
}
class InPipeline : public Contender {
 public:
  InPipeline(const std::string& folder, unsigned threads, bool scaled, bool checked)
      : pipeline_{pictures(folder, threads, scaled, checked ? &sum_ : nullptr)} {}
  std::uint64_t run() override {
    sum_ = 0;
    pipeline_.run();
    return sum_;
  }
  std::string label() const override { return pipeline_.report().limiting_stage; }

 private:
  std::uint64_t sum_ = 0;
  decltype(pictures({}, 0, false, nullptr)) pipeline_;
};

void add_all(const Options& options) {
  static std::vector<std::string> paths;
  auto source = ps::files(options.folder);
  source.open();
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i != source.size(); ++i) {
    paths.push_back(source.path(i));
    std::uint64_t length = 0;
    source.lengths(i, {&length, 1});
    bytes += length;
  }
  static std::uint64_t sum = 0;
  const auto expected = [] {
    if (sum == 0) {
      sum = ByHand{paths, false, 1, true}.run();
    }
    return sum;
  };
  const auto add_way = [&](const std::string& way, unsigned threads, bool compared, auto make) {
    const auto checked = std::make_shared<Checked>(
        std::move(make),
        compared ? std::function<std::uint64_t()>{expected} : [] { return std::uint64_t{0}; });
    add_contender("images/" + way + "/" + std::to_string(threads), checked,
                  [bytes](benchmark::State& state, Contender& contender) {
                    for (auto _ : state) {
                      state.SetIterationTime(seconds_of_run(contender));
                    }
                    state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
                    state.SetItemsProcessed(static_cast<std::int64_t>(paths.size()));
                  });
  };
  const unsigned all = std::max(std::thread::hardware_concurrency(), 2U);
  for (const unsigned threads : {all / 2, all}) {
    for (const bool in_memory : {false, true}) {
      add_way(in_memory ? "memory" : "hand", threads, true, [=](bool checked) {
        return std::make_unique<ByHand>(paths, in_memory, threads, checked);
      });
    }
    for (const bool scaled : {false, true}) {
      add_way(scaled ? "scaled" : "pipeline", threads, !scaled,
              [=, folder = options.folder](bool checked) {
                return std::make_unique<InPipeline>(folder, threads, scaled, checked && !scaled);
              });
    }
  }
}

} // namespace

int main(int argc, char** argv) {
  return program<Options>(argc, argv, [](Options options) {
    std::optional<MadePictures> made;
    if (options.folder.empty()) {
      options.folder = made.emplace(3000).path();
    }
    add_all(options);
    return run_all();
  });
}
