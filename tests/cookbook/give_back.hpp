// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <cstddef>
#include <memory>

namespace ps = penstock;

/// A function of a C library, which reads the bytes later, and then calls done(context), both on a
/// thread of its own.
using Send = void (*)(const void* bytes, std::size_t size, void (*done)(void* context),
                      void* context);

/// Sends all batches of a pipeline that ends on the host. Returns how many.
template <class P> std::size_t send_all(P& data, Send send) {
  std::size_t sent = 0;
  for (auto batch : data.batches()) {
    using Shared = decltype(batch.share());
    auto kept = std::make_unique<Shared>(batch.share());
    const auto done = [](void* context) { delete static_cast<Shared*>(context); };
    send(kept->data(), kept->size_bytes(), done, kept.get());
    static_cast<void>(kept.release()); // the library calls done()
    ++sent;
  }
  return sent;
}
