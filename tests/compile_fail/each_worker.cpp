// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with each_worker(), and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

#include <cstddef>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};

// refused each_worker_of_a_generic_callable: a Decoder learns its types from its callable.s
// parameters, so write them out \(no auto
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      ps::each_worker([] { return [](const auto&, auto&) {}; })
#else
                      ps::each_worker([] { return [](const Frame&, Image&) {}; })
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused each_worker_with_a_parameter: ps::each_worker\(make\) calls make\(\) without arguments,
// and gets a callable by value
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      ps::each_worker([](int) { return [](const Frame&, Image&) {}; })
#else
                      ps::each_worker([] { return [](const Frame&, Image&) {}; })
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused each_worker_of_a_kernel: a Kernel's callable takes a device batch to read, one to fill,
// and the stream
int main() {
  ps::HostDevice device;
  const auto copy = [](ps::Batch<const Frame, ps::Device>, ps::Batch<Frame, ps::Device>,
                       ps::HostStream&) {};
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} |
                  ps::AsyncCopier{device} |
                  ps::Kernel{
#ifdef PENSTOCK_REFUSED
                      ps::each_worker([copy] { return copy; })
#else
                      copy
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}};
  pipeline.run();
}

// refused each_worker_of_device_batches: device batches have one worker, .* give the Consumer the
// callable
int main() {
  ps::HostDevice device;
  const auto use = [](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {};
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} |
                  ps::AsyncCopier{device} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      ps::each_worker([use] { return use; })
#else
                      use
#endif
                  };
  pipeline.run();
}

// refused hand_in_of_another_type: hand_in is called with what make\(\) returned, see Made, by
// reference
struct Count {
  void operator()(ps::Batch<const Frame, ps::Pageable> batch) { frames += batch.size(); }
  std::size_t frames{};
};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      ps::each_worker([] { return Count{}; }, [](std::size_t&) {})
#else
                      ps::each_worker([] { return Count{}; }, [](Count&) {})
#endif
                  };
  pipeline.run();
}
