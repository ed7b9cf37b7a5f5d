// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// loader.cpp
#include "loader.hpp"

#include <penstock/penstock.hpp>

namespace ps = penstock;

namespace {

using Numbers = ps::Batch<const float, ps::Pageable>;

void to_number(const std::uint8_t& byte, float& number) {
  number = static_cast<float>(byte) / 255;
}

} // namespace

struct Loader::Impl {
  ps::AnyBatches<Numbers> data; // the pipeline, without its type
  ps::Batches<Numbers> run{};
  ps::Lease<Numbers> batch{};
};

Loader::Loader(const std::string& path, std::size_t batch)
    : impl_{new Impl{
          ps::AnyBatches<Numbers>{ps::Reader{ps::records<std::uint8_t>(path), {.batch = batch}} |
                                  ps::Decoder{to_number}}}} {}
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;
Loader::~Loader() = default;

std::span<const float> Loader::next() {
  if (!impl_->run) { // none yet, or the call before gave the end, or threw
    impl_->run = impl_->data.batches();
  }
  impl_->batch = {}; // the place goes back
  impl_->batch = impl_->run.next();
  return {impl_->batch.data(), impl_->batch.size()};
}

struct Converter::Impl {
  ps::AnyPipeline pipeline;
};

Converter::Converter(const std::string& from, const std::string& to)
    : impl_{new Impl{ps::Reader{ps::records<std::uint8_t>(from)} | ps::Decoder{to_number} |
                     ps::Writer{to}}} {}
Converter::~Converter() = default;

std::uint64_t Converter::run() {
  return impl_->pipeline.run().records;
}
