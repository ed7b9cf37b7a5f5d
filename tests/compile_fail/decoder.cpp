// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with a Decoder of records, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

#include <memory>
#include <string>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};
void show(ps::Batch<const Image, ps::Pageable>) {}

// refused decoder_first: a pipeline starts with a Reader
void decode(const Frame&, Image&) {}

int main() {
  auto pipeline =
#ifdef PENSTOCK_REFUSED
#else
      ps::Reader{ps::records<Frame>("frames")} |
#endif
      ps::Decoder{decode} | ps::Consumer{show};
  pipeline.run();
}

// refused generic_decoder: write them out \(no auto, no overloads\): \[\]\(ps::Batch<const In,
// ps::Pageable> in,
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](auto in, auto out) { out.data()[0] = in.data()[0]; }
#else
                      [](ps::Batch<const Frame, ps::Pageable> in,
                         ps::Batch<Image, ps::Pageable> out) {
                        out.data()[0].pixels[0] = in.data()[0].bytes[0];
                      }
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_of_other_parameters: a Decoder's callable takes two host batches, or two
// records.*\[\]\(ps::Batch<const In, ps::Pageable> in, ps::Batch<Out
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&) {}
#else
                      [](const Frame&) { return Image{}; }
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_fills_a_copy: a Decoder's callable takes .*\[\]\(const In& in, Out& out\)
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, Image) {}
#else
                      [](const Frame&, Image&) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_of_records_reads_its_output: fills what it takes second: make it .*Out&, without
// const
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, const Image&) {}
#else
                      [](const Frame&, Image&) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_of_records_writes_its_input: only reads what it takes first: make it .*const In&
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](Frame&, Image&) {}
#else
                      [](const Frame&, Image&) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_of_records_takes_other_records: gives records of one type and Next takes another
#ifdef PENSTOCK_REFUSED
void decode(const Image&, Image&) {}
#else
void decode(const Frame&, Image&) {}
#endif

int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} | ps::Decoder{decode} | ps::Consumer{show};
  pipeline.run();
}

// refused decoder_takes_a_number: says which record it is called for: take a ps::Visit, which has
// record, epoch and step
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, Image&, int) {}
#else
                      [](const Frame&, Image&, const ps::Visit&) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_takes_device: Last gives device memory and Next takes host memory: put an
// AsyncCopier\{ps::to_host
void decode(const Frame&, Image&) {}
void look(ps::Batch<const Image, ps::Device>, ps::HostStream&) {}

int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<Frame>("frames"), ps::to_pinned}
#ifdef PENSTOCK_REFUSED
                  | ps::AsyncCopier{device} | ps::Decoder{decode}
#else
                  | ps::Decoder{decode, ps::to_pinned} | ps::AsyncCopier{device}
#endif
                  | ps::Consumer{look};
  pipeline.run();
}

// refused decoded_records_that_own_memory: what a Decoder fills must be trivially copyable: no
// std::string
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, std::string&) {}
#else
                      [](const Frame&, char&) {}
#endif
                  } |
                  ps::PinnedStager{};
  static_cast<void>(pipeline);
}

// refused decoder_of_a_callable_that_cannot_be_copied: a Decoder's callable, and this one cannot be
// copied: ps::each_worker\(
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [scale = std::make_unique<float>(2.0F)](const Frame& in, Image& out) {
                        out.pixels[0] = *scale * in.bytes[0];
                      }
#else
                      ps::each_worker([] {
                        return
                            [scale = std::make_unique<float>(2.0F)](const Frame& in, Image& out) {
                              out.pixels[0] = *scale * in.bytes[0];
                            };
                      })
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused misspelt_option_of_a_decoder: these are no DecoderOptions. By name, in this order:
// \.workers, .*, \.on_error\.
int main() {
  auto pipeline = ps::Reader{ps::records<int>("numbers")} |
                  ps::Decoder{[](const int& in, float& out) { out = static_cast<float>(in); },
#ifdef PENSTOCK_REFUSED
                              {.num_workers = 4}
#else
                              {.workers = 4}
#endif
                  } |
                  ps::Writer{"floats"};
  pipeline.run();
}

// refused misspelt_option_behind_a_functions_name: these are no DecoderOptions. By name, in this
// order: \.workers, .*, \.on_error\.
void to_float(const int& in, float& out) {
  out = static_cast<float>(in);
}

int main() {
  auto pipeline = ps::Reader{ps::records<int>("numbers")} |
                  ps::Decoder{to_float,
#ifdef PENSTOCK_REFUSED
                              {.skips = 4}
#else
                              {.on_error = {.skips = 4}}
#endif
                  } |
                  ps::Writer{"floats"};
  pipeline.run();
}
