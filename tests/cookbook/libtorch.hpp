// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/dlpack.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/DLConvertor.h>
#include <torch/torch.h>

namespace ps = penstock;

/// Returns a column of a batch as libtorch's tensor, which keeps its place. Libtorch's current
/// stream must be the loop's: `where` says only where the batch lies.
template <ps::Name Column, class B>
at::Tensor tensor_of(const ps::SharedLease<B>& shared, ps::dl::Device where,
                     std::shared_ptr<void> owner = {}) {
  return at::fromDLPack(ps::to_dlpack<Column, DLManagedTensor>(shared, where, std::move(owner)));
}

/// Returns a batch of records that have no columns as one, by its address: the deleter has a copy
/// of the lease.
template <class B>
at::Tensor tensor_of_floats(const ps::SharedLease<B>& shared, std::vector<std::int64_t> sizes,
                            at::TensorOptions options) {
  return torch::from_blob(
      const_cast<void*>(static_cast<const void*>(shared.data())), sizes,
      [kept = shared](void*) mutable { kept.release(); }, options);
}
