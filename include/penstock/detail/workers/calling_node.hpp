// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/each_worker.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/base/vector.hpp>
#include <penstock/detail/engine/node.hpp>

#include <type_traits>

namespace penstock::detail {

/// What each worker of a stage calls: a copy of its own of F.
template <class F> class Callables {
 public:
  Callables(unsigned workers, const F& f) : of_(workers, f) {}

  F& operator[](unsigned worker) noexcept { return of_[worker]; }
  void make(unsigned /*worker*/) {}
  void hand_in(unsigned /*worker*/) {}
  bool dropped() const noexcept { return false; }
  void drop() noexcept {}

 private:
  Vector<F> of_;
};
/// An object that it has made itself. Each is an allocation of its own: it need not be movable.
template <class Make, class HandIn> class Callables<EachWorker<Make, HandIn>> {
  using Made = made_t<Make>;

 public:
  Callables(unsigned workers, const EachWorker<Make, HandIn>& f) : each_{f}, of_(workers) {}

  Made& operator[](unsigned worker) noexcept { return *of_[worker]; }
  void make(unsigned worker) { of_[worker] = Owned<Made>{new Made(each_.make())}; }
  void hand_in(unsigned worker) {
    if constexpr (!std::is_same_v<HandIn, NotHandedIn>) {
      each_.hand_in(*of_[worker]);
    }
  }
  /// Drops what would be handed in.
  void drop() noexcept {
    for (std::size_t i = 0; !std::is_same_v<HandIn, NotHandedIn> && i < of_.size(); ++i) {
      of_[i] = {};
    }
  }
  /// Returns whether it lacks any of them: the last is made last.
  bool dropped() const noexcept { return !of_.back(); }

 private:
  EachWorker<Make, HandIn> each_;
  Vector<Owned<Made>> of_;
};

/// A node whose workers call what the stage was given.
template <class F> class CallingNode : public Node {
 public:
  CallingNode(const NodeSetup& setup, const F& f) : Node{setup}, calls_{workers(), f} {}

  bool makes() const noexcept override { return is_each_worker<F>; }
  void drop_parts() noexcept override { calls_.drop(); }

 protected:
  void make(unsigned worker) override { calls_.make(worker); }
  void hand_in(unsigned worker) override { calls_.hand_in(worker); }
  bool lacks_parts() const noexcept override { return calls_.dropped(); }
  auto& call_of(unsigned worker) noexcept { return calls_[worker]; }

 private:
  Callables<F> calls_;
};

} // namespace penstock::detail
