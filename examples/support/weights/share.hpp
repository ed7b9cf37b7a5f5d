// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout.hpp"

#include <penstock/formats/safetensors.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace weights {

/// A share of a model's bytes, as a source of its own: those of its pieces, back to back.
class Share {
 public:
  using schema = std::byte;

  /// Takes a model that is open.
  Share(penstock::Safetensors<> model, const Layout& layout, std::size_t share)
      : model_{std::move(model)} {
    for (std::size_t i = 0; i != layout.rows(); ++i) {
      const Row row = layout.row(i);
      add(layout.before(row.at + share * row.each), layout.before_end(i, share));
    }
  }

  std::uint64_t size() const { return bytes_; }
  template <penstock::HostSpace Where>
  std::size_t read(penstock::Batch<std::byte, Where> into) const {
    std::byte* to = into.data();
    each_run(into.index(), into.size(), [&](std::uint64_t at, std::uint64_t count) {
      model_.read_bytes(at, {to, count});
      to += count;
    });
    return into.size();
  }
  void note(std::string& to) const { model_.note(to); }

  /// Calls `f(at, count)` for each run of the model's bytes that `count` bytes of the share are.
  template <class F> void each_run(std::uint64_t at, std::uint64_t count, F f) const {
    const auto behind =
        std::upper_bound(runs_.begin(), runs_.end(), at,
                         [](std::uint64_t byte, const Run& run) { return byte < run.first; });
    for (auto run = std::prev(behind); count != 0; ++run) {
      const std::uint64_t skipped = at - run->first;
      const std::uint64_t here = std::min(run->bytes - skipped, count);
      f(run->at + skipped, here);
      at += here;
      count -= here;
    }
  }

 private:
  // Bytes that lie together in the model.
  struct Run {
    std::uint64_t first; // of the share
    std::uint64_t at;    // in the model
    std::uint64_t bytes;
  };

  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin == end) {
      return;
    }
    if (!runs_.empty() && runs_.back().at + runs_.back().bytes == begin) {
      runs_.back().bytes += end - begin;
    } else {
      runs_.push_back({bytes_, begin, end - begin});
    }
    bytes_ += end - begin;
  }

  penstock::Safetensors<> model_;
  std::vector<Run> runs_;
  std::uint64_t bytes_ = 0;
};

} // namespace weights
