// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 18_load_weights: the weights of a model, from safetensors files into a device's memory, where
// each tensor is found by its name. Shards are one model; a directory stands for its .safetensors
// files.
//
//   18_load_weights [--json] [--check] [--device auto|cuda|host] [FILE...]
//
// Without FILE it makes a small one. It prints how long that took from the first look at the files
// to the last byte on the device: headers, device memory and page-locked memory included. --check
// then compares the CRC-32C of every tensor on the device with that of the bytes in its file, and
// lists them. nvcc compiles this source for both devices, any other compiler for the host device
// alone.

#include "support/link.hpp"
#include "support/temporary_file.hpp"

#include <penstock/crc32c.hpp>
#include <penstock/json.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/safetensors.hpp>
#include <penstock/with_device.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace ps = penstock;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Options {
  Options(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string arg = argv[i];
      if (arg == "--json") {
        json = true;
      } else if (arg == "--check") {
        check = true;
      } else if (arg == "--device") {
        if (++i == argc) {
          throw std::invalid_argument{"--device has nothing behind it: give auto, cuda or host"};
        }
        device = argv[i];
      } else if (arg.starts_with("-") || arg.empty()) {
        throw std::invalid_argument{"what is \"" + arg +
                                    "\"? Usage: 18_load_weights [--json] [--check] "
                                    "[--device auto|cuda|host] [FILE...]"};
      } else {
        files.push_back(arg);
      }
    }
  }

  std::string device = "auto";
  std::vector<std::string> files;
  bool json = false;
  bool check = false;
};

void copy_on_device(ps::HostStream& stream, std::byte* to, const std::byte* from, std::size_t n) {
  stream.enqueue([=] { std::memcpy(to, from, n); });
}
#if defined(__CUDACC__)
void copy_on_device(cudaStream_t stream, std::byte* to, const std::byte* from, std::size_t n) {
  if (cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToDevice, stream) != cudaSuccess) {
    throw std::runtime_error{"a copy on the device failed"};
  }
}
#endif

/// The tensors of a model in one piece of device memory, each at a multiple of 256 bytes.
template <ps::AnyDevice D> class Weights {
 public:
  Weights(D& device, const std::vector<std::string>& files) : source_{ps::safetensors(files)} {
    const auto begin = Clock::now();
    source_.open();
    open_s = seconds_since(begin);
    for (const ps::TensorInfo& tensor : source_.tensors()) {
      places_.push_back(bytes_);
      bytes_ += (tensor.bytes + 255) / 256 * 256;
    }
    memory_ = std::make_unique<DeviceMemory<D>>(device, bytes_, false);
    auto pipeline = ps::Reader{source_, ps::to_pinned} | ps::AsyncCopier{device} |
                    ps::Consumer{[this](ps::Batch<const std::byte, ps::Device> bytes,
                                        ps::Stream<D> stream) { take(bytes, stream); }};
    report = pipeline.run();
    seconds = seconds_since(begin);
  }

  const ps::Safetensors<>& source() const { return source_; }
  /// Returns where a tensor lies. Throws OptionError if there is none of this name.
  std::byte* operator[](std::string_view name) const {
    return memory_->at + places_[number(source_.tensor(name))];
  }

  double open_s = 0;
  double seconds = 0;
  ps::Report report;

 private:
  std::size_t number(const ps::TensorInfo& tensor) const {
    return static_cast<std::size_t>(&tensor - source_.tensors().data());
  }
  // A batch has the end of a tensor, whole ones, and the beginning of another.
  void take(ps::Batch<const std::byte, ps::Device> batch, ps::Stream<D> stream) {
    const auto all = source_.tensors();
    const std::uint64_t end = batch.index() + batch.size();
    for (; next_ != all.size() && all[next_].at < end; ++next_) {
      const ps::TensorInfo& tensor = all[next_];
      const std::uint64_t first = std::max(tensor.at, batch.index());
      const std::uint64_t last = std::min(tensor.at + tensor.bytes, end);
      if (first != last) {
        copy_on_device(stream, memory_->at + places_[next_] + (first - tensor.at),
                       batch.data() + (first - batch.index()), last - first);
      }
      if (last == end && last != tensor.at + tensor.bytes) {
        break;
      }
    }
  }

  ps::Safetensors<> source_;
  std::vector<std::uint64_t> places_;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<DeviceMemory<D>> memory_;
  std::size_t next_ = 0; // the first tensor that is not there as a whole
};

/// Returns the CRC-32C of a tensor's bytes in its file, read without penstock.
std::uint32_t crc_in_file(const std::string& path, std::uint64_t offset, std::uint64_t bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<std::byte> piece(std::size_t{1} << 20);
  std::uint32_t crc = 0;
  while (bytes != 0) {
    const auto got = ::pread(file, piece.data(), std::min<std::uint64_t>(piece.size(), bytes),
                             static_cast<off_t>(offset));
    if (got <= 0) {
      throw std::system_error{errno, std::generic_category(), "cannot read " + path};
    }
    crc = ps::crc32c({piece.data(), static_cast<std::size_t>(got)}, crc);
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
  ::close(file);
  return crc;
}

/// Throws unless every tensor on the device has the bytes of its file. Prints each if it is to.
template <ps::AnyDevice D> void check(D& device, const Weights<D>& weights, bool print) {
  const DeviceMemory<D> piece{device, std::size_t{4} << 20, true};
  auto stream = device.stream();
  const std::vector<std::string> files = weights.source().files();
  for (const ps::TensorInfo& tensor : weights.source().tensors()) {
    std::uint32_t crc = 0;
    for (std::uint64_t at = 0; at != tensor.bytes;) {
      const std::size_t n = std::min<std::uint64_t>(piece.bytes, tensor.bytes - at);
      device.copy_to_host(piece.at, weights[tensor.name] + at, n, stream);
      device.sync(stream);
      crc = ps::crc32c({piece.at, n}, crc);
      at += n;
    }
    if (crc != crc_in_file(files[tensor.file], tensor.offset, tensor.bytes)) {
      throw std::runtime_error{"the tensor \"" + tensor.name + "\" is not as in " +
                               files[tensor.file]};
    }
    if (print) {
      const std::vector<ps::Json> shape(tensor.shape.begin(), tensor.shape.end());
      std::cout << ps::Json{tensor.name}.text() << ' ' << ps::name_of(tensor.type) << ' '
                << ps::Json::array(shape).text() << " crc32c " << crc << '\n';
    }
  }
}

std::string some_weights() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("wte.weight":{"dtype":"F32","shape":[1000,768],"data_offsets":[0,3072000]},)"
      R"("ln_f.bias":{"dtype":"BF16","shape":[769],"data_offsets":[3072000,3073538]},)"
      R"("wpe.weight":{"dtype":"F32","shape":[64,768],"data_offsets":[3073538,3270146]}})";
  std::string file(1, static_cast<char>(header.size() % 256));
  file += static_cast<char>(header.size() / 256);
  file += std::string(6, '\0') + header;
  std::uint32_t state = 1;
  for (int i = 0; i < 3'270'146; ++i) {
    state = state * 1664525 + 1013904223;
    file += static_cast<char>(state >> 24);
  }
  return file;
}

int main(int argc, char** argv) try {
  Options options{argc, argv};
  std::optional<TemporaryFile> made;
  if (options.files.empty()) {
    options.files.push_back(made.emplace(some_weights()).path());
  }
  return ps::with_device(options.device, [&](auto& device) {
    const auto attached = device.attach();
    const Weights weights{device, options.files};
    if (options.check) {
      check(device, weights, !options.json);
    }
    const double per_s = static_cast<double>(weights.source().size()) / weights.seconds;
    const std::optional<double> most = link_bytes_per_s(device);
    if (options.json) {
      std::cout << ps::Json::object(
                       {{"bytes", weights.source().size()},
                        {"seconds", weights.seconds},
                        {"gb_per_s", per_s / 1e9},
                        {"of_link", most ? ps::Json{per_s / *most} : ps::Json{nullptr}},
                        {"gpus", most ? 1 : 0},
                        {"open_s", weights.open_s}})
                       .text()
                << '\n';
    } else {
      std::cout << weights.source().tensors().size() << " tensors, " << weights.source().size()
                << " bytes, in " << weights.seconds << " s: " << per_s / 1e9 << " GB/s";
      if (most) {
        std::cout << ", " << per_s / *most << " of the link";
      }
      std::cout << (options.check ? "\nevery tensor is as in its file\n" : "\n") << weights.report;
    }
    return 0;
  });
} catch (const std::exception& error) {
  std::cerr << "18_load_weights: " << error.what() << '\n';
  return 1;
}
