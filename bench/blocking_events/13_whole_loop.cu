// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does all of it gain together: a training loop from a file, as first written, and as a
// pipeline?
//
// 96 batches of 256 records of 224 x 224 x 3 bytes, from a file of 3.7 GB in the page cache. The
// model's step takes 1.4 times as long as the link takes for a batch of bytes, so that the kernels
// are the limit if nothing stalls. The losses are checked, in their order.
//
//   in_turn        read into a vector, turn the bytes into floats, copy these, step, wait for the
//                  loss
//   in_turn_bytes  in_turn without the floats: copies bytes, and the step makes floats of them
//   pipeline       by run(); the losses are read at the end
//   pipeline_loop  the pipeline in the application's own loop
//
// The file is temporary, belongs to this process only, and is removed at the end.

#include "support/file.hpp"
#include "training.hpp"

#include <penstock/pipeline/pipeline.hpp>
#include <penstock/sources/records.hpp>
#include <penstock/stages/async_copier.hpp>
#include <penstock/stages/consumer.hpp>
#include <penstock/stages/reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

/// A file of random bytes in the page cache, for as long as this lives.
class Images {
 public:
  Images(char** argv, std::size_t batch_bytes, std::size_t batches) : file_{argv} {
    file_.options.bytes = batch_bytes * batches;
    prepare_file(file_.options);
    const OpenFile file{path(), O_RDONLY};
    std::vector<std::uint8_t> batch(batch_bytes);
    for (std::size_t i = 0; i < batches; ++i) {
      file.read(i * batch_bytes, batch);
      losses_.add(std::accumulate(batch.begin(), batch.end(), std::uint64_t{0}));
    }
  }

  const std::string& path() const { return file_.options.path; }
  std::uint64_t checksum() const { return losses_.get(); }

 private:
  struct Temporary {
    explicit Temporary(char** argv)
        : options{1, argv, ("penstock-whole-loop-" + std::to_string(getpid())).c_str()} {}
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    ~Temporary() {
      std::error_code ignored;
      std::filesystem::remove(options.path, ignored);
    }
    FileOptions options;
  };

  Temporary file_;
  LossSum losses_;
};

/// Copies Ts: floats, made by the CPU, or the bytes as they are.
template <class D, class T> class InTurn : public Way {
 public:
  InTurn(D& device, const Images& images, const Job& job)
      : device_{device}, file_{images.path(), O_RDONLY}, job_{job}, bytes_(job.values),
        floats_(std::is_same_v<T, float> ? job.values : 0), batch_{device, job.values},
        model_{device, job.values, job.rounds}, stream_{device.stream()} {}

  std::uint64_t run() override {
    LossSum sum;
    std::uint64_t loss = 0;
    // page: in_turn
    for (std::size_t i = 0; i < job_.steps; ++i) {
      file_.read(i * bytes_.size(), bytes_);
      const T* const values = as_values(); // bytes to floats, one by one, if T is float
      device_.copy_to_device(batch_.data(), values, batch_.size() * sizeof(T), stream_);
      model_.step(batch_.data(), batch_.size(), stream_);
      device_.copy_to_host(&loss, model_.loss(), sizeof loss, stream_);
      device_.sync(stream_);
      sum.add(loss);
    }
    // page: end
    return sum.get();
  }

 private:
  const T* as_values() {
    if constexpr (std::is_same_v<T, float>) {
      std::copy(bytes_.begin(), bytes_.end(), floats_.begin());
      return floats_.data();
    } else {
      return bytes_.data();
    }
  }

  D& device_;
  OpenFile file_;
  Job job_;
  std::vector<std::uint8_t> bytes_;
  std::vector<float> floats_;
  ps::DeviceArray<T, D> batch_;
  Model<D> model_;
  typename D::stream_type stream_;
};

template <class D>
auto from_file(D& device, const std::string& path, std::size_t records, Training<D>& training) {
  // page: pipeline
  return ps::Reader{ps::records<std::uint8_t>(path, {.record_bytes = image_bytes}), ps::to_pinned} |
         ps::AsyncCopier{device, {.batch = records}} |
         ps::Consumer{[&](ps::Batch<const std::uint8_t, ps::Device> images, ps::Stream<D> stream) {
           training.model.step(images.data(), images.size_bytes(), stream);
           training.losses.put(training.model.loss(), stream);
         }};
  // page: end
}

template <class D> auto open_from_file(D& device, const std::string& path, std::size_t records) {
  return ps::Reader{ps::records<std::uint8_t>(path, {.record_bytes = image_bytes}), ps::to_pinned} |
         ps::AsyncCopier{device, {.batch = records}};
}

template <class D> class Loop : public Way {
 public:
  Loop(D& device, const Images& images, const Job& job)
      : training_{device, job}, stream_{device.stream()},
        pipeline_{open_from_file(device, images.path(), job.values / image_bytes)} {
    pipeline_.prepare();
  }

  std::uint64_t run() override {
    training_.losses.clear();
    for (auto images : pipeline_.on(stream_)) {
      training_.model.step(images.data(), images.size_bytes(), stream_);
      training_.losses.put(training_.model.loss(), stream_);
    }
    return training_.checksum();
  }
  std::string label() const override { return "held back by " + pipeline_.report().limiting_stage; }

 private:
  Training<D> training_;
  typename D::stream_type stream_;
  // The pipeline is destroyed first.
  decltype(open_from_file(std::declval<D&>(), std::string{}, 0)) pipeline_;
};

} // namespace

int main(int argc, char** argv) {
  return event_on_any_device(argc, argv, [&]<class D>(D& device, const EventOptions& options) {
    const std::size_t records = options.pick<std::size_t>(256, 4);
    Job job{.values = records * image_bytes, .steps = options.pick<std::size_t>(96, 6)};
    const Images images{argv, job.values, job.steps};
    calibrate<std::uint8_t>(device, options, job,
                            1.4 * static_cast<double>(job.values) / napkin::link);

    const Event event{"13_whole_loop", options, {job.steps * records, job.kernels_s()}, [&] {
                        return images.checksum();
                      }};
    event.add("in_turn", [&] { return std::make_unique<InTurn<D, float>>(device, images, job); });
    event.add("in_turn_bytes",
              [&] { return std::make_unique<InTurn<D, std::uint8_t>>(device, images, job); });
    event.add("pipeline", [&] {
      return pipelined(device, job, [&](Training<D>& training) {
        return from_file(device, images.path(), records, training);
      });
    });
    event.add("pipeline_loop", [&] { return std::make_unique<Loop<D>>(device, images, job); });
    return run_all();
  });
}
