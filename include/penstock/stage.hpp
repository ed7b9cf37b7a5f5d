// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>

#include <type_traits>

namespace penstock {

namespace detail {
struct Plan;
/// The device of a stage, or of a chain, that names none.
struct NoDevice {};
} // namespace detail

/// The base of every stage: what penstock asks a stage, with the usual answers. The stage's own
/// names come before these.
struct StageBase {
  /// Whether the stage was refused already, so that `|` says no more about it.
  static constexpr bool refused = false;
  /// Whether nothing follows it although it gives batches: its branches go on with them.
  static constexpr bool forks = false;
  /// Returns whether it has stages of its own that give pinned memory.
  template <class Given> static consteval bool pins() { return false; }
  /// Whether it takes whole records only, no columns.
  static constexpr bool one_array_alone = false;
  /// Whether it takes no columns of variable length.
  static constexpr bool fixed_length_alone = false;
  /// The device that it names. A stage that names one has `device_type* device() const`.
  using device_type = detail::NoDevice;
  /// The stream that its callable takes; void if it takes none.
  using stream_parameter = void;

  /// Says what slots must hold. prepare() asks all stages, in order, before it builds any.
  template <class Given> void plan(detail::Plan& /*plan*/) const {}
};

/// What can stand right of `|`, and a Reader left of it: a cheap, movable description of what is
/// done, with which options. It derives from StageBase, and also has
/// - `template <class Given> using takes`, `gives`: the batch that it takes, and the one it gives,
///   where the stage before gives Given; void means none: a Reader takes none, a Consumer gives
///   none;
/// - `template <class Given, class D> void build(detail::Build<D>& build) const`: prepare() calls
///   it once, after the stage before it. It asks `build` for the link to take from, makes the one
///   to fill, and adds a node that is given both. It may throw OptionError, SourceError or
///   DeviceError, which prepare() passes on.
///
/// Adding one: docs/maintaining.md.
template <class S>
concept Stage = std::is_base_of_v<StageBase, std::remove_cvref_t<S>>;

/// Asks for pinned output: `Reader{source, to_pinned}`.
struct to_pinned_t {
  /// Takes a number, since {} would be taken for options.
  explicit constexpr to_pinned_t(int) {}
};
/// The tag itself: see to_pinned_t.
inline constexpr to_pinned_t to_pinned{0};

/// Asks for the way back: `AsyncCopier{to_host}`.
struct to_host_t {
  /// Takes a number, since {} would be taken for options.
  explicit constexpr to_host_t(int) {}
};
/// The tag itself: see to_host_t.
inline constexpr to_host_t to_host{0};

} // namespace penstock
