// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with a Consumer, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

#include <memory>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

// refused generic_consumer: write them out \(no auto, no overloads\): \[\]\(ps::Batch<const In,
// ps::Device> in,
int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::Consumer{
#ifdef PENSTOCK_REFUSED
                                                     [](auto frames) { return frames.size(); }
#else
                                                     [](ps::Batch<const Frame, ps::Pageable>
                                                            frames) { return frames.size(); }
#endif
                                                 };
  pipeline.run();
}

// refused consumer_of_other_parameters: a Consumer's callable takes a device batch and the stream,
// or one host batch
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::Consumer{
#ifdef PENSTOCK_REFUSED
                                                                 [](const Frame&) {}
#else
                                                                 [](ps::Batch<const Frame,
                                                                              ps::Pageable>) {}
#endif
                                                             };
  pipeline.run();
}

// refused host_consumer_with_a_stream: takes a device batch and the stream, or one host batch
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<const Frame, ps::Pageable>, ps::HostStream&) {}
#else
                      [](ps::Batch<const Frame, ps::Pageable>) {}
#endif
                  };
  pipeline.run();
}

// refused consumer_without_its_stream: takes a device batch and the stream.*cudaStream_t stream\)
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<const Frame, ps::Device>) {}
#else
                      [](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}
#endif
                  };
  pipeline.run();
}

// refused consumer_of_no_stream: another device's stream: take a cudaStream_t on a CudaDevice, a
// HostStream& on a HostDevice
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<const Frame, ps::Device>, int*) {}
#else
                      [](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}
#endif
                  };
  pipeline.run();
}

// refused consumer_writes_its_batch: a Consumer only reads its batch: make it ps::Batch<const In
int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::Consumer{
#ifdef PENSTOCK_REFUSED
                                                     [](ps::Batch<Frame, ps::Pageable>) {}
#else
                                                     [](ps::Batch<const Frame, ps::Pageable>) {}
#endif
                                                 };
  pipeline.run();
}

// refused consumer_takes_other_records: gives records of one type and Next takes another.*[Gg]ives
// and Takes
#ifdef PENSTOCK_REFUSED
void look(ps::Batch<const Image, ps::Device>, ps::HostStream&) {}
#else
void look(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}
#endif
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} | ps::Consumer{look};
  pipeline.run();
}

// refused consumer_takes_other_columns: gives records of one type and Next takes another
struct Sample : ps::Columns<ps::Field<"image", float, 8, 8>, ps::Field<"label", int>> {};
struct Other : ps::Columns<ps::Field<"picture", float, 8, 8>, ps::Field<"label", int>> {};
void decode(ps::Batch<const Frame, ps::Pageable>, ps::Batch<Sample, ps::Pageable>) {}
#ifdef PENSTOCK_REFUSED
void look(ps::Batch<const Other, ps::Pageable>) {}
#else
void look(ps::Batch<const Sample, ps::Pageable>) {}
#endif
int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::Decoder{decode} | ps::Consumer{look};
  pipeline.run();
}

// refused consumer_takes_other_unnamed_columns: gives records of one type and Next takes another
using Sample = ps::Columns<ps::Field<"image", float, 8, 8>, ps::Field<"label", int>>;
using Other = ps::Columns<ps::Field<"image", float, 8, 8>, ps::Field<"label", short>>;
void decode(ps::Batch<const Frame, ps::Pageable>, ps::Batch<Sample, ps::Pageable>) {}
#ifdef PENSTOCK_REFUSED
void look(ps::Batch<const Other, ps::Pageable>) {}
#else
void look(ps::Batch<const Sample, ps::Pageable>) {}
#endif
int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::Decoder{decode} | ps::Consumer{look};
  pipeline.run();
}

// refused host_consumer_takes_device: Last gives device memory and Next takes host memory: .*let a
// Consumer take ps::Device
#ifdef PENSTOCK_REFUSED
void look(ps::Batch<const Frame, ps::Pageable>) {}
#else
void look(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}
#endif
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} | ps::Consumer{look};
  pipeline.run();
}

// refused device_consumer_takes_pageable: put PinnedStager\{\} \| AsyncCopier\{device\} between
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
#else
                  | ps::PinnedStager{} | ps::AsyncCopier{device}
#endif
                  | ps::Consumer{show};
  pipeline.run();
}

// refused device_consumer_takes_pinned: put an AsyncCopier\{device\} between
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}
#ifdef PENSTOCK_REFUSED
#else
                  | ps::AsyncCopier{device}
#endif
                  | ps::Consumer{show};
  pipeline.run();
}

// refused consumer_of_a_callable_that_cannot_be_copied: a Consumer's callable, and this one cannot
// be copied: std::ref\(f\) .* ps::each_worker\(
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Consumer{
#ifdef PENSTOCK_REFUSED
                      [sum = std::make_unique<int>()](ps::Batch<const Frame, ps::Pageable> in) {
                        *sum += in.data()[0].bytes[0];
                      }
#else
                      ps::each_worker([] {
                        return [sum = std::make_unique<int>()](
                                   ps::Batch<const Frame, ps::Pageable> in) {
                          *sum += in.data()[0].bytes[0];
                        };
                      })
#endif
                  };
  pipeline.run();
}

// refused replayed_with_an_index: a replayed callable takes a frozen device batch
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} |
                  ps::Consumer{ps::replayed(
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}
#else
                      [](ps::FrozenBatch<const Frame>, ps::HostStream&) {}
#endif
                      )};
  pipeline.run();
}

// refused index_of_a_frozen_batch: a frozen batch has no index\(\) and no source_index\(\): its
// work is captured once
struct Sum {
  const int* in;
  int* out;
  void operator()(std::size_t i) const { *out += in[i]; }
};

int main() {
  ps::HostDevice device;
  int sum = 0;
  auto pipeline = ps::Reader{ps::records<int>("numbers")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device} |
                  ps::Consumer{ps::replayed([&](ps::FrozenBatch<const int> in, ps::HostStream& s) {
#ifdef PENSTOCK_REFUSED
                    ps::for_each(s, in.index() + in.size(), Sum{in.data(), &sum});
#else
                    ps::for_each(s, in.size(), Sum{in.data(), &sum});
#endif
                  })};
  pipeline.run();
}

// refused stage_after_consumer: nothing can follow Last.*put Next before it
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::PinnedStager{} |
                  ps::AsyncCopier{device}
#ifdef PENSTOCK_REFUSED
                  | ps::Consumer{show} | ps::PinnedStager{}
#else
                  | ps::Consumer{show}
#endif
  ;
  pipeline.run();
}

// refused stage_after_host_consumer: nothing can follow Last.*put Next before it
void decode(const Frame&, Image&) {}
void look(ps::Batch<const Frame, ps::Pageable>) {}
void show_image(ps::Batch<const Image, ps::Pageable>) {}

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
                  | ps::Consumer{look} | ps::Decoder{decode}
#else
                  | ps::Decoder{decode} | ps::Consumer{show_image}
#endif
  ;
  pipeline.run();
}

// refused misspelt_option_of_a_consumer: these are no ConsumerOptions. By name: \.workers\.
int main() {
  auto pipeline = ps::Reader{ps::records<int>("numbers")} |
                  ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {},
#ifdef PENSTOCK_REFUSED
                               {.num_workers = 4}
#else
                               {.workers = 4}
#endif
                  };
  pipeline.run();
}
