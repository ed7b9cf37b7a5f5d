// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "random/draw.hpp"

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/output.hpp>
#include <penstock/data/visit.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

// What the stages of a drawn pipeline do: as functions of a number, which the model calls too, and
// as callables of stages, which may also fail, or take their time.
namespace penstock::tests::drawn {

inline constexpr const char* armed = "an armed fault";

/// An error that is armed, and comes once.
class Fault {
 public:
  void arm(std::int64_t after) noexcept { left_ = after; }
  void pass() {
    if (left_.load(std::memory_order_relaxed) >= 0 && left_.fetch_sub(1) == 0) {
      throw std::runtime_error{armed};
    }
  }

 private:
  std::atomic<std::int64_t> left_{-1};
};

/// What all callables of a pipeline share.
struct World {
  Fault source, decoder, consumer;

  /// Returns whether this is the first try at an item since reset().
  bool is_first(Number salt, Number item) {
    const std::lock_guard lock{mutex_};
    return tried_.emplace(salt, item).second;
  }
  void reset() {
    for (Fault* fault : {&source, &decoder, &consumer}) {
      fault->arm(-1);
    }
    const std::lock_guard lock{mutex_};
    tried_.clear();
  }

 private:
  std::mutex mutex_;
  std::set<std::pair<Number, Number>> tried_;
};

/// Makes some calls take longer than others, so that workers meet in many orders.
inline void take_time(Number item) {
  const Number h = hash(item, 77) % 512;
  if (h == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds{300});
  } else if (h < 6) {
    std::this_thread::yield();
  }
}

inline bool one_in(std::uint64_t n, Number item, Number salt) {
  return n != 0 && hash(item, salt) % n == 0;
}
inline bool is_bad(const Step& step, Number item) {
  return one_in(step.bad_in, item, step.salt + 1);
}
inline Number of_visit(const Step& step, Number in, const Visit& visit) {
  return hash(in ^ (visit.record * 3 + visit.epoch * 5 + visit.step * 7), step.salt + 2);
}
inline Number of_record(const Step& step, Number in) {
  return hash(in, step.salt + 3);
}
inline Number of_group(Number before, Number in) {
  return hash(before ^ in, 4);
}
inline std::uint64_t outputs_of(const Step& step, Number in) {
  const Number h = hash(in, step.salt + 5);
  return step.floods && h % 97 == 0 ? 200 + h % 500 : h % step.most;
}
inline Number output_of(const Step& step, Number in, std::uint64_t i) {
  return hash(in + i, step.salt + 6);
}
/// What Kernels do, and what a Decoder behind the device does.
/// @{
inline Number of_kernel(Number in) {
  return in * 5 + 2;
}
inline Number in_place(Number in) {
  return in ^ 0x5555;
}
inline Number decoded(Number in) {
  return in + 7;
}
inline bool is_selected(Number in) {
  return in % 3 != 0;
}
/// @}

using Numbers = Batch<const Number, Pageable>;
using Visits = std::function<void(const Number&, Number&, Visit)>;
using Records = std::function<void(const Number&, Number&)>;
using Batched = std::function<void(Numbers, Batch<Number, Pageable>)>;
using Gives = std::function<void(const Number&, Output<Number>&)>;
using Packs = std::function<void(Numbers, Output<Number>&)>;

/// Makes a step's callables.
class Work {
 public:
  Work(const Step& step, std::shared_ptr<World> world) : step_{step}, world_{std::move(world)} {}

  Visits visits() const {
    return [*this](const Number& in, Number& out, Visit visit) {
      begin(in);
      out = of_visit(step_, in, visit);
    };
  }
  Records records() const {
    return [*this](const Number& in, Number& out) {
      begin(in);
      out = of_record(step_, in);
    };
  }
  Batched batched() const {
    return [*this](Numbers in, Batch<Number, Pageable> out) {
      begin(in.data()[0]);
      for (std::size_t i = 0; i != in.size(); ++i) {
        out.data()[i] = of_record(step_, in.data()[i]);
      }
    };
  }
  Gives gives() const {
    return [*this](const Number& in, Output<Number>& out) { give(in, out); };
  }
  Packs packs() const {
    return [*this](Numbers in, Output<Number>& out) {
      Number sum = 0;
      for (std::size_t i = 0; i != in.size(); ++i) {
        sum = of_group(sum, in.data()[i]);
      }
      give(sum, out);
    };
  }

  DecoderOptions options() const {
    DecoderOptions options;
    options.workers = step_.workers;
    options.depth = step_.depth;
    options.group = step_.group;
    options.on_error.skips = step_.bad_in != 0 ? 1'000'000 : 0;
    options.on_error.retries = step_.once_in != 0 ? 2 : 0;
    return options;
  }

 private:
  // An item that fails fails before it gives anything, or behind all that it gives.
  void begin(Number item) const {
    take_time(item);
    world_->decoder.pass();
    if (one_in(step_.once_in, item, step_.salt) && world_->is_first(step_.salt, item)) {
      throw std::runtime_error{"once"};
    }
    if (is_bad(step_, item)) {
      throw std::runtime_error{"bad"};
    }
  }
  void give(Number in, Output<Number>& out) const {
    const std::uint64_t count = outputs_of(step_, in);
    if (in % 2 == 0) {
      begin(in);
    }
    if (step_.stated && in % 3 != 0) {
      out.open(count);
    }
    for (std::uint64_t i = 0; i != count; ++i) {
      i % 2 == 0 ? out.push(output_of(step_, in, i)) : void(out.add() = output_of(step_, in, i));
    }
    if (in % 2 != 0) {
      begin(in);
    }
  }

  Step step_;
  std::shared_ptr<World> world_;
};

} // namespace penstock::tests::drawn
