// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "random/chains.hpp"
#include "random/draw.hpp"
#include "random/model.hpp"
#include "random/work.hpp"
#include "support/outcome.hpp"
#include "support/temp_dir.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// What is done with a drawn pipeline, and compared with what the model says.
namespace penstock::tests::drawn {

/// Throws std::logic_error if a pipeline has done something else than the model.
template <class... Parts> void check(bool holds, const Parts&... parts) {
  if (!holds) {
    std::ostringstream text;
    (text << ... << parts);
    throw std::logic_error{text.str()};
  }
}

/// What was done so far.
struct Tally {
  std::uint64_t runs{}, resumed{}, stopped{}, faults{}, refused{}, records{};
};

/// Names the step of the checks that begins, for the watchdog and for a failure.
using Begin = std::function<void(const char*)>;

/// Returns whether an error of a run is one that the pages promise: a refusal, or a rank that would
/// have a batch less than others.
inline bool is_promised(const Description& d, const Outcome& outcome) {
  return (d.may_be_refused() && outcome.came == Came::error) ||
         (d.reader.order.ranks.world != 1 && d.leaves_out() &&
          outcome.says("were left out, and each of several ranks"));
}

class Checks {
 public:
  Checks(const Description& d, Tally& tally, Begin begin)
      : d_{d}, tally_{tally}, begin_{std::move(begin)}, world_{std::make_shared<World>()},
        sources_{d, world_}, expected_{Model{d, sources_}.run()}, draws_{d.seed, 3} {}

  /// Throws what check() does, and what a pipeline throws: OptionError if it is refused.
  void run() {
    begin_("is made");
    made_ = make(d_);
    if (made_.open) {
      whole();
      for (int i = 0; i != 2; ++i) {
        go_on();
      }
      go_on_in_steps();
      for (int i = 0; i != 4; ++i) {
        end_early();
      }
      run_again();
    } else if (made_.seen) {
      consume();
    } else if (made_.lanes) {
      replay();
    } else {
      write();
    }
  }

 private:
  static constexpr std::uint64_t all = ~std::uint64_t{0};
  struct Log {
    std::vector<std::shared_ptr<const std::vector<Number>>> batches;
    std::size_t count{};
    std::vector<Position> positions; // behind each batch
    std::vector<std::size_t> behind;
  };
  using After = std::function<void(Held)>;

  Made make(const Description& d) {
    const Used used{sources_, world_, folder_};
    return d.device ? on_device(d, used) : on_host(d, used);
  }
  // Returns an early end by another thread, at some time.
  template <class F> std::jthread soon(F f) {
    const std::chrono::microseconds time{draws_.below(3000)};
    return std::jthread{[time, f]() mutable {
      std::this_thread::sleep_for(time);
      f();
    }};
  }
  bool is_due(const Outcome& outcome) const {
    return outcome.says(armed) || is_promised(d_, outcome);
  }

  // Loops over a run, for at most so many batches. All batches are looked at.
  Log loop(Open& open, RunOptions options, std::uint64_t most = all, const After& after = {}) {
    Log log;
    const bool resumed = static_cast<bool>(options.from);
    loop_into(log, open, std::move(options), most, after, resumed);
    open.finish();
    tally_.records += log.count;
    return log;
  }
  void loop_into(Log& log, Open& open, RunOptions options, std::uint64_t most, const After& after,
                 bool resumed) {
    const auto run = open.loop(std::move(options));
    while (log.batches.size() < most) {
      auto batch = run->next();
      if (!batch) {
        break;
      }
      check(batch->size != 0, "an empty batch");
      check(batch->index == log.count, "index ", batch->index, " behind ", log.count);
      if (!resumed) {
        look_at(*batch);
      }
      log.count += batch->size;
      log.batches.push_back(batch->records);
      if (expected_.positions) {
        log.positions.push_back(batch->position());
        log.behind.push_back(log.count);
      }
      if (after) {
        after(std::move(*batch));
      }
    }
  }
  // A batch of a run from the beginning.
  void look_at(const Held& batch) const {
    const Items& items = expected_.items;
    check(batch.index + batch.size <= items.size(), "more than ", items.size(), " records");
    for (std::size_t i = 0; i != batch.size; ++i) {
      const Item& item = items[batch.index + i];
      check(item.epoch == batch.epoch, "epoch ", batch.epoch, " of record ", batch.index + i,
            ", which is of ", item.epoch);
      if (expected_.visits) {
        const Visit visit = batch.visit(i);
        check(visit.record == item.record && visit.epoch == item.epoch && visit.step == item.step,
              "visit(", i, ") behind ", batch.index, ": record ", visit.record, " at ", visit.step,
              ", and not ", item.record, " at ", item.step);
      }
    }
  }
  // Compares with what comes behind so many records.
  void compare(const std::vector<Number>& got, std::size_t from, bool to_the_end) const {
    const Items& items = expected_.items;
    const std::size_t left = items.size() - from;
    const std::size_t same = std::min(got.size(), left);
    for (std::size_t i = 0; i != same; ++i) {
      check(got[i] == items[from + i].value, "record ", i, " behind ", from, " of ", items.size(),
            " is another, of ", got.size());
    }
    check(got.size() <= left, got.size(), " records behind ", from, ", and not ", left);
    check(!to_the_end || got.size() == left, "only ", got.size(), " records behind ", from,
          ", and not ", left);
  }
  void compare(const Log& log, std::size_t from, bool to_the_end) const {
    std::vector<Number> got;
    for (const auto& batch : log.batches) {
      got.insert(got.end(), batch->begin(), batch->end());
    }
    compare(got, from, to_the_end);
  }

  void whole() {
    begin_("runs as a whole");
    whole_ = loop(*made_.open, {});
    compare(whole_, 0, true);
    look_at(made_.open->report());
    ++tally_.runs;
  }
  void look_at(const Report& report) const {
    check(!report.stopped && report.error.empty(), "the report says: ", report.error);
    check(report.records == expected_.items.size(), "the report has ", report.records,
          " records, and not ", expected_.items.size());
    check_skips(report);
  }
  void check_skips(const Report& report) const {
    check(report.skipped == expected_.skipped, "the report counts ", report.skipped,
          " records left out, and not ", expected_.skipped);
    constexpr std::size_t most_listed = 1000;
    if (expected_.skipped > most_listed || expected_.skipped != expected_.skips.size()) {
      return;
    }
    std::vector<std::uint64_t> listed, skips = expected_.skips;
    for (const SkippedItem& item : report.skips) {
      listed.push_back(item.record);
    }
    std::sort(listed.begin(), listed.end());
    std::sort(skips.begin(), skips.end());
    check(listed == skips, "the report lists other records left out, though as many");
  }

  // Another pipeline with other workers, or the same, goes on behind a batch.
  void go_on() {
    begin_("goes on");
    if (whole_.positions.empty()) {
      return;
    }
    const std::size_t at =
        draws_.one_in(4) ? whole_.positions.size() - 1 : draws_.below(whole_.positions.size());
    const Position from{whole_.positions[at].text()};
    world_->reset();
    if (draws_.one_in(2)) {
      compare(loop(*made_.open, {.from = from}), whole_.behind[at], true);
    } else {
      Made other = make(with_other_workers(d_, draws_));
      compare(loop(*other.open, {.from = from}), whole_.behind[at], true);
    }
    ++tally_.resumed;
  }
  // Goes on again and again, a few batches at a time.
  void go_on_in_steps() {
    begin_("goes on in steps");
    if (!expected_.positions) {
      return;
    }
    Made other = make(with_other_workers(d_, draws_));
    Position from;
    std::size_t at = 0;
    for (int i = 0; i != 4; ++i) {
      world_->reset();
      const Log log = loop(*other.open, {.from = from}, draws_.between(1, 4));
      compare(log, at, log.batches.empty());
      if (log.batches.empty()) {
        break;
      }
      at += log.count;
      from = log.positions.back();
      ++tally_.resumed;
    }
  }

  // How a run ends depends on threads most, and a small one is over soon.
  void run_again() {
    begin_("runs again");
    const int times = expected_.items.size() < 200 ? 20 : 1;
    for (int i = 0; i != times; ++i) {
      world_->reset();
      compare(loop(*made_.open, {}), 0, true);
    }
  }

  void end_early() {
    world_->reset();
    ++tally_.stopped;
    switch (draws_.below(made_.device ? 6 : 5)) {
    case 0:
      begin_("ends by break");
      return compare(loop(*made_.open, {}, draws_.below(whole_.batches.size() + 2)), 0, false);
    case 1: {
      begin_("ends by stop()");
      const auto other = soon([this] { made_.open->stop(); });
      return compare(loop(*made_.open, {}), 0, false);
    }
    case 2:
      return end_by_token();
    case 3:
      return end_by_error();
    case 4:
      return keep_leases();
    default:
      return lose_device();
    }
  }
  void end_by_token() {
    begin_("ends by a token");
    std::stop_source stop;
    const auto other = soon([stop]() mutable { stop.request_stop(); });
    const Log log = loop(*made_.open, {.stop = stop.get_token()});
    compare(log, 0, false);
    if (!log.positions.empty()) {
      begin_("goes on behind a stop");
      world_->reset();
      compare(loop(*made_.open, {.from = log.positions.back()}), log.count, true);
      ++tally_.resumed;
    }
  }
  void end_by_error() {
    begin_("ends by an error");
    const auto after = static_cast<std::int64_t>(draws_.below(1 + expected_.items.size() / 2));
    draws_.one_in(4) ? world_->source.arm(after / 20) : world_->decoder.arm(after);
    ++tally_.faults;
    Log log;
    const Outcome outcome = outcome_of([&] { loop_into(log, *made_.open, {}, all, {}, true); });
    made_.open->finish();
    check(outcome.came == Came::nothing || is_due(outcome), outcome.text);
    if (!d_.fails()) { // else it may be what is left out
      compare(log, 0, false);
    }
    world_->reset();
  }
  // Some leases come back late, in any order. Too many of them are an error.
  void keep_leases() {
    begin_("keeps leases");
    std::vector<Held> kept;
    Log log;
    const Outcome outcome = outcome_of([&] {
      const auto keep = [&](Held batch) {
        if (draws_.one_in(2)) {
          kept.push_back(std::move(batch));
        }
        if (kept.size() > 3) {
          kept.clear();
        } else if (kept.size() > 1 && draws_.one_in(2)) {
          kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(draws_.below(kept.size())));
        }
      };
      loop_into(log, *made_.open, {}, all, keep, false);
    });
    kept.clear();
    made_.open->finish();
    check(outcome.came == Came::nothing || outcome.says("held"), outcome.text);
    compare(log, 0, false);
  }
  void lose_device() {
    begin_("loses a call of the device");
    made_.device->fail_call(draws_.between(1, 200), {.persistent = draws_.one_in(2)});
    Log log;
    const Outcome outcome = outcome_of([&] {
      loop_into(log, *made_.open, {}, all, {}, false);
      made_.open->finish();
    });
    made_.device->fail_call(0);
    made_.device->last_error();
    made_.open->finish();
    check(outcome.came == Came::nothing || outcome.came == Came::stage_error ||
              outcome.came == Came::device_error,
          outcome.text);
    compare(log, 0, false);
    // An error of what came back behind the loop's end is owed to the next run.
    const Outcome owed = outcome_of([&] { loop(*made_.open, {}); });
    check(owed.came == Came::nothing || owed.came == Came::stage_error, owed.text);
    ++tally_.faults;
  }

  void consume() {
    begin_("consumes");
    const Report whole = made_.whole.run();
    look_at(whole);
    compare(consumed(false), 0, true);
    ++tally_.runs;
    for (int i = 0; i != 2; ++i) {
      consume_in_part();
    }
  }
  // Stops or fails, and goes on from the Report: no record behind its position was not used up.
  void consume_in_part() {
    begin_("consumes in part");
    world_->reset();
    std::stop_source stop;
    std::jthread other;
    const bool by_error = draws_.one_in(2);
    if (by_error) {
      world_->consumer.arm(static_cast<std::int64_t>(draws_.below(20)));
    } else {
      other = soon([stop]() mutable { stop.request_stop(); });
    }
    const Outcome outcome = outcome_of([&] { made_.whole.run({.stop = stop.get_token()}); });
    check(outcome.came == Came::nothing || is_due(outcome), outcome.text);
    const auto first = made_.seen->take();
    check_seen(first);
    const Position from = made_.whole.report().position;
    if (!expected_.positions) {
      return;
    }
    begin_("goes on from the Report");
    world_->reset();
    made_.whole.run({.from = from});
    const std::vector<Number> rest = consumed(false);
    check(rest.size() <= expected_.items.size(), "too many records");
    const std::size_t behind = expected_.items.size() - rest.size();
    compare(rest, behind, true);
    std::size_t at = 0;
    for (const auto& [index, records] : first) {
      check(index <= at || at >= behind, "record ", at, " is lost: the run goes on behind ",
            behind);
      at = index + records.size();
    }
    check(at >= behind, "record ", at, " is lost: the run goes on behind ", behind);
    ++tally_.resumed;
  }
  void check_seen(const std::map<std::uint64_t, std::vector<Number>>& batches) const {
    for (const auto& [index, records] : batches) {
      check(index + records.size() <= expected_.items.size(), "too many records");
      for (std::size_t i = 0; i != records.size(); ++i) {
        check(records[i] == expected_.items[index + i].value, "record ", index + i, " is another");
      }
    }
  }
  std::vector<Number> consumed(bool gaps) {
    check(!made_.seen->twice(), "an index came twice");
    std::vector<Number> all_of_them;
    for (const auto& [index, records] : made_.seen->take()) {
      check(gaps || index == all_of_them.size(), "index ", index, " behind ", all_of_them.size());
      all_of_them.insert(all_of_them.end(), records.begin(), records.end());
    }
    tally_.records += all_of_them.size();
    return all_of_them;
  }

  std::vector<Number> written() const {
    const std::string bytes = content_of(made_.path);
    std::vector<Number> numbers(bytes.size() / sizeof(Number));
    std::copy_n(bytes.data(), numbers.size() * sizeof(Number),
                reinterpret_cast<char*>(numbers.data()));
    return numbers;
  }
  void write() {
    begin_("writes");
    look_at(made_.whole.run());
    compare(written(), 0, true);
    ++tally_.runs;
    begin_("writes, and fails");
    world_->reset();
    world_->decoder.arm(static_cast<std::int64_t>(draws_.below(1 + expected_.items.size())));
    const Outcome outcome = outcome_of([&] { made_.whole.run(); });
    check(outcome.came == Came::nothing || is_due(outcome), outcome.text);
    if (outcome.came != Came::nothing || !d_.fails()) {
      compare(written(), 0, true); // a run that fails leaves the file as it was
    }
    ++tally_.faults;
    begin_("writes again");
    world_->reset();
    made_.whole.run();
    compare(written(), 0, true);
    tally_.records += 3 * expected_.items.size();
  }

  void replay() {
    for (int i = 0; i != 2; ++i) {
      begin_("replays");
      world_->reset();
      std::fill(made_.lanes->begin(), made_.lanes->end(), Lane{});
      look_at(made_.whole.run());
      Lane seen, due;
      for (const Lane& lane : *made_.lanes) {
        seen.count += lane.count;
        seen.sum += lane.sum;
      }
      for (const Item& item : expected_.items) {
        ++due.count;
        due.sum += item.value;
      }
      check(seen.count == due.count, seen.count, " records, and not ", due.count);
      check(seen.sum == due.sum, "other records, though as many");
      ++tally_.runs;
      begin_("stops while it replays");
      std::stop_source stop;
      const auto other = soon([stop]() mutable { stop.request_stop(); });
      made_.whole.run({.stop = stop.get_token()});
    }
  }

  const Description d_;
  Tally& tally_;
  const Begin begin_;
  const std::shared_ptr<World> world_;
  const TempDir folder_;
  const Sources sources_;
  const Expected expected_;
  Draws draws_;
  Made made_;
  Log whole_;
};

} // namespace penstock::tests::drawn
