// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/thread_end.hpp>
#include <penstock/detail/chain/misspelt.hpp>
#include <penstock/detail/ends/host_consumer.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/error.hpp>
#include <penstock/io/new_file.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/stage.hpp>

#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// The file of the current run, open or not yet; it does not move while workers write.
template <class Io> using OutputFile = std::optional<NewFile<Io>>;

/// Writes a batch's bytes to the offset that its first record's number gives.
template <class T, class Where, class Io> struct WriteBatch {
  const OutputFile<Io>* output;

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
  OutputFile<Io> output_;
};

} // namespace penstock::detail

namespace penstock {

/// Options of a Writer.
struct WriterOptions {
  /// Threads that write at once, each where its records belong. Through the system's cache a file
  /// takes as much from one as from several.
  unsigned workers = 1;
  /// Whether a run ends only when the file, and its name, are on the disk and not in memory alone:
  /// a crash of the whole system then cannot take them back.
  bool durable = false;
};

namespace detail {

template <class Given> struct written {
  using type = Anything;
};
// `|` refuses memory on a device.
template <class S, class Where> struct written<Batch<S, Where>> {
  using type = Batch<S, std::conditional_t<std::is_same_v<Where, Device>, Pinned, Where>>;
};

} // namespace detail

/// Writes all records, in order and back to back, into one new file. The last stage of a pipeline.
///
/// The file appears whole or not at all: a run creates it beside `path` under another name. When
/// the run has ended by itself, it renames the file to `path`, over what had that name. That rename
/// is the point of no return. A run that fails or is stopped before it leaves what was there
/// before. A stop that comes later does nothing: the Report's `stopped` is false and the file is
/// the new one. An error that comes later, such as what `progress` throws, is thrown all the same.
///
/// Each run writes the file anew, with several epochs one after the other. The folder must exist. A
/// failure is a StageError with file() and offset() and a SinkError within. Io makes the system
/// calls.
template <class Io = PosixIo, class Told = WriterOptions> class Writer : public StageBase {
 public:
  /// Whether columns are refused.
  static constexpr bool one_array_alone = true;
  /// The batch it takes: Given's records, in host memory of either kind.
  template <class Given> using takes = typename detail::written<Given>::type;
  /// Nothing: a Writer is the last stage.
  template <class> using gives = void;

  /// Takes the file's path; creates nothing before a run.
  explicit Writer(std::string path, WriterOptions options = {}, Io io = {})
      : path_{std::move(path)}, options_{options}, io_{std::move(io)} {}

  /// For prepare().
  template <class Given> void plan(detail::Plan& plan) const { plan.sees_records(); }
  /// For prepare().
  template <class Given, class D> [[gnu::cold]] void build(detail::Build<D>& build) const {
    using In = detail::batch_of<Given>;
    const unsigned workers = detail::checked_workers("Writer", options_.workers, 1);
    build.template add<detail::WriterNode<typename In::schema, typename In::space, Io>>(
        build.setup("Writer", workers, StageKind::writer), build.counted_host_input(), io_, path_,
        options_.durable);
  }

 private:
  std::string path_;
  WriterOptions options_;
  Io io_;
};
/// Refuses options that fit no list.
template <class Io> class Writer<Io, detail::Misspelt> : public detail::RefusedStage {
  static constexpr bool options_fit = !sizeof(Io);
  static_assert(
      options_fit,
      "penstock: these are no WriterOptions. By name, in this order: .workers, .durable.");

 public:
  /// Takes any arguments.
  explicit Writer(const std::string&, ...) {}
};
/// Deduces a Writer with the system's own calls.
Writer(std::string) -> Writer<PosixIo>;
/// Deduces the refusal.
template <class Io = PosixIo> Writer(std::string, ...) -> Writer<Io, detail::Misspelt>;

} // namespace penstock
