// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/file.hpp"
#include "support/pipelines.hpp"

#include <penstock/callables/replayed.hpp>
#include <penstock/cuda.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace penstock_bench {

/// A batch, and the size of its records.
struct Size {
  const char* name;
  std::size_t batch;
  std::size_t record;
};
inline constexpr Size mebibytes{"1MiB", MiB, sizeof(Block)};
inline constexpr Size images{"37.6MB", image_batch_bytes, image_bytes};

/// Shared by programs that ask about the file, or about full memory: both, their right checksums,
/// and pipelines over them.
class FromFile {
 protected:
  explicit FromFile(const FileOptions& options)
      : options_{options}, file_{options.path, O_RDONLY},
        of_file_{options.bytes, [this](auto at, auto into) { file_.read(at, into); }},
        of_memory_{options.bytes, [this](auto at, auto into) { full_.fill(at, into); }} {}

  /// Reads bytes in place, by this Io.
  template <class Io = penstock::PosixIo>
  auto file_reader(const Size& size, const penstock::ReaderOptions& options = {},
                   Io io = Io{}) const {
    return penstock::Reader{
        penstock::records<std::uint8_t>(options_.path, {.record_bytes = size.record}, io),
        penstock::to_pinned, options};
  }
  /// Reads blocks in place.
  auto memory_reader() const {
    return penstock::Reader{penstock::generate<Block>(options_.bytes / sizeof(Block), full_),
                            penstock::to_pinned};
  }
  auto copier(std::size_t records) { return penstock::AsyncCopier{gpu_, {.batch = records}}; }

  /// Takes what `reader` reads, in batches of `records` Ts, through the copier to the work, by
  /// run().
  template <class T, class R>
  std::unique_ptr<Contender> run_from(R reader, std::size_t records, const WorkOptions& options) {
    const Work work{options};
    return by_run(std::move(reader) | copier(records) | consumer<T>(work), work);
  }
  /// Does what run_from() does with the work replayed, in as many lanes as it has.
  template <class T, class R>
  std::unique_ptr<Contender> replay_from(R reader, std::size_t records,
                                         const WorkOptions& options) {
    const Work work{options};
    return by_run(std::move(reader) | copier(records) |
                      penstock::Consumer{penstock::replayed(
                          [work](penstock::FrozenBatch<const T, penstock::Device> batch,
                                 cudaStream_t stream) {
                            work(bytes_of(batch), batch.size_bytes(), stream, batch.lane());
                          },
                          {.lanes = options.lanes})},
                  work);
  }
  /// Calls run_from() for the file.
  template <class Io = penstock::PosixIo>
  std::unique_ptr<Contender> run_file(const Size& size, const WorkOptions& options,
                                      const penstock::ReaderOptions& reading = {}, Io io = Io{}) {
    return run_from<std::uint8_t>(file_reader(size, reading, io), size.batch / size.record,
                                  options);
  }

  FileOptions options_;
  OpenFile file_;
  AlwaysFull full_;
  Expected of_file_;
  Expected of_memory_;
  penstock::CudaDevice gpu_;
};

} // namespace penstock_bench
