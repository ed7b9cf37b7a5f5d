// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A program and a shared library, both built with hidden visibility: objects with an identity are
// the same for both.

#include "hidden_library.hpp"

#include "support/catch.hpp"

namespace ps = penstock;
using namespace penstock::tests;

TEST_CASE("batches of a library that hides its symbols may be used on the program's streams") {
  const std::vector<std::uint64_t> data(1000, 7);
  ps::HostDevice device;
  auto stream = device.stream();
  auto other = device.stream();
  auto batches = hidden_batches(data, device, stream);
  std::uint64_t records = 0;
  for (auto batch : batches.batches()) {
    batch.used_on(other);
    records += batch.size();
  }
  CHECK(records == data.size());
}

TEST_CASE("a tool that listens to the program listens to a library that hides its symbols") {
  CHECK(hidden_page() != &ps::detail::page); // else the library hides nothing
  CHECK(hidden_trace_hooks() == &ps::detail::trace_hooks);
}

TEST_CASE("what the program has page-locked is so for a library that hides its symbols") {
  CHECK(hidden_pinned_pieces() == &ps::detail::pinned_pieces);
}

TEST_CASE("the types of errors are the same in a library that hides its symbols") {
  CHECK(hidden_errors() ==
        std::vector<const std::type_info*>{&typeid(ps::Error), &typeid(ps::OptionError),
                                           &typeid(ps::SourceError), &typeid(ps::SinkError),
                                           &typeid(ps::DeviceError), &typeid(ps::StageError)});
}
