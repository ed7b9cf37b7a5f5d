// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/links.hpp>
#include <penstock/detail/node.hpp>
#include <penstock/device.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What prepare() hands from stage to stage: each adds its node, and the link that it fills becomes
/// the one that the next takes from.
template <AnyDevice D> struct Build {
  D* device;
  Control& control;
  std::vector<std::unique_ptr<Node>>& nodes;
  /// Records that a run will carry, or unknown_size.
  std::uint64_t records{};
  HostLink* host{};
  DeviceLink<D>* places{};

  template <class N, class... Args> N& add(Args&&... args) {
    auto node = std::make_unique<N>(std::forward<Args>(args)...);
    N& added = *node;
    nodes.push_back(std::move(node));
    return added;
  }
};

} // namespace penstock::detail
