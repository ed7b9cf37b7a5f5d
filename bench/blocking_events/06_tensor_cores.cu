// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What do tensor cores gain in a matrix product, and what do bias and GELU cost after it?
//
// The first product of a transformer's MLP: 8192 rows of 4096 values times a matrix of 16384 x
// 4096, plus a bias, through GELU; 20 times a run, by cuBLASLt. 4096 values of the last product are
// compared with sums in double precision: they may be off by a thousandth of their length, and by a
// hundredth in bf16, which has eight bits.
//
//   fp32            floats, multiplied as they are; bias and GELU by a kernel of their own
//   fp32_epilogue   fp32 with bias and GELU where the product comes out
//   tf32            floats, cut to 19 bits for the tensor cores
//   bf16_kernel     bf16; bias and GELU by a kernel of their own
//   bf16            bf16 with bias and GELU where the product comes out
//   bf16_alone      no bias and no GELU: what cuBLASLt reaches
//
// The counter `flops` counts the products' multiplications and additions.

#include "event.hpp"
#include "numbers.cuh"

#include "gpt/products.hpp"

#include <penstock/cuda.hpp>
#include <penstock/cuda/algorithm.cuh>
#include <penstock/data/float16.hpp>
#include <penstock/device/device_array.hpp>
#include <penstock/host/device.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace {

namespace ps = penstock;
using namespace penstock_bench;
using transformer::Precision;
using transformer::Product;
using transformer::Products;

struct Sizes {
  std::size_t rows, in, out, products;
  double flops() const { return 2.0 * static_cast<double>(rows * in * out * products); }
};

/// Arrays of number(). Weights are so small that sums are about 1 in size, where GELU is curved.
enum : std::uint64_t { ins = 1, weights, biases };
constexpr float weight_scale = 1.0F / 16;

template <class T> struct Layer {
  Layer(ps::CudaDevice& gpu, const Sizes& sizes)
      : in{gpu, sizes.rows * sizes.in}, weight{gpu, sizes.out * sizes.in}, bias{gpu, sizes.out} {
    const ps::CudaStream stream = gpu.stream();
    ps::for_each(stream, in.size(), FillNumbers<T>{in.data(), ins});
    ps::for_each(stream, weight.size(), FillNumbers<T>{weight.data(), weights, weight_scale});
    ps::for_each(stream, bias.size(), FillNumbers<T>{bias.data(), biases});
    gpu.sync(stream);
  }
  ps::DeviceArray<T, ps::CudaDevice> in, weight, bias;
};

/// Computes GELU by tanh, as cuBLASLt does.
PENSTOCK_HD float gelu(float x) {
  return 0.5F * x * (1 + tanhf(0.7978845608F * (x + 0.044715F * x * x * x)));
}

template <class T> struct alignas(16) Part { // what one instruction loads or stores
  static constexpr std::size_t count = 16 / sizeof(T);
  T at[count];
};
/// For ps::for_each: part number i of all rows.
template <class T> struct BiasAndGelu {
  Part<T>* values;
  const Part<T>* bias;
  std::size_t parts; // of a row
  PENSTOCK_HD void operator()(std::size_t i) const {
    Part<T> part = values[i];
    const Part<T> add = bias[i % parts];
    for (std::size_t k = 0; k < Part<T>::count; ++k) {
      part.at[k] =
          static_cast<T>(gelu(static_cast<float>(part.at[k]) + static_cast<float>(add.at[k])));
    }
    values[i] = part;
  }
};

/// How many values are compared, all over the result.
constexpr std::size_t samples = 4096;
PENSTOCK_HD std::size_t sampled(std::size_t i, const Sizes& sizes) {
  return i * 2654435761 % (sizes.rows * sizes.out);
}
template <class T> struct TakeSample {
  const T* values;
  Sizes sizes;
  float* at;
  PENSTOCK_HD void operator()(std::size_t i) const {
    at[i] = static_cast<float>(values[sampled(i, sizes)]);
  }
};
/// Computes the right value.
struct ComputeSample {
  Sizes sizes;
  bool activated; ///< By bias and GELU.
  float* at;
  PENSTOCK_HD void operator()(std::size_t i) const {
    const std::size_t row = sampled(i, sizes) / sizes.out;
    const std::size_t out = sampled(i, sizes) % sizes.out;
    double sum = 0;
    for (std::size_t k = 0; k < sizes.in; ++k) {
      sum += static_cast<double>(number(row * sizes.in + k, ins)) *
             static_cast<double>(weight_scale * number(out * sizes.in + k, weights));
    }
    const auto product = static_cast<float>(sum);
    at[i] = activated ? gelu(product + number(out, biases)) : product;
  }
};
using Samples = ps::DeviceArray<float, ps::CudaDevice>;
Samples compute_samples(ps::CudaDevice& gpu, const Sizes& sizes, bool activated) {
  Samples wanted{gpu, samples};
  const ps::CudaStream stream = gpu.stream();
  ps::for_each(stream, samples, ComputeSample{sizes, activated, wanted.data()});
  gpu.sync(stream);
  return wanted;
}

enum class Behind : std::uint8_t { kernel, epilogue, nothing };

template <class T> class Multiplied : public Way {
 public:
  Multiplied(ps::CudaDevice& gpu, const Sizes& sizes, const Layer<T>& layer, const Samples& wanted,
             Precision precision, Behind behind)
      : sizes_{sizes}, layer_{layer}, wanted_{wanted}, behind_{behind}, stream_{gpu.stream()},
        products_{gpu, precision}, out_{gpu, sizes.rows * sizes.out}, samples_{gpu, samples},
        off_{gpu} {}

  std::uint64_t run() override {
    const auto rows = static_cast<std::int64_t>(sizes_.rows);
    const auto in = static_cast<std::int64_t>(sizes_.in);
    const auto out = static_cast<std::int64_t>(sizes_.out);
    const cublasLtEpilogue_t behind =
        behind_ == Behind::epilogue ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    // page: product
    constexpr cudaDataType_t type = transformer::data_type<T>; // CUDA_R_32F or CUDA_R_16BF
    // cuBLAS counts in columns, and what is a row here is a column there: out = weight^T * in.
    const Product product{.m = out,
                          .n = rows,
                          .k = in,
                          .a = {type, in, 0, /*transposed=*/true},
                          .b = {type, in},
                          .c = {type, out},
                          .epilogue = behind}; // CUBLASLT_EPILOGUE_GELU_BIAS
    // page: end
    const transformer::Operands operands{.a = layer_.weight.data(),
                                         .b = layer_.in.data(),
                                         .c = out_.data(),
                                         .bias = layer_.bias.data()};
    const std::size_t parts = sizes_.out / Part<T>::count;
    const BiasAndGelu<T> bias_and_gelu{reinterpret_cast<Part<T>*>(out_.data()),
                                       reinterpret_cast<const Part<T>*>(layer_.bias.data()), parts};
    for (std::size_t i = 0; i < sizes_.products; ++i) {
      products_(product, operands, stream_);
      if (behind_ == Behind::kernel) {
        ps::for_each(stream_, sizes_.rows * parts, bias_and_gelu);
      }
    }
    ps::for_each(stream_, samples, TakeSample<T>{out_.data(), sizes_, samples_.data()});
    const double off = off_(samples_.data(), wanted_.data(), samples, stream_.get());
    if (!(off < (std::is_same_v<T, float> ? 1e-3 : 1e-2))) {
      throw std::runtime_error{"the values are off by " + std::to_string(off)};
    }
    return sizes_.products;
  }
  void count(benchmark::UserCounters& counters) const override {
    counters["flops"] = benchmark::Counter{sizes_.flops(), benchmark::Counter::kIsRate};
  }

 private:
  Sizes sizes_;
  const Layer<T>& layer_;
  const Samples& wanted_;
  Behind behind_;
  ps::CudaStream stream_;
  Products products_;
  ps::DeviceArray<T, ps::CudaDevice> out_;
  Samples samples_;
  Distance off_;
};

} // namespace

int main(int argc, char** argv) {
  return event_on_gpu(argc, argv, [](ps::CudaDevice& gpu, const EventOptions& options) {
    const Sizes sizes = options.pick(Sizes{8192, 4096, 16384, 20}, Sizes{512, 256, 1024, 2});
    const Layer<float> floats{gpu, sizes};
    const Layer<ps::BFloat16> bf16{gpu, sizes};
    const Samples activated = compute_samples(gpu, sizes, true);
    const Samples plain = compute_samples(gpu, sizes, false);
    const Event event{"06_tensor_cores",
                      options,
                      {sizes.products, sizes.flops() / tensor_peak},
                      [=] { return sizes.products; }};
    const auto add = [&]<class T>(const char* name, const Layer<T>& layer, Precision precision,
                                  Behind behind) {
      event.add(name, [&, precision, behind] {
        return std::make_unique<Multiplied<T>>(
            gpu, sizes, layer, behind == Behind::nothing ? plain : activated, precision, behind);
      });
    };
    add("fp32", floats, Precision::exact, Behind::kernel);
    add("fp32_epilogue", floats, Precision::exact, Behind::epilogue);
    add("tf32", floats, Precision::tf32, Behind::epilogue);
    add("bf16_kernel", bf16, Precision::exact, Behind::kernel);
    add("bf16", bf16, Precision::exact, Behind::epilogue);
    add("bf16_alone", bf16, Precision::exact, Behind::nothing);
    return run_all();
  });
}
