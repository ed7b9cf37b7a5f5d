// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Do small files get to the GPU as fast as one large one? The same bytes, in the page cache, by
// Reader to_pinned | AsyncCopier | Consumer, 147 KiB a record, in batches of 8 and of 256:
//
//   files/link      cudaMemcpyAsync of 256 MiB pieces of pinned memory, and nothing else
//   files/one       ps::records of one file
//   files/folder    ps::files of a folder of as many files as there are records
//   files/tar       ps::tar of archives of a thousand samples, each the bytes and a label
//
// Contenders compute a checksum of all batches once, which must be that of the file. The file has
// 2.2 GB, or --bytes=N; the folder and the archives lie beside it. To be run with
// --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true.

#include "support/from_file.hpp"

#include <penstock/formats/files.hpp>
#include <penstock/formats/tar.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

struct Options : FileOptions {
  Options(int argc, char** argv) : FileOptions{argc, argv, "penstock-bench-files.bin", 14} {}
};

struct Sample
    : ps::Columns<ps::Field<"cls", std::int32_t>, ps::Field<"bin", ps::Ragged<std::uint8_t>>> {};

class Small : FromFile {
 public:
  explicit Small(const FileOptions& options) : FromFile{options} {
    make_folder();
    make_archives();
  }

  void add_all() {
    add("files/link/256MiB", options_.bytes, of_memory_.of(Link::usual_piece),
        [this](bool checked) { return std::make_unique<Link>(options_.bytes, checked); });
    for (const std::size_t batch : {8U, 256U}) {
      const std::string of = "/" + std::to_string(batch);
      const Size size{"", batch * image_bytes, image_bytes};
      add("files/one" + of, options_.bytes, of_file_.of(size.batch), [this, size](bool checked) {
        return run_file(size, {.batch_bytes = size.batch, .checked = checked});
      });
      add("files/folder" + of, options_.bytes, of_file_.of(size.batch), [this, size](bool checked) {
        const Work work{{.batch_bytes = size.batch, .checked = checked}};
        return by_run(
            ps::Reader{ps::files(folder()), ps::to_pinned, {.batch = size.batch / image_bytes}} |
                ps::AsyncCopier{gpu_} |
                ps::Consumer{[work](ps::Batch<const ps::LabelledFile, ps::Device> batch,
                                    cudaStream_t stream) {
                  const auto files = ps::get<"bytes">(batch);
                  work(files.values(), batch.size() * image_bytes, stream);
                }},
            work);
      });
      add("files/tar" + of, options_.bytes, of_file_.of(size.batch), [this, size](bool checked) {
        const Work work{{.batch_bytes = size.batch, .checked = checked}};
        return by_run(ps::Reader{ps::tar<Sample>(archives()),
                                 ps::to_pinned,
                                 {.batch = size.batch / image_bytes}} |
                          ps::AsyncCopier{gpu_} |
                          ps::Consumer{[work](ps::Batch<const Sample, ps::Device> batch,
                                              cudaStream_t stream) {
                            const auto files = ps::get<"bin">(batch);
                            work(files.values(), batch.size() * image_bytes, stream);
                          }},
                      work);
      });
    }
  }

 private:
  std::string archives() const { return options_.path + "-tars"; }
  // Writes each of the file's records and a label as a sample, a thousand to an archive.
  void make_archives() const {
    std::filesystem::remove_all(archives());
    std::filesystem::create_directories(archives());
    std::vector<std::uint8_t> buffer(image_bytes);
    const std::uint64_t images = options_.bytes / image_bytes;
    for (std::uint64_t first = 0; first < images; first += 1000) {
      char name[32];
      std::snprintf(name, sizeof name, "/%06u.tar", static_cast<unsigned>(first / 1000));
      const OpenFile file{archives() + name, O_RDWR | O_CREAT | O_TRUNC};
      std::uint64_t at = 0;
      const auto write = [&](const void* bytes, std::size_t count) {
        file.write(at, {static_cast<const std::uint8_t*>(bytes), count});
        at += (count + 511) / 512 * 512;
      };
      for (std::uint64_t i = first; i != std::min(first + 1000, images); ++i) {
        std::snprintf(name, sizeof name, "%08u", static_cast<unsigned>(i));
        file_.read(i * image_bytes, buffer);
        const std::string label = std::string{name} + ".cls";
        const std::string bytes = std::string{name} + ".bin";
        write(header(label, 1).data(), 512);
        write("7", 1);
        write(header(bytes, image_bytes).data(), 512);
        write(buffer.data(), buffer.size());
      }
      write(std::string(1024, '\0').data(), 1024);
    }
  }
  static std::string header(const std::string& name, std::size_t bytes) {
    std::string block(512, '\0');
    block.replace(0, name.size(), name);
    char digits[16];
    std::snprintf(digits, sizeof digits, "%011zo", bytes);
    block.replace(124, 11, digits);
    block.replace(148, 8, 8, ' ');
    block[156] = '0';
    block.replace(257, 8, std::string{"ustar\00000", 8});
    unsigned sum = 0;
    for (const char c : block) {
      sum += static_cast<unsigned char>(c);
    }
    std::snprintf(digits, sizeof digits, "%06o", sum);
    block.replace(148, 7, std::string{digits, 7});
    return block;
  }
  std::string folder() const { return options_.path + "-folder"; }
  // Writes each of the file's records into a file of its own, in folders of a thousand.
  void make_folder() const {
    std::filesystem::remove_all(folder());
    std::vector<std::uint8_t> buffer(image_bytes);
    for (std::uint64_t i = 0; i != options_.bytes / image_bytes; ++i) {
      char name[32];
      std::snprintf(name, sizeof name, "/%05u/%08u", static_cast<unsigned>(i / 1000),
                    static_cast<unsigned>(i));
      if (i % 1000 == 0) {
        std::filesystem::create_directories(folder() + std::string{name}.substr(0, 6));
      }
      file_.read(i * image_bytes, buffer);
      const OpenFile file{folder() + name, O_RDWR | O_CREAT | O_TRUNC};
      file.write(0, buffer);
    }
  }
};

} // namespace

int main(int argc, char** argv) {
  return program<Options>(argc, argv, [](const Options& options) {
    prepare_file(options);
    Small small{options};
    small.add_all();
    return run_all();
  });
}
