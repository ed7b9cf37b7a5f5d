// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// fuzz_replay FOLDER: gives each file of a corpus that make_corpus.py made, and many damaged copies
// of it, to every fuzz target; then reads the files that the corpus's list names, and compares what
// comes out with what the program that wrote them has in memory.

#include "support/temp_dir.hpp"

#include <penstock/data/float16.hpp>
#include <penstock/formats/mnist.hpp>
#include <penstock/formats/npy.hpp>
#include <penstock/formats/npz.hpp>
#include <penstock/formats/packed.hpp>
#include <penstock/formats/safetensors.hpp>
#include <penstock/formats/tokens.hpp>
#include <penstock/formats/zlib_inflate.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace penstock::tests {

void fuzz_npy(std::span<const std::byte> input);
void fuzz_npz(std::span<const std::byte> input);
void fuzz_idx(std::span<const std::byte> input);
void fuzz_llm_c(std::span<const std::byte> input);
void fuzz_megatron(std::span<const std::byte> input);
void fuzz_safetensors(std::span<const std::byte> input);
void fuzz_lines(std::span<const std::byte> input);
void fuzz_tar(std::span<const std::byte> input);
void fuzz_tfrecord(std::span<const std::byte> input);
void fuzz_foreign(std::span<const std::byte> input);
void fuzz_shards(std::span<const std::byte> input);
void fuzz_exif(std::span<const std::byte> input);
void fuzz_jpeg(std::span<const std::byte> input);
void fuzz_compressed(std::span<const std::byte> input);
void fuzz_png(std::span<const std::byte> input);
void fuzz_packed(std::span<const std::byte> input);

namespace {

/// Returns how many damaged copies of each file there are.
std::uint64_t damaged_copies() {
  const char* const thorough = std::getenv("PENSTOCK_THOROUGH");
  return thorough != nullptr && *thorough != '\0' && std::string{thorough} != "0" ? 200 : 20;
}

std::uint64_t replay(const std::string& input) {
  const auto bytes = std::as_bytes(std::span{input});
  fuzz_npy(bytes);
  fuzz_npz(bytes);
  fuzz_idx(bytes);
  fuzz_llm_c(bytes);
  fuzz_megatron(bytes);
  fuzz_safetensors(bytes);
  fuzz_lines(bytes.first(std::min<std::size_t>(bytes.size(), 64)));
  fuzz_tar(bytes);
  fuzz_tfrecord(bytes);
  fuzz_foreign(bytes);
  fuzz_shards(bytes);
  fuzz_exif(bytes);
  fuzz_jpeg(bytes);
  fuzz_compressed(bytes);
  fuzz_png(bytes);
  fuzz_packed(bytes);
  return 16;
}
std::uint64_t replay_damaged(const std::string& input, std::mt19937_64& random) {
  std::uint64_t calls = replay(input);
  const std::uint64_t copies = damaged_copies();
  for (std::uint64_t copy = 0; copy != copies && !input.empty(); ++copy) {
    std::string damaged = input;
    for (std::uint64_t i = random() % 4; i != ~std::uint64_t{0}; --i) {
      // Headers stand at the beginning, and directories at the end.
      const std::size_t place = random() % std::min<std::size_t>(damaged.size(), 128);
      damaged[random() % 2 == 0 ? place : damaged.size() - 1 - place] =
          static_cast<char>(random() % 3 == 0 ? random() % 2 * 0xFF : random());
    }
    damaged.resize(random() % 4 == 0 ? random() % damaged.size() : damaged.size());
    calls += replay(damaged);
  }
  return calls;
}

template <class T> std::string read_packed(const std::string& path) {
  auto source = unpacked<T>(path);
  source.open();
  std::vector<T> values(source.size());
  source.read(Batch<T, Pageable>{values.data(), values.size()});
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Returns what comes out of the file, or the error.
std::string read_as(const std::string& format, const std::string& path) {
  const auto all = [](auto source) {
    source.open();
    std::string bytes(source.size() * detail::record_bytes_of(source), '?');
    source.read_bytes(0, std::as_writable_bytes(std::span{bytes}));
    return bytes;
  };
  if (format == "safetensors") {
    return all(safetensors(path));
  }
  if (format.starts_with("packed")) {
    return format == "packed8"    ? read_packed<std::uint8_t>(path)
           : format == "packed16" ? read_packed<std::uint16_t>(path)
           : format == "packed32" ? read_packed<std::uint32_t>(path)
           : format == "packedV"  ? read_packed<BFloat16>(path)
                                  : read_packed<Half>(path);
  }
  return format == "npy"        ? all(npy<std::byte>(path))
         : format == "npz"      ? all(npz<std::byte>(path, "a", {.inflate = zlib_inflate}))
         : format == "idx"      ? all(mnist<std::byte>(path))
         : format == "tokens16" ? all(tokens<std::uint16_t>(path))
                                : all(tokens<std::uint32_t>(path));
}

int run(const std::string& folder) {
  std::uint64_t calls = 0;
  std::uint64_t files = 0;
  std::mt19937_64 random{22};
  for (const std::string& path : files_at(PosixIo{}, folder)) {
    if (!path.ends_with(".raw")) {
      calls += replay_damaged(content_of(path), random);
      ++files;
    }
  }
  int wrong = 0;
  std::uint64_t read = 0;
  std::ifstream list{folder + "/list"};
  for (std::string line; std::getline(list, line); ++read) {
    std::istringstream words{line};
    std::string format, name, expected, said;
    words >> format >> name >> expected;
    bool refused = false;
    std::string got;
    try {
      got = read_as(format, folder + "/" + name);
    } catch (const SourceError& e) {
      got = e.what();
      refused = true;
    }
    std::getline(words >> std::ws, said);
    const bool right = expected == "refused"
                           ? refused && got.find(said) != std::string::npos
                           : !refused && got == content_of(folder + "/" + expected);
    if (!right) {
      std::printf("%s: %s\n", line.c_str(), refused ? got.c_str() : "other bytes came out");
      ++wrong;
    }
  }
  std::printf("%llu files, %llu calls of targets, %llu read back, %d wrong\n",
              static_cast<unsigned long long>(files), static_cast<unsigned long long>(calls),
              static_cast<unsigned long long>(read), wrong);
  return wrong == 0 && read != 0 ? 0 : 1;
}

} // namespace
} // namespace penstock::tests

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("fuzz_replay FOLDER\n", stderr);
    return 2;
  }
  try {
    return penstock::tests::run(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
