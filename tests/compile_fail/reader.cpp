// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with a Reader and what stands first, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
void show(ps::Batch<const Frame, ps::Device>, ps::HostStream&) {}

// refused no_reader_first: a pipeline starts with a Reader.*write ps::Reader\{source\} \|
int main() {
  ps::HostDevice device;
  auto pipeline =
#ifdef PENSTOCK_REFUSED
#else
      ps::Reader{ps::records<Frame>("frames")} |
#endif
      ps::PinnedStager{} | ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}

// refused source_first: a pipeline starts with a Reader.*write ps::Reader\{source\} \|
int main() {
  ps::HostDevice device;
  auto pipeline =
#ifdef PENSTOCK_REFUSED
      ps::records<Frame>("frames")
#else
      ps::Reader{ps::records<Frame>("frames")}
#endif
      | ps::PinnedStager{} | ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}

// refused reader_inside: a Reader takes nothing, so it can only stand first: .*zip
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
                  | ps::Reader{ps::records<Frame>("frames")}
#else
#endif
                  | ps::PinnedStager{} | ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}

// refused pipeline_inside: a Reader takes nothing, so it can only stand first
int main() {
  ps::HostDevice device;
#ifdef PENSTOCK_REFUSED
  auto copied = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} | ps::AsyncCopier{device};
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | std::move(copied) | ps::Consumer{show};
#else
  auto copied = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} | ps::AsyncCopier{device};
  auto pipeline = std::move(copied) | ps::Consumer{show};
#endif
  pipeline.run();
}

// refused lambda_after_bar: what stands right of \| is not a stage: wrap a callable in a Decoder or
// a Consumer
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")}
#ifdef PENSTOCK_REFUSED
                  | [](ps::Batch<const Frame, ps::Pageable>) {};
#else
                  | ps::Consumer{[](ps::Batch<const Frame, ps::Pageable>) {}};
#endif
  pipeline.run();
}

// refused reader_of_a_path: a Reader reads a source, such as ps::records<T>\(path\)
int main() {
  auto pipeline =
      ps::Reader{
#ifdef PENSTOCK_REFUSED
          "names"
#else
          ps::records<char>("names")
#endif
      } |
      ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  pipeline.run();
}

// refused pinned_reader_of_no_source: a Reader reads a source, such as ps::records<T>\(path\)
int main() {
  ps::HostDevice device;
  auto pipeline =
      ps::Reader{
#ifdef PENSTOCK_REFUSED
          "names"
#else
          ps::records<char>("names")
#endif
          ,
          ps::to_pinned} |
      ps::AsyncCopier{device} |
      ps::Consumer{[](ps::Batch<const char, ps::Device>, ps::HostStream&) {}};
  pipeline.run();
}

// refused reader_pins_without_a_device: pinned memory is pinned for a device, and this pipeline has
// none: .*add an AsyncCopier\{device\}, or leave out what pins
#ifdef PENSTOCK_REFUSED
void look(ps::Batch<const Frame, ps::Pinned>) {}
#else
void look(ps::Batch<const Frame, ps::Pageable>) {}
#endif
int main() {
  auto pipeline =
#ifdef PENSTOCK_REFUSED
      ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}
#else
      ps::Reader{ps::records<Frame>("frames")}
#endif
      | ps::Consumer{look};
  pipeline.run();
}

// refused source_whose_read_is_not_const: many threads call a source's read\(\) at once, and From's
// is not const: make it const
struct Ones {
  using schema = int;
  std::uint64_t size() const { return 1000; }
  template <ps::HostSpace Where>
  std::size_t read(ps::Batch<int, Where> into)
#ifndef PENSTOCK_REFUSED
      const
#endif
  {
    into.data()[0] = 1;
    return into.size();
  }
};

int main() {
  auto pipeline = ps::Reader{Ones{}} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}

// refused source_whose_read_takes_one_space: takes batches in ps::Pageable and in ps::Pinned, and
// From's those .* <ps::HostSpace W>
struct Ones {
  using schema = int;
  std::uint64_t size() const { return 1000; }
#ifdef PENSTOCK_REFUSED
  std::size_t read(ps::Batch<int, ps::Pageable> into) const { return into.size(); }
#else
  template <ps::HostSpace Where> std::size_t read(ps::Batch<int, Where> into) const {
    return into.size();
  }
#endif
};

int main() {
  auto pipeline = ps::Reader{Ones{}} | ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}

// refused misspelt_option_of_a_reader: these are no ReaderOptions. .*: \.workers, .*, \.drop_last,
// .*, \.on_error\.
int main() {
  auto pipeline = ps::Reader{ps::records<int>("numbers"),
#ifdef PENSTOCK_REFUSED
                             {.num_workers = 4}
#else
                             {.workers = 4}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}
