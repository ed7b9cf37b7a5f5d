// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/deferred.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ps = penstock;

struct Looked {
  std::vector<float> first_batch; // its squares
  std::vector<float> greatest;    // of each batch's squares
};

inline Looked squares_of(ps::HostDevice& device, const std::vector<float>& numbers) {
  constexpr std::size_t batch_size = 1000;
  auto data = ps::Reader{ps::memory(numbers), ps::to_pinned} |
              ps::AsyncCopier{device, {.batch = batch_size}};
  auto stream = device.stream();
  auto array = ps::device_array<float>(device, batch_size);
  auto greatest = ps::device_array<float>(device, 1);
  auto found = ps::deferred<float>(device, {.results = data.batches_a_run()});
  Looked looked;
  for (auto batch : data.on(stream)) {
    // A lease stays in the loop: pointers and size go to the stream's thread.
    stream.enqueue([first = batch.data(), n = batch.size(), squares = array.data(),
                    greatest = greatest.data()] {
      std::transform(first, first + n, squares, [](float x) { return x * x; });
      *greatest = *std::max_element(squares, squares + n);
    });
    found.put(greatest.data(), stream); // for later: waits for nothing
    if (batch.index() == 0) {           // a look, now
      stream.sync();                    // else the vector has what was there before
      looked.first_batch.assign(array.data(), array.data() + batch.size());
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    looked.greatest.push_back(found[i].get());
  }
  return looked;
}
