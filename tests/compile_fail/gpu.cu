// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with a GPU and its streams, and cures: tests/tools/check_refusals.py.

#include <penstock/cuda.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

// refused two_devices: one device a pipeline
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  ps::CudaDevice gpu;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
                  | ps::PinnedStager{gpu}
#else
                  | ps::PinnedStager{device}
#endif
                  | ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}

// refused copier_of_a_temporary_gpu: deleted (member )?(function|constructor)
void show(ps::Batch<const Frame, ps::Device>, cudaStream_t) {}

int main() {
  ps::CudaDevice gpu;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{}
#ifdef PENSTOCK_REFUSED
                  | ps::AsyncCopier{ps::CudaDevice{}}
#else
                  | ps::AsyncCopier{gpu}
#endif
                  | ps::Consumer{show};
  pipeline.run();
}

// refused host_stream_on_a_gpu: another device's stream: take a cudaStream_t on a CudaDevice
int main() {
  ps::CudaDevice gpu;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{gpu} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}
#else
                      [](ps::Batch<const Frame, ps::Device>, cudaStream_t) {}
#endif
                  };
  pipeline.run();
}

// refused cuda_stream_on_the_host: another device's stream: .*a HostStream& on a HostDevice
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<const Frame, ps::Device>, cudaStream_t) {}
#else
                      [](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}
#endif
                  };
  pipeline.run();
}

// refused on_another_devices_stream: this stream does not belong to the pipeline's device: pass a
// cudaStream_t for a CudaDevice
int main() {
  ps::CudaDevice gpu;
  ps::HostDevice device;
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} | ps::AsyncCopier{gpu};
#ifdef PENSTOCK_REFUSED
  auto stream = device.stream();
#else
  auto stream = gpu.stream();
#endif
  for (auto frames : pipeline.on(stream)) {
    static_cast<void>(frames.data());
  }
}
