// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// tee(): each branch gets every batch, in order and at its own pace, in host memory and on a
// device; how errors, stops, positions, files and the Report know branches.

#include "support/catch.hpp"
#include "support/counted_new.hpp"
#include "support/file_records.hpp"
#include "support/outcome.hpp"
#include "support/temp_dir.hpp"
#include "support/test_devices.hpp"
#include "support/watchdog.hpp"

#include <penstock/diagnose/verdict.hpp>
#include <penstock/penstock.hpp>
#include <penstock/pipeline/tee.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ps = penstock;
namespace tests = penstock::tests;
using tests::Came;
using tests::outcome_of;

namespace {

using Number = std::uint64_t;
constexpr Number total = 20'000;
constexpr std::size_t a_slot = 128;

std::vector<Number> numbers(Number count = total) {
  std::vector<Number> made(count);
  std::iota(made.begin(), made.end(), Number{0});
  return made;
}
template <class Where = ps::Pageable> auto read(const std::vector<Number>& from,
                                                Number epochs = 1) {
  const ps::ReaderOptions options{.workers = 2, .depth = 8, .epochs = epochs, .batch = a_slot};
  if constexpr (std::is_same_v<Where, ps::Pinned>) {
    return ps::Reader{ps::memory(from), ps::to_pinned, options};
  } else {
    return ps::Reader{ps::memory(from), options};
  }
}

// What one branch has got. Only its thread writes.
struct Seen {
  std::vector<Number> values;
  std::atomic<Number> count{0};
  Number throws_at = ~Number{0};

  void add(const Number* from, std::size_t n, Number index) {
    if (index != values.size()) {
      throw std::runtime_error{"a batch is not the next one"};
    }
    if (throws_at - index < n) {
      throw std::runtime_error{"told to"};
    }
    values.insert(values.end(), from, from + n);
    count += n;
  }
  void clear() {
    values.clear();
    count = 0;
    throws_at = ~Number{0};
  }
};
template <class Where = ps::Pageable> auto keep(Seen& seen) {
  return ps::Consumer{[&seen](ps::Batch<const Number, Where> batch) {
    seen.add(batch.data(), batch.size(), batch.index());
  }};
}
auto keep_on_device(Seen& seen) {
  return ps::Consumer{[&seen](ps::Batch<const Number, ps::Device> batch, ps::HostStream& stream) {
    if (seen.throws_at - batch.index() < batch.size()) {
      throw std::runtime_error{"told to"};
    }
    stream.enqueue([&seen, batch] { seen.add(batch.data(), batch.size(), batch.index()); });
  }};
}
// Gives three times each number, slowly if it is told.
auto triple(std::chrono::microseconds pause = {}) {
  return ps::Kernel{[pause](ps::Batch<const Number, ps::Device> in,
                            ps::Batch<Number, ps::Device> out, ps::HostStream& stream) {
    stream.enqueue([in, out, pause] {
      std::this_thread::sleep_for(pause);
      std::transform(in.data(), in.data() + in.size(), out.data(), [](Number n) { return 3 * n; });
    });
  }};
}

std::vector<Number> times(Number factor, Number from = 0, Number to = total) {
  std::vector<Number> made;
  for (Number n = from; n != to; ++n) {
    made.push_back(factor * n);
  }
  return made;
}
std::vector<Number> file(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  std::vector<char> bytes{std::istreambuf_iterator<char>{in}, {}};
  std::vector<Number> made(bytes.size() / sizeof(Number));
  std::copy_n(bytes.data(), made.size() * sizeof(Number), reinterpret_cast<char*>(made.data()));
  return made;
}
std::vector<std::string> names(const ps::Report& report) {
  std::vector<std::string> made;
  for (const ps::StageReport& stage : report.stages) {
    made.push_back(stage.name);
  }
  return made;
}

} // namespace

TEST_CASE("each branch of a tee in host memory gets every batch in order") {
  const tests::Watchdog watchdog{"branches in host memory"};
  const std::vector<Number> all = numbers();
  Seen a, b;
  auto behind_reader = read(all) | ps::tee(keep(a), keep(b));
  for (int run = 0; run != 2; ++run) {
    a.clear();
    b.clear();
    const ps::Report& report = behind_reader.run();
    CHECK(a.values == all);
    CHECK(b.values == all);
    CHECK(names(report) == std::vector<std::string>{"Reader", "tee", "1/Consumer", "2/Consumer"});
    CHECK(report.stages[3].branch == "2");
    CHECK(report.stages[1].kind == ps::StageKind::tee);
    CHECK(report.records == total);
    CHECK(report.dropped == 0);
  }
  a.clear();
  b.clear();
  const tests::TempDir dir;
  auto behind_decoder =
      read(all) | ps::Decoder{[](const Number& in, Number& out) { out = in + 1; }} |
      ps::tee(ps::Decoder{[](const Number& in, Number& out) { out = in - 1; }} | keep(a),
              ps::Decoder{[](const Number& in, Number& out) { out = 3 * (in - 1); }} |
                  ps::Writer{dir / "out", {.workers = 2}},
              ps::to_loop);
  Seen loop;
  for (auto batch : behind_decoder.batches()) {
    loop.add(batch.data(), batch.size(), batch.index());
  }
  CHECK(a.values == all);
  CHECK(file(dir / "out") == times(3));
  CHECK(std::equal(all.begin(), all.end(), loop.values.begin(), loop.values.end(),
                   [](Number n, Number m) { return n + 1 == m; }));
  CHECK(names(behind_decoder.report()).back() == "3/loop");
}

TEST_CASE("each branch of a tee on a device gets every batch, at its own pace") {
  const tests::Watchdog watchdog{"branches on a device"};
  const std::vector<Number> all = numbers();
  const tests::TempDir dir;
  for (const std::uint64_t late : {0U, 5U}) {
    tests::Poisons<ps::HostDevice> device{ps::HostOptions{.late_seed = late}};
    ps::HostStream stream = device.stream();
    ps::HostStream second = device.stream();
    Seen a, loop;
    auto pipeline = read<ps::Pinned>(all) | ps::AsyncCopier{device, {.batch = 100, .depth = 2}} |
                    ps::tee(triple(std::chrono::microseconds{50}) | ps::AsyncCopier{ps::to_host} |
                                ps::Writer{dir / "out"},
                            keep_on_device(a), ps::to_loop);
    for (int run = 0; run != 2; ++run) {
      a.clear();
      loop.clear();
      for (auto batch : pipeline.on(stream)) {
        stream.enqueue([&loop, b = ps::Batch<const Number, ps::Device>{batch}] {
          loop.add(b.data(), b.size(), b.index());
        });
        if (batch.index() % 3 == 0) { // one use more: a place then has four
          batch.used_on(second);
        }
      }
      CHECK(a.values == all);
      CHECK(loop.values == all);
      CHECK(file(dir / "out") == times(3));
    }
  }
}

TEST_CASE("branches behind a PinnedStager and behind a Kernel, each with a copier of its own") {
  const tests::Watchdog watchdog{"branches with copiers"};
  const std::vector<Number> all = numbers();
  ps::HostDevice device;
  Seen a, b, c;
  auto copied = read(all) | ps::PinnedStager{} |
                ps::tee(ps::AsyncCopier{device, {.batch = 300}} | keep_on_device(a),
                        ps::AsyncCopier{device, {.batch = 70}} | triple() |
                            ps::AsyncCopier{ps::to_host} | keep<ps::Pinned>(b),
                        keep<ps::Pinned>(c));
  const ps::Report& report = copied.run();
  CHECK(a.values == all);
  CHECK(b.values == times(3));
  CHECK(c.values == all);
  CHECK(report.position.epoch() == 1);
  a.clear();
  b.clear();
  auto behind_kernel =
      read<ps::Pinned>(all) | ps::AsyncCopier{device} | triple() |
      ps::tee(triple() | keep_on_device(a), ps::AsyncCopier{ps::to_host} | keep<ps::Pinned>(b));
  behind_kernel.run();
  CHECK(a.values == times(9));
  CHECK(b.values == times(3));
}

TEST_CASE("a tee in a branch of a tee") {
  const tests::Watchdog watchdog{"a tee in a tee"};
  const std::vector<Number> all = numbers();
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  Seen a, b, c, d, loop;
  auto pipeline =
      read<ps::Pinned>(all) |
      ps::tee(ps::tee(keep<ps::Pinned>(a), keep<ps::Pinned>(b)),
              ps::AsyncCopier{device, {.batch = 90}} |
                  ps::tee(keep_on_device(c), ps::tee(triple(), triple() | keep_on_device(d))));
  for (auto batch : pipeline.on(stream)) {
    stream.enqueue([&loop, batch = ps::Batch<const Number, ps::Device>{batch}] {
      loop.add(batch.data(), batch.size(), batch.index());
    });
  }
  CHECK(a.values == all);
  CHECK(b.values == all);
  CHECK(c.values == all);
  CHECK(d.values == times(3));
  CHECK(loop.values == times(3));
  CHECK(names(pipeline.report()) ==
        std::vector<std::string>{"Reader", "tee", "1/tee", "1.1/Consumer", "1.2/Consumer",
                                 "2/AsyncCopier", "2/tee", "2.1/Consumer", "2.2/tee",
                                 "2.2.2/Kernel", "2.2.2/Consumer", "2.2.1/Kernel", "2.2.1/loop"});
}

TEST_CASE("a branch may be ahead of another by the ring before the tee, and by no more") {
  const tests::Watchdog watchdog{"own pace"};
  const std::vector<Number> all = numbers();
  Seen fast;
  std::atomic<Number> most{0};
  bool first = true;
  auto pipeline =
      read(all) |
      ps::tee(keep(fast), ps::Consumer{[&](ps::Batch<const Number, ps::Pageable> batch) {
                if (std::exchange(first, false)) {
                  while (fast.count < 8 * a_slot) {
                    std::this_thread::yield();
                  }
                  std::this_thread::sleep_for(std::chrono::milliseconds{20});
                }
                most = std::max<Number>(most,
                                        fast.count - std::min<Number>(fast.count, batch.index()));
              }});
  pipeline.run();
  CHECK(fast.values == all);
  // The slot that this branch has is one of the ring's eight.
  CHECK(most <= 8 * a_slot);
}

TEST_CASE("the first error in any branch ends all, names its stage, and leaves no file") {
  const tests::Watchdog watchdog{"errors in branches"};
  const std::vector<Number> all = numbers();
  const tests::TempDir dir;
  ps::HostDevice device;
  Seen a, b, c;
  auto pipeline =
      read<ps::Pinned>(all) | ps::tee(keep<ps::Pinned>(a), ps::Writer{dir / "out"},
                                      ps::AsyncCopier{device, {.batch = 100}} |
                                          ps::tee(keep_on_device(b), triple() | keep_on_device(c)));
  const std::array<std::pair<Seen*, const char*>, 3> ends{
      {{&a, "1/Consumer"}, {&b, "3.1/Consumer"}, {&c, "3.2/Consumer"}}};
  for (const auto& [end, name] : ends) {
    for (const Number at : {Number{0}, total / 2, total - 1}) {
      for (Seen* seen : {&a, &b, &c}) {
        seen->clear();
      }
      end->throws_at = at;
      const auto outcome = outcome_of([&] { pipeline.run(); });
      CHECK(outcome.came == Came::stage_error);
      CHECK(outcome.stage == name);
      CHECK(outcome.record <= at);
      CHECK(outcome.record + 128 > at);
      CHECK_FALSE(std::filesystem::exists(dir / "out"));
      CHECK(std::distance(std::filesystem::directory_iterator{dir.path()}, {}) == 0);
      for (Seen* seen : {&a, &b}) {
        CHECK(std::equal(seen->values.begin(), seen->values.end(), all.begin()));
      }
    }
  }
  for (Seen* seen : {&a, &b, &c}) {
    seen->clear();
  }
  pipeline.run();
  CHECK(a.values == all);
  CHECK(c.values == times(3));
  CHECK(file(dir / "out") == all);
}

TEST_CASE("several Writers give their files their names when all branches are done, or none does") {
  const tests::Watchdog watchdog{"files of branches"};
  const std::vector<Number> all = numbers();
  const tests::TempDir dir;
  Seen seen;
  bool there = false;
  auto pipeline =
      read(all) | ps::tee(ps::Writer{dir / "a"}, ps::Writer{dir / "b", {.durable = true}},
                          ps::Consumer{[&](ps::Batch<const Number, ps::Pageable> batch) {
                            seen.add(batch.data(), batch.size(), batch.index());
                            if (seen.count == total) {
                              std::this_thread::sleep_for(std::chrono::milliseconds{20});
                              there = std::filesystem::exists(dir / "a");
                            }
                          }});
  pipeline.run();
  CHECK_FALSE(there);
  CHECK(file(dir / "a") == all);
  CHECK(file(dir / "b") == all);
  // A run that fails at its last record leaves the old ones.
  const std::vector<Number> other = times(7);
  auto again = read(other) | ps::tee(ps::Writer{dir / "a"}, ps::Writer{dir / "b"}, keep(seen));
  seen.clear();
  seen.throws_at = total - 1;
  CHECK(outcome_of([&] { again.run(); }).came == Came::stage_error);
  CHECK(file(dir / "a") == all);
  CHECK(file(dir / "b") == all);
  auto nowhere = read(other) | ps::tee(ps::Writer{dir / "a"}, ps::Writer{dir / "no/b"});
  const auto outcome = outcome_of([&] { nowhere.run(); });
  CHECK(outcome.stage == "2/Writer");
  CHECK(file(dir / "a") == all);
  CHECK(std::distance(std::filesystem::directory_iterator{dir.path()}, {}) == 2);
}

TEST_CASE("a stop and a break end all branches, and the Report's position is that of the last") {
  const tests::Watchdog watchdog{"stops in branches"};
  const std::vector<Number> all = numbers();
  ps::HostDevice device;
  Seen a, b;
  std::stop_source source;
  Number stops_at = total / 3;
  auto make = [&] {
    return read<ps::Pinned>(all) |
           ps::tee(ps::Consumer{[&](ps::Batch<const Number, ps::Pinned> batch) {
                     const Number first = a.values.empty() ? *batch.data() : a.values.front();
                     a.values.insert(a.values.end(), batch.data(), batch.data() + batch.size());
                     if (first + a.values.size() > stops_at) {
                       source.request_stop();
                     }
                   }},
                   ps::AsyncCopier{device, {.batch = 100}} |
                       ps::Consumer{
                           [&](ps::Batch<const Number, ps::Device> batch, ps::HostStream& stream) {
                             stream.enqueue([&b, batch] {
                               b.values.insert(b.values.end(), batch.data(),
                                               batch.data() + batch.size());
                             });
                           }});
  };
  auto pipeline = make();
  ps::Report report = pipeline.run({.stop = source.get_token()});
  CHECK(report.stopped);
  const Number step = report.position.epoch() == 0 ? report.position.step() : total;
  CHECK(step == std::min(a.values.size(), b.values.size()));
  CHECK(a.values == times(1, 0, a.values.size()));
  CHECK(b.values == times(1, 0, b.values.size()));
  a.clear();
  b.clear();
  stops_at = ~Number{0};
  auto resumed = make();
  report = resumed.run({.from = report.position});
  CHECK(a.values == times(1, step));
  CHECK(b.values == times(1, step));
  CHECK(report.position.epoch() == 1);

  const tests::TempDir dir;
  a.clear();
  auto looped = read(all) | ps::tee(ps::to_loop, keep(a), ps::Writer{dir / "out"});
  for (auto batch : looped.batches()) {
    if (batch.index() > total / 2) {
      break;
    }
  }
  CHECK(looped.report().stopped);
  CHECK_FALSE(std::filesystem::exists(dir / "out"));
  CHECK(std::equal(a.values.begin(), a.values.end(), all.begin()));
}

TEST_CASE("what a Decoder before the tee left out is missing in each branch, and indices go on") {
  const tests::Watchdog watchdog{"skips before a tee"};
  const std::vector<Number> all = numbers();
  ps::HostDevice device;
  Seen a, b, c;
  std::vector<Number> records;
  auto pipeline = read(all) |
                  ps::Decoder{[](const Number& in, Number& out) {
                                if (in % 50 == 7) {
                                  throw std::runtime_error{"bad"};
                                }
                                out = in;
                              },
                              ps::to_pinned,
                              {.workers = 2, .on_error = {.skips = total}}} |
                  ps::tee(keep<ps::Pinned>(a),
                          ps::AsyncCopier{device, {.batch = 90}} |
                              ps::tee(ps::AsyncCopier{ps::to_host} | keep<ps::Pinned>(b),
                                      keep_on_device(c), triple() | ps::AsyncCopier{ps::to_host}));
  for (auto batch : pipeline.batches()) {
    for (std::size_t i = 0; i != batch.size(); ++i) {
      CHECK(3 * batch.visit(i).record == batch.data()[i]);
      records.push_back(batch.visit(i).record);
    }
  }
  std::vector<Number> good;
  std::copy_if(all.begin(), all.end(), std::back_inserter(good),
               [](Number n) { return n % 50 != 7; });
  CHECK(a.values == good);
  CHECK(b.values == good);
  CHECK(c.values == good);
  CHECK(records == good);
  CHECK(pipeline.report().skipped == total / 50);
  CHECK(pipeline.report().dropped == 0);
}

TEST_CASE("leases of a branch may outlive the pipeline") {
  const tests::Watchdog watchdog{"late leases"};
  const std::vector<Number> all = numbers();
  Seen a;
  ps::Lease<ps::Batch<const Number, ps::Pageable>> on_host;
  {
    auto pipeline = read(all) | ps::tee(keep(a), ps::to_loop);
    auto run = pipeline.batches();
    on_host = run.next();
  }
  CHECK(on_host.data()[5] == 5);
  on_host = {};
  ps::HostDevice device;
  ps::HostStream stream = device.stream();
  ps::Lease<ps::Batch<const Number, ps::Device>> on_device;
  a.clear();
  {
    auto pipeline =
        read<ps::Pinned>(all) | ps::AsyncCopier{device} | ps::tee(keep_on_device(a), ps::to_loop);
    auto run = pipeline.on(stream);
    on_device = run.next();
  }
  CHECK(on_device.data()[5] == 5);
}

TEST_CASE("a batch through a tee allocates nothing") {
  const tests::Watchdog watchdog{"allocations of a tee"};
  const std::vector<Number> all = numbers();
  ps::HostDevice device;
  std::array<Number, 4> sums{};
  const auto add_on_device = [](Number& sum) {
    return ps::Consumer{[&sum](ps::Batch<const Number, ps::Device> batch, ps::HostStream& stream) {
      stream.enqueue(
          [&sum, batch] { sum = std::accumulate(batch.data(), batch.data() + batch.size(), sum); });
    }};
  };
  const auto add = [](Number& sum) {
    return ps::Consumer{[&sum](ps::Batch<const Number, ps::Pinned> batch) {
      sum = std::accumulate(batch.data(), batch.data() + batch.size(), sum);
    }};
  };
  // How many allocations a later run makes, which reads the numbers so many times.
  const auto allocations = [&](Number epochs) {
    auto pipeline =
        read<ps::Pinned>(all, epochs) |
        ps::tee(add(sums[0]), ps::AsyncCopier{device, {.batch = 100}} |
                                  ps::tee(add_on_device(sums[1]), add_on_device(sums[2]),
                                          ps::AsyncCopier{ps::to_host} | add(sums[3])));
    pipeline.run();
    const std::uint64_t before = tests::memory::allocations;
    pipeline.run();
    return tests::memory::allocations - before;
  };
  // The Report's texts and chains, whatever the number of batches.
  CHECK(allocations(20) <= allocations(1) + 4);
  const Number once = std::accumulate(all.begin(), all.end(), Number{0});
  for (const Number sum : sums) {
    CHECK(sum == 42 * once);
  }
}

TEST_CASE("the verdict is about the slowest branch") {
  const tests::Watchdog watchdog{"the verdict of a tee"};
  const std::vector<Number> all = numbers();
  Seen a, b;
  auto pipeline =
      read(all) | ps::tee(keep(a), ps::Consumer{[](ps::Batch<const Number, ps::Pageable>) {
                            std::this_thread::sleep_for(std::chrono::milliseconds{2});
                          }},
                          keep(b));
  const ps::Report& report = pipeline.run();
  CHECK(report.limiting_stage == "2/Consumer");
  CHECK(ps::judge(report).stage == "2/Consumer");
}

TEST_CASE("what branches cannot have is an OptionError that says why") {
  const std::vector<Number> all = numbers();
  ps::HostDevice device, other;
  Seen a, b;
  const auto text = [](auto pipeline) {
    const auto outcome = outcome_of([&] { pipeline.prepare(); });
    return outcome.came == Came::error ? outcome.text : "";
  };
  const auto has = [](const std::string& said, const char* part) {
    return said.find(part) != std::string::npos;
  };
  CHECK(has(text(ps::Reader{ps::memory(all), {.ahead = 1000}} | ps::tee(keep(a), keep(b))),
            "tee: .ahead and .flush"));
  CHECK(has(text(ps::Reader{ps::memory(all), ps::to_pinned, {.drop_last = true}} |
                 ps::tee(keep<ps::Pinned>(a), ps::AsyncCopier{device} | keep_on_device(b))),
            "tee: .drop_last"));
  CHECK(has(text(read<ps::Pinned>(all) | ps::tee(ps::AsyncCopier{device} | keep_on_device(a),
                                                 ps::AsyncCopier{other} | keep_on_device(b))),
            "name two devices"));
  CHECK(has(
      text(read(all) | ps::tee(keep(a), ps::Decoder{[](const Number& in, ps::Output<Number>& out) {
                                          out.push(in);
                                        }} | keep(b))),
      "tee: a Decoder in branch 2 gives another number"));
}
