// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a step made of a batch, for another program to compare with: bench/gpt/ has one. The file
// has GradientsHeader, llm.c's header of the model, the batch's tokens and targets as int32, and
// the gradients as floats in the order of a checkpoint's weights; and the CRC-32C of all that.

#include "checkpoint_pieces.hpp"
#include "config.hpp"
#include "llm_c.hpp"
#include "model_layout.hpp"

#include <penstock/error.hpp>
#include <penstock/io/new_file.hpp>
#include <penstock/io/posix.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace transformer {

/// What such a file begins with.
struct GradientsHeader {
  std::array<char, 8> magic{'g', 'r', 'a', 'd', 'i', 'e', 'n', 't'};
  std::uint32_t version{1};
  std::uint32_t batch{};  ///< Sequences.
  std::uint32_t tokens{}; ///< Tokens of a sequence.
  float loss{};           ///< The mean over all tokens, in nats.
};
static_assert(sizeof(GradientsHeader) == 24);

/// Writes the gradients of the mean loss over a batch of sequences of `tokens` tokens. Calls
/// get(first, into) for parts of the gradients, which it fills from value `first` of the model's
/// layout on. Throws OptionError if the batch is not of such sequences, SinkError, and what get()
/// throws.
template <class Get>
void write_gradients(const std::string& path, const Config& config, std::size_t tokens,
                     std::span<const std::int32_t> batch, std::span<const std::int32_t> targets,
                     float loss, Get get) {
  if (tokens == 0 || batch.empty() || batch.size() % tokens != 0 ||
      batch.size() != targets.size()) {
    throw penstock::OptionError{"a batch of " + std::to_string(batch.size()) + " tokens and " +
                                std::to_string(targets.size()) +
                                " targets is not of sequences of " + std::to_string(tokens)};
  }
  const penstock::PosixIo io;
  penstock::NewFile<> file{io, path};
  PieceWriter<penstock::PosixIo> writer{file};
  const GradientsHeader header{.batch = static_cast<std::uint32_t>(batch.size() / tokens),
                               .tokens = static_cast<std::uint32_t>(tokens),
                               .loss = loss};
  const LlmCHeader model = LlmCHeader::of(config);
  writer.bytes(std::as_bytes(std::span{&header, 1}));
  writer.bytes(std::as_bytes(std::span{&model, 1}));
  writer.bytes(std::as_bytes(batch));
  writer.bytes(std::as_bytes(targets));
  for (const Place& place : llm_c_order(config)) {
    writer.floats(place.count(), [&](std::size_t first, std::span<float> into) {
      get(place.begin + first, into);
    });
  }
  writer.end();
  file.commit(false);
}

} // namespace transformer
