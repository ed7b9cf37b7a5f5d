// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Do files with a header of their own get to the GPU as fast as raw records? The same bytes, in the
// page cache, by Reader to_pinned | AsyncCopier | Consumer with defaults, in batches of 4 MiB:
//
//   formats/records       ps::records<std::uint16_t> of the raw file
//   formats/npy           ps::npy<std::uint16_t>
//   formats/tokens        ps::tokens<std::uint16_t> behind llm.c's header
//   formats/safetensors   ps::safetensors of one tensor
//
// Contenders compute a checksum of all batches once, which must be that of the raw bytes. The file
// has 2.2 GB, or --bytes=N, at most 4 GB, which llm.c's header can count; the others lie beside it:
// four times as much in all. To be run with
// --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true.

#include "support/from_file.hpp"

#include <penstock/formats/npy.hpp>
#include <penstock/formats/safetensors.hpp>
#include <penstock/formats/tokens.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::size_t batch = 4 * MiB;

std::string npy_header(std::uint64_t bytes) {
  std::string dictionary =
      "{'descr': '<u2', 'fortran_order': False, 'shape': (" + std::to_string(bytes / 2) + ",), }";
  dictionary.append(128 - 10 - 1 - dictionary.size(), ' ');
  return std::string{"\x93NUMPY\x01\x00\x76\x00", 10} + dictionary + '\n';
}
std::string llm_c_header(std::uint64_t bytes) {
  std::int32_t words[256] = {20240520, 1, static_cast<std::int32_t>(bytes / 2)};
  std::string header(sizeof words, '\0');
  std::memcpy(header.data(), words, sizeof words);
  return header;
}
std::string safetensors_header(std::uint64_t bytes) {
  std::string text = R"({"all":{"dtype":"U8","shape":[)" + std::to_string(bytes) +
                     R"(],"data_offsets":[0,)" + std::to_string(bytes) + "]}}";
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  std::string header(sizeof length, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + text;
}

struct Options : FileOptions {
  Options(int argc, char** argv) : FileOptions{argc, argv, "penstock-bench-formats.bin", 14} {
    if (bytes / 2 > std::numeric_limits<std::int32_t>::max()) {
      throw std::runtime_error{"--bytes=N: llm.c's header counts at most 2^31 - 1 tokens"};
    }
  }
};

class Formats : FromFile {
 public:
  explicit Formats(const FileOptions& options) : FromFile{options} {}

  void add_all() {
    add<std::uint16_t>("records", ps::records<std::uint16_t>(options_.path));
    add<std::uint16_t>("npy", ps::npy<std::uint16_t>(with(".npy", npy_header(options_.bytes))));
    add<std::uint16_t>("tokens",
                       ps::tokens<std::uint16_t>(with(".bin", llm_c_header(options_.bytes))));
    add<std::byte>("safetensors",
                   ps::safetensors(with(".safetensors", safetensors_header(options_.bytes))));
  }

 private:
  // Returns the name of a file that has the header, and the raw file's bytes behind it.
  std::string with(const char* ending, const std::string& header) const {
    const std::string path = options_.path + ending;
    const OpenFile file{path, O_RDWR | O_CREAT | O_TRUNC};
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(header.data());
    file.write(0, {bytes, header.size()});
    in_chunks(options_.bytes, [&](std::uint64_t at, std::span<std::uint8_t> buffer) {
      file_.read(at, buffer);
      file.write(header.size() + at, buffer);
    });
    file.sync();
    return path;
  }
  template <class T, class Source> void add(const std::string& name, Source source) {
    penstock_bench::add("formats/" + name + "/4MiB", options_.bytes, of_file_.of(batch),
                        [this, source](bool checked) {
                          return run_from<T>(ps::Reader{source, ps::to_pinned}, batch / sizeof(T),
                                             {.batch_bytes = batch, .checked = checked});
                        });
  }
};

} // namespace

int main(int argc, char** argv) {
  return program<Options>(argc, argv, [](const Options& options) {
    prepare_file(options);
    Formats formats{options};
    formats.add_all();
    return run_all();
  });
}
