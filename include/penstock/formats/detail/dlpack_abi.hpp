// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/float16.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// The structures of DLPack 1.0, as its published ABI lays them out, under names of penstock's own:
// a program may include dlpack.h too, before or after.
namespace penstock::dl {

/// Where a tensor lies: DLDevice.
struct Device {
  std::int32_t device_type; ///< See cpu, cuda and cuda_host.
  std::int32_t device_id;   ///< The GPU's number; 0 for host memory.

  /// Returns whether both are one place.
  bool operator==(const Device&) const = default;
};
inline constexpr std::int32_t cpu = 1;       ///< Device::device_type of host memory.
inline constexpr std::int32_t cuda = 2;      ///< Of a GPU's memory.
inline constexpr std::int32_t cuda_host = 3; ///< Of host memory page-locked for CUDA.

/// What a tensor's values are: DLDataType.
struct DataType {
  std::uint8_t code;   ///< The kind of number.
  std::uint8_t bits;   ///< Of one value.
  std::uint16_t lanes; ///< 1: no vectors.

  /// Returns whether both are one type.
  bool operator==(const DataType&) const = default;
};

/// A tensor, without what keeps it alive: DLTensor.
struct Tensor {
  void* data;                ///< Its first byte, less byte_offset.
  Device device;             ///< Where it lies.
  std::int32_t ndim;         ///< How many dimensions it has.
  DataType dtype;            ///< What its values are.
  std::int64_t* shape;       ///< The extent of each dimension.
  std::int64_t* strides;     ///< From one value to the next, in values; null: row by row.
  std::uint64_t byte_offset; ///< From data to the first value.
};

/// A tensor with what gives it back, as consumers before DLPack 1.0 take it: DLManagedTensor.
struct Managed {
  Tensor dl_tensor;          ///< The tensor.
  void* manager_ctx;         ///< The deleter's.
  void (*deleter)(Managed*); ///< To be called once, on any thread; may be null.
};

/// A tensor with what gives it back, since DLPack 1.0: DLManagedTensorVersioned.
struct ManagedVersioned {
  /// DLPackVersion.
  struct Version {
    std::uint32_t major; ///< Of another one only the deleter may be used.
    std::uint32_t minor; ///< Of what is there besides.
  };
  Version version;                    ///< Of the ABI.
  void* manager_ctx;                  ///< The deleter's.
  void (*deleter)(ManagedVersioned*); ///< To be called once, on any thread; may be null.
  std::uint64_t flags;                ///< See read_only.
  Tensor dl_tensor;                   ///< The tensor.
};
inline constexpr std::uint64_t read_only = 1; ///< A flag: nobody may write to the tensor.

} // namespace penstock::dl

namespace penstock::detail {

/// What DLPack calls a type, and how many of them a T has.
struct DlValues {
  dl::DataType type;
  std::size_t count = 1;
};
inline constexpr std::uint8_t dl_int = 0, dl_uint = 1, dl_float = 2, dl_bfloat = 4, dl_bool = 6;

template <class T> consteval DlValues dl_values() {
  constexpr auto bits = static_cast<std::uint8_t>(8 * sizeof(T));
  if constexpr (std::is_same_v<T, bool>) {
    return {{dl_bool, bits, 1}};
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return {{dl_bfloat, bits, 1}};
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, float> ||
                       std::is_same_v<T, double>) {
    return {{dl_float, bits, 1}};
  } else if constexpr (std::is_same_v<T, char> || std::is_same_v<T, std::byte>) {
    return {{dl_uint, bits, 1}};
  } else if constexpr (std::is_integral_v<T>) {
    return {{std::is_signed_v<T> ? dl_int : dl_uint, bits, 1}};
  } else {
    return {{}, 0};
  }
}
template <class T> struct dl_values_of {
  static constexpr DlValues value = dl_values<T>();
};
template <class T, std::size_t N> struct dl_values_of<std::array<T, N>> {
  static constexpr DlValues value{dl_values<T>().type, dl_values<T>().count* N};
};

} // namespace penstock::detail
