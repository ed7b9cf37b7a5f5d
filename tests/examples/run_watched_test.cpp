// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How 17_doctor runs a program under watch. Shells stand for programs that use CUDA, and write the
// files that the injection library writes.

#include "../examples/support/run_watched.hpp"

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// A library that is always there: what these programs do not load.
constexpr const char* some_library = "libc.so.6";

struct Outcome {
  int code{};
  std::string text, errors;
};
int run(std::vector<std::string> words, bool json, std::ostream& text, std::ostream& errors,
        const char* library = some_library) {
  std::vector<char*> command;
  for (std::string& word : words) {
    command.push_back(word.data());
  }
  const int nowhere = open("/dev/null", O_WRONLY);
  struct Closed {
    int file;
    ~Closed() { close(file); }
  } closed{nowhere};
  return doctor::run_watched(command, json, library, nowhere, text, errors);
}
Outcome shell(const std::string& script, bool json = false) {
  std::ostringstream text;
  std::ostringstream errors;
  const int code = run({"sh", "-c", script}, json, text, errors);
  return {code, text.str(), errors.str()};
}
/// Returns the text of what running these words throws.
std::string refusal(const std::vector<std::string>& words, const char* library = some_library) {
  std::ostringstream text;
  std::ostringstream errors;
  try {
    run(words, false, text, errors, library);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}
bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("what the program's process wrote is printed, and its exit code passed on") {
  const Outcome outcome =
      shell("echo seen > $PENSTOCK_WATCH/$$.txt; [ -n \"$CUDA_INJECTION64_PATH\" ] && exit 5");
  CHECK(outcome.code == 5);
  CHECK(outcome.text == "seen\n");
  CHECK(outcome.errors.empty());
}

TEST_CASE("as JSON it is one object, with what each process wrote") {
  const Outcome outcome = shell("echo '{\"a\": 1}' > $PENSTOCK_WATCH/1.json; echo > "
                                "$PENSTOCK_WATCH/1.txt; echo '{\"b\": 2}' > "
                                "$PENSTOCK_WATCH/2.json; exit 3",
                                true);
  CHECK(outcome.code == 3);
  CHECK(outcome.text.starts_with("{\"command\": [\"sh\", \"-c\", "));
  CHECK(
      outcome.text.ends_with("\"exit_code\": 3, \"signal\": null, \"error\": \"\", \"processes\": "
                             "[{\"a\": 1}, {\"b\": 2}]}\n"));
}

TEST_CASE("a program with children prints each of them") {
  const Outcome outcome =
      shell("echo one > $PENSTOCK_WATCH/1.txt; echo two > $PENSTOCK_WATCH/2.txt");
  CHECK(outcome.code == 0);
  CHECK(outcome.text ==
        "sh started others: 2 processes used CUDA.\nProcess 1:\none\nProcess 2:\ntwo\n");
}

TEST_CASE("nothing to see is an error that says why") {
  const Outcome never = shell("exit 0");
  CHECK(never.code == 1);
  CHECK(holds(never.errors, "sh never used CUDA"));
  CHECK(shell("exit 6").code == 6);
  const Outcome lost = shell("printf /bin/prog > $PENSTOCK_WATCH/$$.begun");
  CHECK(lost.code == 1);
  CHECK(lost.errors.starts_with("/bin/prog ended without a word of what it did."));
  CHECK(holds(lost.errors, "let it run for longer, end it by exit()"));
  const Outcome refused = shell("echo 'CUPTI says no' > $PENSTOCK_WATCH/$$.error");
  CHECK(refused.code == 1);
  CHECK(holds(refused.errors, "sh ran, and could not be watched: CUPTI says no"));
  CHECK(holds(shell("exit 0", true).text, "\"error\": \"sh never used CUDA"));
}

TEST_CASE("a child that told nothing is named, beside what the others told") {
  const Outcome outcome = shell("printf /bin/a > $PENSTOCK_WATCH/1.begun; echo one > "
                                "$PENSTOCK_WATCH/1.txt; printf /bin/b > $PENSTOCK_WATCH/2.begun");
  CHECK(outcome.code == 0);
  CHECK(outcome.text.starts_with("one\n/bin/b ended without a word"));
  CHECK_FALSE(holds(outcome.text, "/bin/a"));
  CHECK(outcome.errors.empty());
}

TEST_CASE("the files of a watched process tell how it ended, if it could not tell itself") {
  const penstock::tests::TempDir folder;
  const doctor::WatchFiles files{folder.path(), 7};
  files.write_begun("/bin/prog");
  CHECK(holds(doctor::whole_file(folder / "7.json"), "\"error\": \"/bin/prog ended without"));
  CHECK(doctor::lost_processes(folder.path()).size() == 1);
  files.write("/bin/prog", false, penstock::Json{1}, "seen\n");
  CHECK(doctor::lost_processes(folder.path()).empty());
  CHECK(
      doctor::whole_file(folder / "7.txt").starts_with("/bin/prog ended by a signal, _exit() or"));
  CHECK(holds(doctor::whole_file(folder / "7.json"), "\"error\": \"\", \"watch\": 1"));
  files.write("/bin/prog", true, penstock::Json{2}, "all\n");
  CHECK(doctor::whole_file(folder / "7.txt") == "all\n");
  files.write_error("/bin/prog", "no");
  CHECK(holds(doctor::whole_file(folder / "7.json"), "\"error\": \"no\", \"watch\": null"));
}

TEST_CASE("what cannot be run is refused, with the cure") {
  CHECK(holds(refusal({"/no/such/program"}), "cannot run /no/such/program: No such file"));
  CHECK(holds(refusal({"true"}, "/no/such/library.so"), "extras/CUPTI/lib64 to LD_LIBRARY_PATH"));
  setenv("CUDA_INJECTION64_PATH", "another.so", 1);
  CHECK(holds(refusal({"true"}), "another profiler is to look on"));
  unsetenv("CUDA_INJECTION64_PATH");
}

TEST_CASE("a signal that ends the program ends the doctor too, after it has printed") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t doctor = fork();
  if (doctor == 0) {
    const Outcome outcome = shell("kill -TERM $$");
    _exit(outcome.code);
  }
  close(ends[0]);
  close(ends[1]);
  int status = 0;
  REQUIRE(waitpid(doctor, &status, 0) == doctor);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("a signal to the doctor goes on to the program") {
  // The program tells the doctor's process by its parent.
  const Outcome outcome = shell("trap 'echo caught > $PENSTOCK_WATCH/$$.txt; exit 8' USR1; kill "
                                "-USR1 $PPID; i=0; while [ $i -lt 200 ]; do sleep 0.05; "
                                "i=$((i+1)); done");
  CHECK(outcome.code == 8);
  CHECK(outcome.text == "caught\n");
}

TEST_CASE("its folder is gone afterwards") {
  const Outcome outcome = shell("echo $PENSTOCK_WATCH > $PENSTOCK_WATCH/1.txt");
  const std::string folder = outcome.text.substr(0, outcome.text.find('\n'));
  REQUIRE(holds(folder, "17_doctor-"));
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("its folder is gone before anything is printed") {
  // Text that nobody reads any more ends the doctor by a signal.
  struct Looks final : std::stringbuf {
    bool gone = false;
    int sync() override {
      gone = gone || !std::filesystem::exists(str().substr(0, str().find('\n')));
      return 0;
    }
  } looks;
  std::ostream text{&looks};
  std::ostringstream errors;
  CHECK(run({"sh", "-c", "echo $PENSTOCK_WATCH > $PENSTOCK_WATCH/1.txt"}, false, text, errors) ==
        0);
  CHECK(holds(looks.str(), "17_doctor-"));
  CHECK(looks.gone);
}

TEST_CASE("what cannot be printed is an error") {
  std::ofstream full{"/dev/full"};
  std::ostringstream errors;
  CHECK(run({"sh", "-c", "echo seen > $PENSTOCK_WATCH/1.txt"}, false, full, errors) == 1);
  CHECK(holds(errors.str(), "cannot write what was seen to standard output"));
}

TEST_CASE("an ignored SIGCHLD does not hide how the program ended") {
  std::signal(SIGCHLD, SIG_IGN);
  CHECK(shell("echo seen > $PENSTOCK_WATCH/1.txt; exit 7").code == 7);
  CHECK(std::signal(SIGCHLD, SIG_DFL) == SIG_IGN);
}

TEST_CASE("TMPDIR may be a path from here, and one that is not there is refused with the cure") {
  setenv("TMPDIR", ".", 1);
  CHECK(shell("cd / && echo seen > $PENSTOCK_WATCH/1.txt").text == "seen\n");
  setenv("TMPDIR", "/no/such/folder", 1);
  CHECK(holds(refusal({"true"}), "/no/such/folder/17_doctor-"));
  CHECK(holds(refusal({"true"}), "Set TMPDIR to a folder"));
  unsetenv("TMPDIR");
}
