// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The checker itself, apart from the models that it checks: it is slow to compile.

#include <chrono>
#include <cstddef>
#include <cstring>

#include <new>

// The checker brings its own operator new and delete, but not the matching sized delete. This one
// stands before the checker, which makes a macro of the word.
void operator delete(void* at, std::size_t) noexcept {
  ::operator delete(at);
}

#include "scenario.hpp"

namespace penstock::model {
namespace {

/// Connects a Scenario to the checker, which wants its threads counted at compile time.
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

template <unsigned Threads> bool check_with(const Model& model, const Search& search) {
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

} // namespace

bool check(const Model& model, const Search& search) {
  switch (model.threads) {
  case 2:
    return check_with<2>(model, search);
  case 3:
    return check_with<3>(model, search);
  default:
    return check_with<4>(model, search);
  }
}

int run(const std::vector<Model>& models, int count, char** arguments) {
  int ran = 0;
  for (const Model& model : models) {
    bool wanted = count < 2;
    for (int i = 1; i < count; ++i) {
      wanted = wanted || std::strstr(model.name, arguments[i]) != nullptr;
    }
    for (const Search& search : wanted ? model.searches : std::vector<Search>{}) {
      if (!check(model, search)) {
        return 1;
      }
      ++ran;
    }
  }
  std::cout << ran << " searches, all good" << std::endl;
  return ran == 0 ? 2 : 0;
}

} // namespace penstock::model
