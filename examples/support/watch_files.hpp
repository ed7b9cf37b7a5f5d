// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/run/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <sys/types.h>

namespace doctor {

/// The files by which a watched process tells `17_doctor --run` what it saw: PID.json, an object,
/// and PID.txt, the same for people. They appear whole, or not at all.
class WatchFiles {
 public:
  /// The environment variable that names their folder.
  static constexpr const char* variable = "PENSTOCK_WATCH";

  WatchFiles() = default;
  WatchFiles(std::filesystem::path folder, pid_t process)
      : folder_{std::move(folder)}, process_{std::to_string(process)} {}

  /// What is told of a process that has written nothing else.
  static std::string lost(const std::string& program) {
    return program + " ended without a word of what it did. quick_exit() and exit() leave time for "
                     "that; _exit(), a signal, and exec() of another program within two seconds of "
                     "the first call of CUDA do not: let it run for longer, end it by exit(), or "
                     "watch the program that it becomes";
  }

  /// The process has begun to use CUDA.
  void write_begun(const std::string& program) const {
    put(".begun", program);
    write_nothing(program, lost(program));
  }
  /// `ended`: the process is at its end, and this is all.
  void write(const std::string& program, bool ended, const penstock::Json& watch,
             const std::string& text) const {
    using penstock::Json;
    put(".txt",
        (ended ? ""
               : program + " ended by a signal, _exit() or exec(), which cut it short: what "
                           "follows is all but its last seconds.\n") +
            text);
    put(".json",
        Json::object({{"program", program}, {"ended", ended}, {"error", ""}, {"watch", watch}})
                .text() +
            '\n');
  }
  /// The process could not be watched.
  void write_error(const std::string& program, const std::string& error) const {
    put(".error", error);
    write_nothing(program, error);
  }

 private:
  void write_nothing(const std::string& program, const std::string& error) const {
    using penstock::Json;
    put(".json",
        Json::object(
            {{"program", program}, {"ended", false}, {"error", error}, {"watch", Json{nullptr}}})
                .text() +
            '\n');
  }
  void put(const char* ending, const std::string& text) const {
    const std::filesystem::path file = folder_ / (process_ + ending);
    const std::filesystem::path draft = folder_ / (process_ + ".draft");
    std::ofstream{draft, std::ios::binary} << text;
    std::error_code ignored;
    std::filesystem::rename(draft, file, ignored);
  }

  std::filesystem::path folder_;
  std::string process_;
};

} // namespace doctor
