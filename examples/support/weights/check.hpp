// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../link.hpp"

#include <penstock/formats/safetensors.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/penstock.hpp>
#include <penstock/run/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace weights {

/// Returns the CRC-32C of a tensor's bytes in its file, read without penstock.
inline std::uint32_t crc_in_file(const std::string& path, const penstock::TensorInfo& tensor) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    throw std::system_error{errno, std::generic_category(), "cannot open " + path + " again"};
  }
  std::vector<std::byte> piece(std::size_t{1} << 20);
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at != tensor.bytes;) {
    const auto got =
        ::pread(file, piece.data(), std::min<std::uint64_t>(piece.size(), tensor.bytes - at),
                static_cast<off_t>(tensor.offset + at));
    if (got < 0) {
      throw std::system_error{errno, std::generic_category(), "cannot read " + path};
    }
    if (got == 0) {
      throw std::runtime_error{path + " shrank before all was checked: leave a file alone as long "
                                      "as it is read"};
    }
    crc = penstock::crc32c({piece.data(), static_cast<std::size_t>(got)}, crc);
    at += static_cast<std::uint64_t>(got);
  }
  ::close(file);
  return crc;
}

/// Returns the CRC-32C of what a device has.
template <penstock::AnyDevice D> class CrcOn {
 public:
  explicit CrcOn(D& device)
      : device_{device}, piece_{device, std::size_t{4} << 20, true}, stream_{device.stream()} {}

  std::uint32_t operator()(const std::byte* at, std::uint64_t bytes) {
    std::uint32_t crc = 0;
    while (bytes != 0) {
      const std::uint64_t here = std::min<std::uint64_t>(piece_.bytes, bytes);
      device_.copy_to_host(piece_.at, at, here, stream_);
      device_.sync(stream_);
      crc = penstock::crc32c(std::span<const std::byte>{piece_.at, here}, crc);
      at += here;
      bytes -= here;
    }
    return crc;
  }

 private:
  D& device_;
  DeviceMemory<D> piece_;
  typename D::stream_type stream_;
};

/// Returns the CRC-32C of each tensor's bytes in its file.
inline std::vector<std::uint32_t> crcs_in_files(const penstock::Safetensors<>& model) {
  std::vector<std::uint32_t> crcs;
  for (const penstock::TensorInfo& tensor : model.tensors()) {
    crcs.push_back(crc_in_file(model.files()[tensor.file], tensor));
  }
  return crcs;
}

/// Throws unless every tensor on every device has these checksums; `loaded[i]->tensor(k)` is where
/// the device of number i has the tensor of number k. Prints each tensor if it is to.
template <penstock::AnyDevice D, class Loaded>
void check(std::span<const penstock::TensorInfo> tensors, const std::vector<std::string>& files,
           const std::vector<std::uint32_t>& crcs, std::deque<D>& devices, const Loaded& loaded,
           bool print) {
  using penstock::Json;
  std::deque<CrcOn<D>> crc_on;
  for (D& device : devices) {
    crc_on.emplace_back(device);
  }
  for (std::size_t i = 0; i != tensors.size(); ++i) {
    const penstock::TensorInfo& tensor = tensors[i];
    const std::string& file = files[tensor.file];
    const std::uint32_t crc = crcs[i];
    for (std::size_t device = 0; device != devices.size(); ++device) {
      if (crc_on[device](loaded[device]->tensor(i), tensor.bytes) != crc) {
        throw std::runtime_error{"the tensor \"" + tensor.name + "\" is not as in " + file +
                                 ": device " + std::to_string(device)};
      }
    }
    if (print) {
      std::cout << Json{tensor.name}.text() << ' ' << penstock::name_of(tensor.type) << ' '
                << Json::array({tensor.shape.begin(), tensor.shape.end()}).text() << " crc32c "
                << crc << '\n';
    }
  }
}

} // namespace weights
