// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/engine/engine.hpp>

#include <utility>

namespace penstock::detail {

/// Shares an engine with the loops over it. One thread makes the engine while others may ask for
/// it. May be moved while nobody asks. A forked child leaves the engine as it is: the threads that
/// it would wait for are not there. So does exit() that is called in a callable.
class EngineOwner {
 public:
  EngineOwner() = default;
  EngineOwner(EngineOwner&& other) noexcept
      : shared_{std::move(other.shared_)}, engine_{other.engine_.exchange(nullptr)} {}
  EngineOwner& operator=(EngineOwner&& other) noexcept {
    engine_.store(other.engine_.exchange(nullptr), StdAtomics::relaxed);
    shared_ = std::move(other.shared_);
    return *this;
  }

  /// Throws std::bad_alloc, and then destroys the engine.
  [[gnu::cold]] void set(Owned<Engine> engine) {
    shared_ = detail::share(engine, destroy);
    engine_.store(shared_.get(), StdAtomics::release); // pairs with get()
  }
  /// Returns the engine; null before set().
  Engine* get() const noexcept { return engine_.load(StdAtomics::acquire); } // pairs with set()
  /// Returns a share of the engine. Only the thread that makes it calls this.
  const Shared<Engine>& share() const noexcept { return shared_; }

 private:
  [[gnu::cold]] static void destroy(Engine* engine) noexcept {
    if (engine->is_here() && !engine->stays()) {
      delete engine;
    }
  }

  Shared<Engine> shared_;
  StdAtomics::Atomic<Engine*> engine_{nullptr};
};

} // namespace penstock::detail
