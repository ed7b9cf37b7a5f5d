// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with a Decoder of rows, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};
struct Sample : ps::Columns<ps::Field<"image", float, 8, 8>, ps::Field<"label", int>> {};
struct Image {
  float pixels[64];
};
struct Text : ps::Columns<ps::Field<"text", ps::Ragged<char>>, ps::Field<"label", int>> {};

// refused decoder_of_columns_as_a_record: take it as a row, ps::Row<const In> in, and fill
// ps::Row<Out> out
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, Sample&) {}
#else
                      [](const Frame&, ps::Row<Sample>) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}

// refused row_of_whole_records: a ps::Row is one record of named columns, .* take a record as const
// In&, and fill Out&
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](ps::Row<const Frame>, Image&) {}
#else
                      [](const Frame&, Image&) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_reads_its_rows_output: fills what it takes second: make it .*ps::Row<Out>
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, ps::Row<const Sample>) {}
#else
                      [](const Frame&, ps::Row<Sample>) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_writes_its_row: only reads what it takes first: make it .*ps::Row<const In>
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{[](const Frame&, ps::Row<Sample>) {}} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](ps::Row<Sample>, Image&) {}
#else
                      [](ps::Row<const Sample>, Image&) {}
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused no_such_column_of_a_row: no column of this row has that name: see Spelled, and the names
// that Schema has
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, ps::Row<Sample> out) { ps::get<"lable">(out) = 1; }
#else
                      [](const Frame&, ps::Row<Sample> out) { ps::get<"label">(out) = 1; }
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}

// refused put_into_a_column_of_one_length: put\(\) is for a Ragged column, .* write to ps::get<
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, ps::Row<Text> out) { ps::put<"label">(out, 1); }
#else
                      [](const Frame&, ps::Row<Text> out) { ps::put<"text">(out, 1); }
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Text, ps::Pageable>) {}};
  pipeline.run();
}

// refused put_into_a_row_to_read: a ps::Row<const Schema> may only be read: put into the
// ps::Row<Out>
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{[](const Frame&, ps::Row<Text> out) { ps::put<"text">(out, 0); }} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](ps::Row<const Text> in, ps::Row<Text>) { ps::put<"text">(in, 1); }
#else
                      [](ps::Row<const Text>, ps::Row<Text> out) { ps::put<"text">(out, 1); }
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Text, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_of_a_ragged_column_is_noexcept: out of a noexcept callable that ends the process:
// take the noexcept away
struct Decode {
  void operator()(const Frame& /*frame*/, ps::Row<Text> out) const
#ifdef PENSTOCK_REFUSED
      noexcept
#endif
  {
    ps::put<"text">(out, 0);
  }
};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{ps::each_worker([] { return Decode{}; })} |
                  ps::Consumer{[](ps::Batch<const Text, ps::Pageable>) {}};
  pipeline.run();
}
