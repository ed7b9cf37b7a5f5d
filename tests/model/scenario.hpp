// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "relacy_atomics.hpp"

namespace penstock::model {

/// A claim to prove: what each thread does, and what must hold when all have finished. A new one is
/// made for each interleaving.
struct Scenario {
  virtual ~Scenario() = default;
  virtual void thread(unsigned id) = 0;
  virtual void after() {}
};

/// How interleavings are chosen: all of them, all with at most `count` switches that the scheduler
/// forces, or `count` random ones.
struct Search {
  rl::scheduler_type_e type;
  unsigned count;

  static Search full() { return {rl::fair_full_search_scheduler_type, 0}; }
  static Search switches(unsigned most) { return {rl::fair_context_bound_scheduler_type, most}; }
  static Search random(unsigned count) { return {rl::random_scheduler_type, count}; }

  std::string name() const {
    return type == rl::fair_full_search_scheduler_type ? "all"
           : type == rl::random_scheduler_type
               ? "random"
               : "up to " + std::to_string(count) + " forced switches";
  }
};

struct Model {
  const char* name;
  unsigned threads;
  std::unique_ptr<Scenario> (*make)();
  std::vector<Search> searches;
};

/// Returns true if no interleaving went wrong; else prints the first that did.
bool check(const Model& model, const Search& search);

/// Runs the models that `arguments` name (parts of names; none: all), up to the first that fails.
/// Returns main()'s result: 2 if nothing was run.
int run(const std::vector<Model>& models, int count, char** arguments);

} // namespace penstock::model
