// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with a Decoder of batches, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};
void show(ps::Batch<const Image, ps::Device>, ps::HostStream&) {}

// refused decoder_of_device_batches: a Decoder's callable takes two host batches
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<const Frame, ps::Device>, ps::Batch<Image, ps::Device>) {}
#else
                      [](ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pageable>) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_of_one_record_into_a_batch: makes one record of each: take two records, .* or two
// batches
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, ps::Batch<Image, ps::Pageable>) {}
#else
                      [](const Frame&, Image&) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_reads_its_output: fills what it takes second: make it ps::Batch<Out
int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} |
      ps::Decoder{
#ifdef PENSTOCK_REFUSED
          [](ps::Batch<const Frame, ps::Pageable>, ps::Batch<const Image, ps::Pageable>) {}
#else
          [](ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pageable>) {}
#endif
      } |
      ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_writes_its_input: only reads what it takes first: make it ps::Batch<const In
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](ps::Batch<Frame, ps::Pageable>, ps::Batch<Image, ps::Pageable>) {}
#else
                      [](ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pageable>) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_takes_other_records: gives records of one type and Next takes another
#ifdef PENSTOCK_REFUSED
void decode(ps::Batch<const Image, ps::Pageable>, ps::Batch<Image, ps::Pageable>) {}
#else
void decode(ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pageable>) {}
#endif
void look(ps::Batch<const Image, ps::Pageable>) {}

int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::Decoder{decode} | ps::Consumer{look};
  pipeline.run();
}

// refused decoder_takes_pageable_given_pinned: let Next take ps::Pinned
#ifdef PENSTOCK_REFUSED
void decode(ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pinned>) {}
#else
void decode(ps::Batch<const Frame, ps::Pinned>, ps::Batch<Image, ps::Pinned>) {}
#endif

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned} | ps::Decoder{decode} |
                  ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}

// refused decoder_fills_pageable_for_pinned: fills a batch in pageable: make that ps::Batch<Out,
// ps::Pinned>
#ifdef PENSTOCK_REFUSED
void decode(ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pageable>) {}
#else
void decode(ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pinned>) {}
#endif

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::Decoder{decode, ps::to_pinned} |
                  ps::AsyncCopier{device} | ps::Consumer{show};
  pipeline.run();
}

// refused decoder_visits_a_batch: a Decoder's callable of batches has two parameters: in\.index\(\)
int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} |
      ps::Decoder{
#ifdef PENSTOCK_REFUSED
          [](ps::Batch<const Frame, ps::Pageable>, ps::Batch<Image, ps::Pageable>, ps::Visit) {}
#else
          [](const Frame&, Image&, ps::Visit) {}
#endif
      } |
      ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}
