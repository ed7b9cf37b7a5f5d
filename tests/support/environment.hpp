// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

namespace penstock::tests {

/// All variables that launchers set are those given, while it lives: "RANK=0 WORLD_SIZE=2".
class Environment {
 public:
  explicit Environment(const std::string& variables = {}) {
    for (char** each = environ; *each; ++each) {
      const std::string text = *each;
      const std::string name = text.substr(0, text.find('='));
      for (const char* start :
           {"RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "TORCHELASTIC_", "OMPI_", "MV2_", "MPI_",
            "PMI", "SLURM_", "ENVIRONMENT", "MASTER_", "MEETING"}) {
        if (name.rfind(start, 0) == 0) {
          before_[name] = text.substr(name.size() + 1);
        }
      }
    }
    for (const auto& [name, value] : before_) {
      ::unsetenv(name.c_str());
    }
    std::istringstream words{variables};
    for (std::string word; words >> word;) {
      const std::size_t at = word.find('=');
      names_.push_back(word.substr(0, at));
      ::setenv(names_.back().c_str(), word.substr(at + 1).c_str(), 1);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const std::string& name : names_) {
      ::unsetenv(name.c_str());
    }
    for (const auto& [name, value] : before_) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }

 private:
  std::map<std::string, std::string> before_;
  std::vector<std::string> names_;
};

} // namespace penstock::tests
