// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/thread_end.hpp>
#include <penstock/detail/ends/host_consumer.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/io/new_file.hpp>

#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace penstock::detail {

/// The file of the current run, open or not yet; it does not move while workers write.
template <class Io> using Output = std::optional<NewFile<Io>>;

/// Writes a batch's bytes to the offset that its first record's number gives.
template <class T, class Where, class Io> struct WriteBatch {
  const Output<Io>* output;

  void operator()(Batch<const T, Where> batch) const {
    (*output)->write(batch.index() * batch.record_bytes(),
                     std::as_bytes(std::span{batch.data(), batch.size_bytes() / sizeof(T)}));
  }
};

/// Writes batches in host memory into a file, on its workers. The first worker to come creates the
/// file. The last to go gives it its name if the run has delivered all that it had to and has
/// neither failed nor been stopped by then; else nothing is left of it.
template <class T, class Where, class Io>
class WriterNode final : public HostConsumer<WriteBatch<T, Where, Io>, T, Where> {
  using Base = HostConsumer<WriteBatch<T, Where, Io>, T, Where>;

 public:
  WriterNode(const NodeSetup& setup, const Shared<HostLink>& in, Io io, std::string path,
             bool durable)
      : Base{setup, in, {&output_}, true}, io_{std::move(io)}, path_{std::move(path)},
        durable_{durable} {}

 private:
  void reset() override {
    Base::reset();
    output_.reset();
    came_ = gone_ = 0;
  }
  void work(unsigned worker, Meter& meter) override {
    const NoCancellation whole;
    const bool opened = open();
    meter.went_by(Activity::busy, Activity::starved);
    if (opened) {
      Base::work(worker, meter);
    }
    // To give the file its name may take longer than to write it: no slot's work, but the Writer's.
    meter.now_in(Activity::busy);
    close();
    meter.went_by(Activity::busy, Activity::resting);
  }

  bool open() noexcept {
    const std::scoped_lock lock{mutex_};
    if (came_++ == 0) {
      this->attempt(0, [&] { output_.emplace(io_, path_); });
    }
    return output_.has_value();
  }
  void close() noexcept {
    const std::scoped_lock lock{mutex_};
    if (++gone_ == this->workers()) {
      this->attempt(0, [&] {
        if (output_ && this->exhausted()) {
          output_->commit(durable_, [&] { return this->control().pass_point_of_no_return(); });
        }
      });
      output_.reset();
    }
  }

  Io io_;
  const std::string path_;
  const bool durable_;
  std::mutex mutex_; // each worker takes it twice a run
  unsigned came_{};
  unsigned gone_{};
  Output<Io> output_;
};

} // namespace penstock::detail
