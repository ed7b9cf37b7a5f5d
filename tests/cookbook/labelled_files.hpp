// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/files.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <stdexcept>
#include <string>

namespace ps = penstock;

struct Digit
    : ps::Columns<ps::Field<"pixels", std::uint8_t, 28, 28>, ps::Field<"label", std::int32_t>> {};

/// Makes a digit of a file's bytes.
inline void decode(ps::Row<const ps::LabelledFile> file, ps::Row<Digit> digit) {
  const auto bytes = ps::get<"bytes">(file);
  auto& pixels = ps::get<"pixels">(digit);
  if (bytes.size() != sizeof pixels) {
    throw std::runtime_error{"it is no picture of 28 x 28 bytes"};
  }
  std::copy_n(bytes.data(), bytes.size(), &pixels[0][0]);
  ps::get<"label">(digit) = ps::get<"label">(file);
}

/// Hands all digits to `use`, batch by batch, and says in `log` which files were left out.
template <class F> void for_each_batch(const std::string& folder, std::ostream& log, F use) {
  auto files = ps::files(folder);
  files.open(); // for the names below
  auto digits = ps::Reader{files} | ps::Decoder{decode, {.on_error = {.skips = 1000}}};
  for (auto batch : digits.batches()) {
    use(batch);
  }
  for (const ps::SkippedItem& item : digits.report().skips) {
    log << files.path(item.record) << ": " << item.reason << '\n';
  }
}
