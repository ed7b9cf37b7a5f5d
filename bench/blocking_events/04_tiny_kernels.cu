// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What do a thousand launches of tiny kernels cost, and what can replace them?
//
// A run scales 1000 tensors of 16384 floats, each by a factor of its own, 20 times: a small model
// of an optimiser's step. Their sum is checked.
//
//   loose          a launch for each tensor, on one stream
//   streams        such launches on four streams, in turn
//   graph          captured once, launched as a whole
//   graph_lanes    captured on eight streams
//   fused          one launch for all, which finds its tensors in a table

#include "add.hpp"
#include "event.hpp"

#include <penstock/callables/deferred.hpp>
#include <penstock/device/device_array.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::size_t tensor_floats =
    16384; // 1000 of them, in and out, are more than the caches hold

struct Tensor {
  const float* in;
  float* out;
  float factor;
};

struct Fill {
  float* out;
  PENSTOCK_HD void operator()(std::size_t i) const { out[i] = static_cast<float>(i % 7); }
};
struct Scale {
  Tensor tensor;
  PENSTOCK_HD void operator()(std::size_t i) const { tensor.out[i] = tensor.factor * tensor.in[i]; }
};
struct ScaleAll {
  const Tensor* tensors;
  PENSTOCK_HD void operator()(std::size_t i) const {
    const Tensor& tensor = tensors[i / tensor_floats];
    const std::size_t at = i % tensor_floats;
    tensor.out[at] = tensor.factor * tensor.in[at];
  }
};

float factor_of(std::size_t tensor) {
  return static_cast<float>(1 + tensor % 5);
}

template <class D> using Streams = std::span<typename D::stream_type>;

/// Uses the streams in turn.
template <class D> void launch_each(std::span<const Tensor> tensors, Streams<D> streams) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    ps::for_each(streams[i % streams.size()], tensor_floats, Scale{tensors[i]});
  }
  // page: end
}

template <class D> class Loose {
 public:
  Loose(D&, std::span<const Tensor> tensors, Streams<D> streams)
      : tensors_{tensors}, streams_{streams} {}
  void step() { launch_each<D>(tensors_, streams_); }

 private:
  std::span<const Tensor> tensors_;
  Streams<D> streams_;
};

template <class D> class Graph {
 public:
  Graph(D& device, std::span<const Tensor> tensors, Streams<D> streams)
      : stream_{streams.front()},
        // page: graph
        graph_{device.capture(streams, [&] { launch_each<D>(tensors, streams); })} {} // once

  void step() { graph_.launch(stream_); }
  // page: end

 private:
  typename D::stream_type& stream_;
  typename D::graph_type graph_;
};

template <class D> class Fused {
 public:
  Fused(D& device, std::span<const Tensor> tensors, Streams<D> streams)
      : stream_{streams.front()}, table_{device, tensors.size()} {
    device.copy_to_device(table_.data(), tensors.data(), tensors.size_bytes(), stream_);
    device.sync(stream_);
  }
  void step() {
    // page: fused
    ps::for_each(stream_, table_.size() * tensor_floats, ScaleAll{table_.data()});
    // page: end
  }

 private:
  typename D::stream_type& stream_;
  ps::DeviceArray<Tensor, D> table_;
};

struct Size {
  std::size_t tensors;
  std::size_t steps;
};

/// The tensors, and a run over them.
template <class D, template <class> class Step> class Steps : public Way {
 public:
  Steps(D& device, Size size, std::size_t streams)
      : device_{device}, steps_{size.steps}, in_{device, size.tensors * tensor_floats},
        out_{device, in_.size()}, sum_{device, 1}, workspace_{device},
        read_{device, {.results = 1}} {
    for (std::size_t i = 0; i < size.tensors; ++i) {
      const std::size_t first = i * tensor_floats;
      tensors_.push_back({in_.data() + first, out_.data() + first, factor_of(i)});
    }
    for (std::size_t i = 0; i < streams; ++i) {
      streams_.push_back(device.stream());
    }
    ps::for_each(streams_[0], in_.size(), Fill{in_.data()});
    device.sync(streams_[0]);
    step_.emplace(device, tensors_, streams_);
  }

  std::uint64_t run() override {
    for (std::size_t i = 0; i < steps_; ++i) {
      step_->step();
    }
    for (auto& stream : std::span{streams_}.subspan(1)) {
      device_.record(done_, stream);
      device_.wait(streams_[0], done_);
    }
    ps::reduce(streams_[0], out_.data(), out_.size(), sum_.data(), std::uint64_t{0}, Add{},
               workspace_);
    read_.clear();
    return read_.put(sum_.data(), streams_[0]).get();
  }

 private:
  D& device_;
  std::size_t steps_;
  ps::DeviceArray<float, D> in_, out_;
  ps::DeviceArray<std::uint64_t, D> sum_;
  ps::Workspace<D> workspace_;
  ps::Deferred<std::uint64_t, D> read_;
  std::vector<Tensor> tensors_;
  std::vector<typename D::stream_type> streams_;
  typename D::event_type done_ = device_.event();
  std::optional<Step<D>> step_;
};

std::uint64_t sum_of(std::size_t tensors) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < tensors * tensor_floats; ++i) {
    sum += static_cast<std::uint64_t>(factor_of(i / tensor_floats)) * (i % 7);
  }
  return sum;
}

} // namespace

int main(int argc, char** argv) {
  return event_on_any_device(argc, argv, []<class D>(D& device, const EventOptions& options) {
    const Size size = options.pick(Size{1000, 20}, Size{50, 2});
    const std::uint64_t launches = size.tensors * size.steps;
    const double bytes = 2 * sizeof(float) * tensor_floats * static_cast<double>(launches);
    const Event event{"04_tiny_kernels", options, {launches, bytes / napkin::memory}, [=] {
                        return sum_of(size.tensors);
                      }};
    const auto add = [&]<template <class> class Step>(const char* way, std::size_t streams) {
      event.add(way,
                [=, &device] { return std::make_unique<Steps<D, Step>>(device, size, streams); });
    };
    add.template operator()<Loose>("loose", 1);
    add.template operator()<Loose>("streams", 4);
    add.template operator()<Graph>("graph", 1);
    add.template operator()<Graph>("graph_lanes", 8);
    add.template operator()<Fused>("fused", 1);
    return run_all();
  });
}
