// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/files.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/numbered.hpp>

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

namespace ps = penstock;

struct Prediction
    : ps::Columns<ps::Field<"record", std::uint64_t>, ps::Field<"label", std::int32_t>> {};

/// Writes a line for each file of a folder that `class_of` has a class for: its path, and that.
template <class F> void write_classes(const std::string& folder, std::ostream& to, F class_of) {
  auto files = ps::files(folder);
  files.open();
  auto pipeline = ps::Reader{ps::numbered(files)} |
                  ps::Decoder{[class_of](ps::Row<const ps::Numbered<ps::LabelledFile>> in,
                                         ps::Row<Prediction> out) {
                                ps::get<"record">(out) = ps::get<"record">(in);
                                ps::get<"label">(out) = class_of(ps::get<"bytes">(in));
                              },
                              {.on_error = {.skips = 1000}}} |
                  ps::Consumer{[&](ps::Batch<const Prediction, ps::Pageable> batch) {
                    for (std::size_t i = 0; i != batch.size(); ++i) {
                      to << files.path(ps::get<"record">(batch)[i]) << ','
                         << ps::get<"label">(batch)[i] << '\n';
                    }
                  }};
  pipeline.run();
}
