// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/splitmix.hpp>
#include <penstock/stages/async_copier.hpp>
#include <penstock/stages/decoder.hpp>
#include <penstock/stages/reader_options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

// A seed -> the description of a pipeline: source, order, stages, options, and how it ends.
namespace penstock::tests::drawn {

/// Every chain's records are numbers in the end.
using Number = std::uint64_t;

/// Returns a number that says nothing of what it is made of.
inline Number hash(Number of, Number salt = 0) noexcept {
  return detail::splitmix(of, salt);
}

/// Numbers at random, the same with every standard library.
class Draws {
 public:
  explicit Draws(std::uint64_t seed, std::uint64_t salt = 0) : state_{hash(seed, salt)} {}

  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : hash(state_, ++count_) % n; }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) {
    return least + below(most - least + 1);
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  unsigned workers(unsigned most) { return static_cast<unsigned>(between(1, most)); }
  std::size_t depth() { return one_in(2) ? 0 : between(2, 5); }
  template <class T, std::size_t N> T of(const T (&these)[N]) { return these[below(N)]; }

 private:
  std::uint64_t state_;
  std::uint64_t count_{};
};

/// Whose records the Reader takes.
enum class From : std::uint8_t {
  failing, // in memory, and each may fail
  generated,
  memory,
  file,
  files,
  uring,
  taken,
  dropped,
  chosen,
  joined,
  mixed,
  unsized,
  zipped,
  windows,
  lines,
  texts // lines that a first Decoder copies, so that Ragged columns go from stage to stage
};
/// The form of a Decoder's callable.
enum class Form : std::uint8_t { visit, record, batch, outputs, groups };
/// A way for records to become pinned before a device.
enum class Pin : std::uint8_t { reader, stager, last };
/// What comes behind the copy to the device.
enum class Behind : std::uint8_t {
  nothing,
  kernels,      // of other records and in place, and a loop on a stream
  back,         // both, and to the host
  back_decoded, // to the host, and a Decoder
  back_outputs, // to the host, and a Decoder of another number
  counted,      // a Kernel that selects, and to the host
  replayed
};
/// How a pipeline ends on the host.
enum class End : std::uint8_t { loop, consumer, writer };

/// A Decoder.
struct Step {
  Form form{};
  unsigned workers{1};
  std::size_t depth{};
  std::size_t group{}; // of a form of groups
  Number salt{};
  std::uint64_t bad_in{};  // of so many items one is bad; 0: none
  std::uint64_t once_in{}; // of so many one fails at first
  std::uint64_t most{1};   // outputs of one call are fewer
  bool floods{};           // but some give hundreds
  bool stated{};

  bool counts_anew() const noexcept { return form == Form::outputs || form == Form::groups; }
};

struct Description {
  std::uint64_t seed{};
  From from{};
  std::uint64_t records{}; // of the source
  std::uint64_t bad_in{};  // of so many records of the source one cannot be read
  std::uint64_t once_in{};
  ReaderOptions reader{};
  std::vector<Step> steps;
  End end{};
  bool device{};
  Pin pin{};
  Behind behind{};
  CopierOptions copier{};
  CopierOptions back{};
  unsigned last_workers{1}; // of a stager, a Decoder behind the device, a Consumer, a Writer
  unsigned streams{1};
  std::uint64_t late{};

  /// Returns whether the Reader's records are numbers at once.
  bool numbers() const noexcept { return from < From::zipped; }
  std::size_t counts_anew() const noexcept {
    std::size_t count = device && behind == Behind::back_outputs ? 1 : 0;
    for (const Step& step : steps) {
      count += step.counts_anew() ? 1 : 0;
    }
    return count;
  }
  /// Returns whether it may be refused: because of what only the pipeline knows, such as how much
  /// must be on its way, or by a rule for a few options. All others are to run.
  bool may_be_refused() const noexcept {
    bool anew = false, group_behind_outputs = false;
    for (const Step& step : steps) {
      group_behind_outputs = group_behind_outputs || (anew && step.form == Form::groups);
      anew = anew || step.counts_anew();
    }
    return group_behind_outputs || reader.ahead != 0 || reader.flush != never || reader.drop_last ||
           reader.order.ranks.world != 1 || reader.order.records != 0;
  }
  /// Returns whether items fail for good.
  bool leaves_out() const noexcept {
    bool any = bad_in != 0;
    for (const Step& step : steps) {
      any = any || step.bad_in != 0;
    }
    return any;
  }
  /// Returns whether items fail, for good or once.
  bool fails() const noexcept {
    bool any = leaves_out() || once_in != 0;
    for (const Step& step : steps) {
      any = any || step.once_in != 0;
    }
    return any;
  }
  std::string text() const;
};

inline std::string Description::text() const {
  static constexpr const char* froms[] = {
      "failing", "generated", "memory", "file",    "files",  "uring",   "taken", "dropped",
      "chosen",  "joined",    "mixed",  "unsized", "zipped", "windows", "lines", "texts"};
  static constexpr const char* forms[] = {"visit", "record", "batch", "outputs", "groups"};
  static constexpr const char* pins[] = {"Reader", "PinnedStager", "last stage"};
  static constexpr const char* behinds[] = {"",
                                            " | Kernels",
                                            " | Kernels | to_host",
                                            " | to_host | Decoder",
                                            " | to_host | Decoder of outputs",
                                            " | Kernel of Counted | to_host",
                                            " | replayed"};
  static constexpr const char* ends[] = {"a loop", "a Consumer", "a Writer"};
  std::ostringstream out;
  const Order& order = reader.order;
  out << records << " records " << froms[static_cast<int>(from)] << " (bad 1/" << bad_in
      << ", once 1/" << once_in << ") | Reader{workers " << reader.workers << ", depth "
      << reader.depth << ", epochs " << reader.epochs << ", batch " << reader.batch
      << (reader.drop_last ? ", drop_last" : "") << ", ahead " << reader.ahead << ", flush ";
  reader.flush == never ? out << "never" : out << reader.flush.count() << " us";
  out << ", value_bytes " << reader.value_bytes << ", shuffle ";
  order.shuffle ? out << order.shuffle.value() : out << "none";
  out << ", block " << order.block << ", window " << order.window << ", rank " << order.ranks.rank
      << " of " << order.ranks.world << ", uneven " << static_cast<int>(order.uneven)
      << ", records " << order.records << "}";
  for (const Step& step : steps) {
    out << " | Decoder{" << forms[static_cast<int>(step.form)] << ", workers " << step.workers
        << ", depth " << step.depth << ", group " << step.group << ", bad 1/" << step.bad_in
        << ", once 1/" << step.once_in << ", below " << step.most << (step.floods ? ", floods" : "")
        << (step.stated ? ", stated" : "") << "}";
  }
  if (device) {
    out << " | pinned by the " << pins[static_cast<int>(pin)] << " | AsyncCopier{batch "
        << copier.batch << ", depth " << copier.depth << "}" << behinds[static_cast<int>(behind)]
        << "{batch " << back.batch << ", depth " << back.depth << "}, streams " << streams
        << ", late " << late;
  }
  out << " | " << ends[static_cast<int>(end)] << " (workers " << last_workers << ")";
  return out.str();
}

inline Order draw_order(Draws& draws, std::uint64_t records) {
  Order order;
  if (draws.one_in(2)) {
    order.shuffle = draws.below(1000);
    if (draws.one_in(2)) {
      order.block = draws.between(1, 12);
      order.window = order.block >= 2 ? draws.between(1, 5) : 1;
    }
  } else if (draws.one_in(3)) {
    order.block = draws.below(20);
  }
  if (draws.one_in(3)) {
    order.ranks.world = static_cast<std::uint32_t>(draws.between(1, 5));
    order.ranks.rank = static_cast<std::uint32_t>(draws.below(order.ranks.world));
    order.uneven = draws.of({Uneven::drop, Uneven::repeat, Uneven::keep});
  }
  if (draws.one_in(5) && records != 0) {
    order.records = draws.between(1, records);
  }
  return order;
}
inline ReaderOptions draw_reader(Draws& draws, std::uint64_t records) {
  ReaderOptions reader;
  reader.workers = draws.workers(4);
  reader.depth = draws.depth();
  reader.epochs = draws.between(1, 3);
  reader.batch = draws.one_in(3) ? 0 : draws.between(1, 40);
  reader.drop_last = draws.one_in(6);
  reader.ahead = draws.one_in(5) ? draws.between(1, 200) : 0;
  reader.flush = draws.one_in(8) ? std::chrono::microseconds{draws.below(3000)} : never;
  reader.order = draw_order(draws, records);
  return reader;
}
inline Step draw_step(Draws& draws, Form form) {
  Step step;
  step.form = form;
  step.workers = draws.workers(5);
  step.depth = draws.depth();
  // Slots have powers of two unless told: some groups go into all, some into the larger ones.
  step.group = form != Form::groups ? 0
               : draws.one_in(3)    ? std::size_t{1} << draws.between(4, 8)
               : draws.one_in(3)    ? draws.between(10, 130)
                                    : draws.between(1, 9);
  step.salt = draws.below(1U << 20U);
  step.bad_in = form != Form::batch && draws.one_in(4) ? draws.between(2, 42) : 0;
  step.once_in = step.bad_in == 0 && draws.one_in(5) ? draws.between(20, 120) : 0;
  step.most = draws.between(1, 6);
  step.floods = draws.one_in(4);
  step.stated = draws.one_in(2);
  return step;
}

/// Returns the Decoder of outputs that stands behind a device.
inline Step behind_the_device(const Description& d) {
  Step step;
  step.form = Form::outputs;
  step.workers = d.last_workers;
  step.salt = d.seed % 1000;
  step.most = 4;
  step.stated = d.seed % 2 == 0;
  return step;
}

/// Takes back what no pipeline can have together, and what the model does not know; what is left
/// may still be refused.
inline void settle(Description& d) {
  if (d.from == From::mixed) { // mixes by itself, and has no end
    d.reader.order.block = 0;
    d.reader.order.window = 1;
    d.reader.order.records = 1 + d.seed % 600;
  }
  if (d.from == From::unsized) {
    d.reader.order = {};
    d.reader.epochs = 1;
  }
  if (!d.numbers()) {
    d.records = d.records % 3000 + 1;
    d.reader.order.records %= d.records + 1;
    if (!d.reader.order.shuffle && d.reader.order.block == 0) {
      d.reader.order.block = 3; // by default it depends on the bytes of a record
    }
  }
  if (d.from != From::failing) {
    d.bad_in = d.once_in = 0;
  }
  d.once_in =
      d.records < 500 ? d.once_in : 0; // a slot is tried as often as some record of it fails
  if (!d.reader.order.shuffle) {
    d.bad_in = 0; // would leave out a slot
  }
  bool groups = false;
  for (Step& step : d.steps) {
    step.floods = step.floods && d.records < 1000 && &step == &d.steps.back();
    groups = groups || step.group > 1;
    if (step.group > 1) {
      d.reader.batch = (d.reader.batch + step.group - 1) / step.group * step.group;
    }
  }
  if (groups) {
    d.reader.flush = never;
  }
  // The last batch is one of the copier, or else a slot.
  const std::size_t last = d.device ? d.copier.batch : d.reader.batch;
  const bool cut = d.reader.ahead != 0 || d.reader.flush != never;
  const std::size_t anew = d.counts_anew();
  if (last == 0 || (anew != 0 && (cut || !d.numbers())) ||
      (d.device && (d.behind == Behind::counted || d.behind == Behind::back_outputs))) {
    d.reader.drop_last = false;
  }
}

/// Returns the pipeline of a seed.
inline Description describe(std::uint64_t seed) {
  Draws draws{seed, 1};
  Description d;
  d.seed = seed;
  d.from = static_cast<From>(draws.below(16));
  d.records = draws.one_in(6)    ? draws.below(12)
              : draws.one_in(10) ? draws.below(8000)
                                 : draws.below(500);
  d.reader = draw_reader(draws, d.records);
  d.bad_in = draws.one_in(2) ? draws.between(3, 42) : 0;
  d.once_in = d.bad_in == 0 && draws.one_in(3) ? draws.between(100, 300) : 0;
  d.device = d.numbers() && draws.one_in(3);
  const std::uint64_t most = d.device ? 1 : d.numbers() ? 3 : 1;
  const std::uint64_t least = d.device || !d.numbers() ? 0 : 1;
  const std::uint64_t count = draws.between(least, most);
  bool anew = false;
  for (std::uint64_t i = 0; i != count; ++i) {
    const Form one_for_one = anew || i != 0 ? Form::record : Form::visit;
    // A group behind outputs is refused for now, so it is drawn less often.
    const Form packs = anew && !draws.one_in(4) ? Form::outputs : Form::groups;
    d.steps.push_back(
        draw_step(draws, draws.of({one_for_one, one_for_one, Form::batch, Form::outputs, packs})));
    anew = anew || d.steps.back().counts_anew();
  }
  d.end = draws.of({End::loop, End::loop, End::consumer, End::writer});
  d.pin = draws.of({Pin::reader, Pin::stager, Pin::last});
  d.behind = static_cast<Behind>(draws.below(7));
  d.copier.batch = draws.one_in(4) ? 0 : draws.between(1, 60);
  d.copier.depth = draws.one_in(2) ? 3 : draws.between(2, 7);
  d.back.batch = draws.one_in(3) ? 0 : draws.between(1, 60);
  d.back.depth = draws.one_in(2) ? 3 : draws.between(2, 5);
  d.last_workers = draws.workers(4);
  d.streams = draws.workers(4);
  d.late = draws.one_in(2) ? 0 : draws.between(1, 1000);
  if (d.device || !d.numbers() || d.steps.size() > 2) {
    d.end = End::loop;
  }
  settle(d);
  return d;
}

/// Returns the same pipeline with other numbers of workers, which change no record.
inline Description with_other_workers(Description d, Draws& draws) {
  d.reader.workers = draws.workers(4);
  d.last_workers = draws.workers(4);
  for (Step& step : d.steps) {
    step.workers = draws.workers(5);
  }
  return d;
}

} // namespace penstock::tests::drawn
