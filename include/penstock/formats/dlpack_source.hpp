// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/dlpack_abi.hpp>
#include <penstock/sources/memory.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace penstock {

namespace detail {

/// Owns a tensor that a producer gave.
template <class Managed> std::shared_ptr<void> own_dlpack(Managed* managed) {
  return {managed, [](void* owned) {
            auto* const tensor = static_cast<Managed*>(owned);
            if (tensor != nullptr && tensor->deleter != nullptr) {
              tensor->deleter(tensor);
            }
          }};
}

[[noreturn, gnu::cold]] inline void refuse_dlpack(std::initializer_list<TextPart> why) {
  throw OptionError{"penstock: from_dlpack: " + joined(why)};
}
/// Returns a type's name, such as "float32".
[[gnu::cold]] inline std::string dl_name(std::uint8_t code, std::uint8_t bits) {
  const char* const name = code == dl_int      ? "int"
                           : code == dl_uint   ? "uint"
                           : code == dl_float  ? "float"
                           : code == dl_bfloat ? "bfloat"
                           : code == dl_bool   ? "bool"
                                               : nullptr;
  return name != nullptr
             ? joined({name, unsigned{bits}})
             : joined({"type number ", unsigned{code}, " of ", unsigned{bits}, " bits"});
}

[[gnu::cold]] inline void check_dlpack_version(std::uint32_t major) {
  if (major != 1) {
    refuse_dlpack({"this tensor has version ", major,
                   " of DLPack, and only 1 is known here: ask its producer for that."});
  }
}
/// Throws OptionError unless the tensor says of itself how many values it has, and where they lie.
[[gnu::cold]] inline void check_dlpack_extents(const dl::Tensor& tensor) {
  if (tensor.ndim < 1) {
    refuse_dlpack({"a tensor of no dimensions has no records: give it one, of extent 1."});
  }
  if (tensor.shape == nullptr) {
    refuse_dlpack({"this tensor has ", std::to_string(tensor.ndim),
                   " dimensions and no shape, which is null: have its producer set it."});
  }
  bool empty = false;
  for (std::int32_t i = 0; i != tensor.ndim; ++i) {
    if (tensor.shape[i] < 0) {
      refuse_dlpack({"dimension ", std::to_string(i), " of this tensor has an extent of ",
                     std::to_string(tensor.shape[i]), ": have its producer say 0 or more."});
    }
    empty = empty || tensor.shape[i] == 0;
  }
  if (tensor.data == nullptr && !empty) {
    refuse_dlpack({"this tensor has values and no data, which is null: have its producer set it, "
                   "or an extent of 0."});
  }
}
/// Returns the product, in bytes or values of a tensor.
[[gnu::cold]] inline std::int64_t dlpack_product(std::int64_t a, std::int64_t b) {
  if (b != 0 && a > std::numeric_limits<std::int64_t>::max() / b) {
    refuse_dlpack({"the extents of this tensor make more bytes than an address can count: have its "
                   "producer give its real shape."});
  }
  return a * b;
}
/// Returns the bytes of a record, which is what lies at one index of the first dimension. Throws
/// OptionError unless records of such values can be read from the tensor as they lie; `any`: of any
/// values.
[[gnu::cold]] inline std::size_t checked_dlpack(const dl::Tensor& tensor, const DlValues& values,
                                                bool any) {
  const std::int32_t kind = tensor.device.device_type;
  if (kind != dl::cpu && kind != dl::cuda_host) {
    refuse_dlpack({"this tensor lies on a device, number ", std::to_string(kind),
                   " of DLPack's: a source reads host memory, so bring it there first."});
  }
  const dl::DataType& type = tensor.dtype;
  const bool same = type.code == values.type.code && type.bits == values.type.bits;
  if (type.bits == 0) {
    refuse_dlpack({"this tensor has values of 0 bits: have its producer say how many they have."});
  }
  if (type.lanes != 1 || type.bits % 8 != 0 || !(same || any)) {
    refuse_dlpack({"this tensor has values of ", dl_name(type.code, type.bits), " in ",
                   unsigned{type.lanes}, " lanes, and T has ",
                   dl_name(values.type.code, values.type.bits),
                   ": take the tensor's type for T, or std::byte for rows of any."});
  }
  check_dlpack_extents(tensor);
  const std::span<const std::int64_t> extents{tensor.shape, static_cast<std::size_t>(tensor.ndim)};
  if (std::ranges::count(extents.subspan(1), 0) != 0) {
    refuse_dlpack({"a record of this tensor has no values: leave out its empty dimension."});
  }
  std::int64_t row = 1;
  for (const std::int64_t extent : extents.subspan(1)) {
    row = dlpack_product(row, extent);
  }
  dlpack_product(dlpack_product(row, type.bits / 8), std::max<std::int64_t>(extents[0], 1));
  std::int64_t stride = 1;
  for (std::int32_t i = tensor.ndim; extents[0] != 0 && i-- != 0;) {
    const std::int64_t extent = tensor.shape[i];
    if (tensor.strides != nullptr && extent > 1 && tensor.strides[i] != stride) {
      refuse_dlpack({"this tensor does not lie row by row: dimension ", std::to_string(i),
                     " has a stride of ", std::to_string(tensor.strides[i]), ", and not of ",
                     std::to_string(stride), ": make a contiguous copy."});
    }
    stride *= extent;
  }
  const auto count = static_cast<std::size_t>(row);
  if (!any && count != values.count) {
    refuse_dlpack({"a record of this tensor has ", count, " values, and T has ", values.count,
                   ": take a std::array of ", count, " of them for T, or std::byte."});
  }
  return count * (type.bits / 8);
}

} // namespace detail

/// A source of the records of a tensor in host memory, which it keeps. Made by from_dlpack().
template <class T> class DlpackRecords : public Memory<T> {
 public:
  /// For from_dlpack().
  DlpackRecords(Memory<T> records, std::shared_ptr<void> tensor)
      : Memory<T>{std::move(records)}, tensor_{std::move(tensor)} {}

 private:
  std::shared_ptr<void> tensor_;
};

/// Makes a source of the tensor that another library gives, `from_dlpack<float>(managed)`. A record
/// is what lies at one index of the first dimension: of a tensor of one dimension a T, of others a
/// std::array of them, or bytes, with T = std::byte. The tensor lies in host memory, perhaps
/// page-locked, row by row, and T is its type. Nobody may change it while runs read it.
///
/// Takes the tensor over, also if it throws; its deleter is called when the last copy of the source
/// is gone, with the pipeline, on that thread. `Managed`: dl::ManagedVersioned, dl::Managed, or
/// what dlpack.h has in their place. Throws OptionError.
template <class T, class Managed> DlpackRecords<T> from_dlpack(Managed* managed) {
  constexpr bool numbers = detail::dl_values_of<T>::value.count != 0;
  static_assert(numbers,
                "penstock: DLPack has tensors of numbers: take a number, a std::array of numbers, "
                "or std::byte for T, and let a Decoder make other records of it.");
  std::shared_ptr<void> owned = detail::own_dlpack(managed);
  if (managed == nullptr) {
    throw OptionError{"penstock: from_dlpack: the tensor is null: give one that a producer made."};
  }
  if constexpr (requires { managed->version; }) {
    detail::check_dlpack_version(managed->version.major);
  }
  const auto& given = managed->dl_tensor;
  const dl::Tensor tensor{
      given.data,
      {static_cast<std::int32_t>(given.device.device_type), given.device.device_id},
      given.ndim,
      {given.dtype.code, given.dtype.bits, given.dtype.lanes},
      given.shape,
      given.strides,
      given.byte_offset};
  constexpr bool rows = std::is_same_v<T, std::byte>;
  const std::size_t bytes = detail::checked_dlpack(tensor, detail::dl_values_of<T>::value, rows);
  const auto records = static_cast<std::size_t>(tensor.shape[0]);
  const auto* const first = static_cast<const std::byte*>(tensor.data) +
                            (tensor.data == nullptr ? 0 : tensor.byte_offset);
  const std::span values{reinterpret_cast<const T*>(first), records * (bytes / sizeof(T))};
  return {Memory<T>{values, {.record_bytes = rows ? bytes : 0}}, std::move(owned)};
}

} // namespace penstock
