// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target.hpp"

#include <penstock/formats/detail/megatron_index.hpp>
#include <penstock/formats/tokens.hpp>

#include <cstdint>

PENSTOCK_FUZZ_TARGET(fuzz_megatron) {
  using namespace penstock::detail;
  as_file(input, input.size(), [&](const HeaderFile& file) {
    const MegatronIndex index = MegatronParser{file}.parse();
    std::uint64_t bytes = 0;
    must(!__builtin_mul_overflow(index.tokens, std::uint64_t{index.type.bytes}, &bytes));
    must(megatron_tokens(HeaderFile{"FILE", bytes, [](std::uint64_t, std::span<std::byte>) {}},
                         "INDEX", index)
             .records == index.tokens);
  });
}
