// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// loader.cpp
#include "loader.hpp"

#include <penstock/penstock.hpp>

#include <iterator>
#include <optional>

namespace ps = penstock;

namespace {

using Numbers = ps::Batch<const float, ps::Pageable>;

void to_number(const std::uint8_t& byte, float& number) {
  number = static_cast<float>(byte) / 255;
}

auto conversion(const std::string& from, const std::string& to) {
  return ps::Reader{ps::records<std::uint8_t>(from)} | ps::Decoder{to_number} | ps::Writer{to};
}

// A loop whose body is left after each batch: the lease goes back first, then the loop ends.
struct Loop {
  explicit Loop(ps::AnyBatches<Numbers>& data) : batches{data.batches()}, at{batches.begin()} {}
  bool over() const { return at == std::default_sentinel; }

  ps::Batches<Numbers> batches;
  ps::Batches<Numbers>::iterator at;
  ps::Lease<Numbers> lease;
};

} // namespace

struct Loader::Impl {
  Impl(const std::string& path, std::size_t batch)
      : data{ps::Reader{ps::records<std::uint8_t>(path), {.batch = batch}} |
             ps::Decoder{to_number}} {}

  ps::AnyBatches<Numbers> data; // the pipeline, without its type
  std::optional<Loop> loop;     // after it: dies first
};

Loader::Loader(const std::string& path, std::size_t batch)
    : impl_{std::make_unique<Impl>(path, batch)} {}
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;
Loader::~Loader() = default;

std::span<const float> Loader::next() {
  std::optional<Loop>& loop = impl_->loop;
  if (loop && loop->over()) { // the call before gave the end, or threw
    loop.reset();
  }
  if (loop) {
    loop->lease.release();
    ++loop->at;
  } else {
    loop.emplace(impl_->data);
  }
  if (loop->over()) {
    return {};
  }
  loop->lease = *loop->at;
  return {loop->lease.data(), loop->lease.size()};
}

struct Converter::Impl {
  decltype(conversion({}, {})) pipeline; // the pipeline, with the type that the function gives it
};

Converter::Converter(const std::string& from, const std::string& to)
    : impl_{new Impl{conversion(from, to)}} {}
Converter::~Converter() = default;

std::uint64_t Converter::run() {
  return impl_->pipeline.run().records;
}
