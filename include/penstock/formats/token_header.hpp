// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/formats/detail/megatron_index.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::detail {

// llm.c's header, as its dev/data/data_common.py writes it: 256 numbers of 4 bytes, of which the
// first is magic, the second a version, and the third says how many tokens follow. GPT-2's tokens
// have 2 bytes, Llama 3's have 4.
inline constexpr std::uint64_t llm_c_bytes = 1024;
inline constexpr std::uint32_t llm_c_gpt2 = 20240520;
inline constexpr std::uint32_t llm_c_llama3 = 20240801;

/// Returns whether a file begins as llm.c's do.
inline bool is_llm_c(const HeaderFile& file) {
  if (file.size() < sizeof llm_c_gpt2) {
    return false;
  }
  const auto magic = file.number<std::uint32_t>(0);
  return magic == llm_c_gpt2 || magic == llm_c_llama3;
}

/// Throws SourceError unless tokens of this type are those wanted, or have as many bytes: whether
/// numbers have a sign does not show in tokens.
[[gnu::cold]] inline void check_token_type(const HeaderFile& file, std::uint64_t at, ValueType type,
                                           ValueType wanted) {
  if (type.kind == 'f') {
    file.refuse(at, {"says that its tokens are ", name_of(type),
                     ", and only whole numbers are read: build the data set again with these."});
  }
  if (type.bytes != wanted.bytes) {
    file.refuse(at, {"says that its tokens are ", name_of(type), ", and ", name_of(wanted),
                     " is wanted: give ps::tokens the type that the file has, std::", name_of(type),
                     "_t."});
  }
}

/// Returns where the tokens of a file of llm.c's lie. Throws SourceError.
[[gnu::cold]] inline RecordsAt llm_c_tokens(const HeaderFile& file, ValueType wanted) {
  const auto magic = file.number<std::uint32_t>(0);
  if (magic != llm_c_gpt2 && magic != llm_c_llama3) {
    file.refuse(0, {"begins with ", magic, ", and files of llm.c's with ", llm_c_gpt2, " or ",
                    llm_c_llama3, ": set .format = ps::TokenFormat::raw if it has tokens alone."});
  }
  const auto version = file.number<std::uint32_t>(4);
  const unsigned known = magic == llm_c_gpt2 ? 1 : 7;
  if (version != known) {
    file.refuse(4, {"has version ", version, " of llm.c's header, and ", known,
                    " is read: write the file again by llm.c's dev/data."});
  }
  check_token_type(file, 0, {'u', magic == llm_c_gpt2 ? 2U : 4U}, wanted);
  const auto tokens = file.number<std::uint32_t>(8);
  const std::uint64_t end = llm_c_bytes + std::uint64_t{tokens} * wanted.bytes;
  if (end != file.size()) {
    file.refuse(8, {"says that it has ", tokens, " tokens, which end at byte ", end,
                    ", and the file ends at byte ", file.size(),
                    ": it was cut, or is still being written. Write or fetch it again."});
  }
  return {llm_c_bytes, tokens};
}

/// Returns where the tokens of a file without a header lie. Throws SourceError.
[[gnu::cold]] inline RecordsAt raw_tokens(const HeaderFile& file, ValueType wanted) {
  const std::uint64_t rest = file.size() % wanted.bytes;
  if (rest != 0) {
    file.refuse(file.size() - rest, {"ends with ", rest, " of the ", wanted.bytes,
                                     " bytes of a token: give ps::tokens the type that the file "
                                     "has, or fetch it again if it was cut."});
  }
  return {0, file.size() / wanted.bytes};
}

/// Reads an index whose tokens are to be of this type. Throws SourceError.
[[gnu::cold]] inline MegatronIndex megatron_index(const HeaderFile& file, ValueType wanted) {
  const MegatronIndex index = MegatronParser{file}.parse();
  check_token_type(file, 17, index.type, wanted);
  return index;
}

/// Returns where the tokens of a file lie whose index was read. Throws SourceError.
[[gnu::cold]] inline RecordsAt megatron_tokens(const HeaderFile& file, std::string_view index_path,
                                               const MegatronIndex& index) {
  // No overflow: the index was checked in bytes.
  const std::uint64_t bytes = index.tokens * index.type.bytes;
  if (bytes != file.size()) {
    file.refuse(file.size(), {"ends, and its index ", index_path, " has sequences of ", bytes,
                              " bytes in all: one of the two was cut, or they do not belong "
                              "together. Build or fetch both again."});
  }
  return {0, index.tokens};
}

/// Returns the path with `to` for its ending; empty if that is not `from`.
[[gnu::cold]] inline std::string with_ending(const std::string& path, std::string_view from,
                                             std::string_view to) {
  return path.size() > from.size() && path.ends_with(from)
             ? joined({std::string_view{path}.substr(0, path.size() - from.size()), to})
             : std::string{};
}
/// Returns the path of the index that a Megatron file of tokens has beside it: x.idx for x.bin.
/// Empty if the name has another end.
[[gnu::cold]] inline std::string megatron_index_path(const std::string& path) {
  return with_ending(path, ".bin", ".idx");
}
/// Returns the path of the tokens that an index is of; empty if its name does not end in .idx.
[[gnu::cold]] inline std::string megatron_tokens_path(const std::string& index) {
  return with_ending(index, ".idx", ".bin");
}

} // namespace penstock::detail
