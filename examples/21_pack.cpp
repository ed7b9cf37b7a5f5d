// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 21_pack: a file of numbers into a packed file, which holds the same in fewer bytes, and which the
// host or a GPU unpacks. It says which codec it took, and what each one that it tried would save.
//
//   21_pack [--check] [--type TYPE] [--tokens] IN OUT
//   21_pack --info PACKED...
//
// IN is a .npy file, or a safetensors file, which stays one, with the names of its tensors; with
// --type, values of that type back to back, such as uint16 or bfloat16; with --tokens too, a file
// of tokens with or without a header. --check reads OUT again and compares each byte. --info lists
// the columns or tensors of packed files. Without files it packs some tokens that it makes, and
// checks them.

#include "support/temporary_file.hpp"

#include <penstock/data/float16.hpp>
#include <penstock/formats/npy.hpp>
#include <penstock/formats/packed.hpp>
#include <penstock/formats/packed/packed_tensors.hpp>
#include <penstock/formats/packed/packed_writer.hpp>
#include <penstock/formats/safetensors.hpp>
#include <penstock/formats/tokens.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iomanip>
#include <iostream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;

constexpr std::size_t piece_bytes = std::size_t{4} << 20;

/// Names a column of values of this type.
ps::PackedColumnShape column_of(const std::string& type, std::vector<std::uint64_t> extents) {
  const auto is = [&]<class T>(const char* name, T) {
    return type == name ? std::optional{ps::packed_column<T>("values", extents)} : std::nullopt;
  };
  for (const auto& column :
       {is("uint8", std::uint8_t{}), is("uint16", std::uint16_t{}), is("uint32", std::uint32_t{}),
        is("uint64", std::uint64_t{}), is("int8", std::int8_t{}), is("int16", std::int16_t{}),
        is("int32", std::int32_t{}), is("int64", std::int64_t{}), is("float16", ps::Half{}),
        is("bfloat16", ps::BFloat16{}), is("bfloat16 (V2)", ps::BFloat16{}), is("float32", float{}),
        is("float64", double{}), is("bool", bool{})}) {
    if (column) {
      return *column;
    }
  }
  throw std::invalid_argument{"there is no type " + type + " that could be packed"};
}

/// Calls f(bytes) with all bytes of an opened source, in order, a piece at a time.
template <class Source, class F> void each_piece(const Source& source, F f) {
  const std::uint64_t all = source.size() * ps::detail::record_bytes_of(source);
  std::vector<std::byte> piece(std::min<std::uint64_t>(all, piece_bytes));
  for (std::uint64_t at = 0; at < all; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(all - at, piece.size()));
    source.read_bytes(at, piece);
    f(std::span<const std::byte>{piece});
  }
}

void print(const ps::PackedColumnInfo& column) {
  const auto ratio = static_cast<double>(column.bytes) /
                     static_cast<double>(std::max<std::uint64_t>(column.packed_bytes, 1));
  std::cout << column.name << ": " << column.type << ", " << ps::name_of(column.codec) << ", "
            << column.bytes << " bytes in " << column.packed_bytes << ", ratio " << std::fixed
            << std::setprecision(3) << ratio << ", " << column.chunks << " chunks, "
            << column.raw_chunks << " of them raw\n";
  for (const ps::PackedTry& tried : column.tried) {
    std::cout << "  tried " << ps::name_of(tried.codec) << ": ratio " << tried.ratio << '\n';
  }
}

/// Packs all of an opened source.
template <class Source>
void pack(const Source& source, ps::PackedColumnShape column, const std::string& out) {
  ps::PackedWriter writer{out, {std::move(column)}, {.workers = ps::usable_processors()}};
  each_piece(source, [&](std::span<const std::byte> bytes) { writer.learn(0, bytes); });
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t all = 0;
  each_piece(source, [&](std::span<const std::byte> bytes) {
    writer.add(0, bytes);
    all += bytes.size();
  });
  for (const ps::PackedColumnInfo& info : writer.finish()) {
    print(info);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cout << "packed at " << static_cast<double>(all) / took.count() / 1e9 << " GB/s\n";
}

/// Compares each byte of a packed file with the source's.
template <class Source> void check(const Source& source, const std::string& out) {
  std::uint64_t at = 0;
  auto pipeline =
      ps::Reader{ps::unpacked<std::byte>(out), {.workers = 1}} |
      ps::Consumer{[&](ps::Batch<const std::byte, ps::Pageable> batch) {
        std::vector<std::byte> expected(batch.size_bytes());
        source.read_bytes(at, expected);
        if (!std::equal(expected.begin(), expected.end(), batch.data())) {
          throw std::runtime_error{out + " has other values behind byte " + std::to_string(at)};
        }
        at += expected.size();
      }};
  const ps::Report report = pipeline.run();
  if (at != source.size() * ps::detail::record_bytes_of(source)) {
    throw std::runtime_error{out + " has " + std::to_string(at) + " bytes of values"};
  }
  std::cout << "all " << at << " bytes are the same, unpacked and compared at "
            << static_cast<double>(at) / report.seconds / 1e9 << " GB/s\n";
}

/// Compares each byte of a packed model's tensors with the plain one's.
void check_tensors(const std::string& in, const std::string& out) {
  auto plain = ps::safetensors(in);
  plain.open();
  const std::vector<ps::TensorInfo> tensors = ps::packed_tensors_of({out});
  std::uint64_t at = 0;
  std::uint64_t same = 0;
  std::vector<std::byte> expected;
  auto pipeline =
      ps::Reader{ps::unpacked<std::byte>(out), {.workers = 1}} |
      ps::Consumer{[&](ps::Batch<const std::byte, ps::Pageable> batch) {
        const std::uint64_t end = at + batch.size_bytes();
        for (const ps::TensorInfo& tensor : tensors) {
          const std::uint64_t first = std::max(at, tensor.at);
          const std::uint64_t last = std::min(end, tensor.at + tensor.bytes);
          if (first < last) {
            expected.resize(last - first);
            plain.read_bytes(plain.tensor(tensor.name).at + (first - tensor.at), expected);
            if (!std::equal(expected.begin(), expected.end(), batch.data() + (first - at))) {
              throw std::runtime_error{out + " has other bytes of the tensor " + tensor.name};
            }
            same += expected.size();
          }
        }
        at = end;
      }};
  const ps::Report report = pipeline.run();
  if (same != plain.size()) {
    throw std::runtime_error{out + " has " + std::to_string(same) + " bytes of tensors"};
  }
  std::cout << "all " << same << " bytes of tensors are the same, unpacked and compared at "
            << static_cast<double>(same) / report.seconds / 1e9 << " GB/s\n";
}

/// Packs a model, if this is one.
bool pack_tensors(const std::string& in, const std::string& out, bool then_check) {
  const ps::File<ps::PosixIo> file{{}, in};
  std::string begin(std::min<std::uint64_t>(file.size(), 64), '\0');
  ps::read_full(file, 0, std::as_writable_bytes(std::span{begin}));
  if (!ps::detail::is_safetensors(begin, file.size())) {
    return false;
  }
  for (const ps::PackedColumnInfo& info :
       ps::pack_safetensors(in, out, {.workers = ps::usable_processors()})) {
    print(info);
  }
  if (then_check) {
    check_tensors(in, out);
  }
  return true;
}

struct Job {
  std::string in;
  std::string out;
  std::string type;
  bool tokens = false;
  bool check = false;
};

template <class Source>
void pack_source(Source source, const Job& job, std::vector<std::uint64_t> extents,
                 const std::string& type) {
  pack(source, column_of(type, std::move(extents)), job.out);
  if (job.check) {
    check(source, job.out);
  }
}

void run(const Job& job) {
  const auto opened = [](auto source) {
    source.open();
    return source;
  };
  if (job.type.empty() && pack_tensors(job.in, job.out, job.check)) {
    return;
  }
  if (job.type.empty()) {
    const auto source = opened(ps::npy<std::byte>(job.in));
    const ps::ArrayInfo info = source.info();
    pack_source(source, job, info.extents, info.type);
  } else if (job.tokens && job.type == "uint16") {
    pack_source(opened(ps::tokens<std::uint16_t>(job.in)), job, {}, job.type);
  } else if (job.tokens && job.type == "uint32") {
    pack_source(opened(ps::tokens<std::uint32_t>(job.in)), job, {}, job.type);
  } else if (job.tokens) {
    throw std::invalid_argument{"tokens are of --type uint16 or uint32"};
  } else {
    opened(
        ps::records<signed char>(job.in)); // refuses a file of a known format, which has a header
    pack_source(opened(ps::records<std::byte>(job.in)), job, {}, job.type);
  }
}

/// Tokens of which the n-th most frequent one comes about 1 / n as often as the first.
std::string some_tokens() {
  std::string bytes;
  std::uint32_t state = 1;
  for (int i = 0; i < 1'000'000; ++i) {
    state = state * 1664525 + 1013904223;
    const double share = static_cast<double>(state >> 8) / (1 << 24);
    const auto token = static_cast<std::uint16_t>(std::pow(50'000.0, share) - 1);
    bytes.append(reinterpret_cast<const char*>(&token), sizeof token);
  }
  return bytes;
}

int main(int argc, char** argv) try {
  const char* const usage =
      "usage: 21_pack [--check] [--type TYPE] [--tokens] IN OUT, or 21_pack "
      "--info PACKED... TYPE is bool, int8 to int64, uint8 to uint64, float16 to "
      "float64, or bfloat16.";
  std::vector<std::string> files;
  Job job;
  bool info = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--type" && i + 1 < argc) {
      job.type = argv[++i];
    } else if (word.starts_with("--")) {
      bool* const flag = word == "--check"    ? &job.check
                         : word == "--tokens" ? &job.tokens
                         : word == "--info"   ? &info
                                              : nullptr;
      if (!flag) {
        throw std::invalid_argument{usage};
      }
      *flag = true;
    } else {
      files.push_back(word);
    }
  }
  if (info && !files.empty()) {
    for (const std::string& file : files) {
      for (const ps::PackedColumnInfo& column : ps::packed_columns_of(file)) {
        print(column);
      }
    }
    return 0;
  }
  if (info || (!files.empty() && files.size() != 2)) {
    throw std::invalid_argument{usage};
  }
  std::optional<TemporaryFile> tokens;
  std::optional<TemporaryFile> packed;
  const bool own = files.empty();
  job.in = own ? tokens.emplace(some_tokens()).path() : files[0];
  job.out = own ? packed.emplace("").path() : files[1];
  job.type = own ? "uint16" : job.type;
  job.check = job.check || own;
  run(job);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "21_pack: " << error.what() << '\n';
  return 1;
}

// prints:
//   values: uint16, ranked, 2000000 bytes in …, ratio 1.…, 123 chunks, 0 of them raw
//     tried bits: ratio …
//     tried ranked: ratio …
//     tried classes: ratio …
//   packed at … GB/s
//   all 2000000 bytes are the same, unpacked and compared at … GB/s
