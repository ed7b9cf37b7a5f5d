// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "input_file.hpp"
#include "inspected.hpp"

#include <penstock/formats/tar.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <ios>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

/// Reads a tar archive's samples: each ending that their members have is a column.
inline void read_tar(const std::string& path, Inspected& all) {
  InputFile in{path};
  std::vector<char> piece(std::size_t{1} << 20);
  std::uint64_t samples = 0;
  std::string key;
  std::vector<std::string> endings; // of the sample
  for (const ps::TarMember& member : ps::tar_members(path, input_io())) {
    if (member.key().empty()) {
      continue;
    }
    if (member.key() != key) {
      key = member.key();
      endings.clear();
      ++samples;
    }
    std::string ending{member.ending()};
    std::transform(ending.begin(), ending.end(), ending.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (std::find(endings.begin(), endings.end(), ending) != endings.end()) {
      throw std::runtime_error{path + " has two members " + member.name +
                               " in one sample, and a column takes one"};
    }
    auto column = std::find_if(all.columns.begin(), all.columns.end(),
                               [&](const Column& one) { return one.name == ending; });
    if (column == all.columns.end()) {
      column = all.columns.insert(column, Column{ending, "uint8"});
    }
    endings.push_back(ending);
    in.seekg(static_cast<std::streamoff>(member.offset));
    for (std::uint64_t left = member.bytes; left != 0;) {
      const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(left, piece.size()));
      if (!in.read(piece.data(), static_cast<std::streamsize>(some))) {
        throw std::runtime_error{path + " became shorter while it was read"};
      }
      column->add(std::as_bytes(std::span{piece}.first(some)));
      left -= some;
    }
  }
  all.records = samples;
}
