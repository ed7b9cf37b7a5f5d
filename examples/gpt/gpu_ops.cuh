// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention.cuh"
#include "cross_entropy.cuh"
#include "drop.cuh"
#include "embedding.cuh"
#include "flash.cuh"
#include "norm.cuh"
#include "ops.hpp"
#include "products.hpp"

#include <penstock/cuda.hpp>
#include <penstock/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

namespace transformer {

/// Options of the operations on a GPU.
struct GpuOptions {
  Precision precision = Precision::exact; ///< How exact products of floats are.
  bool fused = true; ///< Attention in one kernel: for bf16, and for what FlashAttention::fits().
};

/// HostOps's operations on a GPU: cuBLASLt computes products, with bias, GELU and residual where
/// they come out; kernels of their own do the rest.
template <class T> class GpuOps {
 public:
  using value_type = T;
  using device_type = penstock::CudaDevice;

  /// Throws OptionError unless the width is a multiple of 8 and of the heads.
  GpuOps(penstock::CudaDevice& gpu, const Shape& shape, GpuOptions options = {})
      : shape_{checked(shape)}, stream_{gpu.stream()}, products_{gpu, options.precision} {
    if (std::is_same_v<T, float> || !options.fused) {
      unfused_.emplace(gpu, shape, products_);
    } else {
      flash_.emplace(gpu, shape);
    }
    const auto here = gpu.attach();
    cross_entropy::allow<T>();
  }

  penstock::CudaStream& stream() noexcept { return stream_; }
  const Shape& shape() const noexcept { return shape_; }

  void norm(const Norm<T>& x) {
    launch_rows(stream_, shape_.rows(), norm_kernel<T>, x, shape_.rows(), shape_.width,
                norm_epsilon);
  }
  void norm_backward(const NormBackward<T>& x) {
    launch_rows(stream_, shape_.rows(), norm_backward_kernel<T>, x, shape_.rows(), shape_.width);
    column_sums<2, T>(stream_, shape_.rows(), shape_.width, NormSums<T>{x, shape_.width});
  }

  void linear(const Linear<T>& x) {
    const auto in = size(x.in_width);
    const auto out = size(x.out_width);
    // Counted in columns, as here, a row of values is a column.
    products_(
        {.m = out,
         .n = size(shape_.rows()),
         .k = in,
         .a = {data_type<T>, in, 0, true},
         .b = {data_type<T>, in},
         .c = {data_type<T>, out},
         .epilogue = x.gelu != nullptr ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS,
         .adds = x.residual != nullptr},
        {.a = x.weight, .b = x.in, .c = x.out, .d = x.residual, .bias = x.bias, .aux = x.gelu},
        stream_);
  }
  void linear_backward(const LinearBackward<T>& x) {
    const auto in = size(x.in_width);
    const auto out = size(x.out_width);
    const auto rows = size(shape_.rows());
    products_({.m = in,
               .n = rows,
               .k = out,
               .a = {data_type<T>, in},
               .b = {data_type<T>, out},
               .c = {data_type<T>, in},
               .epilogue = x.gelu != nullptr ? CUBLASLT_EPILOGUE_DGELU : CUBLASLT_EPILOGUE_DEFAULT},
              {.a = x.weight, .b = x.d_out, .c = x.d_in, .aux = const_cast<T*>(x.gelu)}, stream_);
    add_d_weight(x.in, x.d_out, x.d_weight, in, out, rows);
    column_sums<1, T>(stream_, shape_.rows(), x.out_width,
                      BiasSums<T>{x.d_out, x.d_bias, x.out_width});
  }

  std::size_t attention_kept() const noexcept { return flash_ ? flash_->kept() : unfused_->kept(); }
  void attention(const Attention<T>& x) {
    if constexpr (!std::is_same_v<T, float>) {
      if (flash_) {
        return flash_->forward(x, stream_);
      }
    }
    unfused_->forward(x, stream_);
  }
  void attention_backward(const AttentionBackward<T>& x) {
    if constexpr (!std::is_same_v<T, float>) {
      if (flash_) {
        return flash_->backward(x, stream_);
      }
    }
    unfused_->backward(x, stream_);
  }

  void drop(const Drop<T>& x) {
    launch_rows(stream_, shape_.rows(), drop_kernel<T>, x, shape_.rows(), shape_.width);
  }
  void embedding(const Embedding<T>& x) { embed(x, shape_, stream_); }
  void embedding_backward(const EmbeddingBackward<T>& x) { embed_backward(x, shape_, stream_); }

  void logits(const Logits<T>& x) {
    const auto width = size(shape_.width);
    const auto columns = size(x.columns);
    products_({.m = columns,
               .n = size(x.rows),
               .k = width,
               .a = {data_type<T>, width, 0, true},
               .b = {data_type<T>, width},
               .c = {data_type<T>, columns}},
              {.a = x.weight, .b = x.in, .c = x.logits}, stream_);
  }
  void logits_backward(const LogitsBackward<T>& x) {
    const auto width = size(shape_.width);
    const auto columns = size(x.columns);
    const auto rows = size(x.rows);
    add_d_weight(x.in, x.d_logits, x.d_weight, width, columns, rows);
    products_({.m = width,
               .n = rows,
               .k = columns,
               .a = {data_type<T>, width},
               .b = {data_type<T>, columns},
               .c = {data_type<T>, width}},
              {.a = x.weight, .b = x.d_logits, .c = x.d_in}, stream_);
  }
  void cross_entropy(const CrossEntropy<T>& x) { cross_entropy::launch(x, stream_); }

  static constexpr float norm_epsilon = 1e-5F;

 private:
  static const Shape& checked(const Shape& shape) {
    if (shape.width % 8 != 0 || shape.width % shape.heads != 0) {
      throw penstock::OptionError{"a width of " + std::to_string(shape.width) +
                                  " is no multiple of 8 and of its " + std::to_string(shape.heads) +
                                  " heads"};
    }
    return shape;
  }
  void add_d_weight(const T* in, const T* d_out, float* d_weight, std::int64_t in_width,
                    std::int64_t out_width, std::int64_t rows) {
    products_({.m = in_width,
               .n = out_width,
               .k = rows,
               .a = {data_type<T>, in_width},
               .b = {data_type<T>, out_width, 0, true},
               .c = {CUDA_R_32F, in_width},
               .adds = true},
              {.a = in, .b = d_out, .c = d_weight}, stream_);
  }
  static std::int64_t size(std::size_t values) { return static_cast<std::int64_t>(values); }

  Shape shape_;
  penstock::CudaStream stream_;
  Products products_;
  std::optional<UnfusedAttention<T>> unfused_;
  std::optional<FlashAttention> flash_;
};

} // namespace transformer
