// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How long does it take to open many small files?
//
// ps::records opens a folder of files of three bytes. one_by_one does the same in a loop on one
// thread: it looks at each file, opens it, asks for its size, and closes all but the first 256.
// `cached`: 100,000 files in the system's temporary folder, whose names and sizes are in memory.
// `network`: 1000 files, where each call by name takes a millisecond more, as it may on a network
// disk. Before each is timed, its number of records is checked. It needs no GPU.
//
// open/WAY/PLACE. To be run with --benchmark_repetitions=5
// --benchmark_enable_random_interleaving=true.

#include "support/contender.hpp"

#include <penstock/io/file.hpp>
#include <penstock/io/folder.hpp>
#include <penstock/sources/records.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;
namespace ps = penstock;
using namespace penstock_bench;

constexpr std::size_t record_bytes = 3;

/// A folder of files, removed at the end.
struct Files {
  explicit Files(std::size_t count)
      : folder{fs::temp_directory_path() / ("penstock-open-" + std::to_string(count))} {
    fs::create_directories(folder);
    for (std::size_t i = 0; i < count; ++i) {
      std::ofstream{folder / ("file-" + std::to_string(1'000'000 + i))} << "abc";
    }
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  ~Files() { fs::remove_all(folder); }
  const fs::path folder;
};

/// Each call by name takes a millisecond more.
struct Network : ps::PosixIo {
  static void wait() { std::this_thread::sleep_for(std::chrono::milliseconds{1}); }
  int open(const char* path) const {
    wait();
    return PosixIo::open(path);
  }
  int status(const char* path, ps::FileStatus& status) const {
    wait();
    return PosixIo::status(path, status);
  }
  int status(int fd, ps::FileStatus& status) const { return PosixIo::status(fd, status); }
};

template <class Io> class Records : public Contender {
 public:
  explicit Records(std::string folder) : folder_{std::move(folder)} {}
  std::uint64_t run() override {
    auto source = ps::records<char>(folder_, {.record_bytes = record_bytes}, Io{});
    source.open();
    return source.size();
  }

 private:
  std::string folder_;
};

template <class Io> class OneByOne : public Contender {
 public:
  explicit OneByOne(std::string folder) : folder_{std::move(folder)} {}
  std::uint64_t run() override {
    constexpr std::size_t most_open = 256;
    const Io io;
    std::vector<ps::File<Io>> files;
    std::uint64_t records = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator{folder_}) {
      ps::FileStatus status;
      if (io.status(entry.path().c_str(), status) == 0 && status.kind == ps::FileKind::regular) {
        files.emplace_back(io, entry.path().string());
        records += files.back().size() / record_bytes;
        if (files.size() > most_open) {
          files.back().close();
        }
      }
    }
    return records;
  }

 private:
  std::string folder_;
};

template <class Way> void add(const std::string& name, const std::string& folder,
                              std::uint64_t files) {
  const auto checked = std::make_shared<Checked>(
      [folder](bool) { return std::make_unique<Way>(folder); }, [files] { return files; });
  add_contender(name, checked, [](benchmark::State& state, Contender& contender) {
    for (auto _ : state) {
      state.SetIterationTime(seconds_of_run(contender));
    }
  });
}

} // namespace

int main(int argc, char** argv) {
  return program<NoOptions>(argc, argv, [](const NoOptions&) {
    constexpr std::size_t many = 100'000;
    constexpr std::size_t few = 1000;
    const Files cached{many};
    const Files far{few};
    add<OneByOne<ps::PosixIo>>("open/one_by_one/cached", cached.folder.string(), many);
    add<Records<ps::PosixIo>>("open/records/cached", cached.folder.string(), many);
    add<OneByOne<Network>>("open/one_by_one/network", far.folder.string(), few);
    add<Records<Network>>("open/records/network", far.folder.string(), few);
    return run_all();
  });
}
