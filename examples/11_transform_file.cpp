// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 11_transform_file: from disk to the GPU and back to disk, in one pipeline. It XORs each byte of a
// file with a byte that depends on its position, so that the output tells whether all bytes came in
// order, each once. Done twice it gives the file again. (It hides nothing from anybody: the numbers
// are no secret.)
//
//   11_transform_file [--device auto|cuda|host] [IN OUT]
//
// Without files it makes one of 8 MB. It prints the Report; then it reads both files again, and
// says whether OUT is what the CPU makes of IN. OUT appears when it is whole: if you stop this
// program half-way, you find what was there before. nvcc compiles this source for both devices, any
// other compiler for the host device alone.

#include "support/arguments.hpp"
#include "support/temporary_file.hpp"

#include <penstock/penstock.hpp>
#include <penstock/with_device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace ps = penstock;

/// Returns the byte that belongs to a position: any function of it would do, and this one looks
/// random.
PENSTOCK_HD constexpr std::uint8_t mask(std::uint64_t position) {
  std::uint64_t x = (position / 8 + 1) * 0x9E37'79B9'7F4A'7C15U;
  x = (x ^ x >> 30) * 0xBF58'476D'1CE4'E5B9U;
  x = (x ^ x >> 27) * 0x94D0'49BB'1331'11EBU;
  return static_cast<std::uint8_t>((x ^ x >> 31) >> position % 8 * 8);
}

/// For ps::for_each: XORs byte number i of a batch, whose first byte is the file's number `first`.
struct Mask {
  std::uint8_t* bytes;
  std::uint64_t first;

  PENSTOCK_HD void operator()(std::size_t i) const {
    bytes[i] = static_cast<std::uint8_t>(bytes[i] ^ mask(first + i));
  }
};

template <ps::AnyDevice D>
ps::Report transform(D& device, const std::string& in, const std::string& out) {
  const auto mask_in_place = [](ps::Batch<std::uint8_t, ps::Device> batch, ps::Stream<D> stream) {
    ps::for_each(stream, batch.size(), Mask{batch.data(), batch.index()});
  };
  auto pipeline = ps::Reader{ps::records<std::uint8_t>(in), ps::to_pinned} // disk -> pinned
                  | ps::AsyncCopier{device}                                // pinned -> device
                  | ps::Kernel{mask_in_place}                              // on the device
                  | ps::AsyncCopier{ps::to_host}                           // device -> pinned
                  | ps::Writer{out};                                       // pinned -> disk
  return pipeline.run();
}

/// Returns how many bytes there are. Throws if `out` is not what a plain loop makes of `in`.
std::uint64_t check(const std::string& in, const std::string& out) {
  std::ifstream before{in, std::ios::binary};
  std::ifstream after{out, std::ios::binary};
  std::vector<char> a(std::size_t{1} << 20);
  std::vector<char> b(a.size());
  for (std::uint64_t position = 0;;) {
    const auto count = before.read(a.data(), static_cast<std::streamsize>(a.size())).gcount();
    if (after.read(b.data(), static_cast<std::streamsize>(b.size())).gcount() != count) {
      throw std::runtime_error{in + " and " + out + " are not of one size"};
    }
    if (count == 0) {
      return position;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i, ++position) {
      if (static_cast<std::uint8_t>(a[i] ^ b[i]) != mask(position)) {
        throw std::runtime_error{out + ": byte " + std::to_string(position) + " is wrong"};
      }
    }
  }
}

std::string some_bytes() {
  std::string bytes(8'000'003, '\0'); // the last batch is short
  std::uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

int main(int argc, char** argv) try {
  const Arguments args{argc, argv, 2, "IN OUT"};
  std::optional<TemporaryFile> made;
  std::optional<TemporaryFile> place;
  const std::string in = args.files.empty() ? made.emplace(some_bytes()).path() : args.files[0];
  const std::string out = args.files.empty() ? place.emplace("").path() : args.files[1];
  if (std::error_code absent; std::filesystem::equivalent(in, out, absent)) {
    throw std::invalid_argument{out + " would take the place of the file that it is made of, and "
                                      "nothing could be checked: give it another name"};
  }
  return ps::with_device(args.device, [&](auto& device) {
    const auto attached = device.attach();
    std::cout << transform(device, in, out);
    std::cout << check(in, out) << " bytes, each as the CPU makes it\n";
    return 0;
  });
} catch (const std::exception& error) {
  std::cerr << "11_transform_file: " << error.what() << '\n';
  return 1;
}

// prints with --device host:
//   8000003 records, … on host
//   …
//   8000003 bytes, each as the CPU makes it
