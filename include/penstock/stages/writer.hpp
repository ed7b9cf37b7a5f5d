// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/batch.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/chain/misspelt.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/detail/engine/sizes.hpp>
#include <penstock/detail/host_side/writer_node.hpp>
#include <penstock/error.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/stage.hpp>

#include <string>
#include <type_traits>
#include <utility>

namespace penstock {

/// What a Writer may be told.
struct WriterOptions {
  /// Threads that write at once, each where its records belong. Through the system's cache a file
  /// takes from one what it takes from several.
  unsigned workers = 1;
  /// Whether a run ends only when the file, and its name, are on the disk and not in memory alone:
  /// what a crash of the whole system then cannot take back.
  bool durable = false;
};

namespace detail {

template <class Given> struct written {
  using type = Anything;
};
// What lies on a device is refused by `|`.
template <class S, class Where> struct written<Batch<S, Where>> {
  using type = Batch<S, std::conditional_t<std::is_same_v<Where, Device>, Pinned, Where>>;
};

} // namespace detail

/// Writes all records, in order and one after the other, into one new file. The last stage of a
/// pipeline.
///
/// The file appears whole or not at all: it is created beside `path` under another name when a run
/// begins, and takes the name, and the place of what had it, when the run has ended by itself. That
/// rename is the point of no return. A run that fails or is stopped before it leaves what was there
/// before. A stop that comes later does nothing: the Report's `stopped` is false and the file is
/// the new one. An error that comes later, such as what `progress` throws, is thrown even so.
///
/// Each run writes the file anew, with several epochs one after the other. The folder must exist.
/// What fails is a StageError with file() and offset() and a SinkError within. Io makes the system
/// calls.
template <class Io = PosixIo, class Told = WriterOptions> class Writer : public StageBase {
 public:
  /// Whether columns are refused.
  static constexpr bool one_array_alone = true;
  /// The batch it takes: Given's, in host memory of either kind.
  template <class Given> using takes = typename detail::written<Given>::type;
  /// Nothing: it is the last.
  template <class> using gives = void;

  /// Nothing is created before a run.
  explicit Writer(std::string path, WriterOptions options = {}, Io io = {})
      : path_{std::move(path)}, options_{options}, io_{std::move(io)} {}

  /// For prepare().
  template <class Given> void plan(detail::Plan& plan) const { plan.sees_records(); }
  /// For prepare().
  template <class Given, class D> [[gnu::cold]] void build(detail::Build<D>& build) const {
    using In = detail::batch_of<Given>;
    const unsigned workers = detail::checked_workers("Writer", options_.workers, 1);
    build.template add<detail::WriterNode<typename In::schema, typename In::space, Io>>(
        build.setup("Writer", workers), build.counted_host_input(), io_, path_, options_.durable);
  }

 private:
  std::string path_;
  WriterOptions options_;
  Io io_;
};
/// Where options fit no list.
template <class Io> class Writer<Io, detail::Misspelt> : public detail::RefusedStage {
  static constexpr bool options_fit = !sizeof(Io);
  static_assert(
      options_fit,
      "penstock: these are no WriterOptions. By name, in this order: .workers, .durable.");

 public:
  /// Takes whatever it is given.
  explicit Writer(const std::string&, ...) {}
};
/// With the system's own calls.
Writer(std::string) -> Writer<PosixIo>;
/// Refused.
template <class Io = PosixIo> Writer(std::string, ...) -> Writer<Io, detail::Misspelt>;

} // namespace penstock
