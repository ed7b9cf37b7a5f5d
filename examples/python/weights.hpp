// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "places.hpp"
#include "tensor.hpp"

#include <penstock/formats/safetensors.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// DLPack's numbers of the types that safetensors names, in their order, as DLPack 1.1 has them.
inline constexpr std::uint8_t no_code = 255;
inline constexpr std::array<std::uint8_t, 22> dlpack_codes{
    6, no_code, no_code, no_code, 1, 0, 12, 10, 14, 11, 13, 0, 1, 2, 4, 0, 1, 2, 5, 2, 0, 1};

/// Returns DLPack's name of a type; 0 lanes if it has none of whole bytes.
inline ps::dl::DataType dlpack_type(ps::TensorType type) {
  const std::uint8_t code = dlpack_codes[static_cast<std::size_t>(type)];
  return {code, static_cast<std::uint8_t>(ps::bits_of(type)),
          static_cast<std::uint16_t>(code == no_code ? 0 : 1)};
}

/// All tensors of a model in one block of memory, each at a multiple of 256 bytes.
template <class Where> class Weights {
 public:
  static constexpr std::size_t alignment = 256;

  Weights(const LoaderOptions& options, const std::string& path) : where_{options} {
    auto source = ps::safetensors(path);
    source.open();
    tensors_.assign(source.tensors().begin(), source.tensors().end());
    for (const ps::TensorInfo& tensor : tensors_) {
      at_.push_back(bytes_);
      bytes_ += (tensor.bytes + alignment - 1) / alignment * alignment;
    }
    memory_ = static_cast<std::byte*>(where_.device.allocate(bytes_));
    try {
      read(source);
    } catch (...) {
      where_.device.deallocate(memory_, bytes_);
      throw;
    }
  }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;
  ~Weights() { where_.device.deallocate(memory_, bytes_); }

  /// Returns {name: Tensor}; each keeps all of the memory.
  static nb::dict tensors(const std::shared_ptr<Weights>& self) {
    nb::dict all;
    for (std::size_t i = 0; i != self->tensors_.size(); ++i) {
      const ps::TensorInfo& info = self->tensors_[i];
      if (dlpack_type(info.type).lanes == 0) {
        throw ps::Error{"penstock: weights: the tensor \"" + info.name + "\" is of type " +
                        std::string{ps::name_of(info.type)} +
                        ", which no framework takes by DLPack: "
                        "read it with penstock's safetensors()."};
      }
      all[nb::str(info.name.c_str())] = Tensor{
          self->where_.place(),
          [self, i]<class Managed>(Managed*) { return self->template tensor<Managed>(i, self); },
          [](AskedStream) {}};
    }
    return all;
  }

 private:
  template <class Managed> struct Given {
    Managed managed{};
    std::vector<std::int64_t> shape, strides;
    std::shared_ptr<Weights> owner;
  };

  // Has each batch copied to where its tensors are to be.
  void read(const ps::Safetensors<>& source) {
    auto bytes = ps::Reader{source, ps::to_pinned} | ps::AsyncCopier{where_.device};
    auto stream = where_.device.stream();
    std::size_t tensor = 0;
    for (auto batch : bytes.on(stream)) {
      const std::uint64_t end = batch.index() + batch.size();
      for (std::uint64_t at = batch.index(); at != end;) {
        while (at >= tensors_[tensor].at + tensors_[tensor].bytes) {
          ++tensor;
        }
        const std::uint64_t within = at - tensors_[tensor].at;
        const std::uint64_t count = std::min(end - at, tensors_[tensor].bytes - within);
        Where::copy(stream, memory_ + at_[tensor] + within, batch.data() + (at - batch.index()),
                    count);
        at += count;
      }
    }
    where_.device.sync(stream);
  }

  template <class Managed> Managed* tensor(std::size_t i, std::shared_ptr<Weights> self) {
    auto given = std::make_unique<Given<Managed>>();
    given->owner = std::move(self);
    given->shape.assign(tensors_[i].shape.begin(), tensors_[i].shape.end());
    given->strides.resize(given->shape.size(), 1);
    for (std::size_t j = given->shape.size(); j-- > 1;) {
      given->strides[j - 1] = given->strides[j] * given->shape[j];
    }
    given->managed.dl_tensor = {memory_ + at_[i],
                                where_.place(),
                                static_cast<std::int32_t>(given->shape.size()),
                                dlpack_type(tensors_[i].type),
                                given->shape.data(),
                                given->strides.data(),
                                0};
    if constexpr (requires { given->managed.version; }) {
      given->managed.version.major = 1;
    }
    given->managed.manager_ctx = given.get();
    given->managed.deleter = [](Managed* managed) noexcept {
      delete static_cast<Given<Managed>*>(managed->manager_ctx);
    };
    return &given.release()->managed;
  }

  Where where_;
  std::vector<ps::TensorInfo> tensors_;
  std::vector<std::size_t> at_; // of each tensor, in memory_
  std::size_t bytes_{};
  std::byte* memory_{};
};
