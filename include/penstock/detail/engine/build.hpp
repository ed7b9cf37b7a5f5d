// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/engine/node.hpp>
#include <penstock/detail/links/device_link.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/links/source_numbers.hpp>
#include <penstock/device.hpp>
#include <penstock/prepare_options.hpp>
#include <penstock/sources/source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace penstock::detail {

/// What the stages of a chain say of themselves before the first is built: all host stages share
/// the number of records a slot.
struct Plan {
  std::size_t largest{}; // bytes of a record, of what Decoders give
  bool whole{};          // something on the host must see whole records
  bool ragged{};         // a slot is a batch
  bool to_device{};
  std::size_t batch{}; // what the copier was asked for

  template <class Stage, class Given> void ask(const Stage& stage) {
    if constexpr (requires { stage.template plan<Given>(*this); }) {
      stage.template plan<Given>(*this);
    }
  }
  /// What follows a device has slots of its own.
  /// @{
  void sees_records() { whole = whole || !to_device; }
  template <class Schema> void gives(std::size_t record_bytes) {
    if (to_device) {
      return;
    }
    largest = std::max(largest, record_bytes);
    ragged = ragged || schema_traits<Schema>::ragged;
  }
  /// @}
};

template <AnyDevice D> class DeviceThread;

/// What prepare() hands from stage to stage: each adds its node, and the link that it fills becomes
/// the one that the next takes from.
template <AnyDevice D> struct Build {
  D* device;
  Control& control;
  std::vector<std::unique_ptr<Node>>& nodes;
  Plan plan{};
  /// Records that a run will carry, or unknown_size; and units of them, as Grain counts.
  std::uint64_t records{};
  std::uint64_t units{};
  std::uint64_t epochs{1};
  /// Whether records may be left out, so that index() must be counted; and whether numbers in the
  /// source may jump, which stays so.
  bool skips{};
  bool jumps{};
  std::shared_ptr<HostLink> host{};
  std::shared_ptr<DeviceLink<D>> places{};
  DeviceThread<D>* device_thread{};
  std::size_t depth{}; // batches that may be on the device at once
  PrepareOptions preparing{};
  /// What follows on the device: numbers in the source, and whether each record is made of one.
  std::shared_ptr<OnTheWay> on_the_way{};
  bool one_for_one{true};

  /// What a stage says that may leave records out.
  void skip(bool may) noexcept {
    skips = skips || may;
    jumps = jumps || may;
  }

  /// How the next stage is called in the Report and in errors: a second Decoder "Decoder 2".
  std::string name(const std::string& kind) const {
    const auto same = std::count_if(nodes.begin(), nodes.end(), [&](const auto& node) {
      return node->name() == kind || node->name().starts_with(kind + ' ');
    });
    return same == 0 ? kind : kind + ' ' + std::to_string(same + 1);
  }

  /// Batches that the last ring is given in a run, at most, or unknown_size.
  std::uint64_t batches() const {
    const std::uint64_t batch = places ? places->grain().records : host->grain().records;
    const std::uint64_t epoch = units / epochs;
    return units == unknown_size ? units : epochs * (epoch / batch + (epoch % batch != 0 ? 1 : 0));
  }

  template <class N, class... Args> N& add(Args&&... args) {
    auto node = std::make_unique<N>(std::forward<Args>(args)...);
    N& added = *node;
    nodes.push_back(std::move(node));
    return added;
  }

  /// A host ring of slots in Where for the stage that fills it.
  template <class Where>
  std::shared_ptr<HostLink> link(std::size_t slots, Grain grain, Side claimers, const char* stage) {
    host = std::make_shared<HostLink>(
        slots, Places::in<Where>(device, slots, std::move(grain), stage), claimers, Side::many);
    control.watch(host->ring);
    return host;
  }
};

} // namespace penstock::detail
