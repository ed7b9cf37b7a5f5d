// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace nb = nanobind;
namespace ps = penstock;

/// What all loaders take.
struct LoaderOptions {
  /// Of seconds as Python has them: the longest that RunOptions can say, for more.
  static std::chrono::milliseconds wait_of(double seconds) {
    using Wait = std::chrono::milliseconds;
    if (std::isnan(seconds)) {
      throw nb::value_error("penstock: lease_wait is nan: give seconds, or math.inf.");
    }
    const bool longest = seconds >= std::chrono::duration<double>{Wait::max()}.count();
    return longest ? Wait::max() : Wait{static_cast<Wait::rep>(std::max(seconds, 0.0) * 1000)};
  }
  /// Of None or an int. True is an int to Python, and no seed.
  static std::optional<std::uint64_t> seed_of(const nb::object& shuffle) {
    if (shuffle.is_none()) {
      return {};
    }
    std::uint64_t seed = 0;
    if (PyBool_Check(shuffle.ptr()) || !nb::try_cast(shuffle, seed)) {
      throw nb::type_error("penstock: shuffle is a seed, an int from 0, or None for the file's "
                           "order.");
    }
    return seed;
  }
  /// Of None, a GPU's number, or a text such as "cuda:1", which a torch.device is to str(). None if
  /// it is the host.
  static std::optional<int> device_of(const nb::object& device) {
    int number = 0;
    if (!device.is_none() && !PyBool_Check(device.ptr()) && nb::try_cast(device, number)) {
      return number;
    }
    const std::string text = device.is_none() ? "cpu" : nb::str(device).c_str();
    if (text == "cpu") {
      return {};
    }
    const std::string gpu = text == "cuda" ? "cuda:0" : text;
    const char* const end = gpu.data() + gpu.size();
    const bool cuda = gpu.starts_with("cuda:");
    const auto [rest, error] = std::from_chars(gpu.data() + (cuda ? 5 : 0), end, number);
    if (!cuda || error != std::errc{} || rest != end) {
      throw nb::value_error("penstock: device is None or \"cpu\", a GPU's number, or \"cuda:0\".");
    }
    return number;
  }
  /// Of None, which asks the environment variables of torchrun, mpirun or srun, or (rank, world).
  static ps::Ranks ranks_of(const std::optional<std::pair<std::uint32_t, std::uint32_t>>& ranks) {
    return ranks ? ps::Ranks{.rank = ranks->first, .world = ranks->second} : ps::ranks();
  }

  std::size_t batch;
  std::optional<std::uint64_t> shuffle;
  std::uint64_t epochs;
  std::size_t depth;
  std::chrono::milliseconds lease_wait;
  std::optional<int> device;
  std::intptr_t stream;
  ps::Ranks ranks;
  bool drop_last;
  nb::object into;

  /// For a Reader whose slots are the batches.
  ps::ReaderOptions reading() const {
    ps::ReaderOptions options{
        .depth = depth, .epochs = epochs, .batch = batch, .drop_last = drop_last};
    options.order.ranks = ranks;
    if (shuffle) {
      options.order.shuffle = *shuffle;
    }
    return options;
  }
  /// For a Reader before a stage that makes batches: its slots have a size of their own.
  ps::ReaderOptions reading_freely() const {
    ps::ReaderOptions options = reading();
    options.depth = 0;
    options.batch = 0;
    return options;
  }
};
