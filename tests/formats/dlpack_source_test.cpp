// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Tensors that others give as a source of records.

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

#include <penstock/formats/dlpack.hpp>
#include <penstock/formats/dlpack_source.hpp>
#include <penstock/penstock.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;
namespace dl = penstock::dl;
namespace tests = penstock::tests;

namespace {

// A tensor of 12 float32, and how often its deleter was called.
struct Producer {
  std::vector<float> values = std::vector<float>(12);
  std::vector<std::int64_t> shape{12};
  std::vector<std::int64_t> strides{1};
  int deleted = 0;
  dl::ManagedVersioned tensor{};

  explicit Producer(std::vector<std::int64_t> extents = {12}, std::vector<std::int64_t> steps = {1})
      : shape{std::move(extents)}, strides{std::move(steps)} {
    std::iota(values.begin(), values.end(), 0.0F);
    tensor.version = {1, 1};
    tensor.dl_tensor = {values.data(),
                        {dl::cpu, 0},
                        static_cast<std::int32_t>(shape.size()),
                        {2, 32, 1},
                        shape.data(),
                        strides.empty() ? nullptr : strides.data(),
                        0};
    tensor.manager_ctx = this;
    tensor.deleter = [](dl::ManagedVersioned* self) {
      ++static_cast<Producer*>(self->manager_ctx)->deleted;
    };
  }
};

template <class T, class Source> std::vector<T> records_of(Source source) {
  std::vector<T> all;
  auto pipeline =
      ps::Reader{std::move(source), {.batch = 2}} |
      ps::Consumer{[&](ps::Batch<const T, ps::Pageable> batch) {
        all.insert(all.end(), batch.data(), batch.data() + batch.size_bytes() / sizeof(T));
      }};
  pipeline.run();
  return all;
}
// Returns what from_dlpack<T>() says of the tensor, after `change`.
template <class T, class F> std::string refusal(F change, Producer&& from = Producer{}) {
  change(from.tensor);
  const auto out = tests::outcome_of([&] { ps::from_dlpack<T>(&from.tensor); });
  CHECK(out.came == tests::Came::error);
  CHECK(from.deleted == 1);
  return out.text;
}
bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a tensor of one dimension is a source of its values, and is kept as long") {
  const tests::Watchdog watchdog{"a tensor as a source"};
  Producer one;
  one.tensor.dl_tensor.byte_offset = 8;
  one.shape[0] = 10;
  {
    auto source = ps::from_dlpack<float>(&one.tensor);
    CHECK(source.size() == 10);
    const auto copy = source;
    CHECK(records_of<float>(std::move(source)) ==
          std::vector<float>(one.values.begin() + 2, one.values.end()));
    CHECK(one.deleted == 0);
    CHECK(copy.size() == 10);
  }
  CHECK(one.deleted == 1);
}

TEST_CASE("rows of a tensor are arrays, or bytes") {
  const tests::Watchdog watchdog{"rows of a tensor"};
  using Row = std::array<float, 3>;
  Producer rows{{4, 1, 3}, {3, 77, 1}}; // a dimension of extent 1 may have any stride
  const auto all = records_of<Row>(ps::from_dlpack<Row>(&rows.tensor));
  REQUIRE(all.size() == 4);
  CHECK(all[3] == Row{9, 10, 11});

  Producer bytes{{4, 3}, {}};
  auto source = ps::from_dlpack<std::byte>(&bytes.tensor);
  CHECK(source.size() == 4);
  CHECK(source.record_bytes() == 12);
  CHECK(records_of<std::byte>(std::move(source)).size() == 48);
  CHECK(rows.deleted + bytes.deleted == 2);
}

TEST_CASE("a tensor of penstock's own goes round") {
  auto made = ps::Reader{ps::generate<std::int32_t>(6,
                                                    [](std::span<std::int32_t> out, std::uint64_t) {
                                                      std::fill(out.begin(), out.end(), 7);
                                                    }),
                         {.batch = 6}} |
              ps::Decoder{[](const std::int32_t& in, std::int32_t& out) { out = in; }};
  auto run = made.batches();
  auto* const tensor = ps::to_dlpack<dl::Managed>(run.next().share());
  CHECK(records_of<std::int32_t>(ps::from_dlpack<std::int32_t>(tensor)) ==
        std::vector<std::int32_t>(6, 7));
  CHECK_FALSE(run.next()); // the place came back
}

TEST_CASE("what is no source of such records is refused by name, and given back") {
  const auto same = [](auto&) {};
  CHECK(has(refusal<float>([](auto& t) { t.dl_tensor.device = {dl::cuda, 1}; }),
            "lies on a device, number 2"));
  CHECK(has(refusal<std::int32_t>(same), "has values of float32 in 1 lanes, and T has int32"));
  CHECK(has(refusal<float>([](auto& t) { t.dl_tensor.dtype = {9, 8, 1}; }),
            "values of type number 9 of 8 bits"));
  CHECK(has(refusal<float>([](auto& t) { t.dl_tensor.dtype.lanes = 4; }), "in 4 lanes"));
  CHECK(has(refusal<float>([](auto& t) { t.dl_tensor.ndim = 0; }), "no dimensions"));
  CHECK(has(refusal<float>([](auto& t) { t.version.major = 2; }), "version 2 of DLPack"));
  CHECK(has(refusal<float>(same, Producer{{3, 4}, {4, 1}}), "take a std::array of 4 of them"));
  CHECK(has(refusal<std::byte>(same, Producer{{3, 4}, {1, 3}}),
            "dimension 1 has a stride of 3, and not of 1"));
  CHECK(has(refusal<std::byte>(same, Producer{{3, 0}, {1, 1}}), "leave out its empty dimension"));
  CHECK(tests::outcome_of([] {
          ps::from_dlpack<float>(static_cast<dl::Managed*>(nullptr));
        }).says("the tensor is null"));
}

TEST_CASE("a tensor that says nonsense of itself is refused before anything is read") {
  const auto same = [](auto&) {};
  const std::int64_t wide = std::int64_t{1} << 32;
  const char* const too_many = "more bytes than an address can count";
  CHECK(has(refusal<float>(same, Producer{{-1}, {}}), "dimension 0 of this tensor has an extent"));
  CHECK(has(refusal<std::byte>(same, Producer{{4, -2, -3}, {}}), "has an extent of -2"));
  CHECK(has(refusal<std::byte>(same, Producer{{0, -3}, {}}), "say 0 or more"));
  CHECK(has(refusal<std::byte>(same, Producer{{1, wide, wide}, {}}), too_many));
  CHECK(has(refusal<std::byte>(same, Producer{{1, 3, 6148914691236517206}, {}}), too_many));
  CHECK(has(refusal<std::byte>(same, Producer{{0, wide, wide}, {}}), too_many));
  CHECK(has(refusal<std::array<float, 4>>(same, Producer{{wide << 30, 4}, {}}), too_many));
  CHECK(has(refusal<std::byte>(same, Producer{{wide, wide, 0}, {}}), "leave out its empty"));
  CHECK(has(refusal<float>([](auto& t) { t.dl_tensor.data = nullptr; }), "values and no data"));
  CHECK(has(refusal<float>([](auto& t) { t.dl_tensor.shape = nullptr; }), "1 dimensions and no"));
  CHECK(has(refusal<std::byte>([](auto& t) { t.dl_tensor.dtype.bits = 0; }), "values of 0 bits"));
}

TEST_CASE("a tensor of no records is an empty source, whatever its strides and its data") {
  Producer none{{0, 3}, {0, 0}};
  none.tensor.dl_tensor.data = nullptr;
  none.tensor.dl_tensor.byte_offset = 8;
  {
    const auto source = ps::from_dlpack<std::array<float, 3>>(&none.tensor);
    CHECK(source.size() == 0);
  }
  CHECK(none.deleted == 1);
}
