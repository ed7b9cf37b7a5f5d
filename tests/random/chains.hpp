// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "random/draw.hpp"
#include "random/sources.hpp"
#include "random/work.hpp"

#include <penstock/host/device.hpp>
#include <penstock/pipeline/any.hpp>
#include <penstock/pipeline/pipeline.hpp>
#include <penstock/stages/decoder.hpp>
#include <penstock/stages/reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// A description -> a pipeline, behind types that do not tell the chain: else each check would be
// compiled for each chain.
namespace penstock::tests::drawn {

/// A batch of a loop, whose lease is held as long as this is.
struct Held {
  std::uint64_t index{}, epoch{};
  std::size_t size{};
  std::shared_ptr<const std::vector<Number>> records; // on a device, once its work is done
  std::function<Position()> position;
  std::function<Visit(std::size_t)> visit;
};

/// A run, in a loop. One thread.
struct Loop {
  virtual ~Loop() = default;
  /// Returns the next batch; none at the end.
  virtual std::optional<Held> next() = 0;
};

/// An open pipeline.
struct Open {
  virtual ~Open() = default;
  virtual std::unique_ptr<Loop> loop(RunOptions options) = 0;
  /// Waits for the work on batches; a lost device throws.
  virtual void finish() = 0;
  virtual void stop() noexcept = 0;
  virtual Report report() const = 0;
  virtual HostDevice* device() = 0;
};

/// What a Consumer has seen: the batches by their indices.
class Seen {
 public:
  void add(const Batch<const Number, Pageable>& batch) {
    std::vector<Number> records(batch.data(), batch.data() + batch.size());
    const std::lock_guard lock{mutex_};
    twice_ = !batches_.emplace(batch.index(), std::move(records)).second || twice_;
  }
  std::map<std::uint64_t, std::vector<Number>> take() {
    const std::lock_guard lock{mutex_};
    return std::exchange(batches_, {});
  }
  bool twice() const noexcept { return twice_; }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<Number>> batches_;
  bool twice_{};
};
/// What replayed work has seen in each lane.
struct Lane {
  std::uint64_t count{};
  Number sum{};
};

/// A pipeline: an open one, or one that ends by itself.
struct Made {
  std::shared_ptr<HostDevice> device; // outlives what follows
  std::unique_ptr<Open> open;
  AnyPipeline whole;
  std::shared_ptr<Seen> seen;
  std::string path; // that a Writer writes
  std::shared_ptr<std::vector<Lane>> lanes;
};

/// All that callables and sources of a pipeline use.
struct Used {
  const Sources& sources;
  std::shared_ptr<World> world;
  const TempDir& folder;
};

/// Makes the pipeline. Throws OptionError for some, if not then when it runs.
/// @{
Made on_host(const Description& d, const Used& used);
Made on_device(const Description& d, const Used& used);
/// @}

/// The streams that a loop on a device works on; of a loop on the host none.
struct Streams {
  HostStream own, second;
};

/// A run of any chain that ends in batches of one kind of memory.
template <class B> class LoopOf final : public Loop {
 public:
  LoopOf(Batches<B> run, HostDevice* device, Streams* streams)
      : run_{std::move(run)}, device_{device}, streams_{streams} {}

  std::optional<Held> next() override {
    auto lease = run_.next();
    if (!lease) {
      return std::nullopt;
    }
    const auto records = std::make_shared<std::vector<Number>>(lease.size());
    const auto copy = [batch = static_cast<B>(lease), records] {
      std::copy_n(batch.data(), batch.size(), records->begin());
    };
    if constexpr (HostSpace<typename B::space>) {
      copy();
    } else if (++count_ % 3 == 0) {
      HostEvent event = device_->event();
      device_->record(event, streams_->own);
      device_->wait(streams_->second, event);
      streams_->second.enqueue(copy);
      lease.used_on(streams_->second);
    } else {
      streams_->own.enqueue(copy);
    }
    const std::uint64_t index = lease.index(), epoch = lease.epoch();
    const std::size_t size = lease.size();
    const auto kept = std::make_shared<decltype(lease)>(std::move(lease));
    return Held{index,
                epoch,
                size,
                records,
                [kept] { return kept->position(); },
                [kept](std::size_t i) { return kept->visit(i); }};
  }

 private:
  Batches<B> run_;
  HostDevice* device_;
  Streams* streams_;
  std::uint64_t count_{};
};

template <class B> class OpenOf final : public Open {
 public:
  template <class P>
  OpenOf(P pipeline, HostDevice* device)
      : device_{device}, batches_{std::make_unique<AnyBatches<B>>(std::move(pipeline))} {}
  template <class P>
  OpenOf(P pipeline, HostDevice* device, std::unique_ptr<Streams> streams)
      : device_{device}, streams_{std::move(streams)},
        batches_{std::make_unique<AnyBatches<B>>(std::move(pipeline), streams_->own)} {}

  std::unique_ptr<Loop> loop(RunOptions options) override {
    return std::make_unique<LoopOf<B>>(batches_->batches(std::move(options)), device_,
                                       streams_.get());
  }
  void finish() override {
    if (streams_) {
      streams_->own.sync();
      streams_->second.sync();
    }
  }
  void stop() noexcept override { batches_->stop(); }
  Report report() const override { return batches_->report(); }
  HostDevice* device() override { return device_; }

 private:
  HostDevice* device_;
  std::unique_ptr<Streams> streams_;
  std::unique_ptr<AnyBatches<B>> batches_;
};

/// Takes an open pipeline that ends in host memory.
template <class P> std::unique_ptr<Open> open(P pipeline, HostDevice* device = nullptr) {
  using Last = detail::batch_of<typename detail::chain<P>::gives>;
  using B = Batch<const typename Last::schema, typename Last::space>;
  return std::make_unique<OpenOf<B>>(std::move(pipeline), device);
}

/// The reader's options with what may fail left out or tried again.
inline ReaderOptions reading(const Description& d) {
  ReaderOptions options = d.reader;
  options.on_error.skips = d.bad_in != 0 ? 1'000'000 : 0;
  options.on_error.retries = d.once_in != 0 ? 20 : 0;
  return options;
}

} // namespace penstock::tests::drawn
