// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/npy.hpp>
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace ps = penstock;

/// What x.npy of shape (n, 28, 28) and y.npy of shape (n,) have at one index.
struct LabelledImage
    : ps::Columns<ps::Field<"image", float, 28, 28>, ps::Field<"label", std::int64_t>> {};

/// Calls step(image, label) for each, in another order each epoch.
template <class Step>
void each_image(const std::string& x, const std::string& y, std::uint64_t epochs, Step step) {
  auto pipeline =
      ps::Reader{ps::npy<LabelledImage>(x, y), {.epochs = epochs, .order = {.shuffle = 42}}} |
      ps::Consumer{[&](ps::Batch<const LabelledImage, ps::Pageable> batch) {
        const auto images = ps::get<"image">(batch);
        for (std::size_t i = 0; i != batch.size(); ++i) {
          step(images[i], ps::get<"label">(batch)[i]);
        }
      }};
  pipeline.run();
}
