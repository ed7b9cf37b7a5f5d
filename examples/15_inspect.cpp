// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 15_inspect: what penstock makes of a file of any format that it knows: how many records, which
// columns, and the CRC-32C of each column's bytes as a pipeline delivers them, record after record.
//
//   15_inspect [--json] FILE...
//   15_inspect [--json] https://…
//
// It knows .npy, .npz, IDX (MNIST), tokens of llm.c's and Megatron's, safetensors, TFRecord, packed
// files of one column, tar (each ending of its members is a column), JPEG, PNG, and lines of text;
// lines and TFRecords also where gzip, zstd or lz4 compressed them. Built with libcurl it takes
// URLs too. --json prints an object a line; a number of records that columns differ in is null. It
// returns 1 if a file is bad or of no known format, 2 if its format needs a library that this
// program was built without, and then says so in one line for each such file.

#include "support/input_file.hpp"
#include "support/inspect_compressed.hpp"
#include "support/inspect_picture.hpp"
#include "support/inspect_tar.hpp"
#include "support/inspected.hpp"

#include <penstock/formats/array_options.hpp>
#include <penstock/formats/lines.hpp>
#include <penstock/formats/mnist.hpp>
#include <penstock/formats/npy.hpp>
#include <penstock/formats/npz.hpp>
#include <penstock/formats/packed.hpp>
#include <penstock/formats/safetensors.hpp>
#include <penstock/formats/tfrecord.hpp>
#include <penstock/formats/tokens.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/penstock.hpp>
#if defined(EXAMPLES_HAVE_ZLIB)
#include <penstock/formats/zlib_inflate.hpp>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ps = penstock;

#if defined(EXAMPLES_HAVE_ZLIB)
constexpr bool inflates = true;
const ps::NpzOptions npz_options{.inflate = ps::zlib_inflate};
#else
constexpr bool inflates = false;
const ps::NpzOptions npz_options;
#endif

/// One array: npy(), mnist(), or one of npz()'s.
template <class Source> std::uint64_t read_array(Source source, Inspected& all, std::string name) {
  source.open();
  ps::ArrayInfo info = source.info();
  Column& column = all.columns.emplace_back(
      Column{std::move(name), std::move(info.type), std::move(info.extents)});
  return read_column(source, column);
}

void read_npz(const std::string& path, Inspected& all) {
  for (const ps::NpzArray& array : ps::npz_arrays(path, input_io())) {
    if (array.deflated && !inflates) {
      throw NotBuiltIn{
          path +
          " has deflated arrays, and this program was built without zlib: build it where zlib is, "
          "or save the arrays by np.savez()"};
    }
    const auto source = ps::npz<std::byte>(path, array.name, npz_options, input_io());
    const std::uint64_t records = read_array(source, all, array.name);
    const bool same = all.columns.size() == 1 || all.records == records;
    all.records = same ? std::optional{records} : std::nullopt;
  }
}

template <class T> void read_tokens(const std::string& path, Inspected& all, std::string type) {
  auto source = ps::tokens<T>(path, {}, input_io());
  source.open();
  all.records = read_column(source, all.columns.emplace_back(Column{"tokens", std::move(type)}));
}

/// Reads Megatron's tokens of the type that its index has a code for.
void read_megatron(const std::string& path, const std::string& index, Inspected& all) {
  InputFile in{index};
  char head[18]{};
  in.read(head, sizeof head);
  all.files = {path, index};
  switch (head[17]) {
  case 1:
    return read_tokens<std::uint8_t>(path, all, "uint8");
  case 2:
    return read_tokens<std::int8_t>(path, all, "int8");
  case 3:
    return read_tokens<std::int16_t>(path, all, "int16");
  case 4:
    return read_tokens<std::int32_t>(path, all, "int32");
  case 5:
    return read_tokens<std::int64_t>(path, all, "int64");
  default: // and what is none is refused
    return read_tokens<std::uint16_t>(path, all, "uint16");
  }
}

void read_jpeg(const std::string& path, Inspected& all) {
#if defined(EXAMPLES_HAVE_TURBOJPEG)
  read_picture(path, jpeg_header(path), all,
               []<std::size_t Channels>(Extent<Channels>, const ps::ImageOptions& options) {
                 return ps::jpeg<Channels, ps::dynamic, ps::dynamic, ps::Pageable>(options);
               });
#else
  static_cast<void>(all);
  throw NotBuiltIn{path + " is a JPEG file, and this program was built without TurboJPEG: build it "
                          "where libturbojpeg is"};
#endif
}
void read_png(const std::string& path, const std::string& head, Inspected& all) {
#if defined(EXAMPLES_HAVE_LIBPNG)
  read_picture(path, png_header(head), all,
               []<std::size_t Channels>(Extent<Channels>, const ps::ImageOptions& options) {
                 return ps::png<Channels, ps::dynamic, ps::dynamic, ps::Pageable>(options);
               });
#else
  static_cast<void>(head);
  static_cast<void>(all);
  throw NotBuiltIn{path + " is a PNG file, and this program was built without libpng: build it "
                          "where libpng is"};
#endif
}

/// A file of one column is read as rows of bytes.
void read_packed(const std::string& path, Inspected& all) {
  std::vector<ps::PackedColumnInfo> columns = ps::packed_columns_of(path, input_io());
  if (columns.size() != 1) {
    throw std::runtime_error{path + " has " + std::to_string(columns.size()) +
                             " columns, and this program reads packed files of one: name their "
                             "columns in a schema"};
  }
  auto source = ps::unpacked<std::byte>(path, input_io());
  source.open();
  Column& column = all.columns.emplace_back(
      Column{columns[0].name, std::move(columns[0].type), std::move(columns[0].extents)});
  all.records = read_column(source, column);
}

/// Each tensor is a column; a record is a byte of any of them.
void read_safetensors(const std::string& path, Inspected& all) {
  auto source = ps::safetensors(path, {}, input_io());
  source.open();
  const auto tensors = source.tensors();
  for (const ps::TensorInfo& tensor : tensors) {
    all.columns.push_back({tensor.name, std::string{ps::name_of(tensor.type)}, tensor.shape});
  }
  std::size_t number = 0; // of the first tensor that is not there as a whole
  deliver(source, [&](ps::Batch<const std::byte, ps::Pageable> batch) {
    std::span<const std::byte> left{batch.data(), batch.size()};
    while (!left.empty()) {
      Column& column = all.columns[number];
      const std::uint64_t missing = tensors[number].bytes - column.bytes;
      const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(missing, left.size()));
      column.add(left.first(some));
      left = left.subspan(some);
      number += some == missing ? 1 : 0;
    }
  });
  all.records = source.size();
}

/// Records of any length, whose one column has this name.
template <ps::Name name, class Source>
void read_ragged(Source source, Inspected& all, const char* column_name, const char* type) {
  source.open();
  Column& column = all.columns.emplace_back(Column{column_name, type});
  deliver(source, [&](auto batch) {
    const auto values = ps::get<name>(batch);
    const auto bytes = static_cast<std::size_t>(values.offsets()[batch.size()]);
    column.add(std::as_bytes(std::span{values.values(), bytes}));
  });
  all.records = source.size();
}

/// Whether a file begins as a TFRecord file does: with a length and its masked checksum.
bool is_tfrecord(const std::string& head) {
  std::uint32_t masked = 0;
  if (head.size() < 12) {
    return false;
  }
  std::memcpy(&masked, head.data() + 8, sizeof masked);
  const std::uint32_t crc = ps::crc32c(std::as_bytes(std::span{head.data(), 8}));
  return masked == (crc >> 15 | crc << 17) + 0xA282EAD8;
}

/// Whether all of these characters may stand in a text.
bool is_text(const std::string& head) {
  return std::none_of(head.begin(), head.end(), [](unsigned char c) {
    return c < '\t' || (c > '\r' && c < ' ' && c != '\x1b');
  });
}

/// Says by a file's first bytes and name what it is, and reads it.
Inspected inspect(const std::string& path) {
  if (!is_file(path)) {
    throw std::runtime_error{path + " is no file: name one"};
  }
  std::string head(512, '\0');
  InputFile in{path};
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  std::uint32_t magic = 0;
  std::memcpy(&magic, head.data(), std::min(head.size(), sizeof magic));
  const std::filesystem::path name = path;
  const std::string ending = name.extension();
  const bool indexes = head.starts_with("MMIDIDX");
  const std::string tokens = std::filesystem::path{name}.replace_extension(".bin");
  const std::string index = std::filesystem::path{name}.replace_extension(".idx");

  Inspected all{{}, 0, {}, {path}};
  const auto is = [&](const char* format) { return all.format = format; };
  if (head.starts_with("\x93NUMPY") || ending == ".npy") {
    is("npy");
    all.records = read_array(ps::npy<std::byte>(path, {}, input_io()), all, "array");
  } else if (head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06") || ending == ".npz") {
    is("npz");
    read_npz(path, all);
  } else if (magic == 20240520 || magic == 20240801) {
    is("llm.c");
    magic == 20240520 ? read_tokens<std::uint16_t>(path, all, "uint16")
                      : read_tokens<std::uint32_t>(path, all, "uint32");
  } else if (indexes || (ending == ".bin" && is_file(index))) {
    is("megatron");
    read_megatron(indexes ? tokens : path, indexes ? path : index, all);
  } else if (head.starts_with("\x89PSPK\r\n\x1a")) {
    is("packed");
    read_packed(path, all);
  } else if (ending == ".safetensors" || head.find("{\"") == 8) {
    is("safetensors");
    read_safetensors(path, all);
  } else if ((magic & 0xF8FFFF) == 0x080000 && magic >> 24 != 0) {
    is("idx");
    all.records = read_array(ps::mnist<std::byte>(path, {}, input_io()), all, "array");
  } else if (is_tfrecord(head) || ending == ".tfrecord") {
    is("tfrecord");
    read_ragged<"bytes">(ps::tfrecord(path, input_io()), all, "bytes", "uint8");
  } else if (head.starts_with("\xff\xd8\xff") || ending == ".jpg" || ending == ".jpeg") {
    is("jpeg");
    read_jpeg(path, all);
  } else if (head.starts_with("\x89PNG\r\n\x1a\n") || ending == ".png") {
    is("png");
    read_png(path, head, all);
  } else if (head.find("ustar") == 257 || ending == ".tar") {
    is("tar");
    read_tar(path, all);
  } else if (const std::string by = compressed_by(head); !by.empty()) {
    const auto kind = [](const std::string& first) {
      return is_tfrecord(first)           ? "tfrecord"
             : first.find("ustar") == 257 ? "a tar archive"
             : is_text(first)             ? "lines"
                                          : "values";
    };
    read_compressed(path, by, kind, all);
  } else if (is_text(head)) {
    is("lines");
    read_ragged<"text">(ps::lines(path, {}, input_io()), all, "text", "text");
  } else {
    throw std::runtime_error{
        path +
        " is of no format that this program knows: name a file of one of those that it does"};
  }
  return all;
}

int main(int argc, char** argv) {
  std::vector<std::string> paths{argv + 1, argv + argc};
  const bool json = std::erase(paths, "--json") != 0;
  if (paths.empty() || paths.front().starts_with("-")) {
    std::cerr << "Usage: 15_inspect [--json] FILE...\n";
    return 1;
  }
  int code = 0;
  for (const std::string& path : paths) {
    try {
      const Inspected all = inspect(path);
      json ? void(std::cout << as_json(all).text() << '\n') : print(all);
    } catch (const NotBuiltIn& error) {
      std::cerr << "15_inspect: " << error.what() << '\n';
      code = 2;
    } catch (const ps::StageError& error) {
      std::cerr << "15_inspect: " << path << ": " << error.what() << '\n';
      code = std::max(code, 1);
    } catch (const std::exception& error) {
      std::cerr << "15_inspect: " << error.what() << '\n';
      code = std::max(code, 1);
    }
  }
  return code;
}
