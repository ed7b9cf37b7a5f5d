// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target.hpp"

#include <penstock/formats/tokens.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>

#include <algorithm>
#include <cstdint>

PENSTOCK_FUZZ_TARGET(fuzz_llm_c) {
  using namespace penstock::detail;
  for (const ValueType wanted : {ValueType{'u', 2}, ValueType{'u', 4}}) {
    // Zeros behind the input, so that short inputs get past the header's size.
    for (const std::uint64_t size : {std::uint64_t{input.size()}, std::uint64_t{4096}}) {
      as_file(input, std::max<std::uint64_t>(size, input.size()), [&](const HeaderFile& file) {
        const bool its = is_llm_c(file);
        if (!its) {
          refuse_foreign(file);
        }
        const RecordsAt at = its ? llm_c_tokens(file, wanted) : raw_tokens(file, wanted);
        must(at.offset + at.records * wanted.bytes == file.size());
      });
    }
  }
}
