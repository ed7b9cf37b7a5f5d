// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "faults/calls.hpp"
#include "support/lives.hpp"
#include "support/outcome.hpp"
#include "support/process.hpp"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

namespace penstock::tests::faults {

/// What goes wrong in a row of the table, and how a run may take it.
struct Fault {
  const char* name;
  Plan plan{};
  bool at_each_call = true;   ///< Else the plan begins with the first call.
  bool told = true;           ///< It may end a run; else no run may notice it.
  const char* says = nullptr; ///< What each error says; else the text of the plan's errno.
  bool strands = false;       ///< The system takes nothing back, so a hidden file may stay.
  bool memory = false;        ///< operator new fails, as the plan says.
  int descriptors = -1;       ///< So many can be had; negative: as many as ever.
  bool sanitizers_too = true; ///< Else a sanitizer needs what is taken away.
  bool processors = false;    ///< Somebody takes processors away, all the time.
  /// What is done in the process first; returns why it cannot be done here, empty if it is done.
  std::function<std::string(const std::string& folder)> before{};

  std::string cause() const {
    return says != nullptr ? says : plan.error == 0 ? "" : std::strerror(plan.error);
  }
};

/// What became of one point: a call of a life that went wrong.
struct Point {
  bool hit = false;
  std::string came;    ///< "right", or who told of it: "prepare()", "bad_alloc" or a stage's name.
  std::string problem; ///< What is not as promised; empty if all is.
};

/// Runs lives of one kind, and says of each whether it was as promised.
class Trial {
 public:
  Trial(const lives::Files& files, const lives::Make& make, const Fault& fault,
        std::function<void(std::uint64_t)> arms, std::function<bool()> disarms)
      : files_{files}, make_{make}, fault_{fault}, arms_{std::move(arms)},
        disarms_{std::move(disarms)} {
    make_()->run(); // what is made once in a process is made
    descriptors_ = descriptors_open();
    threads_ = threads_alive();
  }

  Point at(std::uint64_t k) {
    Point point;
    std::ofstream{out_} << old_;
    std::unique_ptr<lives::Life> life;
    lives::Number first = 0;
    lives::Number second = 0;
    arms_(k);
    const Outcome out = outcome_of([&] {
      life = make_();
      first = life->run();
      second = life->run();
    });
    point.hit = disarms_();
    const auto wrong = [&point](const std::string& text) {
      point.problem += (point.problem.empty() ? "" : "; ") + text;
    };
    if (out.came == Came::nothing) {
      point.came = "right";
      if (first != lives::sum_of_all || second != lives::sum_of_all) {
        wrong("other records: " + std::to_string(first) + " and " + std::to_string(second));
      }
    } else {
      point.came = out.came == Came::stage_error ? out.stage
                   : out.came == Came::bad_alloc ? "bad_alloc"
                                                 : "prepare()";
      check_error(out, point.hit, wrong);
      check_file(first, wrong);
    }
    check_next(life, wrong);
    return point;
  }

 private:
  template <class Wrong> void check_error(const Outcome& out, bool hit, Wrong wrong) const {
    const bool of_memory = out.came == Came::bad_alloc || out.cause == Came::bad_alloc;
    const std::string cause = fault_.cause();
    if (!hit || !fault_.told) {
      wrong("an error that must not be: " + out.text);
    } else if (out.came == Came::other || (out.came == Came::stage_error && out.stage.empty())) {
      wrong("an error of no stage: " + out.text);
    } else if (of_memory ? !fault_.memory : !out.says("penstock: ")) {
      wrong("another error: " + out.text);
    } else if (!of_memory && !fault_.memory && !out.says(cause)) {
      wrong("an error without its cause (" + cause + "): " + out.text);
    }
  }
  // What a Writer was to replace lies there, unless a first run has replaced it. Without memory
  // that run may be right, and what reads its file fail.
  template <class Wrong> void check_file(lives::Number first, Wrong wrong) const {
    const std::string now = content_of(out_);
    const bool whole = now.size() == lives::count * sizeof(lives::Number);
    if (now != old_ && !(whole && (first == lives::sum_of_all || fault_.memory))) {
      wrong("the file has " + std::to_string(now.size()) + " bytes, of no whole run");
    }
  }
  template <class Wrong> void check_next(std::unique_ptr<lives::Life>& life, Wrong wrong) {
    const Outcome next = outcome_of([&] {
      if (!life) {
        life = make_();
      }
      if (const lives::Number sum = life->run(); sum != lives::sum_of_all) {
        wrong("the next run gave other records: " + std::to_string(sum));
      }
      life.reset();
    });
    if (next.came != Came::nothing) {
      wrong("the next run failed: " + next.text);
    }
    if (descriptors_open() != descriptors_ || !threads_come_to(threads_)) {
      wrong("descriptors or threads stay");
    }
    for (const auto& entry : std::filesystem::directory_iterator{files_.dir.path()}) {
      const std::string name = entry.path().filename().string();
      if (name.front() == '.') {
        if (!fault_.strands) {
          wrong("a hidden file stays: " + name);
        }
        std::filesystem::remove(entry.path());
      }
    }
  }

  const lives::Files& files_;
  const lives::Make& make_;
  const Fault& fault_;
  std::function<void(std::uint64_t)> arms_;
  std::function<bool()> disarms_;
  const std::string out_{files_.dir / "out"};
  const std::string old_{"what lay there"};
  int descriptors_{};
  std::ptrdiff_t threads_{};
};

} // namespace penstock::tests::faults
