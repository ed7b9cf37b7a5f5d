// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/dlpack.hpp>
#include <penstock/formats/dlpack_source.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/zip.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ps = penstock;

struct Picture
    : ps::Columns<ps::Field<"image", std::uint8_t, 3, 32, 32>, ps::Field<"label", std::int32_t>> {};

/// Pictures for a framework that takes DLPack tensors. What tensors need lives until the last of
/// them, and of the feeds, is gone.
template <ps::AnyDevice D> class TensorFeed {
 public:
  /// A file of Pictures' images, and one of their labels.
  TensorFeed(const std::string& images, const std::string& labels, std::size_t batch)
      : session_{std::make_shared<Session>()} {
    session_->data = ps::AnyBatches<Pictures>{
        ps::Reader{ps::zip<Picture>(ps::records<std::byte>(images, {.record_bytes = 3 * 32 * 32}),
                                    ps::records<std::int32_t>(labels)),
                   ps::to_pinned} |
            ps::AsyncCopier{session_->device, {.batch = batch, .depth = 4}},
        session_->stream};
    run_ = session_->data.batches();
  }

  /// Goes on to the next batch; returns false at the end.
  bool next() {
    shared_ = {}; // the tensors keep theirs
    if (auto batch = run_.next()) {
      shared_ = batch.share();
    }
    return static_cast<bool>(shared_);
  }
  /// The tensors of the batch, for the stream that the consumer names.
  ps::dl::ManagedVersioned* images(std::optional<std::intptr_t> stream) {
    return tensor<"image">(stream);
  }
  ps::dl::ManagedVersioned* labels(std::optional<std::intptr_t> stream) {
    return tensor<"label">(stream);
  }

 private:
  using Pictures = ps::Batch<const Picture, ps::Device>;

  struct Session {
    D device;
    typename D::stream_type stream{device.stream()};
    ps::AnyBatches<Pictures> data;
  };

  template <ps::Name Column>
  ps::dl::ManagedVersioned* tensor(std::optional<std::intptr_t> asked) {
    D& device = session_->device;
    ps::sync_for_dlpack(shared_, device, session_->stream, asked);
    return ps::to_dlpack<Column>(shared_, ps::dlpack_device(shared_, device), session_);
  }

  std::shared_ptr<Session> session_;
  ps::Batches<Pictures> run_;
  ps::SharedLease<Pictures> shared_;
};

/// Adds up a tensor of float32 that another library gives.
inline double sum_of(ps::dl::ManagedVersioned* tensor) {
  auto source = ps::from_dlpack<float>(tensor); // gives the tensor back when it dies
  double sum = 0;
  auto pipeline = ps::Reader{std::move(source)} |
                  ps::Consumer{[&](ps::Batch<const float, ps::Pageable> values) {
                    for (std::size_t i = 0; i != values.size(); ++i) {
                      sum += values.data()[i];
                    }
                  }};
  pipeline.run();
  return sum;
}
