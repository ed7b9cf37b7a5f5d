// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/build.hpp>
#include <penstock/detail/crew.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace penstock::detail {

/// A prepared pipeline: its nodes, their rings and memory, and the threads that work them.
class Engine {
 public:
  explicit Engine(std::string device) { report_.device = std::move(device); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() {
    crew_.reset();
    // Each takes from the one before it.
    while (!nodes_.empty()) {
      nodes_.pop_back();
    }
  }

  template <AnyDevice D> Build<D> build(D* device) { return {device, control_, nodes_}; }

  /// After the last node was added: starts the threads. Throws Error if there are not so many.
  void man() {
    crew_ = std::make_unique<Crew>();
    for (const auto& node : nodes_) {
      Node& n = *node;
      for (unsigned worker = &node == &nodes_.back() ? 1 : 0; worker < n.workers(); ++worker) {
        try {
          crew_->add([&n, worker] { n.run(worker); });
        } catch (const std::system_error& e) {
          throw Error{"penstock: " + n.name() + ": no thread could be started for worker " +
                      std::to_string(worker + 1) + " of " + std::to_string(n.workers()) + ": " +
                      e.what() +
                      ": ask for fewer workers or raise the limit on threads (ulimit "
                      "-u, the container's)."};
        }
      }
    }
    report_.stages.resize(nodes_.size());
    sum_up(0); // its texts get their memory here and not in a run
  }

  /// Blocks for one run; its error is thrown when every worker has come to rest.
  const Report& run(std::stop_token token) {
    const auto start = std::chrono::steady_clock::now();
    control_.reset();
    // Each may hold leases of the ring before it, so the last comes first.
    if (!std::all_of(nodes_.rbegin(), nodes_.rend(),
                     [](const auto& node) { return node->make_ready(); })) {
      control_.rethrow();
    }
    control_.begin();
    {
      const std::stop_callback stop{std::move(token), [this] { control_.stop(); }};
      crew_->go();
      nodes_.back()->run(0);
      crew_->wait();
    }
    control_.end();
    sum_up(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    control_.rethrow();
    return report_;
  }
  void stop() noexcept { control_.stop(); }
  const Report& report() const noexcept { return report_; }

 private:
  void sum_up(double seconds) {
    report_.seconds = seconds;
    report_.stopped = control_.stopped();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i]->report(seconds, report_.stages[i]);
    }
    const StageReport& first = report_.stages.front();
    const StageReport& last = report_.stages.back();
    report_.records = last.records;
    report_.bytes = last.bytes;
    report_.dropped = first.records - last.records;
    report_.limiting_stage =
        std::max_element(report_.stages.begin(), report_.stages.end(),
                         [](const auto& a, const auto& b) { return a.busy_s < b.busy_s; })
            ->name;
  }

  Control control_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unique_ptr<Crew> crew_;
  Report report_;
};

/// Owns an engine that one thread makes while others may ask for it. Moves while nobody asks.
class EngineOwner {
 public:
  EngineOwner() = default;
  EngineOwner(EngineOwner&& other) noexcept : engine_{other.engine_.exchange(nullptr)} {}
  EngineOwner& operator=(EngineOwner&& other) noexcept {
    const std::unique_ptr<Engine> old{engine_.exchange(other.engine_.exchange(nullptr))};
    return *this;
  }
  ~EngineOwner() { delete get(); }

  void set(std::unique_ptr<Engine> engine) noexcept {
    engine_.store(engine.release(), StdAtomics::release); // pairs with get()
  }
  /// Null before set().
  Engine* get() const noexcept { return engine_.load(StdAtomics::acquire); } // pairs with set()

 private:
  StdAtomics::Atomic<Engine*> engine_{nullptr};
};

} // namespace penstock::detail
