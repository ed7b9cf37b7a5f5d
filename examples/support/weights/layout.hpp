// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/tensor_info.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

namespace weights {

/// As many equally large pieces as there are shares, side by side: the first share's begins at
/// `at`.
struct Row {
  std::uint64_t at;
  std::uint64_t each; // bytes of a piece
};

/// Returns a text that differs between models whose tensors differ in more than their bytes.
inline std::string text_of(std::span<const penstock::TensorInfo> tensors) {
  std::string text;
  for (const penstock::TensorInfo& tensor : tensors) {
    text += tensor.name + ' ' + std::string{penstock::name_of(tensor.type)} + ' ';
    for (const auto count : tensor.shape) {
      text += std::to_string(count) + ' ';
    }
    text += std::to_string(tensor.bytes) + '\n';
  }
  return text;
}

/// Where each tensor of a model lies in a device's memory, and which share it comes with: the same
/// for all devices. Tensors lie as in the source, each at a multiple of 256 bytes. Rows cut the
/// memory, across tensors: a device that reads its piece of each row and gets the other pieces has
/// all tensors. The last row is smaller than the others, and may end behind the last tensor.
class Layout {
 public:
  /// The tensors must live as long. A piece has `piece` bytes, or a little more.
  Layout(std::span<const penstock::TensorInfo> tensors, std::size_t shares,
         std::uint64_t piece = std::uint64_t{32} << 20)
      : tensors_{tensors}, shares_{shares}, piece_{aligned(std::max<std::uint64_t>(piece, 1))} {
    std::uint64_t end = 0;
    for (const penstock::TensorInfo& tensor : tensors) {
      places_.push_back(end);
      end += aligned(tensor.bytes);
    }
    const std::uint64_t full = piece_ * shares;
    rows_ = end / full;
    last_ = aligned((end % full + shares - 1) / shares);
  }

  /// Returns the bytes of memory that a device needs.
  std::uint64_t bytes() const { return (rows_ * piece_ + last_) * shares_; }
  std::size_t shares() const { return shares_; }
  /// Returns how many rows there are.
  std::size_t rows() const { return rows_ + (last_ == 0 ? 0 : 1); }
  Row row(std::size_t number) const {
    return {number * piece_ * shares_, number < rows_ ? piece_ : last_};
  }
  /// Returns where the tensor of this number lies.
  std::uint64_t place(std::size_t tensor) const { return places_[tensor]; }

  /// Returns how many of the source's bytes lie before this place.
  std::uint64_t before(std::uint64_t place) const {
    const auto behind = std::upper_bound(places_.begin(), places_.end(), place);
    if (behind == places_.begin()) {
      return 0;
    }
    const auto last = static_cast<std::size_t>(std::distance(places_.begin(), behind)) - 1;
    return tensors_[last].at + std::min(place - places_[last], tensors_[last].bytes);
  }
  /// Returns how many of the source's bytes lie before the end of a share's piece of a row.
  std::uint64_t before_end(std::size_t row, std::size_t share) const {
    const Row all = this->row(row);
    return before(all.at + (share + 1) * all.each);
  }
  /// Calls `f(place, bytes)` for the part of each tensor among `count` bytes of the source.
  template <class F> void each_part(std::uint64_t at, std::uint64_t count, F f) const {
    const auto behind = std::upper_bound(
        tensors_.begin(), tensors_.end(), at,
        [](std::uint64_t byte, const penstock::TensorInfo& tensor) { return byte < tensor.at; });
    for (auto tensor = std::prev(behind); count != 0; ++tensor) {
      const std::uint64_t skipped = at - tensor->at;
      const std::uint64_t here = std::min(tensor->bytes - skipped, count);
      if (here != 0) {
        f(places_[static_cast<std::size_t>(tensor - tensors_.begin())] + skipped, here);
      }
      at += here;
      count -= here;
    }
  }

 private:
  static std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 255) / 256 * 256; }

  std::span<const penstock::TensorInfo> tensors_;
  std::size_t shares_;
  std::uint64_t piece_;
  std::vector<std::uint64_t> places_;
  std::uint64_t rows_ = 0; // that are full
  std::uint64_t last_ = 0; // bytes of a piece of the row behind them
};

} // namespace weights
