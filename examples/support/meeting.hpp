// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "whole_text.hpp"

#include <penstock/order/order.hpp>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <ios>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

/// Gives all ranks the bytes that rank 0 has, through files of a folder that rank 0 makes. It is
/// the one that the variable MEETING names, which may be there if it is empty. Without that, ranks
/// of one host meet in memory, in a folder whose name follows from their parent process: a launcher
/// starts all of them. One rank needs no folder. The folder stays if rank 0 is killed before end().
class Meeting {
 public:
  /// `patience`: for how long a rank waits for another one. Throws std::runtime_error.
  explicit Meeting(const penstock::Ranks& ranks,
                   std::chrono::milliseconds patience = std::chrono::minutes{1})
      : ranks_{ranks}, patience_{patience},
        folder_{ranks.world == 1 ? std::string{} : folder_of(ranks)} {
    if (ranks.world == 1 || ranks.rank != 0) {
      return;
    }
    const int refused = ::mkdir(folder_.c_str(), 0700) == 0 ? 0 : errno;
    std::error_code none;
    if (refused != 0 && !(refused == EEXIST && std::filesystem::is_empty(folder_, none))) {
      throw std::runtime_error{"rank 0 cannot make the folder " + folder_ + ": " +
                               std::generic_category().message(refused) +
                               ". If another job has left it, remove it. " + other_folder};
    }
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  /// Does what end() does. If an exception is on its way, it waits for nobody.
  ~Meeting() {
    if (std::uncaught_exceptions() > exceptions_) {
      shares_ = 0;
    }
    end();
  }

  /// Returns the ranks that meet.
  const penstock::Ranks& ranks() const noexcept { return ranks_; }
  /// Gives all ranks the bytes that rank 0 has. All must call it equally often, with as many bytes.
  /// Rank 0 returns at once, the others wait for it. Throws std::runtime_error.
  void share(std::span<std::byte> bytes) {
    if (ranks_.world == 1) {
      return;
    }
    const std::string file = folder_ + '/' + std::to_string(shares_);
    if (ranks_.rank == 0) {
      write(file, bytes);
      ++shares_;
      return;
    }
    if (!comes(file)) {
      throw std::runtime_error{
          "rank " + std::to_string(ranks_.rank) + " of " + std::to_string(ranks_.world) +
          " has waited " + std::to_string(patience_.count()) + " ms for " + file +
          ", which rank 0 writes: rank 0 is gone, or has another parent process. " + other_folder};
    }
    std::ifstream in{file, std::ios::binary};
    const std::string found = whole_text(in);
    struct stat of{};
    if (!in || ::stat(file.c_str(), &of) != 0 || of.st_uid != ::geteuid() ||
        found.size() != bytes.size()) {
      throw std::runtime_error{file + " is not what rank 0 has written: it has " +
                               std::to_string(found.size()) + " bytes, of " +
                               std::to_string(bytes.size()) +
                               ". Start all ranks as one user, with one program"};
    }
    std::memcpy(bytes.data(), found.data(), found.size());
    write(read_by(folder_, shares_++, ranks_.rank), {});
  }

  /// Says that nothing more is to be shared: rank 0 removes the folder when all ranks have read
  /// all, or its patience is over.
  void end() {
    const std::string folder = std::exchange(folder_, {});
    if (ranks_.rank != 0 || folder.empty()) {
      return;
    }
    bool all = true;
    for (std::uint64_t file = 0; file < shares_ * ranks_.world && all; ++file) {
      const auto rank = static_cast<std::uint32_t>(file % ranks_.world);
      all = rank == 0 || comes(read_by(folder, file / ranks_.world, rank));
    }
    std::error_code none;
    std::filesystem::remove_all(folder, none);
  }

 private:
  static constexpr const char* other_folder =
      "Set the variable MEETING to a folder that all ranks see and that is empty or not there yet, "
      "the same for all";

  static std::string folder_of(const penstock::Ranks& ranks) {
    if (const char* const given = std::getenv("MEETING"); given != nullptr && *given != '\0') {
      return given;
    }
    if (ranks.local_world != ranks.world) {
      throw std::runtime_error{"of " + std::to_string(ranks.world) + " ranks only " +
                               std::to_string(ranks.local_world) + " are on this host. " +
                               other_folder};
    }
    const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT"); // of the same parent
    const char* const memory = "/dev/shm";
    return (::access(memory, W_OK | X_OK) == 0 ? std::string{memory}
                                               : std::filesystem::temp_directory_path().string()) +
           "/ranks-" + std::to_string(::geteuid()) + '-' + std::to_string(::getppid()) + '-' +
           start_of(::getppid()) + '-' + (restarts != nullptr ? restarts : "0");
  }
  /// Returns when a process started, as the system counts: no later one of its number has that too.
  static std::string start_of(pid_t process) {
    std::ifstream in{"/proc/" + std::to_string(process) + "/stat"};
    const std::string text = whole_text(in);
    std::istringstream fields{text.empty() ? text : text.substr(text.rfind(')') + 1)};
    std::string field; // the program's name, which may have blanks, is the second
    for (int number = 3; number <= 22; ++number) {
      fields >> field;
    }
    return fields ? field : "unknown";
  }

  static std::string read_by(const std::string& folder, std::uint64_t share, std::uint32_t rank) {
    return folder + '/' + std::to_string(share) + ".read-by-" + std::to_string(rank);
  }
  /// Writes a file that is there as a whole, or not at all.
  static void write(const std::string& file, std::span<const std::byte> bytes) {
    const std::string unfinished = file + ".unfinished";
    std::ofstream out{unfinished, std::ios::binary};
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out || std::rename(unfinished.c_str(), file.c_str()) != 0) {
      throw std::runtime_error{"cannot write " + file + ", which ranks meet by: is its disk full?"};
    }
  }
  /// Returns whether the file is there; waits for it.
  bool comes(const std::string& file) const {
    const auto until = std::chrono::steady_clock::now() + patience_;
    while (::access(file.c_str(), R_OK) != 0) {
      if (std::chrono::steady_clock::now() > until) {
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return true;
  }

  penstock::Ranks ranks_;
  std::chrono::milliseconds patience_;
  std::string folder_;
  std::uint64_t shares_ = 0;
  int exceptions_ = std::uncaught_exceptions();
};
