// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/decompressed.hpp>
#include <penstock/formats/gzip.hpp>
#include <penstock/formats/interleaved.hpp>
#include <penstock/formats/lines.hpp>
#include <penstock/formats/npy.hpp>
#include <penstock/formats/seekable.hpp>
#include <penstock/formats/tfrecord.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/formats/zstd_output.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>
#include <string>

namespace ps = penstock;

struct Text : ps::Columns<ps::Field<"bytes", ps::Ragged<char>>> {};

/// Makes a chain that gives the texts of a TFRecord file, in which each is a zstd frame.
inline auto compressed_texts(const std::string& path) {
  return ps::Reader{ps::tfrecord(path)} |
         ps::Decoder{ps::decompressed<"bytes", ps::TfRecord, Text>(ps::Zstd{})};
}

/// Makes a source of the numbers of a file that gzip compressed.
inline auto compressed_numbers(const std::string& path) {
  return ps::interleaved<std::uint32_t>({path}, ps::Gzip{}, {.at_once = 8, .block = 256});
}

/// Makes a source of the lines of a file of many zstd frames, which may come in any order.
inline auto compressed_lines(const std::string& path) {
  return ps::lines(path, {}, ps::seekable(ps::Zstd{}));
}

/// Makes a source of the array of a `.npy.zst` file, in any order.
inline auto compressed_array(const std::string& path) {
  return ps::npy<float>(path, {}, ps::seekable(ps::Zstd{}));
}

/// Makes a pipeline that compresses an array's values, with three workers.
inline auto to_zstd(const std::string& from, const std::string& to) {
  return ps::Reader{ps::npy<float>(from)} |
         ps::Writer{to, {.workers = 3}, ps::ZstdOutput{{.level = 9}}};
}
