// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/formats/detail/megatron_index.hpp>
#include <penstock/io/direct.hpp>
#include <penstock/io/file.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/detail/checks.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>
#include <penstock/sources/detail/paths.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/value_type.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>

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

/// A source of the tokens in files, one token a record. Made by tokens(). Copies share what open()
/// has opened. Io makes the system calls: see PosixIo.
template <class T, class Io = PosixIo> class Tokens {
  static constexpr bool whole = std::is_integral_v<T> && !std::is_same_v<T, bool>;
  static_assert(whole, "penstock: tokens<T>(paths) reads whole numbers, such as std::uint16_t or "
                       "std::uint32_t, and T is none.");
  static_assert(std::endian::native == std::endian::little,
                "penstock: files of tokens are read as they lie, so this machine must have the "
                "least significant byte first.");

 public:
  /// Whether it was refused, so that a Reader says no more about it.
  static constexpr bool refused = !whole;
  /// The type of its records.
  using schema = T;

  /// Takes files and directories, to be read one after the other; touches none before open().
  explicit Tokens(std::vector<std::string> paths, TokensOptions options = {}, Io io = {})
      : files_{"tokens", std::move(paths), std::move(io),
               takes_indexes(options.format) ? ".idx" : ""},
        options_{options} {}

  /// Opens the files, many by several threads at once, and reads their headers and indexes. Refuses
  /// the first in order that has another type of tokens, another size than its header or index
  /// says, or part of a token at its end; one that is compressed or of another format; and a
  /// directory whose files have several endings, indexes of Megatron's left out. Blocks. Throws
  /// SourceError; what progress throws. Does nothing the second time.
  void open(const PrepareOptions& preparing = {}) {
    if (!files_.is_open()) {
      files_.open(
          preparing, options_.direct, 0,
          [this](const File<Io>& file, std::size_t) { return look(file); },
          [](detail::RecordsAt at, const File<Io>&, std::uint64_t) { return at; });
    }
  }

  /// Returns how many tokens all files have. After open().
  std::uint64_t size() const { return files_.size(); }
  /// Returns how many files are read directly: see TokensOptions::direct. After open().
  std::size_t direct_files() const { return files_.direct_files(); }

  /// Reads the tokens from into.index() on, which are numbered through all files. After open().
  /// Blocks; any number of threads at once. Throws SourceError with file, offset and token.
  template <HostSpace Where> std::size_t read(Batch<T, Where> into) const {
    detail::check_range("tokens", into, size(), sizeof(T));
    read_bytes(into.index() * sizeof(T),
               {reinterpret_cast<std::byte*>(into.data()), into.size_bytes()});
    return into.size();
  }
  /// Reads the bytes from `at` on, counted over all tokens.
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const {
    files_.read_bytes(at, into, sizeof(T));
  }
  /// Has the system read these tokens into the page cache. Any thread.
  void will_read(std::uint64_t first, std::uint64_t count) const noexcept
    requires requires(const Io& io) { io.will_read(0, first, count); }
  {
    files_.will_read(first, count, sizeof(T));
  }
  /// Appends how the files are read, where it is not as most are.
  [[gnu::cold]] void note(std::string& to) const { files_.note(to); }

 private:
  static constexpr detail::ValueType wanted_ = detail::value_type_of<T>();

  static constexpr bool takes_indexes(TokenFormat format) noexcept {
    return format == TokenFormat::automatic || format == TokenFormat::megatron;
  }
  template <class F> static auto with_header(const File<Io>& file, F f) {
    const auto read = [&](std::uint64_t at, std::span<std::byte> into) {
      read_full(file, at, into);
    };
    return f(detail::HeaderFile{file.path(), file.size(), read});
  }
  [[gnu::cold]] detail::RecordsAt look(const File<Io>& file) const {
    return with_header(file, [&](const detail::HeaderFile& header) {
      const bool any = options_.format == TokenFormat::automatic;
      if (options_.format == TokenFormat::llm_c || (any && detail::is_llm_c(header))) {
        return detail::llm_c_tokens(header, wanted_);
      }
      if (options_.format == TokenFormat::megatron || (any && has_index(file.path()))) {
        return megatron(file, header);
      }
      if (any && is_passed_over(header)) {
        return detail::RecordsAt{0, 0};
      }
      if (any) {
        detail::refuse_foreign(header, " If it has tokens alone, set .format = "
                                       "ps::TokenFormat::raw.");
      }
      return detail::raw_tokens(header, wanted_);
    });
  }
  bool has_index(const std::string& path) const {
    const std::string index = detail::megatron_index_path(path);
    return !index.empty() && is_there(index);
  }
  // A link that leads nowhere is not there either, but somebody meant a file to be.
  bool is_there(const std::string& path) const {
    FileStatus status;
    const auto look = [&] { return files_.io().status(path.c_str(), status); };
    if (detail::persist(files_.io(), look) >= 0) {
      return true;
    }
    const int error = errno;
    char any = 0;
    const bool is_link = ::readlink(path.c_str(), &any, 1) >= 0;
    if (is_link || (error != ENOENT && error != ENOTDIR)) {
      detail::throw_io_error("find", path, error);
    }
    return false;
  }
  // An index lies in the same directory as its tokens, and is found with them: a cut one too. One
  // whose tokens are missing tells of data that would be left out unseen.
  bool is_passed_over(const detail::HeaderFile& header) const {
    const std::vector<std::string>& named = files_.paths();
    if (std::find(named.begin(), named.end(), header.path()) != named.end()) {
      return false;
    }
    if (!header.begins_with(detail::megatron_magic.substr(0, std::size_t{header.size()}))) {
      if (header.path().ends_with(".idx")) {
        header.refuse(0, {"is no index of Megatron's, and lies in a directory of tokens: name the "
                          "files of tokens in a list."});
      }
      return false;
    }
    const std::string tokens = detail::megatron_tokens_path(std::string{header.path()});
    if (!tokens.empty() && !is_there(tokens)) {
      header.refuse(0, {"is an index of Megatron's, and ", detail::shown(tokens),
                        ", which has its tokens, is not there: fetch that file, or take the index "
                        "out of the directory."});
    }
    return true;
  }
  [[gnu::cold]] detail::RecordsAt megatron(const File<Io>& file,
                                           const detail::HeaderFile& header) const {
    if (is_passed_over(header)) {
      return {0, 0};
    }
    const std::string index_path = detail::megatron_index_path(file.path());
    if (index_path.empty()) {
      header.refuse(0, {"has no name that ends in .bin, and Megatron's index lies beside x.bin as "
                        "x.idx: name the file of tokens."});
    }
    const File<Io> index{files_.io(), index_path};
    const auto said = with_header(
        index, [](const detail::HeaderFile& its) { return detail::megatron_index(its, wanted_); });
    return detail::megatron_tokens(header, index_path, said);
  }

  detail::RecordFiles<Io> files_;
  TokensOptions options_;
};

/// Makes a source of a file of tokens, `tokens<std::uint16_t>("train.bin")`, or of the files in a
/// directory, or of a list of both. Files follow each other, so that windows() may take windows
/// that lie in two. A file has tokens alone, or llm.c's header before them, or Megatron's index
/// beside it; which it is, is seen when it is opened: see TokenFormat. It touches no file before
/// open(), which prepare() calls. The files must stay as they are while they are read.
template <class T, class Io = PosixIo>
Tokens<T, Io> tokens(detail::Paths paths, TokensOptions options = {}, Io io = {}) {
  return Tokens<T, Io>{std::move(paths).take(), options, std::move(io)};
}

} // namespace penstock
