// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with run(), batches() and on(), and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

// refused run_of_an_open_pipeline: run\(\) needs a last stage that keeps what it takes: end the
// pipeline with a Consumer
int main() {
  ps::HostDevice device;
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} | ps::AsyncCopier{device}
#ifdef PENSTOCK_REFUSED
  ;
#else
      | ps::Consumer{show};
#endif
  pipeline.run();
}

// refused batches_of_a_closed_pipeline: nothing for batches\(\) to hand out: call run\(\)
void look(ps::Batch<const Frame, ps::Pageable>) {}

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::Consumer{look};
#ifdef PENSTOCK_REFUSED
  for (auto frames : pipeline.batches()) {
    look(frames);
  }
#else
  pipeline.run();
#endif
}

// refused batches_of_a_pipeline_that_ends_on_a_device: ends on a device: for \(auto batch :
// pipeline.on\(stream\)\)
int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} | ps::AsyncCopier{device};
#ifdef PENSTOCK_REFUSED
  for (auto frames : pipeline.batches()) {
    show(frames, stream);
  }
#else
  for (auto frames : pipeline.on(stream)) {
    show(frames, stream);
  }
#endif
}

// refused batches_of_a_temporary_pipeline: this pipeline is a temporary and would be gone before
// the loop starts: give it a name first
int main() {
#ifdef PENSTOCK_REFUSED
  for (auto frames :
       (ps::Reader{ps::records<Frame>("frames")} | ps::Decoder{[](const Frame&, Frame&) {
        }}).batches()) {
    static_cast<void>(frames.data());
  }
#else
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::Decoder{[](const Frame&, Frame&) {}};
  for (auto frames : pipeline.batches()) {
    static_cast<void>(frames.data());
  }
#endif
}

// refused on_of_a_closed_pipeline: nothing for on\(\) to hand out: call run\(\)
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} | ps::Consumer{show};
  auto stream = device.stream();
#ifdef PENSTOCK_REFUSED
  for (auto frames : pipeline.on(stream)) {
    show(frames, stream);
  }
#else
  pipeline.run();
#endif
}

// refused on_of_a_pipeline_that_ends_in_host_memory: ends in host memory: add an
// AsyncCopier\{device\}, or walk it by batches\(\)
int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
                  | ps::PinnedStager{};
#else
                  | ps::PinnedStager{} | ps::AsyncCopier{device};
#endif
  for (auto frames : pipeline.on(stream)) {
    show(frames, stream);
  }
}

// refused on_of_a_temporary_pipeline: this pipeline is a temporary and would be gone before the
// loop starts: give it a name first
int main() {
  ps::HostDevice device;
  auto stream = device.stream();
#ifdef PENSTOCK_REFUSED
  for (auto frames :
       (ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} | ps::AsyncCopier{device})
           .on(stream)) {
    show(frames, stream);
  }
#else
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} | ps::AsyncCopier{device};
  for (auto frames : pipeline.on(stream)) {
    show(frames, stream);
  }
#endif
}

// refused on_a_stream_of_no_device: this stream does not belong to the pipeline's device: pass a
// cudaStream_t for a CudaDevice, a HostStream& for
int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} | ps::AsyncCopier{device};
#ifdef PENSTOCK_REFUSED
  for (auto frames : pipeline.on(device)) {
    show(frames, stream);
  }
#else
  for (auto frames : pipeline.on(stream)) {
    show(frames, stream);
  }
#endif
}

// refused loop_over_batches_that_are_refused: Last gives pageable memory and Next takes pinned
// memory: put a PinnedStager\{\} between
struct Sample : ps::Columns<ps::Field<"tokens", int, 16>> {};
struct Zeros {
  using schema = Sample;
  std::uint64_t size() const { return 4; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Sample, Where> into) const {
    for (std::size_t i = 0; i < into.size(); ++i) {
      ps::get<"tokens">(into)[i][0] = 0;
    }
    return into.size();
  }
};

int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto data = ps::Reader{Zeros{}}
#ifdef PENSTOCK_REFUSED
#else
              | ps::PinnedStager{}
#endif
              | ps::AsyncCopier{device, {.batch = 2}};
  ps::Position position;
  std::vector<ps::Visit> visits;
  std::size_t numbers = 0;
  for (auto&& batch : data.on(stream, {.from = position})) {
    ps::Column<const int, 16> tokens = ps::get<"tokens">(batch);
    tokens = batch.get<"tokens">();
    position = batch.position();
    visits.push_back(batch.visit(batch.size() - 1));
    numbers += batch.size() + batch.alignment() + batch.epoch();
#ifdef PENSTOCK_REFUSED
    numbers += batch.size_bytes() + batch.record_bytes(); // as if it had no columns
#endif
    batch.used_on(stream);
    batch.release();
  }
  auto run = data.on(stream);
  while (const auto batch = run.next()) {
    numbers += batch.size();
  }
  return numbers != 0 ? 0 : 1;
}
