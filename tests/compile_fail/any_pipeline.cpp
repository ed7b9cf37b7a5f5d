// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with AnyPipeline and AnyBatches, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

#include <utility>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

// refused any_pipeline_of_an_open_pipeline: an AnyPipeline runs by itself, .* end the pipeline with
// a Consumer or a Writer
ps::AnyPipeline conversion() {
  return ps::Reader{ps::records<int>("numbers")} |
         ps::Decoder{[](const int& number, double& half) { half = number / 2.0; }}
#ifndef PENSTOCK_REFUSED
         | ps::Writer{"halves"}
#endif
  ;
}

int main() {
  conversion().run();
}

// refused any_batches_of_a_closed_pipeline: AnyBatches<B> is made of an open pipeline that gives B
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{[](const Frame& in, Frame& out) { out = in; }}
#ifdef PENSTOCK_REFUSED
                  | ps::Consumer{[](ps::Batch<const Frame, ps::Pageable>) {}}
#endif
  ;
  ps::AnyBatches<ps::Batch<const Frame, ps::Pageable>> frames{std::move(pipeline)};
  frames.prepare();
}

// refused any_batches_of_another_space: AnyBatches<B> is made of an open pipeline that gives B
int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} | ps::AsyncCopier{device};
#ifdef PENSTOCK_REFUSED
  ps::AnyBatches<ps::Batch<const Frame, ps::Pinned>> frames{std::move(pipeline), stream};
#else
  ps::AnyBatches<ps::Batch<const Frame, ps::Device>> frames{std::move(pipeline), stream};
#endif
  frames.prepare();
}

// refused any_batches_with_a_stream: this pipeline ends in host memory, so its batches need no
// stream
int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{device};
#ifdef PENSTOCK_REFUSED
  ps::AnyBatches<ps::Batch<const Frame, ps::Pinned>> frames{std::move(pipeline), stream};
#else
  static_cast<void>(stream);
  ps::AnyBatches<ps::Batch<const Frame, ps::Pinned>> frames{std::move(pipeline)};
#endif
  frames.prepare();
}

// refused any_batches_without_a_stream: this pipeline ends on a device, so its batches come on a
// stream
int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} | ps::AsyncCopier{device};
#ifdef PENSTOCK_REFUSED
  ps::AnyBatches<ps::Batch<const Frame, ps::Device>> frames{std::move(pipeline)};
#else
  ps::AnyBatches<ps::Batch<const Frame, ps::Device>> frames{std::move(pipeline), stream};
#endif
  frames.prepare();
}

// refused any_batches_on_no_stream: this stream does not belong to the pipeline's device
int main() {
  ps::HostDevice device;
#ifdef PENSTOCK_REFUSED
  int stream = 0;
#else
  auto stream = device.stream();
#endif
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} | ps::AsyncCopier{device};
  ps::AnyBatches<ps::Batch<const Frame, ps::Device>> frames{std::move(pipeline), stream};
  frames.prepare();
}
