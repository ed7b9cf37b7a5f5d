// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/direct.hpp>

namespace penstock {

/// How a file of tokens is written. Numbers have their least significant byte first.
enum class TokenFormat {
  /// Whichever it is: llm.c's if it begins so, Megatron's if its name ends in .bin and there is
  /// such
  /// a file that ends in .idx, and else raw.
  automatic,
  /// Tokens alone, whatever the file begins with.
  raw,
  /// llm.c's header of 1024 bytes: for GPT-2, uint16_t's; for Llama 3, uint32_t's.
  llm_c,
  /// Megatron's x.bin, with x.idx beside it.
  megatron,
};

/// Options of tokens().
struct TokensOptions {
  /// How the files are written.
  TokenFormat format = TokenFormat::automatic;
  /// Whether files are read past the page cache: see RecordsOptions::direct.
  DirectReads direct = DirectReads::automatic;
};

} // namespace penstock
