// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>

#include <iterator>
#include <ranges>
#include <type_traits>
#include <utility>

namespace penstock::detail {

/// What stands in a range of devices: each by itself, or a pointer to it.
template <class E>
concept DeviceElement = AnyDevice<E> || requires(E& element) {
  requires AnyDevice<std::remove_reference_t<decltype(*element)>>;
};
template <DeviceElement E> auto& device_at(E& element) {
  if constexpr (AnyDevice<E>) {
    return element;
  } else {
    return *element;
  }
}
template <class Range>
using device_in = std::remove_reference_t<decltype(device_at(*std::begin(std::declval<Range&>())))>;
/// Whether the devices live on without the range: it has plain pointers, or owns nothing.
template <class Range>
inline constexpr bool only_names_devices =
    std::is_pointer_v<std::remove_cvref_t<decltype(*std::begin(std::declval<Range&>()))>> ||
    std::ranges::enable_borrowed_range<std::remove_cvref_t<Range>>;

/// Returns where the devices of a range are. Throws OptionError if there is none, or a null pointer
/// among them.
template <class D, class Range> [[gnu::cold]] Vector<D*> devices_of(Range& range) {
  Vector<D*> devices;
  for (auto& element : range) {
    if constexpr (requires { element == nullptr; }) {
      if (element == nullptr) {
        throw_error<OptionError>({"penstock: FanOut: the pointer to device number ", devices.size(),
                                  " is null: make all devices first, and point to them."});
      }
    }
    devices.push_back(&device_at(element));
  }
  if (devices.empty()) {
    throw OptionError{"penstock: FanOut: there is no device: give it at least one."};
  }
  return devices;
}

} // namespace penstock::detail
