// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/workspace.hpp>
#include <penstock/cuda.hpp>
#include <penstock/data/float16.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace transformer {

/// Throws if a call of cuBLASLt has failed; `call` is its name.
inline void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error{std::string{call} + ": " + cublasLtGetStatusString(status)};
  }
}

/// Whether floats are multiplied as they are, or cut to 19 bits for the tensor cores.
enum class Precision : std::uint8_t { exact, tf32 };

/// c = alpha * a * b + beta * d, all in columns, as cuBLAS has them: `m` rows by `n` columns out of
/// `k`. A matrix that is `transposed` lies as its transpose. Of `count` such products, each matrix
/// lies `stride` values from the next product's.
struct Product {
  struct Matrix {
    cudaDataType_t type = CUDA_R_32F;
    std::int64_t leading = 0; ///< Values from one column to the next.
    std::int64_t stride = 0;
    bool transposed = false;
    auto operator<=>(const Matrix&) const = default;
  };
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b, c;
  int count = 1;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  bool adds = false; ///< Whether beta is 1, rather than 0.
  auto operator<=>(const Product&) const = default;
};

/// What a product works on. `d` may be `c`; it is null if nothing is added.
struct Operands {
  const void* a;
  const void* b;
  void* c;
  const void* d = nullptr;
  const void* bias = nullptr; ///< One for each row of c.
  void* aux = nullptr;        ///< What GELU's epilogues write, or read.
  float alpha = 1;
};

template <class T>
inline constexpr cudaDataType_t data_type = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;

/// Products by cuBLASLt. It is asked only once how to compute each of them best. One stream at a
/// time, since they share a workspace.
class Products {
 public:
  Products(penstock::CudaDevice& gpu, Precision precision)
      : workspace_{gpu, workspace_bytes},
        compute_{precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F} {
    cublasLtHandle_t handle = nullptr;
    check(cublasLtCreate(&handle), "cublasLtCreate");
    handle_.reset(handle);
  }

  void operator()(const Product& product, const Operands& x, cudaStream_t stream) {
    Plan& plan = plans_.try_emplace(product).first->second;
    if (!plan.matmul) {
      make(plan, product, x);
    } else if (product.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
      point(plan, x);
    }
    const float beta = product.adds ? 1 : 0;
    check(cublasLtMatmul(handle_.get(), plan.matmul.get(), &x.alpha, x.a, plan.a.get(), x.b,
                         plan.b.get(), &beta, x.d != nullptr ? x.d : x.c, plan.c.get(), x.c,
                         plan.c.get(), &plan.algorithm, workspace_.data(), workspace_.size(),
                         stream),
          "cublasLtMatmul");
  }

 private:
  // The size that NVIDIA advises for Hopper and later.
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  template <class Handle, auto destroy> struct Destroy {
    void operator()(Handle handle) const { destroy(handle); }
  };
  template <class Handle, auto destroy>
  using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, destroy>>;
  using Layout = Owner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  struct Plan {
    Owner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> matmul;
    Layout a, b, c;
    cublasLtMatmulAlgo_t algorithm{};
  };

  template <class T>
  static void set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(cublasLtMatmulDescSetAttribute(plan.matmul.get(), attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }
  static void point(const Plan& plan, const Operands& x) {
    set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, x.bias);
    if (x.aux != nullptr) {
      set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, x.aux);
    }
  }
  static Layout layout(const Product::Matrix& matrix, std::int64_t rows, std::int64_t columns,
                       int count) {
    cublasLtMatrixLayout_t made = nullptr;
    const bool turned = matrix.transposed;
    check(cublasLtMatrixLayoutCreate(
              &made, matrix.type, static_cast<std::uint64_t>(turned ? columns : rows),
              static_cast<std::uint64_t>(turned ? rows : columns), matrix.leading),
          "cublasLtMatrixLayoutCreate");
    Layout owner{made};
    if (count > 1) {
      check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                             sizeof count),
            "cublasLtMatrixLayoutSetAttribute");
      check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &matrix.stride, sizeof matrix.stride),
            "cublasLtMatrixLayoutSetAttribute");
    }
    return owner;
  }

  void make(Plan& plan, const Product& product, const Operands& x) {
    cublasLtMatmulDesc_t matmul = nullptr;
    check(cublasLtMatmulDescCreate(&matmul, compute_, CUDA_R_32F), "cublasLtMatmulDescCreate");
    plan.matmul.reset(matmul);
    try {
      set(plan, CUBLASLT_MATMUL_DESC_TRANSA, product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
      set(plan, CUBLASLT_MATMUL_DESC_TRANSB, product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
      set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, product.epilogue);
      if (product.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
        set(plan, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, product.a.type);
        if (x.aux != nullptr) {
          set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.c.leading);
          set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, product.c.type);
        }
        point(plan, x);
      }
      plan.a = layout(product.a, product.m, product.k, product.count);
      plan.b = layout(product.b, product.k, product.n, product.count);
      plan.c = layout(product.c, product.m, product.n, product.count);
      choose(plan);
    } catch (...) {
      plan.matmul.reset();
      throw;
    }
  }
  void choose(Plan& plan) {
    cublasLtMatmulPreference_t made = nullptr;
    check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
    const Owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference{made};
    const std::size_t bytes = workspace_.size();
    check(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &bytes, sizeof bytes),
          "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), plan.matmul.get(), plan.a.get(),
                                         plan.b.get(), plan.c.get(), plan.c.get(), made, 1, &best,
                                         &found),
          "cublasLtMatmulAlgoGetHeuristic");
    if (found == 0) {
      throw std::runtime_error{"cuBLASLt has no way to compute a product of these types"};
    }
    plan.algorithm = best.algo;
  }

  penstock::Workspace<penstock::CudaDevice> workspace_;
  cublasComputeType_t compute_;
  Owner<cublasLtHandle_t, cublasLtDestroy> handle_;
  std::map<Product, Plan> plans_;
};

} // namespace transformer
