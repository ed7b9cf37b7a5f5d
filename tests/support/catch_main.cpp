// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The main function of all Catch2 tests. Prints how each test case went, in a line that
// tests/tools/run_tests.py reads: "[passed] name", "[failed] name" or "[skipped] name". Exits with
// 77, Meson's "skipped", if the machine lacks what the tests need, and with 1 if a test case failed
// or if there are not as many as PENSTOCK_TEST_CASES in the environment says.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/interfaces/catch_interfaces_testcase.hpp>
#include <catch2/internal/catch_test_case_registry_impl.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using Listener = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
using Listener = Catch::TestEventListenerBase;
#endif

#include "support/needs.hpp"

#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <string>

namespace {

#if __has_include(<catch2/catch_session.hpp>)
const std::string& name_of(const Catch::TestCaseInfo* info) {
  return info->name;
}
const std::string& name_of(const Catch::TestCaseHandle& test) {
  return test.getTestCaseInfo().name;
}
#else
const std::string& name_of(const Catch::TestCaseInfo& info) {
  return info.name;
}
#endif

void say(const char* how, const std::string& name) {
  std::cout << '[' << how << "] " << name << std::endl;
}

struct CaseLines : Listener {
  using Listener::Listener;
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    // A test case that asserts nothing cannot fail: it has not passed either.
    const auto& done = stats.totals.assertions;
    say(done.allOk() && done.total() > 0 ? "passed" : "failed", name_of(stats.testInfo));
    Listener::testCaseEnded(stats);
  }
};
CATCH_REGISTER_LISTENER(CaseLines)

/// Returns whether the program has as many test cases as tests/meson.build says.
bool all_there(std::size_t count) {
  const char* const listed = std::getenv("PENSTOCK_TEST_CASES");
  if (listed == nullptr || listed == std::to_string(count)) {
    return true;
  }
  std::cout << "This program has " << count << " test cases, and tests/meson.build lists " << listed
            << " for it. If that is as it should be, write 'cases': " << count << " there.\n";
  return false;
}

} // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int error = session.applyCommandLine(argc, argv)) {
    return error;
  }
  const auto tests = Catch::getAllTestCasesSorted(session.config());
  const std::string lacking = penstock::tests::missing();
  if (lacking.empty() || session.configData().showHelp || session.configData().listTests) {
    // Catch2 returns the number of failures, which may be 77.
    const bool passed = session.run() == 0;
    return all_there(tests.size()) && passed ? 0 : 1;
  }
  std::cout << "This machine has not " << lacking << ".\n";
  for (const auto& test : tests) {
    say("skipped", name_of(test));
  }
  return all_there(tests.size()) ? 77 : 1;
}
