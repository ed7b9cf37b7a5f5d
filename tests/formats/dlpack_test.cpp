// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Batches as DLPack tensors. The stream protocol of a GPU is in cuda/dlpack_test.cpp.

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <penstock/formats/dlpack.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace ps = penstock;
namespace tests = penstock::tests;
using Shape = std::vector<std::int64_t>;

// As dlpack.h has it: an enumeration for the device, and the deleter's own type.
namespace foreign {
enum DLDeviceType : std::int32_t { kDLCPU = 1, kDLCUDA = 2 };
struct DLTensor {
  void* data;
  struct {
    DLDeviceType device_type;
    std::int32_t device_id;
  } device;
  std::int32_t ndim;
  struct {
    std::uint8_t code, bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
} // namespace foreign

// The layout of DLPack 1.0 on machines of 64 bits.
static_assert(sizeof(ps::dl::Tensor) == 48 && offsetof(ps::dl::Tensor, shape) == 24 &&
              sizeof(ps::dl::Tensor) == sizeof(foreign::DLTensor));
static_assert(sizeof(ps::dl::Managed) == 64 && offsetof(ps::dl::Managed, manager_ctx) == 48);
static_assert(sizeof(ps::dl::ManagedVersioned) == 80 &&
              offsetof(ps::dl::ManagedVersioned, flags) == 24 &&
              offsetof(ps::dl::ManagedVersioned, dl_tensor) == 32);

namespace {

struct Sample : ps::Columns<ps::Field<"image", std::uint8_t, 3, 2>,
                            ps::Field<"wide", ps::BFloat16, ps::dynamic>, ps::Field<"good", bool>,
                            ps::Field<"text", ps::Ragged<char>>> {};

struct Samples {
  using schema = Sample;
  std::uint64_t size() const { return 10; }
  std::vector<std::size_t> extents() const { return {5}; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Sample, Where> into) const {
    for (std::size_t i = 0; i < into.size(); ++i) {
      std::fill_n(into.template get<"image">()[i][0], 6, std::uint8_t{1});
      std::fill_n(into.template get<"wide">()[i].data(), 5, ps::BFloat16{2});
      into.template get<"good">()[i] = true;
      const std::size_t count = i % 4; // 0, 1, 2, 3
      std::fill_n(into.template get<"text">().put(i, count), count, static_cast<char>('a' + i));
    }
    return into.size();
  }
};

template <class T> auto numbers(std::size_t count) {
  return ps::generate<T>(count, [](std::span<T> out, std::uint64_t first) {
    for (T& value : out) {
      if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>(first++);
      } else {
        value = T{};
      }
    }
  });
}
// Returns a batch of T's in host memory, shared past its pipeline.
template <class T, class Source> auto shared_of(Source source) {
  auto pipeline = ps::Reader{std::move(source), {.batch = 5}} |
                  ps::Decoder{[](const T& in, T& out) { out = in; }};
  auto run = pipeline.batches();
  return run.next().share();
}
template <class Managed> Shape shape_of(const Managed& managed) {
  return {managed.dl_tensor.shape, managed.dl_tensor.shape + managed.dl_tensor.ndim};
}
template <class Managed> Shape strides_of(const Managed& managed) {
  return {managed.dl_tensor.strides, managed.dl_tensor.strides + managed.dl_tensor.ndim};
}
template <class T> ps::dl::DataType type_of() {
  auto shared = shared_of<T>(numbers<T>(20));
  auto* const tensor = ps::to_dlpack(shared);
  const ps::dl::DataType type = tensor->dl_tensor.dtype;
  CHECK(shape_of(*tensor) == Shape{5});
  tensor->deleter(tensor);
  return type;
}

} // namespace

TEST_CASE("a batch of numbers is a tensor of one dimension, whatever the numbers are") {
  using Type = ps::dl::DataType;
  CHECK(type_of<std::int8_t>() == Type{0, 8, 1});
  CHECK(type_of<std::int64_t>() == Type{0, 64, 1});
  CHECK(type_of<std::uint16_t>() == Type{1, 16, 1});
  CHECK(type_of<char>() == Type{1, 8, 1});
  CHECK(type_of<std::byte>() == Type{1, 8, 1});
  CHECK(type_of<float>() == Type{2, 32, 1});
  CHECK(type_of<double>() == Type{2, 64, 1});
  CHECK(type_of<ps::Half>() == Type{2, 16, 1});
  CHECK(type_of<ps::BFloat16>() == Type{4, 16, 1});
  CHECK(type_of<bool>() == Type{6, 8, 1});
}

TEST_CASE("a tensor keeps the batch and its owner, and its deleter may be called on any thread") {
  const tests::Watchdog watchdog{"tensors that outlive all"};
  auto owner = std::make_shared<int>(7);
  const std::weak_ptr<int> alive = owner;
  auto shared = shared_of<std::uint32_t>(numbers<std::uint32_t>(20));
  auto* const tensor = ps::to_dlpack(shared, {ps::dl::cpu, 0}, std::move(owner));
  auto* const old = ps::to_dlpack<ps::dl::Managed>(shared);
  auto* const theirs = ps::to_dlpack<foreign::DLManagedTensor>(shared);
  shared.release();
  CHECK(tensor->version.major == 1);
  CHECK(tensor->flags == ps::dl::read_only);
  CHECK(tensor->dl_tensor.device == ps::dl::Device{ps::dl::cpu, 0});
  CHECK(tensor->dl_tensor.byte_offset == 0);
  CHECK(strides_of(*tensor) == Shape{1});
  CHECK(theirs->dl_tensor.device.device_type == foreign::kDLCPU);
  CHECK(theirs->dl_tensor.data == tensor->dl_tensor.data);
  std::thread{[&] { tensor->deleter(tensor); }}.join();
  CHECK(alive.expired());
  CHECK(static_cast<std::uint32_t*>(old->dl_tensor.data)[4] == 4);
  old->deleter(old);
  theirs->deleter(theirs);
}

TEST_CASE("records of arrays, and of bytes of a run-time size, have two dimensions") {
  using Point = std::array<float, 3>;
  const std::vector<Point> points(20, Point{1, 2, 3});
  auto shared = shared_of<Point>(ps::memory(points));
  auto* const tensor = ps::to_dlpack(shared);
  CHECK(shape_of(*tensor) == Shape{5, 3});
  CHECK(strides_of(*tensor) == Shape{3, 1});
  tensor->deleter(tensor);

  ps::HostDevice device;
  auto stream = device.stream();
  const std::vector<std::byte> bytes(120);
  auto rows = ps::Reader{ps::memory(bytes, {.record_bytes = 6}), ps::to_pinned} |
              ps::AsyncCopier{device, {.batch = 4}};
  auto run = rows.on(stream);
  auto on_device = run.next().share();
  CHECK(ps::dlpack_device(on_device, device) == ps::dl::Device{ps::dl::cpu, 0});
  auto* const row = ps::to_dlpack(on_device, ps::dlpack_device(on_device, device));
  CHECK(shape_of(*row) == Shape{4, 6});
  row->deleter(row);
}

TEST_CASE("columns are tensors with their extents, and a Ragged one has values and offsets") {
  ps::HostDevice device;
  auto pipeline = ps::Reader{Samples{}, {.batch = 4, .value_bytes = 64}} | ps::PinnedStager{device};
  auto run = pipeline.batches();
  const auto shared = run.next().share();
  const auto where = ps::dlpack_device(shared, device);
  CHECK(where == ps::dl::Device{ps::dl::cpu, 0}); // a GPU's would be cuda_host
  const auto check = [](auto* tensor, const Shape& shape, const Shape& strides, const void* data) {
    CHECK(shape_of(*tensor) == shape);
    CHECK(strides_of(*tensor) == strides);
    CHECK(tensor->dl_tensor.data == data);
    tensor->deleter(tensor);
  };
  check(ps::to_dlpack<"image">(shared, where), {4, 3, 2}, {6, 2, 1}, shared.get<"image">().data());
  check(ps::to_dlpack<"wide">(shared, where), {4, 5}, {5, 1}, shared.get<"wide">().data());
  check(ps::to_dlpack<"good">(shared), {4}, {1}, shared.get<"good">().data());
  const auto text = shared.get<"text">();
  check(ps::to_dlpack<"text", ps::dl::Managed>(shared), {6}, {1}, text.values());
  auto* const offsets = ps::offsets_to_dlpack<"text">(shared);
  CHECK(offsets->dl_tensor.dtype == ps::dl::DataType{0, 64, 1});
  CHECK(static_cast<std::int64_t*>(offsets->dl_tensor.data)[4] == 6);
  check(offsets, {5}, {1}, text.offsets());
}

TEST_CASE("on a device a Ragged column's values are all that it has room for") {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline = ps::Reader{Samples{}, ps::to_pinned, {.batch = 4, .value_bytes = 64}} |
                  ps::AsyncCopier{device};
  auto run = pipeline.on(stream);
  auto shared = run.next().share();
  ps::sync_for_dlpack(shared, device, stream); // the host may read now
  auto* const values = ps::to_dlpack<"text">(shared, ps::dlpack_device(shared, device));
  CHECK(shape_of(*values)[0] >= 6);
  CHECK(static_cast<char*>(values->dl_tensor.data)[5] == 'd');
  values->deleter(values);
  const auto out = tests::outcome_of([&] { ps::sync_for_dlpack(shared, device, stream, 1); });
  CHECK(out.says("the consumer named stream 1 of a batch in host memory"));
}

TEST_CASE("a shared lease that is empty, released or moved from is no tensor") {
  ps::HostDevice device;
  auto pipeline = ps::Reader{Samples{}, {.batch = 4, .value_bytes = 64}} | ps::PinnedStager{device};
  auto run = pipeline.batches();
  auto released = run.next().share();
  auto from = run.next().share();
  const decltype(from) none;
  const auto holds = std::move(from);
  released.release();
  for (const auto* const lease : {&none, &std::as_const(released), &std::as_const(from)}) {
    const auto refuses = [](const char* function, auto call) {
      const auto out = tests::outcome_of(call);
      CAPTURE(out);
      CHECK(out.says(function));
      CHECK(out.says("() was called on a shared lease that is empty: call it before"));
    };
    refuses("to_dlpack", [&] { ps::to_dlpack<"image">(*lease); });
    refuses("to_dlpack", [&] { ps::to_dlpack<"text">(*lease); });
    refuses("offsets_to_dlpack", [&] { ps::offsets_to_dlpack<"text">(*lease); });
    refuses("dlpack_device", [&] { ps::dlpack_device(*lease, device); });
  }
  auto numbers_of = shared_of<float>(numbers<float>(20));
  numbers_of.release();
  CHECK(tests::outcome_of([&] { ps::to_dlpack(numbers_of); }).says("to_dlpack() was called on"));
  CHECK(holds);
}
