// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint.hpp"
#include "checkpoint_state.hpp"
#include "gradients_file.hpp"
#include "training.hpp"

#include <penstock/io/new_file.hpp>
#include <penstock/io/posix.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

namespace transformer {

/// Throws penstock::SinkError unless a file can be made at `path`: before a training, not after its
/// hours. Nothing is left there.
inline void check_can_be_made(const std::string& path) {
  const penstock::NewFile<> file{penstock::PosixIo{}, path};
}

/// Between a training and its files.
template <class Ops> class TrainFiles {
  using T = typename Ops::value_type;
  using D = typename Ops::device_type;

 public:
  TrainFiles(D& device, Training<Ops>& training) : device_{device}, training_{training} {}

  /// Writes a checkpoint of the steps so far, which are whole ones. Blocks until these are done.
  /// Throws penstock::SinkError; and std::runtime_error for a training that has diverged, since its
  /// checkpoint would take the place of a good one.
  void save(const std::string& path, const CheckpointState& state) {
    write_checkpoint(path, training_.layout().config(), state,
                     [&](StateArray array, std::size_t first, std::span<float> into) {
                       copy(of(array) + first, into);
                       if (!std::ranges::all_of(into, [](float x) { return std::isfinite(x); })) {
                         throw std::runtime_error{
                             "after step " + std::to_string(state.steps) +
                             " the model has values that are no numbers, so " + path +
                             " is not written: go on from an earlier checkpoint, or begin anew, "
                             "with a lower --rate"};
                       }
                     });
  }
  /// Goes on with a checkpoint, or begins with a model that has no state. Blocks. Throws
  /// penstock::SourceError.
  void load(const Checkpoint<>& from) {
    const auto array = [&](StateArray which) {
      from.read(which, [&](std::size_t first, std::span<const float> values) {
        device_.copy_to_device(of(which) + first, values.data(), values.size_bytes(),
                               training_.stream());
        device_.sync(training_.stream()); // the next values come into the same memory
      });
    };
    array(StateArray::masters);
    if (from.state()) {
      array(StateArray::means);
      array(StateArray::squares);
    }
    training_.went_on(from.state() ? from.state()->steps : 0);
    device_.sync(training_.stream());
  }
  /// Writes what the latest pass made of its batch. Blocks until that is done. Throws
  /// penstock::SinkError.
  void save_gradients(const std::string& path) {
    const Config& config = training_.layout().config();
    const auto inputs = training_.inputs().read(training_.stream());
    const auto targets = training_.targets().read(training_.stream());
    Wide<T> loss{};
    device_.copy_to_host(&loss, training_.loss(), sizeof loss, training_.stream());
    device_.sync(training_.stream());
    write_gradients(path, config, config.context, inputs, targets, static_cast<float>(loss),
                    [this](std::size_t first, std::span<float> into) {
                      copy(training_.model().gradients() + first, into);
                    });
  }

 private:
  float* of(StateArray array) {
    return array == StateArray::masters ? training_.adamw().master()
           : array == StateArray::means ? training_.adamw().mean()
                                        : training_.adamw().square();
  }
  void copy(const float* from, std::span<float> into) {
    device_.copy_to_host(into.data(), from, into.size_bytes(), training_.stream());
    device_.sync(training_.stream());
  }

  D& device_;
  Training<Ops>& training_;
};

} // namespace transformer
