// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "relacy_atomics.hpp"

namespace penstock::model {

/// What is to be proved: what each thread does, and what must hold when all have finished. A new
/// one is made for each interleaving.
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

/// The bridge to the checker, which wants its threads counted at compile time.
template <unsigned Threads> struct Suite : rl::test_suite<Suite<Threads>, Threads> {
  inline static std::unique_ptr<Scenario> (*make)() = nullptr;
  std::unique_ptr<Scenario> scenario;

  void before() { scenario = make(); }
  void thread(unsigned id) { scenario->thread(id); }
  void after() {
    scenario->after();
    scenario.reset();
  }
};

/// True if no interleaving went wrong; else the first that did has been printed.
template <unsigned Threads> bool check(const Model& model, const Search& search) {
  Suite<Threads>::make = model.make;
  rl::ostringstream text;
  rl::test_params params;
  params.search_type = search.type;
  params.iteration_count = search.count;
  params.context_bound = search.count;
  params.execution_depth_limit = 4000;
  params.output_stream = &text;
  params.progress_stream = &text;
  const auto began = std::chrono::steady_clock::now();
  const bool good = rl::simulate<Suite<Threads>>(params);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::cout << (good ? "ok  " : "RED ") << model.name << ": " << params.stop_iteration
            << " interleavings (" << search.name() << "), " << took.count() << " s" << std::endl;
  if (!good) {
    std::cout << text.str().c_str() << std::endl;
  }
  return good;
}

/// Runs the models that `arguments` name (a part of the name will do; none: all), up to the first
/// that is red. Returns main()'s result: 2 if nothing was run.
inline int run(const std::vector<Model>& models, int count, char** arguments) {
  int ran = 0;
  for (const Model& model : models) {
    bool wanted = count < 2;
    for (int i = 1; i < count; ++i) {
      wanted = wanted || std::strstr(model.name, arguments[i]) != nullptr;
    }
    for (const Search& search : wanted ? model.searches : std::vector<Search>{}) {
      const bool good = model.threads == 2   ? check<2>(model, search)
                        : model.threads == 3 ? check<3>(model, search)
                                             : check<4>(model, search);
      if (!good) {
        return 1;
      }
      ++ran;
    }
  }
  std::cout << ran << " searches, all good" << std::endl;
  return ran == 0 ? 2 : 0;
}

} // namespace penstock::model
