// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Kernel's callable is copied, and this one cannot be: give it std::ref\(f\)
#include <penstock/penstock.hpp>

#include <memory>
#include <utility>

namespace ps = penstock;

int main() {
  ps::HostDevice device;
#ifdef PENSTOCK_REFUSED
  auto weights = std::make_unique<int>(2);
#else
  auto weights = std::make_shared<int>(2);
#endif
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{[weights = std::move(weights)](ps::Batch<int, ps::Device> batch,
                                                            ps::HostStream& stream) {
                    stream.enqueue([to = batch.data(), by = *weights] { *to *= by; });
                  }} |
                  ps::AsyncCopier{ps::to_host} | ps::Writer{"products"};
  pipeline.run();
}
