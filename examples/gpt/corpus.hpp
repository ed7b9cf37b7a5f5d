// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text.hpp"

#include <penstock/data/memory.hpp>
#include <penstock/formats/tokens.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/sources/slice.hpp>
#include <penstock/sources/windows.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

namespace transformer {

/// A part of a file's tokens: those that are trained on, or those that are held out.
template <class T> using TokenPart = penstock::Slice<penstock::Tokens<T>>;
/// Windows of such a part.
template <class T> using TokenWindows = penstock::Windows<TokenPart<T>>;

/// How a file of data is written.
enum class DataFormat : std::uint8_t {
  automatic, ///< As tokens if it has llm.c's header, or its name ends in .bin; else as text.
  text,      ///< As text, a byte a token.
  tokens,    ///< As 16-bit tokens, alone or behind llm.c's header.
};

/// A file of text or tokens to train on. Its last tenth is held out, unless there is another file
/// for that.
class Corpus {
  template <class T> struct Parts {
    TokenPart<T> trained;
    TokenPart<T> held_out;
  };

 public:
  /// Opens the files, and reads all of them once, to learn which tokens there are. Of a text,
  /// `known` is the vocabulary that a checkpoint has; without one, all bytes that occur are in it.
  /// Blocks. Throws std::invalid_argument, whose text is one line, for data that cannot be trained
  /// on, and penstock's SourceError for a file that cannot be read.
  explicit Corpus(const std::string& path, const std::string& held_out = {},
                  DataFormat format = DataFormat::automatic, const Vocabulary& known = {})
      : is_text_{format == DataFormat::text ||
                 (format == DataFormat::automatic && !has_tokens(path, held_out))},
        parts_{is_text_ ? Some{opened<std::uint8_t>(path, held_out)}
                        : Some{opened<std::uint16_t>(path, held_out)}} {
    if (trained() == 0) {
      throw std::invalid_argument{path + " is empty: give a file of text or tokens"};
    }
    if (is_text_) {
      learn_bytes(held_out.empty() ? path : path + " or " + held_out, known);
    } else {
      learn_ids(path);
    }
  }

  bool is_text() const noexcept { return is_text_; }
  /// Returns what a text is made of; no bytes for tokens.
  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  /// Returns how many different ids there may be: all are less. GPT-2's tokens, as llm.c writes
  /// them, may be any of GPT-2.
  std::size_t ids() const noexcept { return ids_; }
  /// Calls f(parts), whose members `trained` and `held_out` are a TokenPart each, and returns what
  /// it returns.
  template <class F> decltype(auto) visit(F f) const { return std::visit(f, parts_); }
  /// Returns the CRC-32C of all tokens.
  std::uint32_t crc() const noexcept { return crc_; }
  /// Return how many tokens are trained on, and how many are held out.
  /// @{
  std::uint64_t trained() const {
    return visit([](const auto& parts) { return parts.trained.size(); });
  }
  std::uint64_t held_out() const {
    return visit([](const auto& parts) { return parts.held_out.size(); });
  }
  /// @}

 private:
  using Some = std::variant<Parts<std::uint8_t>, Parts<std::uint16_t>>;
  static constexpr std::size_t gpt2_ids = 50'257;

  static bool has_header(const std::string& path) {
    constexpr std::int32_t magic = 20240520;
    std::int32_t first = 0;
    std::ifstream{path, std::ios::binary}.read(reinterpret_cast<char*>(&first), sizeof first);
    return first == magic;
  }
  static bool has_tokens(const std::string& path) {
    if (std::error_code none; std::filesystem::is_directory(path, none)) {
      throw std::invalid_argument{path + " is a directory: give one file of text or tokens"};
    }
    return path.ends_with(".bin") || has_header(path);
  }
  static bool has_tokens(const std::string& path, const std::string& held_out) {
    const bool tokens = has_tokens(path);
    std::error_code none;
    if (std::filesystem::exists(held_out, none) && has_tokens(held_out) != tokens) {
      throw std::invalid_argument{
          (tokens ? path : held_out) + " has tokens, and " + (tokens ? held_out : path) +
          " is a text: give two files of one kind; tokens have llm.c's header, or a name that ends "
          "in .bin"};
    }
    return tokens;
  }
  template <class T> static penstock::Tokens<T> opened(const std::string& path) {
    // A text has no header: whatever it begins with is text.
    const bool raw = sizeof(T) == 1;
    auto tokens = penstock::tokens<T>(
        path, {.format = raw ? penstock::TokenFormat::raw : penstock::TokenFormat::automatic});
    tokens.open();
    return tokens;
  }
  template <class T>
  static Parts<T> opened(const std::string& path, const std::string& other_path) {
    const penstock::Tokens<T> tokens = opened<T>(path);
    const std::uint64_t all = tokens.size();
    if (!other_path.empty()) {
      return {penstock::take(tokens, all), penstock::drop(opened<T>(other_path), 0)};
    }
    const std::uint64_t trained = all - all / 10;
    return {penstock::take(tokens, trained), penstock::drop(tokens, trained)};
  }

  /// Calls f(tokens) for all of both parts, piece by piece, and sums them up for crc().
  template <class T, class F> void each_piece(const Parts<T>& parts, F f) {
    std::vector<T> piece(std::size_t{1} << 20);
    for (const TokenPart<T>* part : {&parts.trained, &parts.held_out}) {
      for (std::uint64_t at = 0; at < part->size(); at += piece.size()) {
        const auto some = std::span{piece}.first(
            static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), part->size() - at)));
        part->read(penstock::Batch<T, penstock::Pageable>{some.data(), some.size(), at});
        crc_ = penstock::crc32c(std::as_bytes(some), crc_);
        f(some);
      }
    }
  }
  void learn_bytes(const std::string& paths, const Vocabulary& known) {
    std::array<std::uint64_t, 256> counts{};
    each_piece(std::get<Parts<std::uint8_t>>(parts_), [&](std::span<const std::uint8_t> bytes) {
      for (const std::uint8_t byte : bytes) {
        ++counts[byte];
      }
    });
    const Vocabulary found{counts};
    vocabulary_ = known.size() != 0 ? known : found;
    ids_ = vocabulary_.size();
    for (std::size_t id = 0; id < found.size(); ++id) {
      if (!vocabulary_.has(found.byte(id))) {
        throw std::invalid_argument{"the text in " + paths + " has a byte of value " +
                                    std::to_string(found.byte(id)) +
                                    ", which the checkpoint's vocabulary has not: resume with "
                                    "the text that it was trained on"};
      }
    }
  }
  void learn_ids(const std::string& path) {
    std::uint16_t most = 0;
    each_piece(std::get<Parts<std::uint16_t>>(parts_), [&](std::span<const std::uint16_t> tokens) {
      most = std::max(most, *std::ranges::max_element(tokens));
    });
    ids_ = std::max(std::size_t{most} + 1, has_header(path) ? gpt2_ids : 0);
  }

  bool is_text_;
  Some parts_;
  Vocabulary vocabulary_;
  std::size_t ids_ = 0;
  std::uint32_t crc_ = 0;
};

} // namespace transformer
