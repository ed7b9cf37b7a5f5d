// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/column.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>
#include <penstock/formats/detail/dlpack_abi.hpp>
#include <penstock/lease.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace penstock {

namespace detail {

/// Where an array lies, and its extents; of a column that cannot be a tensor, nothing.
struct DlArray {
  static constexpr std::size_t most = 8;

  void* data{};
  dl::DataType type{};
  std::array<std::int64_t, most> extents{};
  std::size_t dimensions{};

  void add(std::size_t extent) noexcept {
    extents.at(dimensions) = static_cast<std::int64_t>(extent);
    ++dimensions;
  }
};

template <class T> DlArray dl_values_at(T* data, std::size_t size) {
  using Value = std::remove_const_t<T>;
  constexpr DlValues values = dl_values_of<Value>::value;
  constexpr bool numbers = values.count != 0;
  static_assert(numbers,
                "penstock: DLPack has tensors of numbers, and these records are none: give them "
                "Columns, Field<\"name\", float, 3>, each of which is a tensor.");
  DlArray array{.data = const_cast<Value*>(data), .type = values.type};
  array.add(size);
  if (values.count > 1) {
    array.add(values.count);
  }
  return array;
}
template <class T, std::size_t... Extents> DlArray dl_array(const Column<T, Extents...>& column) {
  static_assert(sizeof...(Extents) < DlArray::most - 1,
                "penstock: a column of so many extents is no tensor here: join some of them.");
  DlArray array = dl_values_at(column.data(), column.size());
  if constexpr (((Extents == dynamic) || ...)) {
    for (std::size_t i = 0; i != sizeof...(Extents); ++i) {
      array.add(column.extent(i));
    }
  } else {
    (array.add(Extents), ...);
  }
  return array;
}
/// The values. On a device nobody here knows how many there are: as many as there is room for.
template <class Where, class T> DlArray dl_ragged(const Column<Ragged<T>>& column) {
  std::size_t values = column.capacity();
  if constexpr (!std::is_same_v<Where, Device>) {
    values = column.size() == 0 ? 0 : static_cast<std::size_t>(column.offsets()[column.size()]);
  }
  return dl_values_at(column.values(), values);
}

/// What a tensor points to and keeps alive. The lease dies first.
template <class Managed> struct DlTensor {
  Managed managed{};
  std::array<std::int64_t, DlArray::most> shape{};
  std::array<std::int64_t, DlArray::most> strides{};
  std::shared_ptr<void> owner;
  std::shared_ptr<void> lease;
};

template <class Managed>
[[gnu::cold]] Managed* dl_tensor(const DlArray& array, dl::Device where, bool read_only,
                                 std::shared_ptr<void> lease, std::shared_ptr<void> owner) {
  auto all = std::make_unique<DlTensor<Managed>>();
  all->shape = array.extents;
  all->owner = std::move(owner);
  all->lease = std::move(lease);
  std::int64_t stride = 1;
  for (std::size_t i = array.dimensions; i-- != 0; stride *= all->shape.at(i)) {
    all->strides.at(i) = stride;
  }
  // The user's own structures have enumerators where these have numbers.
  auto& tensor = all->managed.dl_tensor;
  using Kind = decltype(tensor.device.device_type);
  tensor.data = array.data;
  tensor.device.device_type = static_cast<Kind>(where.device_type);
  tensor.device.device_id = where.device_id;
  tensor.ndim = static_cast<std::int32_t>(array.dimensions);
  tensor.dtype.code = array.type.code;
  tensor.dtype.bits = array.type.bits;
  tensor.dtype.lanes = array.type.lanes;
  tensor.shape = all->shape.data();
  tensor.strides = all->strides.data();
  if constexpr (requires { all->managed.version; }) {
    all->managed.version.major = 1;
    all->managed.flags = read_only ? dl::read_only : 0;
  }
  all->managed.manager_ctx = all.get();
  all->managed.deleter = [](Managed* managed) noexcept {
    delete static_cast<DlTensor<Managed>*>(managed->manager_ctx);
  };
  return &all.release()->managed;
}

/// Returns the device's kind, by its streams.
template <AnyDevice D> consteval std::int32_t dl_kind() {
  constexpr std::string_view kind = stream_kind<std::remove_reference_t<Stream<D>>>;
  static_assert(kind == "CUstream_st" || kind == "penstock::HostStream",
                "penstock: DLPack's number for this device is not known here: a CudaDevice, a "
                "HostDevice, or what is derived from one, has it.");
  return kind == "CUstream_st" ? dl::cuda : dl::cpu;
}
/// Where a batch lies for which nobody has named a device.
template <class B> consteval dl::Device dl_host() {
  constexpr bool on_host = !std::is_same_v<typename B::space, Device>;
  static_assert(on_host, "penstock: this batch lies on a device: say on which, to_dlpack(lease, "
                         "dlpack_device(lease, device)).");
  return {dl::cpu, 0};
}
/// Throws OptionError if the lease has no place, whose memory may be another batch's.
template <class B>
[[gnu::cold]] void check_dlpack_lease(const SharedLease<B>& lease, const char* function) {
  if (!lease) {
    throw_error<OptionError>({"penstock: ", function,
                              "() was called on a shared lease that is empty: call it before it is "
                              "released."});
  }
}
} // namespace detail

/// Returns where a batch lies that is on `device`, or page-locked for it, as `__dlpack_device__()`
/// says it: cpu or cuda_host in host memory, cuda with its number on a GPU, and cpu on a
/// HostDevice. Throws OptionError for a lease that is empty.
template <class B, AnyDevice D> dl::Device dlpack_device(const SharedLease<B>& lease, D& device) {
  detail::check_dlpack_lease(lease, "dlpack_device");
  using Where = typename B::space;
  if constexpr (detail::dl_kind<D>() == dl::cpu || std::is_same_v<Where, Pageable>) {
    return {dl::cpu, 0};
  } else if constexpr (std::is_same_v<Where, Pinned>) {
    return {dl::cuda_host, 0};
  } else {
    return {dl::cuda, device.number()};
  }
}

/// Returns a batch of whole records as a DLPack tensor, which keeps its place until the deleter is
/// called, on any thread. One dimension of numbers; two for records of a std::array, or of bytes
/// whose size the source was given. `where` is what dlpack_device() says; host memory needs none.
///
/// `Managed`: dl::ManagedVersioned, dl::Managed, or what dlpack.h has in their place. The tensor
/// has its strides, and says if it may only be read, where its version can. `owner` is what must
/// live as long, such as the device and the stream, and dies after the batch. Throws OptionError
/// for a lease that is empty.
template <class Managed = dl::ManagedVersioned, class B>
Managed* to_dlpack(const SharedLease<B>& lease, dl::Device where = detail::dl_host<B>(),
                   std::shared_ptr<void> owner = {}) {
  detail::check_dlpack_lease(lease, "to_dlpack");
  detail::DlArray array = detail::dl_values_at(lease.data(), lease.size());
  if (lease.record_bytes() != sizeof(typename B::schema)) {
    array.add(lease.record_bytes()); // of single bytes
  }
  return detail::dl_tensor<Managed>(array, where, B::read_only,
                                    std::make_shared<SharedLease<B>>(lease), std::move(owner));
}
/// Returns a column of a batch in the same way: records and extents are the tensor's dimensions. Of
/// a Ragged column the values of all records, back to back: on a device, as many as it has room
/// for, of which offsets say where they end.
template <Name Wanted, class Managed = dl::ManagedVersioned, class B>
Managed* to_dlpack(const SharedLease<B>& lease, dl::Device where = detail::dl_host<B>(),
                   std::shared_ptr<void> owner = {}) {
  detail::check_dlpack_lease(lease, "to_dlpack");
  const auto column = penstock::get<Wanted>(static_cast<const B&>(lease));
  detail::DlArray array;
  if constexpr (detail::is_ragged_column<std::remove_const_t<decltype(column)>>) {
    array = detail::dl_ragged<typename B::space>(column);
  } else {
    array = detail::dl_array(column);
  }
  return detail::dl_tensor<Managed>(array, where, B::read_only,
                                    std::make_shared<SharedLease<B>>(lease), std::move(owner));
}
/// Returns the offsets of a Ragged column in the same way: one more than the batch has records.
template <Name Wanted, class Managed = dl::ManagedVersioned, class B>
Managed* offsets_to_dlpack(const SharedLease<B>& lease, dl::Device where = detail::dl_host<B>(),
                           std::shared_ptr<void> owner = {}) {
  detail::check_dlpack_lease(lease, "offsets_to_dlpack");
  const auto column = penstock::get<Wanted>(static_cast<const B&>(lease));
  constexpr bool ragged = detail::is_ragged_column<std::remove_const_t<decltype(column)>>;
  static_assert(ragged,
                "penstock: only a Ragged column has offsets: to_dlpack<\"name\">(lease, device) "
                "gives all of another.");
  if constexpr (ragged) {
    return detail::dl_tensor<Managed>(detail::dl_values_at(column.offsets(), column.size() + 1),
                                      where, B::read_only, std::make_shared<SharedLease<B>>(lease),
                                      std::move(owner));
  } else {
    return nullptr;
  }
}

/// Does what `__dlpack__(stream=asked)` is to do before it gives a tensor of the batch: makes the
/// stream that the consumer names wait for `loop`, the loop's stream, by an event, and the place
/// for that stream. None and 1 are CUDA's legacy default stream, 2 is the one of each thread, -1
/// asks for nothing, and other numbers are handles. On a HostDevice, whose memory the consumer
/// reads at once, it blocks until `loop` has done its work.
///
/// Call it on the loop's thread while the loop goes on. Throws OptionError for 0, which DLPack
/// leaves open, for a number on a HostDevice, and what used_on() throws; DeviceError.
template <class B, AnyDevice D>
void sync_for_dlpack(SharedLease<B>& lease, D& device, Stream<D> loop,
                     std::optional<std::intptr_t> asked = {}) {
  if constexpr (detail::dl_kind<D>() == dl::cpu) {
    if (asked && *asked != -1) {
      detail::throw_error<OptionError>({"penstock: DLPack: the consumer named stream ",
                                        std::to_string(*asked),
                                        " of a batch in host memory, which has none: give None."});
    }
    device.sync(loop);
  } else if (const std::intptr_t number = asked.value_or(1); number != -1) {
    if (number == 0) {
      throw OptionError{"penstock: DLPack: the consumer named stream 0, which may be either of "
                        "CUDA's default streams: 1 is the legacy one, 2 the one of each thread."};
    }
    const auto consumer = reinterpret_cast<Stream<D>>(number);
    if (consumer != loop) {
      lease.used_on(consumer); // first: it throws before anything is enqueued
      auto event = device.event();
      device.record(event, loop);
      device.wait(consumer, event);
    }
  }
}

} // namespace penstock
