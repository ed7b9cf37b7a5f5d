// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.hpp"
#include "tensor.hpp"

#include <penstock/formats/dlpack.hpp>
#include <penstock/penstock.hpp>
#ifdef EXAMPLES_HAVE_CUDA
#include <penstock/cuda.hpp>
#endif

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

/// Where batches go: host memory. OnGpu has the same members.
struct OnHost {
  using Pictures = ps::Pageable; ///< Where pictures are decoded to.
  ps::HostDevice device;

  /// Returns how many slots of pictures there are: one worker decodes one, which is a batch here.
  static std::size_t decoded_slots(const LoaderOptions& options) {
    return std::max<std::size_t>(options.depth, ps::usable_processors() + 1);
  }

  explicit OnHost(const LoaderOptions&) {}

  /// Makes a pipeline of records that need no Decoder.
  template <class Source> auto records(Source source, const LoaderOptions& options) {
    return ps::Reader{std::move(source), options.reading()} |
           ps::PinnedStager{device, {.depth = options.depth}};
  }
  /// Makes a pipeline of pictures.
  template <class Source, class Decoder>
  auto pictures(Source source, Decoder decoder, const LoaderOptions& options) {
    ps::ReaderOptions reading = options.reading();
    reading.depth = 0;
    return ps::Reader{std::move(source), reading} | std::move(decoder);
  }
  template <class P> auto run(P& pipeline, ps::RunOptions options) {
    return pipeline.batches(std::move(options));
  }
  ps::dl::Device place() const { return {ps::dl::cpu, 0}; }
  template <class B> void sync(const ps::SharedLease<B>&, AskedStream) {}
  static void copy(ps::HostStream& stream, void* to, const void* from, std::size_t bytes) {
    stream.enqueue([=] { std::memcpy(to, from, bytes); });
  }
};

#ifdef EXAMPLES_HAVE_CUDA
/// A GPU, and the stream on which the loop takes its batches: that of the consumer, if it can be.
struct OnGpu {
  using Pictures = ps::Pinned;
  ps::CudaDevice device;
  cudaStream_t stream;

  static std::size_t decoded_slots(const LoaderOptions&) { return 0; } // enough for all workers

  explicit OnGpu(const LoaderOptions& options)
      : device{*options.device}, stream{reinterpret_cast<cudaStream_t>(options.stream)} {}

  template <class Source> auto records(Source source, const LoaderOptions& options) {
    return ps::Reader{std::move(source), ps::to_pinned, options.reading_freely()} |
           ps::AsyncCopier{device, {.batch = options.batch, .depth = options.depth}};
  }
  template <class Source, class Decoder>
  auto pictures(Source source, Decoder decoder, const LoaderOptions& options) {
    ps::ReaderOptions reading = options.reading();
    reading.depth = 0;
    // One worker decodes a slot, so slots are small; and whole ones make a batch.
    for (reading.batch = std::min<std::size_t>(options.batch, 32);
         reading.batch > 1 && options.batch % reading.batch != 0;) {
      --reading.batch;
    }
    return ps::Reader{std::move(source), reading} | std::move(decoder) |
           ps::AsyncCopier{device, {.batch = options.batch, .depth = options.depth}};
  }
  template <class P> auto run(P& pipeline, ps::RunOptions options) {
    return pipeline.on(stream, std::move(options));
  }
  ps::dl::Device place() const { return {ps::dl::cuda, device.number()}; }
  template <class B> void sync(ps::SharedLease<B> shared, AskedStream asked) {
    ps::sync_for_dlpack(shared, device, stream, asked);
  }
  static void copy(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
    if (cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream) != cudaSuccess) {
      throw ps::Error{"penstock: weights: a copy within the GPU failed."};
    }
  }
};
#endif

/// Calls f.template operator()<Where>() with the place that the options name.
template <class F> auto at_place(const std::optional<int>& device, F f) {
#ifdef EXAMPLES_HAVE_CUDA
  if (device) {
    return f.template operator()<OnGpu>();
  }
#else
  if (device) {
    throw nb::value_error("penstock: this module was built without CUDA: build it where the "
                          "toolkit is, or leave out device.");
  }
#endif
  return f.template operator()<OnHost>();
}

/// A batch that a tensor keeps, and that has to come back before its session, with the device whose
/// memory it is in, may end.
template <class B, class Session> struct Kept {
  std::shared_ptr<Session> session;
  ps::SharedLease<B> rows; // dies first
};

/// Gives what `make(rows, place, session, type)` makes of a batch, as DLPack's `Managed`.
template <class B, class Session, class Make>
Tensor tensor_of(const ps::SharedLease<B>& rows, const std::shared_ptr<Session>& session,
                 Make make) {
  const Kept<B, Session> kept{session, rows};
  return Tensor{session->where.place(),
                [kept, make]<class Managed>(Managed* type) {
                  return make(kept.rows, kept.session->where.place(), kept.session, type);
                },
                [kept](AskedStream asked) { kept.session->where.sync(kept.rows, asked); }};
}

/// Gives column `Name` of a batch.
template <ps::Name Name, class B, class Session>
Tensor column(const ps::SharedLease<B>& shared, const std::shared_ptr<Session>& session) {
  return tensor_of(shared, session,
                   []<class Managed>(const auto& rows, auto place, auto owner, Managed*) {
                     return ps::to_dlpack<Name, Managed>(rows, place, owner);
                   });
}
