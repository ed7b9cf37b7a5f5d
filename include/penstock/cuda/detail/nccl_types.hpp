// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/float16.hpp>

#include <cstddef>
#include <type_traits>

#include <nccl.h>

namespace penstock::detail {

/// Returns NCCL's name of a type.
template <class T> constexpr ncclDataType_t nccl_type() noexcept {
  if constexpr (std::is_same_v<T, float>) {
    return ncclFloat32;
  } else if constexpr (std::is_same_v<T, double>) {
    return ncclFloat64;
  } else if constexpr (std::is_same_v<T, Half>) {
    return ncclFloat16;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return ncclBfloat16;
  } else if constexpr (std::is_same_v<T, std::byte>) {
    return ncclUint8;
  } else {
    static_assert(std::is_integral_v<T> && sizeof(T) != 2,
                  "NCCL knows float, double, ps::Half, ps::BFloat16, std::byte, and whole numbers "
                  "of 8, 32 and 64 bits: cast the pointer to one of them");
    constexpr bool is_signed = std::is_signed_v<T>;
    return sizeof(T) == 1   ? (is_signed ? ncclInt8 : ncclUint8)
           : sizeof(T) == 4 ? (is_signed ? ncclInt32 : ncclUint32)
                            : (is_signed ? ncclInt64 : ncclUint64);
  }
}

} // namespace penstock::detail
