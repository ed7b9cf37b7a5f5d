// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with a Kernel, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

#include <memory>
#include <string>
#include <utility>

namespace ps = penstock;

// refused generic_kernel: a Kernel learns its types .* so write them out \(no auto, no overloads\):
// \[\]\(ps::Batch<const In, ps::Device> in,
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{
#ifdef PENSTOCK_REFUSED
                      [](auto in, auto out, ps::HostStream&) { return in.size() == out.size(); }
#else
                      [](ps::Batch<const int, ps::Device>, ps::Batch<long, ps::Device>,
                         ps::HostStream&) {}
#endif
                  } |
                  ps::AsyncCopier{ps::to_host} | ps::Writer{"squares"};
  pipeline.run();
}

// refused kernel_without_its_stream: a Kernel's callable takes a device batch to read, one to fill,
// and the stream
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<const int, ps::Device>, ps::Batch<long, ps::Device>) {}
#else
                      [](ps::Batch<const int, ps::Device>, ps::Batch<long, ps::Device>,
                         ps::HostStream&) {}
#endif
                  } |
                  ps::AsyncCopier{ps::to_host} | ps::Writer{"squares"};
  pipeline.run();
}

// refused kernel_on_another_devices_stream: Next's callable takes another device's stream
struct OtherStream {};
#ifdef PENSTOCK_REFUSED
using Stream = OtherStream;
#else
using Stream = ps::HostStream;
#endif

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{[](ps::Batch<int, ps::Device>, Stream&) {}} |
                  ps::AsyncCopier{ps::to_host};
  pipeline.prepare();
}

// refused kernel_writes_its_input: a Kernel only reads the first of two batches: make it
// ps::Batch<const In, ps::Device>
int main() {
  ps::HostDevice device;
  auto pipeline =
      ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
      ps::Kernel{
#ifdef PENSTOCK_REFUSED
          [](ps::Batch<int, ps::Device>, ps::Batch<long, ps::Device>, ps::HostStream&) {}
#else
          [](ps::Batch<const int, ps::Device>, ps::Batch<long, ps::Device>, ps::HostStream&) {}
#endif
      } |
      ps::AsyncCopier{ps::to_host} | ps::Writer{"squares"};
  pipeline.run();
}

// refused kernel_reads_its_output: a Kernel writes its last batch: make it ps::Batch<Out,
// ps::Device>, without const
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<const int, ps::Device>, ps::HostStream&) {}
#else
                      [](ps::Batch<int, ps::Device>, ps::HostStream&) {}
#endif
                  } |
                  ps::AsyncCopier{ps::to_host} | ps::Writer{"squares"};
  pipeline.run();
}

// refused kernel_takes_other_records: Last gives records of one type and Next takes another
int main() {
  ps::HostDevice device;
  auto pipeline =
      ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
      ps::Kernel{
#ifdef PENSTOCK_REFUSED
          [](ps::Batch<const float, ps::Device>, ps::Batch<long, ps::Device>, ps::HostStream&) {}
#else
          [](ps::Batch<const int, ps::Device>, ps::Batch<long, ps::Device>, ps::HostStream&) {}
#endif
      } |
      ps::AsyncCopier{ps::to_host} | ps::Writer{"squares"};
  pipeline.run();
}

// refused kernel_takes_pinned: Last gives pinned memory and Next takes device memory: put an
// AsyncCopier\{device\} between them
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} |
#ifndef PENSTOCK_REFUSED
                  ps::AsyncCopier{device} |
#endif
                  ps::Kernel{[](ps::Batch<int, ps::Device>, ps::HostStream&) {}};
  pipeline.prepare();
}

// refused kernel_fills_what_owns_memory: what a Kernel fills must be trivially copyable
struct Named {
#ifdef PENSTOCK_REFUSED
  std::string name;
#else
  char name[8];
#endif
};

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{[](ps::Batch<const int, ps::Device>, ps::Batch<Named, ps::Device>,
                                ps::HostStream&) {}} |
                  ps::AsyncCopier{ps::to_host};
  pipeline.prepare();
}

// refused kernel_fills_a_ragged_column: only a GPU would know how long the records of a Ragged
// column are: let a Kernel fill columns of fixed extents
#ifdef PENSTOCK_REFUSED
struct Word : ps::Columns<ps::Field<"text", ps::Ragged<char>>> {};
#else
struct Word : ps::Columns<ps::Field<"text", char, 16>> {};
#endif

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{[](ps::Batch<const int, ps::Device>, ps::Batch<Word, ps::Device>,
                                ps::HostStream&) {}} |
                  ps::AsyncCopier{ps::to_host};
  pipeline.prepare();
}

// refused kernel_of_a_callable_that_cannot_be_copied: a Kernel's callable is copied, and this one
// cannot be: give it std::ref\(f\)
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

// refused size_of_a_counted_batch: only the device knows how many records a counted batch has
std::size_t room(ps::Batch<const ps::Counted<int>, ps::Device> some) {
#ifdef PENSTOCK_REFUSED
  return some.size();
#else
  return some.capacity();
#endif
}
int main() {
  return room({}) == 0 ? 0 : 1;
}

// refused counted_batches_as_plain_ones: of what Last gives only the device knows how many records
// there are
void keep(ps::Batch<const int, ps::Device>, ps::Batch<ps::Counted<int>, ps::Device>,
          ps::HostStream&) {}
#ifdef PENSTOCK_REFUSED
void show(ps::Batch<const int, ps::Device>, ps::HostStream&) {}
#else
void show(ps::Batch<const ps::Counted<int>, ps::Device>, ps::HostStream&) {}
#endif
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{keep} | ps::Consumer{show};
  pipeline.run();
}

// refused misspelt_option_of_a_kernel: these are no KernelOptions. By name, in this order:
// \.streams, .*, \.extents\.
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Kernel{[](ps::Batch<int, ps::Device>, ps::HostStream&) {},
#ifdef PENSTOCK_REFUSED
                             {.stream = 2}
#else
                             {.streams = 2}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const int, ps::Device>, ps::HostStream&) {}};
  pipeline.run();
}
