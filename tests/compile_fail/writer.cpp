// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with a Writer, and cures: tests/tools/check_refusals.py.

#include <penstock/formats/column_writer.hpp>
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ps = penstock;

// refused columns_into_a_writer: Last gives columns, which lie in arrays of their own, and Next
// writes records one after the other
struct Sample : ps::Columns<ps::Field<"image", std::uint8_t, 4>, ps::Field<"label", std::int32_t>> {
};
struct Row {
  std::uint8_t image[4];
  std::int32_t label;
};

#ifdef PENSTOCK_REFUSED
void fill(ps::Batch<const std::int32_t, ps::Pageable> in, ps::Batch<Sample, ps::Pageable> out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    ps::get<"label">(out)[i] = in.data()[i];
  }
}
#else
void fill(ps::Batch<const std::int32_t, ps::Pageable> in, ps::Batch<Row, ps::Pageable> out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    out.data()[i] = {{}, in.data()[i]};
  }
}
#endif

int main() {
  const std::vector<std::int32_t> labels(10);
  auto pipeline = ps::Reader{ps::memory(labels)} | ps::Decoder{fill} | ps::Writer{"samples"};
  pipeline.prepare();
}

// refused device_batches_into_a_writer: Last gives device memory and Next takes host memory: put an
// AsyncCopier\{ps::to_host\} between them
int main() {
  ps::HostDevice device;
  auto pipeline = ps::Reader{ps::records<int>("numbers"), ps::to_pinned} | ps::AsyncCopier{device} |
#ifndef PENSTOCK_REFUSED
                  ps::AsyncCopier{ps::to_host} |
#endif
                  ps::Writer{"copy"};
  pipeline.run();
}

// refused misspelt_option_of_a_writer: these are no WriterOptions. By name, in this order:
// \.workers, \.durable\.
int main() {
  auto pipeline = ps::Reader{ps::records<int>("numbers")} | ps::Writer{"copy",
#ifdef PENSTOCK_REFUSED
                                                                       {.sync = true}
#else
                                                                       {.durable = true}
#endif
                                                            };
  pipeline.run();
}

// refused column_that_is_not_there: Last gives records of one type and Next takes another, see
// Gives
struct Labelled : ps::Columns<ps::Field<"label", std::int32_t>> {};
void label(const std::int32_t& in, ps::Row<Labelled> out) {
  ps::get<"label">(out) = in;
}

int main() {
  auto pipeline = ps::Reader{ps::records<std::int32_t>("labels")} | ps::Decoder{label} |
#ifdef PENSTOCK_REFUSED
                  ps::Writer{ps::column<"class">("labels.npy")};
#else
                  ps::Writer{ps::column<"label">("labels.npy")};
#endif
  pipeline.run();
}

// refused ragged_column_into_a_file: Last gives records of one type and Next takes another, see
// Gives
struct Line : ps::Columns<ps::Field<"text", ps::Ragged<char>>, ps::Field<"length", std::int32_t>> {
};
void measure(const std::int32_t& in, ps::Row<Line> out) {
  ps::put<"text">(out, 0);
  ps::get<"length">(out) = in;
}

int main() {
  auto pipeline = ps::Reader{ps::records<std::int32_t>("numbers")} | ps::Decoder{measure} |
#ifdef PENSTOCK_REFUSED
                  ps::Writer{ps::column<"text">("texts")};
#else
                  ps::Writer{ps::column<"length">("lengths")};
#endif
  pipeline.run();
}
