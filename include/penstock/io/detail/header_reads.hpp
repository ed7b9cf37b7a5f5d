// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/io/file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::detail {

/// Reads headers that lie one behind the other in a file, or with data between. Where a read is a
/// request over a network, which the Io tells by `read_ahead`, the most bytes that are worth it,
/// those near each other come together: the more, the longer that goes on. One thread.
template <class Io> class HeaderReads {
 public:
  /// `file` must outlive this.
  explicit HeaderReads(const File<Io>& file) : file_{file} {}

  /// Fills `into` from byte `at` on, as read_full() does.
  void operator()(std::uint64_t at, std::span<std::byte> into) {
    if constexpr (requires { Io::read_ahead; }) {
      if (into.size() >= Io::read_ahead) {
        return read_full(file_, at, into);
      }
      if (at < begin_ || at + into.size() > begin_ + ahead_.size()) {
        const bool near = at >= begin_ && at <= begin_ + 2 * ahead_.size() && !ahead_.empty();
        const std::size_t more = near ? std::min(2 * ahead_.size(), Io::read_ahead) : least;
        const std::uint64_t left = file_.size() - std::min(file_.size(), at);
        ahead_.resize(
            static_cast<std::size_t>(std::min<std::uint64_t>(std::max(more, into.size()), left)));
        begin_ = at;
        read_full(file_, at, std::span{ahead_});
      }
      const std::size_t from = static_cast<std::size_t>(at - begin_);
      std::copy_n(ahead_.data() + from, into.size(), into.data());
    } else {
      read_full(file_, at, into);
    }
  }

 private:
  static constexpr std::size_t least = std::size_t{64} << 10;

  const File<Io>& file_;
  std::uint64_t begin_{};
  std::vector<std::byte> ahead_;
};

} // namespace penstock::detail
