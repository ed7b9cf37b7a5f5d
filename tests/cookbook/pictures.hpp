// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/files.hpp>
#include <penstock/formats/jpeg.hpp>
#include <penstock/host/normalize.hpp>
#include <penstock/penstock.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/normalize.cuh>
#endif

#include <cstddef>
#include <ostream>
#include <string>

namespace ps = penstock;

/// Shows a model all pictures of a folder, in each epoch in another order and cut in another way,
/// and says in `log` which files were left out. What learn() does, it enqueues on the stream.
template <ps::AnyDevice D, class Learn>
void train(D& device, const std::string& folder, std::size_t epochs, std::ostream& log,
           Learn learn) {
  auto files = ps::files(folder, {.endings = {".jpg", ".jpeg"}});
  files.open(); // for the names below
  auto pictures =
      ps::Reader{files, {.epochs = epochs, .order = {.shuffle = 7}}} |
      ps::jpeg<3, 224, 224>(
          {.crop = ps::Crop::random, .flip = true, .seed = 7, .on_error = {.skips = 1000}}) |
      ps::AsyncCopier{device, {.batch = 256}};
  const auto inputs = ps::device_array<float>(device, 256 * 3 * 224 * 224);
  auto stream = device.stream();
  for (auto batch : pictures.on(stream)) {
    ps::normalize(stream, ps::get<"image">(batch), inputs.data(),
                  {.mean = {0.485F, 0.456F, 0.406F}, .deviation = {0.229F, 0.224F, 0.225F}});
    learn(stream, inputs.data(), ps::get<"label">(batch).data(), batch.size());
  }
  for (const ps::SkippedItem& item : pictures.report().skips) {
    log << files.path(item.record) << ": " << item.reason << '\n';
  }
}
