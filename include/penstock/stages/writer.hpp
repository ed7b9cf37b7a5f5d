// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/thread_end.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/chain/misspelt.hpp>
#include <penstock/detail/ends/host_consumer.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/error.hpp>
#include <penstock/io/new_file.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/stage.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// The files of the current run, none before they are open; they do not move while workers write.
template <class Io> using OutputFiles = Vector<NewFile<Io>>;

/// Writes a batch's bytes to the offset that its first record's number gives.
template <class T, class Where, class Io> struct WriteBatch {
  const OutputFiles<Io>* files;

  void operator()(Batch<const T, Where> batch) const {
    (*files)[0].write(batch.index() * batch.record_bytes(),
                      std::as_bytes(std::span{batch.data(), batch.size_bytes() / sizeof(T)}));
  }
  /// Writes what is known when all `records` are there; `none` is a batch without any.
  void end(std::uint64_t /*records*/, Batch<const T, Where> /*none*/) const {}
};

/// Has `Write` write batches in host memory into files, on its workers. The first worker to come
/// creates the files. The last to go gives them their names if the run has delivered all that it
/// had to and has neither failed nor been stopped by then; else nothing is left of them. In a
/// branch they get their names when all other branches are done too.
template <class Write, class T, class Where, class Io>
class WriterNode final : public HostConsumer<Write, T, Where> {
  using Base = HostConsumer<Write, T, Where>;

 public:
  WriterNode(const NodeSetup& setup, const Shared<HostLink>& in, Io io, Vector<std::string> paths,
             bool durable)
      : Base{setup, in, Write{&files_}, true}, in_{in}, io_{std::move(io)},
        paths_{std::move(paths)}, durable_{durable}, waits_{!setup.branch.empty()} {
    files_.reserve(paths_.size());
  }

 private:
  void reset() override {
    Base::reset();
    files_.clear();
    came_ = gone_ = 0;
    written_ = false;
  }
  void commit() noexcept override {
    if (written_) {
      this->attempt(0, [&] { NewFile<Io>::name_all(all(), durable_, still_wanted()); });
    }
    files_.clear();
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
      opened_ = this->attempt(0, [&] {
        for (const std::string& path : paths_) {
          files_.push_back(NewFile<Io>{io_, path});
        }
      });
    }
    return opened_;
  }
  void close() noexcept {
    const std::scoped_lock lock{mutex_};
    if (++gone_ == this->workers()) {
      this->attempt(0, [&] {
        if (opened_ && this->exhausted()) {
          Write{&files_}.end(this->records(),
                             in_->template batch<const T, Where>(0, HostSlot{}, 0));
          NewFile<Io>::finish_all(all(), durable_);
          written_ = true;
          if (!waits_) {
            NewFile<Io>::name_all(all(), durable_, still_wanted());
          }
        }
      });
      if (!waits_ || !written_) {
        files_.clear();
        written_ = false;
      }
    }
  }
  std::span<NewFile<Io>> all() noexcept { return {files_.data(), files_.size()}; }
  auto still_wanted() noexcept {
    return [this] { return this->control().pass_point_of_no_return(); };
  }

  const Shared<HostLink> in_;
  Io io_;
  const Vector<std::string> paths_;
  const bool durable_;
  const bool waits_; // for other branches
  std::mutex mutex_; // each worker takes it twice a run
  unsigned came_{};
  unsigned gone_{};
  bool opened_{};
  bool written_{};
  OutputFiles<Io> files_;
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

template <class Write, class In, class D, class Io>
[[gnu::cold]] void build_writer(Build<D>& build, const Io& io, Vector<std::string> paths,
                                const WriterOptions& options) {
  build.template add<WriterNode<Write, typename In::schema, typename In::space, Io>>(
      build.setup("Writer", checked_workers("Writer", options.workers, 1), StageKind::writer),
      build.counted_host_input(), io, std::move(paths), options.durable);
}

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
    using Write = detail::WriteBatch<typename In::schema, typename In::space, Io>;
    detail::Vector<std::string> paths;
    paths.push_back(path_);
    detail::build_writer<Write, In>(build, io_, std::move(paths), options_);
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
