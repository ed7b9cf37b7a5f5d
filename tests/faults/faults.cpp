// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Faults from below, each in pipelines with each stage: `faults [all] [ROW]` makes the calls of a
// row fail, one after the other (without `all`: some of them), and prints what came of it, and a
// table. Each cell runs in a process of its own. It exits 1 if a run was wrong, hung, or told
// neither stage nor cause, if the next run was not right, or if anything stays behind.

#include "support/counted_new.hpp"

#include "faults/point.hpp"
#include "faults/system.hpp"
#include "support/sanitizer.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace penstock::tests::faults;
using namespace penstock::tests::lives;
namespace tests = penstock::tests;
namespace memory = penstock::tests::memory;

namespace {

constexpr std::uint32_t file_reads = opening | asking | reading | ringing;
constexpr std::uint32_t file_writes = writing | syncing;
constexpr std::uint32_t all_of_files = file_reads | file_writes | naming;
constexpr std::int64_t an_hour = 3600;
constexpr Plan in_use{.calls = opening | pausing, .error = EMFILE, .persistent = true};

std::vector<Fault> all_faults() {
  return {
      {.name = "EIO once", .plan = {.calls = all_of_files, .error = EIO}},
      {.name = "EIO from then on",
       .plan = {.calls = file_reads | file_writes, .error = EIO, .persistent = true}},
      {.name = "a disk that goes away",
       .plan = {.calls = all_of_files, .error = ENODEV, .persistent = true},
       .strands = true},
      {.name = "short reads and writes",
       .plan = {.calls = reading | writing, .does = Does::shortens, .persistent = true},
       .told = false},
      {.name = "EINTR",
       .plan = {.calls = all_of_files & ~syncing, .error = EINTR, .every_other = true},
       .told = false},
      {.name = "EINTR for ever",
       .plan = {.calls = reading | writing, .error = EINTR, .persistent = true}},
      {.name = "EAGAIN",
       .plan = {.calls = reading | writing | ringing, .error = EAGAIN, .every_other = true},
       .told = false},
      {.name = "EAGAIN for ever",
       .plan = {.calls = reading | writing | pausing, .error = EAGAIN, .persistent = true}},
      {.name = "ENOSPC", .plan = {.calls = file_writes, .error = ENOSPC, .persistent = true}},
      {.name = "EDQUOT", .plan = {.calls = file_writes, .error = EDQUOT, .persistent = true}},
      {.name = "EMFILE once", .plan = {.calls = opening, .error = EMFILE}, .told = false},
      {.name = "EMFILE from then on", .plan = in_use},
      {.name = "two descriptors are left",
       .plan = {.calls = pausing, .error = EMFILE},
       .at_each_call = false,
       .descriptors = 2,
       .sanitizers_too = false}, // one looks at an object's type through a pipe
      {.name = "no descriptor is left",
       .plan = {.calls = pausing, .error = EMFILE},
       .at_each_call = false,
       .descriptors = 0,
       .sanitizers_too = false}, // one looks at an object's type through a pipe
      {.name = "a thread that cannot be made",
       .plan = {.calls = starting, .error = EAGAIN},
       .says = "thread"},
      {.name = "no thread from then on",
       .plan = {.calls = starting, .error = EAGAIN, .persistent = true},
       .says = "thread"},
      {.name = "an allocation that fails", .plan = {}, .memory = true},
      {.name = "no memory from then on", .plan = {.persistent = true}, .memory = true},
      {.name = "no pages (mmap)", .plan = {.calls = mapping, .error = ENOMEM}},
      {.name = "no pages from then on",
       .plan = {.calls = mapping, .error = ENOMEM, .persistent = true}},
      {.name = "futexes interrupted",
       .plan = {.calls = waiting, .error = EINTR, .every_other = true},
       .told = false},
      {.name = "all futexes interrupted",
       .plan = {.calls = waiting, .error = EINTR, .persistent = true},
       .at_each_call = false,
       .told = false},
      {.name = "a clock that jumps on",
       .plan = {.calls = timing, .does = Does::jumps, .persistent = true, .jump = an_hour},
       .told = false},
      {.name = "a clock that jumps to and fro",
       .plan = {.calls = timing, .does = Does::jumps, .every_other = true, .jump = -an_hour},
       .at_each_call = false,
       .told = false},
      {.name = "processors taken away",
       .plan = {},
       .at_each_call = false,
       .told = false,
       .processors = true},
      {.name = "seccomp without io_uring",
       .plan = {},
       .at_each_call = false,
       .told = false,
       .before =
           [](auto&) {
             return without({SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register});
           }},
      {.name = "seccomp without sched_setaffinity",
       .plan = {},
       .at_each_call = false,
       .told = false,
       .sanitizers_too = false,
       .before = [](auto&) { return without({SYS_sched_setaffinity, SYS_sched_getaffinity}); }},
      {.name = "no /proc, no /sys",
       .plan = {},
       .at_each_call = false,
       .told = false,
       .before = alone_in},
  };
}

struct Stage {
  const char* name;
  std::function<std::unique_ptr<Life>(const Files&)> make;
};
template <class L> std::unique_ptr<Life> one(const Files& files) {
  return std::make_unique<L>(files);
}
std::vector<Stage> all_stages() {
  using Direct = ps::DirectReads;
  return {
      {"Reader", [](const Files& f) { return std::make_unique<Read>(f, ps::PosixIo{}); }},
      {"Reader, direct",
       [](const Files& f) { return std::make_unique<Read>(f, ps::PosixIo{}, Direct::always); }},
      {"Reader, UringIo",
       [](const Files& f) {
         return std::make_unique<Read>(f, ps::UringIo{}, Direct::automatic,
                                       ps::Order{.shuffle = 1});
       }},
      {"Decoder", one<HostOnly>},
      {"PinnedStager", one<Staged>},
      {"AsyncCopier, Consumer", one<Copied>},
      {"Kernel", one<InPlace>},
      {"way back", one<BothWays>},
      {"Writer", one<Written>},
      {"loop", one<Loop>},
  };
}

/// What a cell's process found.
struct Cell {
  std::map<std::string, int> came; // points by who told
  std::vector<std::string> problems;
  std::string impossible;

  std::string counts() const {
    std::string text;
    for (const auto& [who, points] : came) {
      text += (text.empty() ? "" : ", ") + std::to_string(points) + ' ' + who;
    }
    return text.empty() ? "–" : text;
  }
  std::string names() const {
    std::string text;
    for (const auto& [who, points] : came) {
      text += (text.empty() ? "" : ", ") + who;
    }
    return !problems.empty()     ? "**wrong**"
           : !impossible.empty() ? "not here"
           : text.empty()        ? "–"
                                 : text;
  }
};

// Runs in the cell's process, and says each point on `out`: one line each.
void run_cell(const Stage& stage, const Fault& fault, bool all, std::FILE* out) {
  const Files files;
  if (const std::string impossible = fault.before ? fault.before(files.dir.path()) : "";
      !impossible.empty()) {
    std::fprintf(out, "impossible\t%s\n", impossible.c_str());
    return;
  }
  const Make make = [&] { return stage.make(files); };
  const bool standing = fault.before || fault.processors; // no call is counted
  std::optional<FewDescriptors> few;
  const auto arms = [&](std::uint64_t k) {
    fault.memory ? memory::refuse_allocation(k, fault.plan.persistent) : arm(fault.plan, k);
    if (fault.descriptors >= 0) {
      few.emplace(fault.descriptors);
    }
  };
  const auto disarms = [&] {
    memory::refuse_allocation(0);
    disarm();
    few.reset();
    return fault.memory ? memory::has_refused() : hits() != 0 || fault.descriptors >= 0;
  };
  Trial trial{files, make, fault, arms, disarms};
  const bool each = fault.at_each_call && !fault.plan.every_other;
  const std::uint64_t most = each                     ? ~std::uint64_t{0}
                             : fault.plan.every_other ? 2
                             : !standing              ? 1
                             : all                    ? 100
                                                      : 10;
  bool hit = true;
  for (std::uint64_t k = 1; (hit || !each) && k <= most;
       k += all || !each ? 1 : std::max<std::uint64_t>(k / 2, 1)) {
    const Point point = trial.at(k);
    hit = point.hit;
    if (hit || standing || !point.problem.empty()) {
      const std::string problem =
          point.problem.empty() ? "" : "point " + std::to_string(k) + ": " + point.problem;
      std::fprintf(out, "%s\t%s\n", point.came.c_str(), problem.c_str());
      std::fflush(out);
    }
  }
}

Cell cell_of(const Stage& stage, const Fault& fault, bool all) {
  Cell cell;
  int ends[2];
  if (::pipe(ends) != 0) {
    cell.problems.emplace_back("no pipe");
    return cell;
  }
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    std::FILE* const out = ::fdopen(ends[1], "w");
    const tests::Outcome failed = tests::outcome_of([&] { run_cell(stage, fault, all, out); });
    if (failed.came != tests::Came::nothing) {
      std::fprintf(out, "right\tthe first run failed: %s\n", failed.text.c_str());
    }
    std::fflush(out);
    std::_Exit(0);
  }
  ::close(ends[1]);
  std::string text;
  std::mt19937 random{1};
  const auto patience = std::chrono::seconds{tests::under_tsan ? 120 : 30};
  auto due = std::chrono::steady_clock::now() + patience;
  for (bool over = false; !over;) {
    if (fault.processors && !deal_processors(child, random)) {
      cell.impossible = "there is one processor";
    }
    pollfd poll{ends[0], POLLIN, 0};
    if (::poll(&poll, 1, fault.processors ? 1 : 1000) > 0) {
      char some[4096];
      const ssize_t got = ::read(ends[0], some, sizeof some);
      text.append(some, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      due = std::chrono::steady_clock::now() + patience;
      over = got <= 0;
    } else if (std::chrono::steady_clock::now() > due) {
      cell.problems.emplace_back("it hangs");
      ::kill(child, SIGABRT);
      over = true;
    }
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) {
    cell.problems.push_back("the process ended by signal " + std::to_string(WTERMSIG(status)) +
                            ", code " + std::to_string(WEXITSTATUS(status)));
  }
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) {
      continue; // the rest of an error's text of several lines
    }
    const std::string who = line.substr(0, tab);
    const std::string problem = line.substr(tab + 1);
    if (who == "impossible") {
      cell.impossible = problem;
    } else {
      ++cell.came[who];
      if (!problem.empty()) {
        cell.problems.push_back(problem);
      }
    }
  }
  return cell;
}

} // namespace

int main(int given, char** arguments) {
  bool all = false;
  std::string_view row;
  for (int i = 1; i < given; ++i) {
    (std::string_view{arguments[i]} == "all" ? all = true : (row = arguments[i], true));
  }
  const auto stages = all_stages();
  std::string table = "| fault |";
  std::string line = "| --- |";
  for (const Stage& stage : stages) {
    table += std::string{' '} + stage.name + " |";
    line += " --- |";
  }
  table += '\n' + line + '\n';
  int points = 0;
  int wrong = 0;
  for (const Fault& fault : all_faults()) {
    const bool sanitized = tests::under_asan || tests::under_tsan;
    if ((!row.empty() && row != fault.name) || (fault.memory && !memory::can_refuse) ||
        (sanitized && !fault.sanitizers_too)) {
      continue;
    }
    table += std::string{"| "} + fault.name + " |";
    for (const Stage& stage : stages) {
      const Cell cell = cell_of(stage, fault, all);
      std::printf("%s, %s: %s\n", fault.name, stage.name,
                  cell.impossible.empty() ? cell.counts().c_str() : cell.impossible.c_str());
      for (const std::string& problem : cell.problems) {
        std::printf("  WRONG: %s\n", problem.c_str());
      }
      for (const auto& [who, some] : cell.came) {
        points += some;
      }
      wrong += static_cast<int>(cell.problems.size());
      table += ' ' + cell.names() + " |";
    }
    table += '\n';
    std::fflush(stdout);
  }
  std::printf("\n%s\n%d faults, %d wrong\n", table.c_str(), points, wrong);
  return wrong == 0 && points != 0 ? 0 : 1;
}
