// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A training in a file, which llm.c reads as a model of its own: its header, and the weights as
// floats. Behind them comes what llm.c passes over: StateHeader, a text, AdamW's means and squares
// in the order of the weights, and the CRC-32C of all.

#include "checkpoint_pieces.hpp"
#include "checkpoint_state.hpp"
#include "config.hpp"
#include "llm_c.hpp"
#include "model_layout.hpp"

#include <penstock/data/float16.hpp>
#include <penstock/error.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/new_file.hpp>
#include <penstock/io/posix.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace transformer {

/// The arrays of a training, each laid out as places() says.
enum class StateArray : std::uint8_t { masters, means, squares };

/// What stands between llm.c's weights and the state.
struct StateHeader {
  std::array<char, 8> magic{'p', 'e', 'n', 's', 't', 'o', 'c', 'k'};
  std::uint32_t version{1};
  std::uint32_t text_bytes{}; ///< Of the text behind it, which zeros fill up to a multiple of 4.

  std::size_t padded_bytes() const noexcept { return (std::size_t{text_bytes} + 3) / 4 * 4; }
};
static_assert(sizeof(StateHeader) == 16);

/// Writes a checkpoint, which appears at `path` whole or not at all, and stays there if the power
/// fails. Calls get(array, first, into) for parts of the training's arrays, which it fills from
/// value `first` on. Throws penstock::SinkError, and what get() throws.
template <class Get, class Io = penstock::PosixIo>
void write_checkpoint(const std::string& path, const Config& config, const CheckpointState& state,
                      Get get, const Io& io = {}) {
  penstock::NewFile<Io> file{io, path};
  PieceWriter<Io> writer{file};
  const std::vector<Place> order = llm_c_order(config);
  const auto write = [&](StateArray array) {
    for (const Place& place : order) {
      writer.floats(place.count(), [&](std::size_t first, std::span<float> into) {
        get(array, place.begin + first, into);
      });
    }
  };
  const LlmCHeader llm_c = LlmCHeader::of(config);
  std::string text = state.text();
  const StateHeader header{.text_bytes = static_cast<std::uint32_t>(text.size())};
  text.resize(header.padded_bytes());
  writer.bytes(std::as_bytes(std::span{&llm_c, 1}));
  write(StateArray::masters);
  writer.bytes(std::as_bytes(std::span{&header, 1}));
  writer.bytes(std::as_bytes(std::span{text}));
  write(StateArray::means);
  write(StateArray::squares);
  writer.end();
  file.commit(true);
}

/// A checkpoint, or a model that llm.c has written, opened and checked.
template <class Io = penstock::PosixIo> class Checkpoint {
 public:
  /// Reads all of a checkpoint once, to check it. Throws SourceError for a file that cannot be
  /// read, is damaged, or is none.
  explicit Checkpoint(const std::string& path, const Io& io = {}) : file_{io, path} {
    LlmCHeader header;
    if (file_.size() < sizeof header) {
      refuse(0, "it has " + std::to_string(file_.size()) + " bytes, and llm.c's header alone has " +
                    std::to_string(sizeof header));
    }
    read_full(file_, 0, std::as_writable_bytes(std::span{&header, 1}));
    config_ = header.config(path);
    value_bytes_ = header.value_bytes();
    values_ = weights_of(config_);
    const std::uint64_t weights_end = sizeof header + values_ * value_bytes_;
    if (file_.size() < weights_end) {
      refuse(file_.size(), "it ends there, and the weights of the model that its header names end "
                           "at byte " +
                               std::to_string(weights_end));
    }
    order_ = llm_c_order(config_);
    if (file_.size() > weights_end) {
      open_state(weights_end);
    }
  }

  const std::string& path() const noexcept { return file_.path(); }
  const Config& config() const noexcept { return config_; }
  /// Returns the training's state; none if the file has weights alone, as llm.c's have.
  const std::optional<CheckpointState>& state() const noexcept { return state_; }

  /// Calls put(first, values) for all parts of an array, to be put at value `first` on. Throws
  /// SourceError, also for means and squares of a file without them, and what put() throws.
  template <class Put> void read(StateArray array, Put put) const {
    std::uint64_t at = sizeof(LlmCHeader);
    if (array != StateArray::masters) {
      if (!state_) {
        refuse(file_.size(), "it has weights alone", "Begin a training with them at step 0.");
      }
      at = means_at_ + (array == StateArray::squares ? values_ * sizeof(float) : 0);
    }
    std::vector<float> piece(piece_floats);
    std::vector<penstock::BFloat16> half(value_bytes_ == sizeof(float) ? 0 : piece_floats);
    for (const Place& place : order_) {
      for (std::size_t first = 0; first < place.count();) {
        const auto part = std::span{piece}.first(std::min(piece.size(), place.count() - first));
        if (half.empty()) {
          read_full(file_, at, std::as_writable_bytes(part));
          at += part.size_bytes();
        } else {
          const auto halves = std::span{half}.first(part.size());
          read_full(file_, at, std::as_writable_bytes(halves));
          std::ranges::transform(halves, part.begin(), [](auto value) { return float(value); });
          at += halves.size_bytes();
        }
        put(place.begin + first, std::span<const float>{part});
        first += part.size();
      }
    }
  }

 private:
  void open_state(std::uint64_t at) {
    StateHeader header;
    const std::uint64_t header_end = at + sizeof header;
    if (file_.size() < header_end) {
      refuse(at, "too few bytes for a training's state follow the weights");
    }
    read_full(file_, at, std::as_writable_bytes(std::span{&header, 1}));
    if (header.magic != StateHeader{}.magic) {
      refuse(at, "what follows the weights is no training's state");
    }
    if (header.version != StateHeader{}.version) {
      refuse(at,
             "the state's version is " + std::to_string(header.version) + ", not " +
                 std::to_string(StateHeader{}.version),
             "Go on with the program that wrote it.");
    }
    means_at_ = header_end + header.padded_bytes();
    const std::uint64_t crc_at = means_at_ + 2 * values_ * sizeof(float);
    if (file_.size() != crc_at + sizeof(std::uint32_t)) {
      refuse(at, "by its headers it has " + std::to_string(crc_at + sizeof(std::uint32_t)) +
                     " bytes, and it has " + std::to_string(file_.size()));
    }
    std::uint32_t crc = 0;
    read_full(file_, crc_at, std::as_writable_bytes(std::span{&crc, 1}));
    if (crc32c_of(file_, crc_at) != crc) {
      refuse(crc_at, "the CRC-32C there is not that of the bytes before it");
    }
    std::string text(header.text_bytes, ' '); // the file is as long
    read_full(file_, header_end, std::as_writable_bytes(std::span{text}));
    try {
      state_ = CheckpointState::of(text);
    } catch (const std::invalid_argument& bad) {
      refuse(header_end,
             "the state's text there has a " + std::string{bad.what()} +
                 " that this program does not know",
             "Go on with the program that wrote it.");
    }
    const std::string& characters = state_->characters;
    const auto unordered =
        std::ranges::adjacent_find(characters, std::ranges::greater_equal{},
                                   [](char c) { return static_cast<unsigned char>(c); });
    if (characters.size() > config_.vocabulary || unordered != characters.end()) {
      refuse(header_end, "the characters in the state's text there are no vocabulary of " +
                             std::to_string(config_.vocabulary) + " tokens");
    }
  }
  [[noreturn]] void
  refuse(std::uint64_t at, const std::string& what,
         const char* cure = "The file is damaged or not whole: take an earlier one.") const {
    throw penstock::SourceError{path() + ", byte " + std::to_string(at) + ": " + what + ". " + cure,
                                path(), at};
  }

  penstock::File<Io> file_;
  Config config_;
  std::size_t value_bytes_ = sizeof(float);
  std::vector<Place> order_;
  std::uint64_t values_ = 0;
  std::optional<CheckpointState> state_;
  std::uint64_t means_at_ = 0;
};

/// Throws std::invalid_argument unless a checkpoint has the model that was asked for, and a
/// training goes on with the options that it began with. `ranks` share the batch.
/// @{
template <class Io> void require_same(const Checkpoint<Io>& checkpoint, const Config& asked) {
  const Config& is = checkpoint.config();
  const std::array<std::pair<const char*, std::size_t Config::*>, 5> sizes{
      {{"layers", &Config::layers},
       {"values a token", &Config::width},
       {"heads", &Config::heads},
       {"tokens of context", &Config::context},
       {"tokens in the vocabulary", &Config::vocabulary}}};
  for (const auto& [name, size] : sizes) {
    if (is.*size != asked.*size) {
      throw std::invalid_argument{checkpoint.path() + " has " + std::to_string(is.*size) + ' ' +
                                  name + ", not " + std::to_string(asked.*size) +
                                  ": give the --config, --context and --data that it was made "
                                  "with, or take no --resume"};
    }
  }
}
template <class Io>
void require_same(const Checkpoint<Io>& checkpoint,
                  const std::map<std::string, std::string>& options, std::uint32_t ranks = 1) {
  if (!checkpoint.state()) {
    return; // a model of llm.c's, which any training may go on from
  }
  const auto& before = checkpoint.state()->options;
  for (const auto& [name, value] : options) {
    const auto had = before.find(name);
    const std::string was = had == before.end() ? "none" : had->second;
    if (was != value && ranks > 1 && name == "--batch") {
      throw std::invalid_argument{checkpoint.path() + " was trained with --batch " + was +
                                  ", and these " + std::to_string(ranks) + " ranks have " + value +
                                  " together: give each its equal part of " + was +
                                  ", or take no --resume"};
    }
    if (was != value) {
      throw std::invalid_argument{checkpoint.path() + " was trained with " + name + ' ' + was +
                                  ", not " + value + ": give " + name + ' ' + was +
                                  ", or take no --resume"};
    }
  }
}
/// @}

} // namespace transformer
