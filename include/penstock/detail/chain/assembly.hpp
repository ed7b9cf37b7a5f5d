// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/chain/fit.hpp>
#include <penstock/detail/ends/device_loop.hpp>
#include <penstock/detail/ends/host_loop.hpp>
#include <penstock/detail/engine/engine.hpp>
#include <penstock/device/detail/fed_devices.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>
#include <penstock/host/device.hpp>
#include <penstock/run/options.hpp>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <ranges>
#include <tuple>
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

/// Returns the device that stages name, of which `found` is known, or null. Throws OptionError if
/// it is another one: two would be two pipelines.
template <class D> [[gnu::cold]] D* same_device(D* found, D* named) {
  if (found && named && found != named) {
    throw_error<OptionError>({"penstock: the stages of one pipeline name two devices, ",
                              found->name(), " and ", named->name(),
                              ": give all of them the same."});
  }
  return named ? named : found;
}

/// What becomes of a chain of stages: its types from end to end, and its engine.
template <class... Stages> struct Assembly {
  template <std::size_t At> using StageAt = std::tuple_element_t<At, std::tuple<Stages...>>;
  template <std::size_t At> using GivenTo = typename given_at<At, void, Stages...>::type;
  using Gives = typename given<void, Stages...>::type;
  using End = batch_of<Gives>;
  using On = typename device_of<Stages...>::type;
  // If no stage names a device, HostDevice stands in as the type, and the pointer is null.
  using Backend = std::conditional_t<AnyDevice<On>, On, HostDevice>;
  using All = std::index_sequence_for<Stages...>;

  static constexpr bool pins() {
    return []<std::size_t... At>(std::index_sequence<At...>) {
      return (std::is_same_v<typename batch_of<GivenTo<At>>::space, Pinned> || ...) ||
             std::is_same_v<typename End::space, Pinned> ||
             (StageAt<At>::template pins<GivenTo<At>>() || ...);
    }(All{});
  }

  /// Opens the source, allocates everything, starts the threads.
  static Owned<Engine> make(const std::tuple<Stages...>& stages, const PrepareOptions& preparing) {
    Backend* device = find_device(stages);
    Owned<Engine> engine{
        new Engine{device ? device->name() : "none", device ? memory_of(*device) : 0}};
    if (device) {
      engine->fed().note(identity_of(*device));
    }
    engine->start_threads(build(stages, *engine, device, preparing, All{}));
    return engine;
  }

 private:
  // Returns the one device that stages name, or null.
  static Backend* find_device(const std::tuple<Stages...>& stages) {
    Backend* found = nullptr;
    const auto look = [&](const auto& stage) {
      using Named = typename std::remove_cvref_t<decltype(stage)>::device_type;
      if constexpr (!std::is_same_v<Named, NoDevice>) {
        found = same_device(found, stage.device());
      }
    };
    std::apply([&](const auto&... stage) { (look(stage), ...); }, stages);
    return found;
  }

  // Returns what is near the device.
  template <std::size_t... At>
  static NearDevice build(const std::tuple<Stages...>& stages, Engine& engine, Backend* device,
                          const PrepareOptions& preparing, std::index_sequence<At...>) {
    auto build = engine.build(device, preparing);
    build.facts.plan.devices = FedDevice::count();
    (std::get<At>(stages).template plan<GivenTo<At>>(build.facts.plan), ...);
    if constexpr (End::host) {
      build.facts.plan.sees_records();
    }
    (std::get<At>(stages).template build<GivenTo<At>>(build), ...);
    if constexpr (End::host) {
      build.template add<HostLoop<typename End::schema, typename End::space>>(
          build.setup("loop", 1, StageKind::loop), build.host_input());
    } else if constexpr (End::device) {
      build.template add<DeviceLoop<typename End::schema, Backend>>(
          build.setup("loop", 1, StageKind::loop), *build.device, build.device_input(),
          build.facts.depth);
    }
    if (build.facts.ahead && !build.facts.flush) {
      build.facts.needs.check(*build.facts.ahead);
    }
    build.facts.order->set_batch(build.batch_records(), build.facts.whole_batches);
    engine.expect(build.facts.order, build.batches());
    return device ? NearDevice{*device, build.facts.plan.parts()} : NearDevice{};
  }
};

/// Whether S, such as cuda::stream_ref, refers to a stream of the device: get() gives a pointer or
/// a reference, since an object that get() makes would be gone too soon.
template <class S, class D>
concept RefersToStream = requires(S stream) {
  { stream.get() } -> std::convertible_to<Stream<D>>;
  requires std::is_pointer_v<decltype(stream.get())> ||
               std::is_lvalue_reference_v<decltype(stream.get())>;
};
template <class D, class S> consteval bool is_stream_of() {
  if constexpr (AnyDevice<D>) {
    return std::is_convertible_v<S, Stream<D>> || RefersToStream<S, D>;
  } else {
    return true;
  }
}
/// Returns a stream of the device, given as itself or by what refers to it.
template <class D, class S> Stream<D> given_stream(S&& stream) {
  if constexpr (std::is_convertible_v<S, Stream<D>>) {
    return std::forward<S>(stream);
  } else {
    return stream.get();
  }
}

} // namespace penstock::detail
