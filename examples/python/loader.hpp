// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

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

  std::size_t batch;
  std::optional<std::uint64_t> shuffle;
  std::uint64_t epochs;
  std::size_t depth;
  std::chrono::milliseconds lease_wait;

  ps::ReaderOptions reading() const {
    ps::ReaderOptions options{.depth = depth, .epochs = epochs, .batch = batch};
    if (shuffle) {
      options.order.shuffle = *shuffle;
    }
    return options;
  }
};

/// A pipeline in host memory and one run of it. Tensors keep it, so it dies with the last.
template <class B> struct Session {
  ps::HostDevice device;
  ps::AnyBatches<B> data;
  ps::Batches<B> run;
};

/// An iterator over one run. Waits without the GIL.
class Loader {
 public:
  /// `pipeline(device)` makes the pipeline, and `tensors(shared, session)` the tensors of a batch.
  template <class B, class F, class G>
  static Loader of(const LoaderOptions& options, F pipeline, G tensors) {
    auto session = std::make_shared<Session<B>>();
    session->data = ps::AnyBatches<B>{pipeline(session->device)};
    session->run = session->data.batches({.lease_wait = options.lease_wait});
    Loader loader;
    loader.next_ = [session, tensors] {
      auto batch = session->run.next();
      return batch ? tensors(batch.share(), session) : std::vector<Tensor>{};
    };
    loader.report_ = [session] {
      std::ostringstream text;
      text << session->data.report();
      return text.str();
    };
    loader.ends_ = std::shared_ptr<void>{nullptr, [session](void*) { session->run = {}; }};
    return loader;
  }

  nb::object next() {
    std::vector<Tensor> tensors;
    {
      const nb::gil_scoped_release unlocked;
      // Two threads at a first batch would both begin the run: the later one is to get its error.
      const std::lock_guard one{*asking_};
      tensors = next_();
    }
    if (tensors.empty()) {
      throw nb::stop_iteration();
    }
    if (tensors.size() == 1) {
      return nb::cast(std::move(tensors.front()));
    }
    nb::list all;
    for (Tensor& tensor : tensors) {
      all.append(nb::cast(std::move(tensor)));
    }
    return nb::tuple(all);
  }
  std::string report() const { return report_(); }

 private:
  std::unique_ptr<std::mutex> asking_ = std::make_unique<std::mutex>();
  std::function<std::vector<Tensor>()> next_;
  std::function<std::string()> report_;
  std::shared_ptr<void> ends_; // the run, with the iterator, whatever tensors are out
};
