// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// `17_doctor --run PROGRAM ARGS...`: runs a program with the library of 17_doctor_injection.cpp in
// it, and prints what that saw.

#include "watch_files.hpp"
#include "whole_text.hpp"

#include <penstock/run/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <ostream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <dlfcn.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace doctor {

/// A folder that is removed with all that is in it.
class WatchFolder {
 public:
  WatchFolder() {
    const char* const told = std::getenv("TMPDIR");
    // The program may be in another folder when it writes.
    std::string name = std::filesystem::absolute(told != nullptr && *told != '\0' ? told : "/tmp") /
                       "17_doctor-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error{"cannot make a folder like " + name + ": " + std::strerror(errno) +
                               ". Set TMPDIR to a folder that you may write to"};
    }
    path_ = name;
  }
  WatchFolder(const WatchFolder&) = delete;
  WatchFolder& operator=(const WatchFolder&) = delete;
  ~WatchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The program, while it runs. Signals that are sent to this process are passed on; a terminal
/// sends its own to both.
class WatchedProgram {
  static constexpr std::array passed_on{SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

 public:
  /// `output` takes the place of the program's standard output: a file descriptor.
  WatchedProgram(std::span<char* const> program, const std::vector<std::string>& environment,
                 int output) {
    std::vector<char*> arguments{program.begin(), program.end()};
    arguments.push_back(nullptr);
    std::vector<char*> variables;
    for (const std::string& one : environment) {
      variables.push_back(const_cast<char*>(one.c_str()));
    }
    variables.push_back(nullptr);

    sigset_t signals;
    sigset_t before;
    sigemptyset(&signals);
    for (const int signal : passed_on) {
      sigaddset(&signals, signal);
    }
    sigprocmask(SIG_BLOCK, &signals, &before); // until it is known to whom they go
    // Where it is ignored, as some parents leave it, nobody learns how a child has ended.
    struct sigaction usual{};
    usual.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &usual, &child_before_);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawnattr_t how;
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&how, &before);
    pid_t child = 0;
    const int failed =
        posix_spawnp(&child, program.front(), &files, &how, arguments.data(), variables.data());
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    if (failed == 0) {
      running().store(child, std::memory_order_relaxed);
      pass_signals_on();
    }
    sigprocmask(SIG_SETMASK, &before, nullptr);
    if (failed != 0) {
      sigaction(SIGCHLD, &child_before_, nullptr);
      throw std::runtime_error{std::string{"cannot run "} + program.front() + ": " +
                               std::strerror(failed) +
                               ". Give the path of a program, or a name in PATH"};
    }
  }
  WatchedProgram(const WatchedProgram&) = delete;
  WatchedProgram& operator=(const WatchedProgram&) = delete;
  ~WatchedProgram() {
    running().store(0, std::memory_order_relaxed);
    for (std::size_t i = 0; i < passed_on.size(); ++i) {
      sigaction(passed_on[i], &before_[i], nullptr);
    }
    sigaction(SIGCHLD, &child_before_, nullptr);
  }

  /// Blocks until the program has ended, and returns its status, as waitpid() gives it.
  static int wait() {
    int status = 0;
    while (waitpid(running().load(std::memory_order_relaxed), &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

 private:
  static std::atomic<pid_t>& running() {
    static std::atomic<pid_t> process{0};
    return process;
  }
  void pass_signals_on() {
    struct sigaction action{};
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    action.sa_sigaction = [](int signal, siginfo_t* info, void*) {
      const pid_t process = running().load(std::memory_order_relaxed);
      if (process != 0 && info->si_code <= 0) { // from a process, and not from the terminal
        kill(process, signal);
      }
    };
    for (std::size_t i = 0; i < passed_on.size(); ++i) {
      sigaction(passed_on[i], &action, &before_[i]);
    }
  }

  std::array<struct sigaction, passed_on.size()> before_{};
  struct sigaction child_before_{};
};

inline std::string whole_file(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  return whole_text(file);
}

/// Returns the watched processes' files that have this ending, in the order of their names.
inline std::vector<std::filesystem::path> files_ending(const std::filesystem::path& folder,
                                                       const char* ending) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    if (entry.path().extension() == ending) {
      found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

/// Returns what is to be said of each process that began to use CUDA and told nothing more.
inline std::vector<std::string> lost_processes(const std::filesystem::path& folder) {
  std::vector<std::string> lost;
  for (std::filesystem::path file : files_ending(folder, ".begun")) {
    const std::string program = whole_file(file);
    if (!std::filesystem::exists(file.replace_extension(".txt"))) {
      lost.push_back(WatchFiles::lost(program));
    }
  }
  return lost;
}

/// Returns why there is nothing to print; empty if there is something.
inline std::string why_nothing(const std::filesystem::path& folder, const std::string& program) {
  if (!files_ending(folder, ".txt").empty()) {
    return {};
  }
  const auto errors = files_ending(folder, ".error");
  if (!errors.empty()) {
    return program + " ran, and could not be watched: " + whole_file(errors.front());
  }
  if (const auto lost = lost_processes(folder); !lost.empty()) {
    return lost.front();
  }
  return program + " never used CUDA, so that there is nothing to see";
}

/// Returns the environment in which the program is watched.
inline std::vector<std::string> watching(const std::filesystem::path& injection,
                                         const std::filesystem::path& folder) {
  const std::string own = std::string{WatchFiles::variable} + '=';
  std::vector<std::string> environment;
  for (char** one = environ; *one != nullptr; ++one) {
    if (std::string_view{*one}.substr(0, own.size()) != own) {
      environment.emplace_back(*one);
    }
  }
  environment.push_back("CUDA_INJECTION64_PATH=" + injection.string());
  environment.push_back(own + folder.string());
  return environment;
}

/// Throws unless the library and what it needs are there, and nobody else injects one.
inline void check_injection(const std::filesystem::path& injection) {
  if (const char* const other = std::getenv("CUDA_INJECTION64_PATH")) {
    throw std::runtime_error{std::string{"another profiler is to look on: CUDA_INJECTION64_PATH is "
                                         "set, to "} +
                             other + ". Only one can: unset it"};
  }
  void* const loaded = dlopen(injection.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    throw std::runtime_error{
        std::string{"cannot load what looks into the program: "} + dlerror() +
        ". It is built beside 17_doctor where CUPTI is there, which comes with the CUDA toolkit; "
        "add its lib64 and extras/CUPTI/lib64 to LD_LIBRARY_PATH"};
  }
  dlclose(loaded);
}

/// Prints what was seen. Returns whether anything was.
inline bool print_watch(const std::filesystem::path& folder, std::span<char* const> program,
                        int status, bool json, std::ostream& out, std::ostream& errors) {
  const std::string nothing = why_nothing(folder, program.front());
  if (json) {
    using penstock::Json;
    std::string processes;
    for (const auto& file : files_ending(folder, ".json")) {
      std::string object = whole_file(file);
      object.erase(object.find_last_not_of('\n') + 1);
      processes += (processes.empty() ? "" : ", ") + object;
    }
    const auto member = [](const char* name, const Json& value) {
      return Json{name}.text() + ": " + value.text() + ", ";
    };
    std::vector<Json> command{program.begin(), program.end()};
    out << '{' << member("command", Json::array(command))
        << member("exit_code", WIFEXITED(status) ? Json{WEXITSTATUS(status)} : Json{nullptr})
        << member("signal", WIFSIGNALED(status) ? Json{WTERMSIG(status)} : Json{nullptr})
        << member("error", nothing) << "\"processes\": [" << processes << "]}" << std::endl;
    return nothing.empty();
  }
  if (!nothing.empty()) {
    errors << nothing << std::endl;
    return false;
  }
  const auto texts = files_ending(folder, ".txt");
  if (texts.size() > 1) {
    out << program.front() << " started others: " << texts.size() << " processes used CUDA.\n";
  }
  for (const auto& file : texts) {
    out << (texts.size() > 1 ? "Process " + file.stem().string() + ":\n" : "") << whole_file(file);
  }
  for (const std::string& lost : lost_processes(folder)) {
    out << lost << ".\n";
  }
  out.flush();
  return true;
}

/// Runs the program under watch and prints what was seen to `out`, with `json` as one object.
/// Returns the program's exit code, or, if nothing was seen or could be printed, at least 1; if a
/// signal ended the program, the same signal ends this process. Blocks until the program has ended.
/// Throws std::runtime_error if it cannot run.
inline int run_watched(std::span<char* const> program, bool json,
                       const std::filesystem::path& injection, int output, std::ostream& out,
                       std::ostream& errors) {
  check_injection(injection);
  int status = 0;
  bool seen = false;
  // The folder is gone before anything is printed: if nobody reads that, a signal ends this
  // process.
  std::ostringstream text;
  std::ostringstream complaint;
  {
    const WatchFolder folder;
    {
      const WatchedProgram running{program, watching(injection, folder.path()), output};
      status = WatchedProgram::wait();
    }
    seen = print_watch(folder.path(), program, status, json, text, complaint);
  }
  errors << complaint.str() << std::flush;
  out << text.str() << std::flush;
  if (!out) {
    errors << "cannot write what was seen to standard output: it is closed, or its disk is full"
           << std::endl;
    seen = false;
  }
  if (WIFSIGNALED(status)) {
    const rlimit no_core{0, 0}; // the program has left one
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(WTERMSIG(status), SIG_DFL);
    std::raise(WTERMSIG(status));
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return code == 0 && !seen ? 1 : code;
}

} // namespace doctor

/// Runs a program under watch with the library that lies beside this one. With `json` the program's
/// standard output goes to standard error, so that the object stands alone.
inline int run_watched(std::span<char* const> program, bool json) {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return doctor::run_watched(program, json, here / "lib17_doctor_injection.so",
                             json ? STDERR_FILENO : STDOUT_FILENO, std::cout, std::cerr);
}
