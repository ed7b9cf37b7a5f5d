// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/interrupt.hpp>
#include <penstock/io/detail/http_object.hpp>
#include <penstock/io/detail/http_state.hpp>
#include <penstock/io/many_reads.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Reads many small parts of objects at once, those that lie near each other by one request: see
/// ReadsMany. Any number of threads.
class HttpReads {
 public:
  using Objects = std::vector<std::shared_ptr<const HttpObject>>;

  static constexpr std::size_t most = 256;
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  /// Leaves alone the files in whose place there is no object.
  HttpReads(std::shared_ptr<HttpState> state, Objects files)
      : state_{std::move(state)}, files_{std::move(files)},
        any_{std::any_of(files_.begin(), files_.end(), [](const auto& file) { return file; })} {}

  bool usable() const noexcept { return any_; }
  /// What fails is left to be read again, one part after the other, which says why.
  void read(std::span<FileRead> parts) noexcept {
    try {
      std::vector<FileRead*> sorted;
      for (FileRead& part : parts) {
        if (part.file < files_.size() && files_[part.file]) {
          sorted.push_back(&part);
        }
      }
      std::sort(sorted.begin(), sorted.end(), [](const FileRead* a, const FileRead* b) {
        return std::pair{a->file, a->offset} < std::pair{b->file, b->offset};
      });
      std::vector<HttpFetch> fetches = joined_near(sorted);
      if (!fetches.empty()) {
        state_->run(fetches);
      }
    } catch (const std::exception&) {
    }
  }
  /// The Io notes what there is to note.
  std::string note() const { return {}; }

 private:
  // A request costs about as much as so many bytes more.
  static constexpr std::uint64_t widest_gap = std::uint64_t{64} << 10;

  std::vector<HttpFetch> joined_near(const std::vector<FileRead*>& sorted) const {
    std::vector<HttpFetch> fetches;
    for (std::size_t i = 0; i != sorted.size();) {
      const FileRead& first = *sorted[i];
      std::uint64_t end = first.offset + first.into.size();
      std::size_t next = i + 1;
      for (; next != sorted.size(); ++next) {
        const FileRead& part = *sorted[next];
        const std::uint64_t its_end = part.offset + part.into.size();
        // Who asks twice for one record gets it by two requests.
        if (part.file != first.file || part.offset < end || part.offset - end > widest_gap ||
            its_end - first.offset > most_bytes) {
          break;
        }
        end = its_end;
      }
      HttpFetch& fetch = fetches.emplace_back();
      fetch.kind = HttpFetch::Kind::parts;
      fetch.object = files_[first.file].get();
      fetch.name = fetch.object->name;
      fetch.parts = std::span{sorted.data() + i, next - i};
      i = next;
    }
    return fetches;
  }

  std::shared_ptr<HttpState> state_;
  Objects files_;
  bool any_;
};

} // namespace penstock::detail
