// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/detail/base/owned.hpp>
#include <penstock/detail/engine/engine.hpp>

namespace penstock::detail {

/// Owns an engine that one thread makes while others may ask for it. May be moved while nobody
/// asks. A forked child leaves the engine as it is: the threads that it would wait for are not
/// there.
class EngineOwner {
 public:
  EngineOwner() = default;
  EngineOwner(EngineOwner&& other) noexcept : engine_{other.engine_.exchange(nullptr)} {}
  EngineOwner& operator=(EngineOwner&& other) noexcept {
    destroy(engine_.exchange(other.engine_.exchange(nullptr)));
    return *this;
  }
  ~EngineOwner() { destroy(get()); }

  void set(Owned<Engine> engine) noexcept {
    engine_.store(engine.release(), StdAtomics::release); // pairs with get()
  }
  /// Returns the engine; null before set().
  Engine* get() const noexcept { return engine_.load(StdAtomics::acquire); } // pairs with set()

 private:
  static void destroy(Engine* engine) noexcept {
    if (engine && engine->is_here()) {
      delete engine;
    }
  }

  StdAtomics::Atomic<Engine*> engine_{nullptr};
};

} // namespace penstock::detail
