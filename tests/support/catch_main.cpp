// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The main function of all Catch2 tests. Prints first how many test cases the program has, and then
// how each went, in lines that tests/tools/run_tests.py reads: "[cases] 17", and "[passed] name",
// "[failed] name" or "[skipped] name". Exits with 77, Meson's "skipped", if the machine lacks what
// the tests need, and with 1 if a test case failed or if there is none.
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

} // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int error = session.applyCommandLine(argc, argv)) {
    return error;
  }
  const auto tests = Catch::getAllTestCasesSorted(session.config());
  const std::string lacking = penstock::tests::missing();
  const auto& asked = session.configData();
  if (asked.showHelp || asked.listTests) {
    return session.run();
  }
  say("cases", std::to_string(tests.size()));
  if (lacking.empty()) {
    // Catch2 returns the number of failures, which may be 77.
    return session.run() == 0 && !tests.empty() ? 0 : 1;
  }
  std::cout << "This machine has not " << lacking << ".\n";
  for (const auto& test : tests) {
    say("skipped", name_of(test));
  }
  return tests.empty() ? 1 : 77;
}
