// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Mistakes with batches and their columns, and cures: tests/tools/check_refusals.py.

#include <penstock/penstock.hpp>

#include <cstdint>
#include <string>

namespace ps = penstock;

struct Frame {
  unsigned char bytes[64];
};

// refused batch_in_no_space: a batch lies in ps::Pageable, ps::Pinned or ps::Device
#ifdef PENSTOCK_REFUSED
void show(ps::Batch<const Frame, ps::HostDevice>) {}
#else
void show(ps::Batch<const Frame, ps::Pageable>) {}
#endif
int main() {
  auto pipeline = ps::Reader{ps::records<Frame>("frames")} | ps::Consumer{show};
  pipeline.run();
}

// refused batch_to_write_from_one_to_read: deleted (member )?(function|constructor)
#ifdef PENSTOCK_REFUSED
void clear(ps::Batch<Frame, ps::Pageable>) {}
#else
void clear(ps::Batch<const Frame, ps::Pageable>) {}
#endif
int main() {
  const ps::Batch<const Frame, ps::Pageable> frames;
  clear(frames);
}

// refused no_such_column: no column of this batch has that name: see Spelled
struct Sample : ps::Columns<ps::Field<"image", float, 8, 8>, ps::Field<"label", int>> {};
int first_label(ps::Batch<const Sample, ps::Pageable> samples) {
#ifdef PENSTOCK_REFUSED
  return ps::get<"lable">(samples)[0];
#else
  return ps::get<"label">(samples)[0];
#endif
}

int main() {
  return first_label({});
}

// refused column_of_whole_records: this batch has no named columns: its records are whole, use
// data\(\)
int first_byte(ps::Batch<const Frame, ps::Pageable> frames) {
#ifdef PENSTOCK_REFUSED
  return ps::get<"bytes">(frames)[0];
#else
  return frames.data()[0].bytes[0];
#endif
}

int main() {
  return first_byte({});
}

// refused data_of_columns: a batch of columns has no bytes of its own: ask for one column,
// get<\\?"name\\?">\(batch\)
struct Sample : ps::Columns<ps::Field<"image", float, 8, 8>, ps::Field<"label", int>> {};
const float* images(ps::Batch<const Sample, ps::Pageable> samples) {
#ifdef PENSTOCK_REFUSED
  return samples.data();
#else
  return ps::get<"image">(samples).data();
#endif
}

int main() {
  return images({}) != nullptr;
}

// refused data_of_a_ragged_column: a Ragged column has records of any length: column.values\(\)
struct Note : ps::Columns<ps::Field<"text", ps::Ragged<char>>> {};
const char* text(ps::Batch<const Note, ps::Pageable> notes) {
#ifdef PENSTOCK_REFUSED
  return ps::get<"text">(notes).data();
#else
  return ps::get<"text">(notes).values();
#endif
}

int main() {
  return text({}) != nullptr;
}

// refused column_of_extent_0: a column of extent 0 has no values: give Field<name, T, extents...>
// extents of 1 or more
struct Sample : ps::Columns<ps::Field<"image", std::uint8_t, 4>,
#ifdef PENSTOCK_REFUSED
                            ps::Field<"label", std::int32_t, 0>
#else
                            ps::Field<"label", std::int32_t>
#endif
                            > {
};

int main() {
  auto pipeline = ps::Reader{ps::records<std::uint64_t>("frames")} |
                  ps::Decoder{[](ps::Batch<const std::uint64_t, ps::Pageable>,
                                 ps::Batch<Sample, ps::Pageable>) {}} |
                  ps::Consumer{[](ps::Batch<const Sample, ps::Pageable>) {}};
  pipeline.run();
}

// refused column_that_owns_memory: what a Decoder fills must be trivially copyable: no std::string
struct Person : ps::Columns<
#ifdef PENSTOCK_REFUSED
                    ps::Field<"name", std::string>
#else
                    ps::Field<"name", ps::Ragged<char>>
#endif
                    > {
};

int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} |
      ps::Decoder{[](ps::Batch<const Frame, ps::Pageable>, ps::Batch<Person, ps::Pageable>) {}} |
      ps::Consumer{[](ps::Batch<const Person, ps::Pageable>) {}};
  pipeline.run();
}

// refused ragged_column_that_owns_memory: what a Decoder fills must be trivially copyable: no
// std::string
struct Person : ps::Columns<
#ifdef PENSTOCK_REFUSED
                    ps::Field<"names", ps::Ragged<std::string>>
#else
                    ps::Field<"names", ps::Ragged<char>>
#endif
                    > {
};

int main() {
  auto pipeline =
      ps::Reader{ps::records<Frame>("frames")} |
      ps::Decoder{[](ps::Batch<const Frame, ps::Pageable>, ps::Batch<Person, ps::Pageable>) {}} |
      ps::Consumer{[](ps::Batch<const Person, ps::Pageable>) {}};
  pipeline.run();
}
