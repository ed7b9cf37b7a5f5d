// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with an Output, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

namespace ps = penstock;

// refused decoder_copies_its_output: fills the one Output that it is handed: take it as
// ps::Output<Out>& out
struct Frame {
  unsigned char bytes[64];
};
struct Image {
  float pixels[64];
};

int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} |
                  ps::Decoder{
#ifdef PENSTOCK_REFUSED
                      [](const Frame&, const ps::Output<Image>&) {}
#else
                      [](const Frame&, ps::Output<Image>& out) { out.add(); }
#endif
                  } |
                  ps::Consumer{[](ps::Batch<const Image, ps::Pageable>) {}};
  pipeline.run();
}

// refused decoder_of_an_output_is_noexcept: out of a noexcept callable that ends the process: take
// the noexcept away
int main() {
  auto pipeline = ps::Reader{ps::records<int>("numbers")} |
                  ps::Decoder{[](const int& in, ps::Output<int>& out)
#ifdef PENSTOCK_REFUSED
                                  noexcept
#endif
                              { out.push(in); }} |
                  ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  pipeline.run();
}

// refused push_of_columns: push\(record\) is for records of one type, .* fill what add\(\) returns
struct Pair : ps::Columns<ps::Field<"a", int>, ps::Field<"b", int>> {};

int main() {
  auto pipeline = ps::Reader{ps::records<int>("numbers")} |
                  ps::Decoder{[](const int& in, ps::Output<Pair>& out) {
#ifdef PENSTOCK_REFUSED
                    static_cast<void>(in);
                    out.push({});
#else
                    ps::get<"a">(out.add()) = in;
#endif
                  }} |
                  ps::Consumer{[](ps::Batch<const Pair, ps::Pageable>) {}};
  pipeline.run();
}
