// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What do a thousand launches of tiny kernels cost, and what is there instead?
//
// 1000 tensors of 16384 floats are scaled, each by a factor of its own, 20 times a run: an
// optimiser's step, in small. Their sum is checked.
//
//   loose          a launch for each tensor, on one stream
//   streams        the same on four streams, in turn
//   graph          captured once, launched as a whole
//   graph_lanes    captured on eight streams
//   fused          one launch for all, which finds its tensors in a table

#include "event.hpp"

#include <penstock/device_array.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
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
struct Add {
  PENSTOCK_HD std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
};

float factor_of(std::size_t tensor) {
  return static_cast<float>(1 + tensor % 5);
}

/// The tensors, and how their step is done.
template <class D> class Tensors : public Way {
 public:
  Tensors(D& device, std::size_t tensors, std::size_t steps)
      : device_{device}, steps_{steps}, in_{device, tensors * tensor_floats},
        out_{device, tensors * tensor_floats}, sum_{device, 1}, workspace_{device} {
    for (std::size_t i = 0; i < tensors; ++i) {
      const std::size_t first = i * tensor_floats;
      tensors_.push_back({in_.data() + first, out_.data() + first, factor_of(i)});
    }
    for (std::size_t i = 0; i < 8; ++i) {
      streams_.push_back(device.stream());
    }
    ps::for_each(stream(), in_.size(), Fill{in_.data()});
    device.sync(stream());
  }

  std::uint64_t run() override {
    for (std::size_t i = 0; i < steps_; ++i) {
      step();
    }
    for (std::size_t i = 1; i < streams_.size(); ++i) {
      device_.record(done_, streams_[i]);
      device_.wait(stream(), done_);
    }
    ps::reduce(stream(), out_.data(), out_.size(), sum_.data(), std::uint64_t{0}, Add{},
               workspace_);
    return sum_.read(stream())[0];
  }

 protected:
  virtual void step() = 0;

  typename D::stream_type& stream() { return streams_.front(); }

  D& device_;
  std::size_t steps_;
  std::vector<Tensor> tensors_;
  std::vector<typename D::stream_type> streams_;

 private:
  ps::DeviceArray<float, D> in_, out_;
  ps::DeviceArray<std::uint64_t, D> sum_;
  ps::Workspace<D> workspace_;
  typename D::event_type done_ = device_.event();
};

template <class D> class Loose : public Tensors<D> {
 public:
  Loose(D& device, std::size_t tensors, std::size_t steps, std::size_t streams)
      : Tensors<D>{device, tensors, steps}, count_{streams} {}

 protected:
  void step() override {
    // page: before
    for (std::size_t i = 0; i < this->tensors_.size(); ++i) {
      ps::for_each(this->streams_[i % count_], tensor_floats, Scale{this->tensors_[i]});
    }
    // page: end
  }

 private:
  std::size_t count_;
};

template <class D> class Graph : public Tensors<D> {
 public:
  Graph(D& device, std::size_t tensors, std::size_t steps, std::size_t lanes)
      : Tensors<D>{device, tensors, steps},
        // page: graph
        graph_{device.capture(std::span{this->streams_}.first(lanes), [&] {
          for (std::size_t i = 0; i < this->tensors_.size(); ++i) {
            ps::for_each(this->streams_[i % lanes], tensor_floats, Scale{this->tensors_[i]});
          }
        })} {}
  // page: end

 protected:
  void step() override { graph_.launch(this->stream()); }

 private:
  typename D::graph_type graph_;
};

template <class D> class Fused : public Tensors<D> {
 public:
  Fused(D& device, std::size_t tensors, std::size_t steps)
      : Tensors<D>{device, tensors, steps}, table_{device, tensors} {
    const auto bytes = tensors * sizeof(Tensor);
    device.copy_to_device(table_.data(), this->tensors_.data(), bytes, this->stream());
    device.sync(this->stream());
  }

 protected:
  void step() override {
    // page: fused
    ps::for_each(this->stream(), this->tensors_.size() * tensor_floats, ScaleAll{table_.data()});
    // page: end
  }

 private:
  ps::DeviceArray<Tensor, D> table_;
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
    const std::size_t tensors = options.pick(1000, 50);
    const std::size_t steps = options.pick(20, 2);
    const std::uint64_t launches = tensors * steps;
    const double bytes = 8.0 * tensor_floats * static_cast<double>(launches);
    const Event event{"04_tiny_kernels", options, {launches, bytes / napkin::memory}, [=] {
                        return sum_of(tensors);
                      }};
    const auto loose = [&](std::size_t streams) {
      return [=, &device] { return std::make_unique<Loose<D>>(device, tensors, steps, streams); };
    };
    const auto graph = [&](std::size_t lanes) {
      return [=, &device] { return std::make_unique<Graph<D>>(device, tensors, steps, lanes); };
    };
    event.add("loose", loose(1));
    event.add("streams", loose(4));
    event.add("graph", graph(1));
    event.add("graph_lanes", graph(8));
    event.add("fused", [=, &device] { return std::make_unique<Fused<D>>(device, tensors, steps); });
    return run_all();
  });
}
