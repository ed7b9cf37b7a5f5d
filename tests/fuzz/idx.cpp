// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target.hpp"

#include <penstock/formats/detail/array_header.hpp>
#include <penstock/formats/mnist.hpp>

PENSTOCK_FUZZ_TARGET(fuzz_idx) {
  using namespace penstock::detail;
  as_file(input, input.size(), [&](const HeaderFile& file) {
    const ArrayHeader header = idx_header(file);
    must(header.offset <= file.size() && header.dims <= ArrayHeader::most_extents);
    const CheckedArray array = checked_array(file, header, {{'V', 1}, true, {}});
    must(array.record_bytes != 0 && array.offset <= file.size());
    must(array.records == (file.size() - array.offset) / array.record_bytes);
  });
}
