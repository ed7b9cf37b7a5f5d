// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with tee(), and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>
#include <penstock/pipeline/tee.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

inline auto frames() {
  return ps::Reader{ps::records<Frame>("frames"), ps::to_pinned};
}
inline auto pageable() {
  return ps::Reader{ps::records<Frame>("frames")};
}
inline auto look() {
  return ps::Consumer{[](ps::Batch<const Frame, ps::Pageable>) {}};
}
inline auto look_at_pinned() {
  return ps::Consumer{[](ps::Batch<const Frame, ps::Pinned>) {}};
}
inline auto look_on_device() {
  return ps::Consumer{[](ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}};
}
inline auto change() {
  return ps::Kernel{[](ps::Batch<Frame, ps::Device>, ps::HostStream&) {}};
}

// refused tee_with_a_branch_that_does_not_end: run\(\) needs a last stage that keeps what it takes
int main() {
  ps::HostDevice device;
  auto pipeline = frames() | ps::tee(look_at_pinned(), ps::AsyncCopier{device}
#ifndef PENSTOCK_REFUSED
                                                           | look_on_device()
#endif
                             );
  pipeline.run();
}

// refused tee_with_two_loops: two branches of this tee do not end
int main() {
  auto pipeline = pageable() | ps::tee(ps::to_loop,
#ifdef PENSTOCK_REFUSED
                                       ps::to_loop
#else
                                       look()
#endif
                               );
  pipeline.stop();
}

// refused tee_with_a_branch_of_another_type: Last gives pageable memory and Next takes device
int main() {
  auto pipeline = pageable() | ps::tee(look(),
#ifdef PENSTOCK_REFUSED
                                       look_on_device()
#else
                                       look()
#endif
                               );
  pipeline.run();
}

// refused tee_with_other_records_in_a_branch: Last gives records of one type and Next takes another
int main() {
  ps::HostDevice device;
  auto pipeline = frames() | ps::AsyncCopier{device} |
                  ps::tee(
                      look_on_device(), ps::AsyncCopier{ps::to_host} |
#ifdef PENSTOCK_REFUSED
                                            ps::Consumer { [](ps::Batch<const int, ps::Pinned>) {} }
#else
                                            look_at_pinned()
#endif
                  );
  pipeline.run();
}

// refused tee_of_one_branch: a tee has at least two branches
int main() {
  auto pipeline = pageable() | ps::tee(look()
#ifndef PENSTOCK_REFUSED
                                           ,
                                       look()
#endif
                               );
  pipeline.run();
}

// refused tee_of_a_callable: a branch of a tee is a stage, stages joined by \|, or ps::to_loop
int main() {
  auto pipeline = pageable() | ps::tee(look(),
#ifdef PENSTOCK_REFUSED
                                       [](ps::Batch<const Frame, ps::Pageable>) {}
#else
                                     look()
#endif
                               );
  pipeline.run();
}

// refused tee_with_a_reader: a branch of a tee takes what comes to the tee.*leave the Reader out
int main() {
  auto pipeline = pageable() | ps::tee(look(),
#ifdef PENSTOCK_REFUSED
                                       pageable() | look()
#else
                                       look()
#endif
                               );
  pipeline.run();
}

// refused tee_with_a_kernel_in_place: this Kernel changes batches in place
int main() {
  ps::HostDevice device;
#ifdef PENSTOCK_REFUSED
  auto pipeline =
      frames() | ps::AsyncCopier{device} | ps::tee(change() | look_on_device(), look_on_device());
#else
  auto pipeline =
      frames() | ps::AsyncCopier{device} | change() | ps::tee(look_on_device(), look_on_device());
#endif
  pipeline.run();
}

// refused tee_with_a_stage_behind: nothing can follow a tee
int main() {
  auto pipeline = pageable() |
#ifdef PENSTOCK_REFUSED
                  ps::tee(look(), ps::to_loop) | look();
#else
                  ps::tee(look(), look());
#endif
  pipeline.run();
}

// refused branch_that_runs: a pipeline starts with a Reader.*write ps::Reader\{source\} \|
int main() {
  ps::HostDevice device;
#ifdef PENSTOCK_REFUSED
  auto pipeline = ps::AsyncCopier{device} | look_on_device();
#else
  auto pipeline = frames() | (ps::AsyncCopier{device} | look_on_device());
#endif
  pipeline.run();
}
