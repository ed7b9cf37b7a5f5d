// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace transformer {

/// A stack of blocks, and what goes through it at once.
struct Shape {
  std::size_t layers = 12;
  std::size_t width = 768; ///< Values of a token: a multiple of `heads`.
  std::size_t heads = 12;
  std::size_t tokens = 1024; ///< Tokens of a sequence.
  std::size_t batch = 1;     ///< Sequences of a batch.

  std::size_t head() const noexcept { return width / heads; }
  std::size_t rows() const noexcept { return batch * tokens; }
  /// Returns how many values all tokens have.
  std::size_t values() const noexcept { return rows() * width; }
};

/// The tensors of a block's parameters, in the order in which they lie in memory. A matrix has a
/// row for each output value.
enum class Tensor : std::uint8_t {
  norm1_weight,
  norm1_bias,
  qkv_weight, ///< 3 width x width
  qkv_bias,
  project_weight, ///< width x width
  project_bias,
  norm2_weight,
  norm2_bias,
  up_weight, ///< 4 width x width
  up_bias,
  down_weight, ///< width x 4 width
  down_bias,
  count,
};
inline constexpr std::size_t tensors = static_cast<std::size_t>(Tensor::count);

/// Where a block's tensors lie: each at a multiple of `grain` values, and so of 256 bytes at least.
class Layout {
 public:
  static constexpr std::size_t grain = 256;

  explicit Layout(const Shape& shape) {
    const std::size_t c = shape.width;
    sizes_ = {c, c, 3 * c * c, 3 * c, c * c, c, c, c, 4 * c * c, 4 * c, 4 * c * c, c};
    for (std::size_t i = 0; i < tensors; ++i) {
      begins_[i + 1] = begins_[i] + (sizes_[i] + grain - 1) / grain * grain;
    }
  }
  std::size_t size(std::size_t tensor) const noexcept { return sizes_[tensor]; }
  std::size_t begin(std::size_t tensor) const noexcept { return begins_[tensor]; }
  std::size_t begin(Tensor tensor) const noexcept {
    return begins_[static_cast<std::size_t>(tensor)];
  }
  /// Returns how many values a block has, with those between tensors.
  std::size_t block() const noexcept { return begins_[tensors]; }
  /// Returns whether a tensor's weights decay: matrices do, scales and shifts do not.
  static constexpr bool decays(std::size_t tensor) noexcept {
    constexpr std::array matrices{Tensor::qkv_weight, Tensor::project_weight, Tensor::up_weight,
                                  Tensor::down_weight};
    for (const Tensor matrix : matrices) {
      if (tensor == static_cast<std::size_t>(matrix)) {
        return true;
      }
    }
    return false;
  }

 private:
  std::array<std::size_t, tensors> sizes_{};
  std::array<std::size_t, tensors + 1> begins_{};
};

} // namespace transformer
