// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 02_histogram: how often each byte value occurs in a file, and its entropy, counted on the GPU
// while the file is read. count() below is the whole of it; the rest is the command line.
//
//   ./examples/run [--device auto|cuda|host] [--json] [--sequential] [FILE]
//
// Without a file it makes 256 MiB of text-like data. It compares the counts with those of a plain
// loop, and prints bytes, GB/s, the entropy and the Report. With --json it prints one object and
// nothing else, with --sequential also how much faster it was than two programs without a pipeline.
// nvcc compiles this source for both devices, any other compiler for the host device alone.

#include "support/command_line.hpp"
#include "support/output.hpp"
#include "support/text_like_file.hpp"
#include "support/without_pipeline.hpp"

#include <penstock/penstock.hpp>
#include <penstock/with_device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <cstdint>
#include <exception>
#include <iostream>
#include <string>

namespace ps = penstock;

// Counts the bytes of `path` on `device`, a GPU or the host.
template <ps::AnyDevice D> Result count(D& device, const std::string& path, Progress& progress) {
  auto counts = ps::device_array<std::uint64_t>(device, 256);
  ps::Workspace<D> workspace{device};

  auto pipeline =
      ps::Reader{ps::records<std::uint8_t>(path), ps::to_pinned} // disk -> pinned
      | ps::AsyncCopier{device}                                  // pinned -> device
      | ps::Consumer{[&](ps::Batch<const std::uint8_t, ps::Device> bytes, ps::Stream<D> stream) {
          ps::histogram(stream, bytes.data(), bytes.size(), counts.data(), workspace);
          progress.show(bytes.index() + bytes.size());
        }};

  // Sets up memory, threads and kernels here, so that the run's time is without them.
  pipeline.prepare();
  auto stream = device.stream();
  auto nothing = ps::device_array<std::uint8_t>(device, 0);
  ps::histogram(stream, nothing.data(), 0, counts.data(), workspace);
  device.sync(stream); // the run has a stream of its own, and a workspace is for one at a time

  const ps::Report& report = pipeline.run();
  progress.clear();
  return {report, counts.read(stream)};
}

int main(int argc, char** argv) try {
  const CommandLine args{argc, argv};
  const TextLikeFile made{args.path.empty()};
  const std::string path = args.path.empty() ? made.path() : args.path;
  const Reference expected = plain_loop(path);

  return ps::with_device(args.device, [&](auto& device) {
    const auto attached = device.attach();
    Progress progress{expected.bytes};
    const Result result = count(device, path, progress);
    check(result, expected);
    const Comparison other =
        args.sequential ? without_pipeline(device, path, result) : Comparison{};
    args.json ? print_json(result, other) : print_text(result, other);
    return 0;
  });
} catch (const std::exception& error) {
  std::cerr << "02_histogram: " << error.what() << '\n';
  return 1;
}
