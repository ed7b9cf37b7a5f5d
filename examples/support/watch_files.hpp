// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/json.hpp>

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

  /// The process has begun to use CUDA.
  void write_begun() const { put(".begun", ""); }
  /// `ended`: the process is at its end, and this is all.
  void write(const std::string& program, bool ended, const penstock::Json& watch,
             const std::string& text) const {
    using penstock::Json;
    put(".txt",
        (ended ? "" : "The program was cut short: what follows is all but its end.\n") + text);
    put(".json",
        Json::object({{"program", program}, {"ended", ended}, {"error", ""}, {"watch", watch}})
                .text() +
            '\n');
  }
  /// The process could not be watched.
  void write_error(const std::string& program, const std::string& error) const {
    using penstock::Json;
    put(".error", error);
    put(".json",
        Json::object(
            {{"program", program}, {"ended", false}, {"error", error}, {"watch", Json{nullptr}}})
                .text() +
            '\n');
  }

 private:
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
