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

  /// After the last node was added: starts the threads.
  void man() {
    crew_ = std::make_unique<Crew>();
    for (const auto& node : nodes_) {
      Node& n = *node;
      for (unsigned worker = &node == &nodes_.back() ? 1 : 0; worker < n.workers(); ++worker) {
        crew_->add([&n, worker] { n.run(worker); });
      }
    }
    report_.stages.resize(nodes_.size());
  }

  /// Blocks for one run; its error is thrown when every worker has come to rest.
  const Report& run(std::stop_token token) {
    const auto start = std::chrono::steady_clock::now();
    control_.reset();
    for (const auto& node : nodes_) {
      node->reset();
    }
    {
      const std::stop_callback stop{std::move(token), [this] { control_.stop(); }};
      crew_->go();
      nodes_.back()->run(0);
      crew_->wait();
    }
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
      report_.stages[i] = nodes_[i]->report(seconds);
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

} // namespace penstock::detail
