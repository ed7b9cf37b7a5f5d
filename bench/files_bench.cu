// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Do small files get to the GPU as fast as one large one? The same bytes, in the page cache, by
// Reader to_pinned | AsyncCopier | Consumer, 147 KiB a record, in batches of 8 and of 256:
//
//   files/link      cudaMemcpyAsync of 256 MiB pieces of pinned memory, and nothing else
//   files/one       ps::records of one file
//   files/folder    ps::files of a folder of as many files as there are records
//
// Contenders compute a checksum of all batches once, which must be that of the file. The file has
// 2.2 GB, or --bytes=N; the folder lies beside it. To be run with
// --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true.

#include "support/from_file.hpp"

#include <penstock/sources/files.hpp>

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

class Small : FromFile {
 public:
  explicit Small(const FileOptions& options) : FromFile{options} { make_folder(); }

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
    }
  }

 private:
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
