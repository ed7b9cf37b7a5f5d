// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The verdict of made-up Reports. Most are those of a simulation, so that their figures agree; and
// advice is followed there, to see what it gains.

#include "support/catch.hpp"
#include "support/random_pipelines.hpp"
#include "support/randomness.hpp"

#include <penstock/diagnose/verdict.hpp>
#include <penstock/diagnose/verdict_json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace penstock::tests;
using ps::Cause;
using Kind = ps::StageKind;

namespace {

constexpr std::size_t mib = 1 << 20;

SimulatedStage host(Kind kind, unsigned workers, double cpu_s) {
  return {.kind = kind, .workers = workers, .cpu_s = cpu_s};
}
SimulatedStage sleeping(Kind kind, unsigned workers, double sleep_s) {
  return {.kind = kind, .workers = workers, .sleep_s = sleep_s};
}
SimulatedStage copier(std::size_t batch = 4 * mib) {
  return {.kind = Kind::copy_to_device, .depth = 3, .batch = batch};
}
/// `device_s`: of a MiB.
SimulatedStage consumer(double device_s) {
  return {.kind = Kind::consumer, .depth = 0, .device_s = device_s};
}
/// Reader | Decoder | AsyncCopier | Consumer, each fast.
SimulatedPipeline fed() {
  SimulatedPipeline pipeline;
  pipeline.observed = true;
  pipeline.stages = {host(Kind::reader, 4, 100e-6), host(Kind::decoder, 4, 200e-6), copier(),
                     consumer(30e-6)};
  return pipeline;
}
/// Reader | AsyncCopier | Kernel | AsyncCopier | Writer.
SimulatedPipeline written(double store_rate) {
  SimulatedPipeline pipeline;
  pipeline.stages = {host(Kind::reader, 4, 100e-6),
                     copier(),
                     {.kind = Kind::kernel, .depth = 3, .device_s = 20e-6},
                     {.kind = Kind::copy_to_host, .depth = 48, .batch = mib},
                     {.kind = Kind::writer, .depth = 0, .store_rate = store_rate}};
  return pipeline;
}

struct Judged {
  explicit Judged(ps::Report of) : report{std::move(of)}, verdict{ps::judge(report)} {}
  explicit Judged(const SimulatedPipeline& pipeline) : Judged{SimulatedRun{pipeline}.report()} {}

  std::string text() const {
    std::ostringstream os;
    os << verdict;
    return os.str();
  }
  bool says(const std::string& part) const { return text().find(part) != std::string::npos; }

  ps::Report report;
  ps::Verdict verdict;
};

/// Checks what it names, and that the Report names the same stage.
void check_names(const Judged& judged, const std::string& stage, Cause cause,
                 Cause or_cause = Cause::nothing) {
  INFO(judged.report << judged.text());
  CHECK(judged.verdict.stage == stage);
  CHECK(ps::name_of(judged.verdict.cause) == std::string{ps::name_of(cause)});
  CHECK(ps::name_of(judged.verdict.or_cause) == std::string{ps::name_of(or_cause)});
  CHECK((judged.verdict.or_cause == Cause::nothing) == judged.verdict.trial.empty());
  const auto& stages = judged.report.stages;
  const std::size_t at =
      ps::detail::limiting_stage(stages, judged.report.seconds, judged.report.waited_s);
  CHECK((stage.empty() || stages.at(at).name == stage));
}

/// A Report by hand, of stages that were all at work for these shares of ten seconds.
ps::Report by_hand(const std::vector<std::pair<Kind, double>>& stages) {
  ps::Report report;
  report.seconds = 10;
  report.processors = 8;
  report.cpu_s = 10;
  report.device = "host";
  for (const auto& [kind, share] : stages) {
    ps::StageReport stage;
    stage.name = kind == Kind::reader ? "Reader" : kind == Kind::decoder ? "Decoder" : "Consumer";
    stage.kind = kind;
    stage.workers = 1;
    stage.records = 1000;
    stage.bytes = 100 * mib;
    stage.slot_bytes = mib;
    stage.units = 100;
    stage.workers_used = 1;
    stage.depth = kind == Kind::consumer ? 0 : 48;
    stage.busy_s = 10 * share;
    stage.starved_s = 10 * (1 - share);
    report.stages.push_back(stage);
  }
  return report;
}

} // namespace

TEST_CASE("too few workers: which stage's, how many it needs, and what binds then") {
  SimulatedPipeline pipeline = fed();
  pipeline.stages[1] = host(Kind::decoder, 4, 4e-3);
  pipeline.stages[0] = host(Kind::reader, 4, 2e-3);
  const Judged judged{pipeline};
  check_names(judged, "Decoder", Cause::too_few_workers);
  REQUIRE_FALSE(judged.verdict.advice.empty());
  CHECK(judged.verdict.advice[0].change == "Decoder: .workers 4 -> 9");
  CHECK(judged.verdict.advice[0].gain == Approx(2).epsilon(0.1));
  CHECK(judged.verdict.advice[0].next == "the Reader");
  CHECK(judged.verdict.worth_it);
  CHECK(judged.says("Decoder: .workers 4 -> 9: x 2.0; then the Reader binds\n"));
}

TEST_CASE("advice that gains less than a tenth is left out, and the verdict says so") {
  ps::Report report = by_hand({{Kind::reader, 0.99}, {Kind::decoder, 0.93}, {Kind::consumer, 0.1}});
  const Judged judged{report};
  check_names(judged, "Reader", Cause::too_few_workers);
  CHECK(judged.verdict.advice.empty());
  CHECK_FALSE(judged.verdict.worth_it);
  CHECK(judged.text() == "Reader: too few workers: it is at work for 99 % of the run, and "
                         "processors are free; no change would gain a tenth, since then the "
                         "Decoder binds.\n");
  CHECK(ps::to_json(judged.verdict).text().find(R"("advice": [])") != std::string::npos);
  report.stages[1].busy_s = 8.5;
  report.stages[1].starved_s = 1.5;
  CHECK(Judged{report}.says("Reader: .workers 1 -> 2: x 1.1; then the Decoder binds"));
  CHECK_FALSE(Judged{report}.says("no change"));
}

TEST_CASE("a gain is at most what it says if some units take long") {
  ps::Report report = by_hand({{Kind::reader, 0.99}, {Kind::consumer, 0.1}});
  report.stages[0].cpu_share = 0.1;
  report.stages[0].workers = 4;
  report.stages[0].unit_p99_s = 0.01;
  CHECK_FALSE(Judged{report}.verdict.advice.at(0).at_most);
  report.stages[0].units = 10'000; // of some 4 ms
  report.stages[0].bytes = 10'000 * mib;
  CHECK_FALSE(Judged{report}.verdict.advice.at(0).at_most);
  report.stages[0].unit_p99_s = 0.04; // the others wait for it, since slots go on in order
  CHECK(Judged{report}.verdict.advice.at(0).at_most);
  report.stages[0].unit_p99_s = 1; // the end of a run twice as fast takes up to a fifth of it
  CHECK(Judged{report}.verdict.advice.at(0).at_most);
}

TEST_CASE("too few units: a slot is one worker's, and there are fewer slots than workers") {
  SimulatedPipeline pipeline = fed();
  pipeline.stages[0].depth = 2;
  pipeline.stages[1] = sleeping(Kind::decoder, 8, 8e-3);
  const Judged judged{pipeline};
  check_names(judged, "Decoder", Cause::too_few_units);
  REQUIRE_FALSE(judged.verdict.advice.empty());
  CHECK(judged.verdict.advice[0].change == "Reader: .depth 2 -> 10");
  CHECK(judged.verdict.advice[0].gain == Approx(4));
  // A Reader has one ring, which it fills.
  ps::Report first = by_hand({{Kind::reader, 0.25}, {Kind::consumer, 0.01}});
  first.stages[0].workers = 8;
  first.stages[0].depth = 2;
  check_names(Judged{first}, "Reader", Cause::too_few_units);
  CHECK(Judged{first}.verdict.advice.at(0).change == "Reader: .depth 2 -> 10");
}

TEST_CASE("too few units: a Decoder whose workers are 24 % busy needs no more of them") {
  ps::Report report = by_hand({{Kind::reader, 0.01}, {Kind::decoder, 0.244}, {Kind::consumer, 0}});
  ps::StageReport& decoder = report.stages[1];
  decoder.workers = 8;
  decoder.workers_used = 2;
  decoder.units = 2;
  decoder.bytes = 2 * mib;
  const Judged judged{report};
  check_names(judged, "Decoder", Cause::too_few_units);
  CHECK(judged.says("the whole run has 2 units for its 8 workers"));
  REQUIRE_FALSE(judged.verdict.advice.empty());
  CHECK(judged.verdict.advice[0].change == "Reader: .batch 500 -> 15");
  // A unit cannot be less than a record.
  report.stages[0].records = decoder.records = 2;
  CHECK(Judged{report}.verdict.advice.empty());
}

TEST_CASE("batches too small: the calls for one take longer than its work") {
  SimulatedPipeline pipeline = fed();
  pipeline.stages[2].batch = 16 << 10;
  pipeline.slots = 300;
  for (const bool observed : {true, false}) {
    pipeline.observed = observed;
    const Judged judged{pipeline};
    check_names(judged, "Consumer", Cause::small_batches,
                observed ? Cause::nothing : judged.verdict.or_cause);
    REQUIRE(judged.verdict.advice.size() >= 2);
    CHECK(judged.verdict.advice[0].change == "AsyncCopier: .batch 16 -> 128");
    CHECK(judged.verdict.advice[0].gain > 1.5);
    CHECK(judged.says("ps::replayed"));
  }
}

TEST_CASE("what a callable asks of the device: pageable memory, launches, waits, allocations") {
  const auto with = [](auto change) {
    SimulatedPipeline pipeline = fed();
    change(pipeline.stages[3]);
    return Judged{pipeline};
  };
  const Judged pageable = with([](SimulatedStage& stage) { stage.pageable_s = 2e-3; });
  check_names(pageable, "Consumer", Cause::pageable_memory);
  CHECK(pageable.says("copies, all of pageable memory"));
  // A copier's copies wait for the bus that the pageable ones have: it need not bind next.
  ps::Report behind = pageable.report;
  behind.stages[2].busy_s = 0.95 * behind.seconds;
  behind.stages[2].starved_s = 0.05 * behind.seconds;
  behind.stages[2].blocked_s = 0;
  check_names(Judged{behind}, "Consumer", Cause::pageable_memory);
  CHECK(Judged{behind}.verdict.advice.at(0).gain > 2);
  CHECK(Judged{behind}.verdict.advice.at(0).at_most);
  const Judged launches = with([](SimulatedStage& stage) { stage.launches = 200; });
  check_names(launches, "Consumer", Cause::launches);
  CHECK(launches.says("200 launches a batch"));
  const Judged waits = with([](SimulatedStage& stage) {
    stage.waits = 4;
    stage.wait_s = 100e-6;
  });
  check_names(waits, "Consumer", Cause::waits);
  CHECK(waits.says("ps::Deferred"));
  check_names(with([](SimulatedStage& stage) { stage.allocation_s = 1e-3; }), "Consumer",
              Cause::allocations);
  check_names(with([](SimulatedStage& stage) { stage.cpu_s = 2e-3; }), "Consumer",
              Cause::host_work);
}

TEST_CASE("a wait for copies that run back to back is no work: the bus binds") {
  ps::Report report = by_hand({{Kind::reader, 0.1}, {Kind::consumer, 0.98}});
  ps::StageReport copier = report.stages[0];
  copier.name = "AsyncCopier";
  copier.kind = Kind::copy_to_device;
  copier.units = 0;
  copier.busy_s = 9.8;
  copier.starved_s = 0.2;
  copier.slot_bytes = 4 * mib;
  report.stages.insert(report.stages.begin() + 1, copier);
  ps::StageReport& last = report.stages[2];
  last.calling_s = 9.8;
  last.calls.launches = last.calls.waits = 100;
  last.calls.wait_s = 9;
  const Judged judged{report};
  check_names(judged, "AsyncCopier", Cause::bus);
  CHECK(judged.says("copies run for 98 % of the run, at 0.01 GB/s; the Consumer waits"));
  CHECK_FALSE(judged.verdict.worth_it);
  CHECK(judged.verdict.advice.at(0).gain == Approx(2));
  CHECK(judged.verdict.advice.at(0).at_most); // the kernel may be in the waits too
  last.calls.wait_s = 3;                      // the thread has 6.8 s of its own
  check_names(Judged{report}, "AsyncCopier", Cause::bus);
  CHECK(Judged{report}.verdict.advice.at(0).gain == Approx(1 / 0.68));
  CHECK(Judged{report}.verdict.advice.at(0).next == "the thread that enqueues");
  last.calls.wait_s = 0.5; // and here 9.3 s
  check_names(Judged{report}, "Consumer", Cause::host_work);
  last.calls.wait_s = 9;

  // Nothing is known of the calls, but whatever they are, they hold up no copy.
  ps::Report unobserved = report;
  unobserved.device = "a GPU";
  unobserved.stages[2].calls = {};
  check_names(Judged{unobserved}, "AsyncCopier", Cause::bus, Cause::pageable_memory);
  CHECK(Judged{unobserved}.says("the Consumer holds up none of them"));
  CHECK(Judged{unobserved}.says("To tell: run it with .observe"));
  CHECK(Judged{unobserved}.verdict.advice.at(0).gain == Approx(2));

  // All batches of the run have a place in the ring: it is full of copies under way.
  ps::Report short_run = report;
  short_run.stages[1].slot_bytes = mib / 4;
  short_run.stages[1].depth = 102;
  short_run.stages[1].depth_in_use = 97.5;
  short_run.stages[1].bytes = 100 * (mib / 4);
  check_names(Judged{short_run}, "AsyncCopier", Cause::bus);
  short_run.stages[1].bytes = 400 * (mib / 4);
  check_names(Judged{short_run}, "Consumer", Cause::waits, Cause::bus);

  // A copier that lacks room is held up: then the waits bind.
  ps::Report held_up = report;
  held_up.stages[1].busy_s = 9.4;
  held_up.stages[1].blocked_s = 0.6;
  held_up.stages[1].starved_s = 0;
  held_up.stages[2].calls.wait_s = 8.5; // less than a kernel that binds
  check_names(Judged{held_up}, "Consumer", Cause::waits);
  // So it is if copies leave gaps.
  held_up.stages[1].busy_s = 7;
  held_up.stages[1].blocked_s = 0;
  held_up.stages[1].starved_s = 3;
  check_names(Judged{held_up}, "Consumer", Cause::waits);
  // How much of the waits is the device's work, nobody knows: the copies are the limit known.
  const ps::Advice advice = Judged{held_up}.verdict.advice.at(0);
  CHECK(advice.at_most);
  CHECK(advice.next == "the bus");
  // The device has all copies behind it for which it has work.
  ps::Report works = report;
  works.stages[2].calling_s = 0.5;
  works.stages[2].calls.wait_s = 0.4;
  check_names(Judged{works}, "Consumer", Cause::kernel);

  // A Kernel's callable has the thread that looks at the copies: nobody knows when they ended.
  ps::Report kernel = report;
  kernel.stages[2].kind = Kind::kernel;
  kernel.stages[2].name = "Kernel";
  kernel.stages[2].depth = 9;
  kernel.stages.push_back(report.stages[2]);
  kernel.stages[3].calling_s = kernel.stages[3].busy_s = 1;
  kernel.stages[3].starved_s = 9;
  kernel.stages[3].calls = {};
  check_names(Judged{kernel}, "Kernel", Cause::waits, Cause::bus);
  kernel.stages[3] = report.stages[2];
  kernel.stages[2].calling_s = 2;
  check_names(Judged{kernel}, "Consumer", Cause::waits, Cause::bus);
}

TEST_CASE("a wait that lasts as long as the kernel costs nothing: the kernel binds") {
  SimulatedPipeline pipeline = fed();
  pipeline.stages[3].device_s = 2e-3;
  pipeline.stages[3].waits = 1;
  check_names(Judged{pipeline}, "Consumer", Cause::kernel);
  // Nobody knows how long the device works if nobody looked.
  pipeline.observed = false;
  check_names(Judged{pipeline}, "Consumer", Cause::waits, Cause::kernel);
}

TEST_CASE("a GPU that nobody observed: what its thread does is told apart by a trial") {
  SimulatedPipeline pipeline = fed();
  pipeline.stages[3].cpu_s = 2e-3;
  ps::Report report = SimulatedRun{pipeline}.report();
  report.observed = false;
  report.gpu.reset();
  report.stages[3].calls = {};
  const Judged judged{report};
  check_names(judged, "Consumer", Cause::waits, Cause::host_work);
  CHECK(judged.says("To tell: run it with .observe"));
  // A thread that sleeps does not work.
  report.stages[3].cpu_share = 0.05;
  check_names(Judged{report}, "Consumer", Cause::waits);
}

TEST_CASE("disk: cold and sure, cold or too few workers, and warm") {
  SimulatedPipeline pipeline = fed();
  pipeline.stages[0] = {.kind = Kind::reader, .workers = 8, .store_rate = 1e9};
  const Judged cold{pipeline};
  check_names(cold, "Reader", Cause::disk);
  CHECK(cold.says("cold: storage gave 1.0"));
  CHECK_FALSE(cold.verdict.worth_it);
  pipeline.stages[0].workers = 2;
  const Judged either{pipeline};
  check_names(either, "Reader", Cause::disk, Cause::too_few_workers);
  CHECK(either.says("To tell: run it with .workers = 4"));
  CHECK(either.verdict.advice.at(0).at_most);
  CHECK(either.verdict.worth_it);
  ps::Report full = by_hand({{Kind::reader, 0.99}, {Kind::consumer, 0.95}});
  full.storage_bytes = full.stages[0].bytes;
  check_names(Judged{full}, "Reader", Cause::disk, Cause::too_few_workers);
  CHECK(Judged{full}.verdict.advice.empty());
  CHECK_FALSE(Judged{full}.verdict.worth_it); // whichever it is, the Consumer binds then
  ps::Report warm = by_hand({{Kind::reader, 0.99}, {Kind::consumer, 0.1}});
  warm.stages[0].workers = 8;
  warm.stages[0].cpu_share = 6;
  warm.cpu_s = 65;
  check_names(Judged{warm}, "Reader", Cause::disk);
  CHECK(Judged{warm}.says("warm"));
  // From the page cache, but mostly asleep: a source with latency.
  warm.stages[0].workers = 2;
  warm.stages[0].cpu_share = 0.1;
  warm.cpu_s = 5;
  check_names(Judged{warm}, "Reader", Cause::too_few_workers);
  CHECK(Judged{warm}.says("its 2 workers 2.0 are at work on average, mostly in waits for their"));
  warm.stages[0].workers = 1;
  CHECK(Judged{warm}.says("it is at work for 99 % of the run, mostly in waits for its data.\n"));
  // There are 1024 at most.
  warm.stages[0].workers = 600;
  warm.stages[0].depth = 1200;
  warm.stages[0].units = 10'000;
  warm.stages[0].bytes = 10'000 * mib;
  check_names(Judged{warm}, "Reader", Cause::too_few_workers, Cause::disk);
  CHECK(Judged{warm}.says("To tell: run it with .workers = 300: if it gets no slower, what the "
                          "Reader reads from binds"));
}

TEST_CASE("bus: and what fits on the device is copied once") {
  SimulatedPipeline pipeline = fed();
  pipeline.bus_rate = 2e9;
  const Judged judged{pipeline};
  check_names(judged, "AsyncCopier", Cause::bus);
  CHECK_FALSE(judged.verdict.worth_it);
  CHECK_FALSE(judged.says("copy it once"));
  pipeline.epochs = 10;
  pipeline.device_memory = std::uint64_t{80} << 30;
  const Judged fits{pipeline};
  CHECK(fits.verdict.worth_it);
  CHECK(fits.says("copy it once: an epoch's 100 MiB fit on the device"));
  pipeline.device_memory = 100 * mib;
  CHECK_FALSE(Judged{pipeline}.says("copy it once"));
}

TEST_CASE("writer, and the bus on the way back") {
  check_names(Judged{written(1e9)}, "Writer", Cause::writer);
  SimulatedPipeline pipeline = written(50e9);
  pipeline.stages[3].bus_factor = 0.05;
  check_names(Judged{pipeline}, "AsyncCopier 2", Cause::bus);
}

TEST_CASE("all cores in use: more workers gain nothing, less work does") {
  SimulatedPipeline pipeline = fed();
  pipeline.processors = 2;
  pipeline.stages[1] = host(Kind::decoder, 8, 4e-3);
  const Judged judged{pipeline};
  check_names(judged, "Decoder", Cause::cores);
  CHECK(judged.says("2.00 of 2 processors are in use"));
  CHECK_FALSE(judged.says(".workers"));
  // A quota, and other machines, take processors away.
  ps::Report report = by_hand({{Kind::reader, 0.1}, {Kind::decoder, 0.97}, {Kind::consumer, 0.1}});
  check_names(Judged{report}, "Decoder", Cause::too_few_workers);
  report.throttled_s = 4;
  check_names(Judged{report}, "Decoder", Cause::cores);
  CHECK(Judged{report}.says("a quota held the process for 4.0 s"));
  report.throttled_s = 0;
  report.stolen_s = 66;
  check_names(Judged{report}, "Decoder", Cause::cores);
}

TEST_CASE("depth too small: work comes in bursts, or waits for one whose turn is first") {
  SimulatedPipeline pipeline;
  pipeline.stages = {sleeping(Kind::reader, 1, 2e-3), sleeping(Kind::consumer, 1, 2e-3)};
  pipeline.stages[0].depth = 2;
  pipeline.stages[1].depth = 0;
  pipeline.stages[0].variation = pipeline.stages[1].variation = 1;
  const Judged bursts{pipeline};
  check_names(bursts, "Reader", Cause::depth);
  pipeline.stages = {sleeping(Kind::reader, 6, 2e-3), host(Kind::consumer, 1, 50e-6)};
  pipeline.stages[0].depth = 6;
  pipeline.stages[1].depth = 0;
  pipeline.stages[0].variation = 0.7;
  const Judged first{pipeline};
  check_names(first, "Reader", Cause::depth);
  CHECK(first.verdict.advice.at(0).change.starts_with("Reader: .depth 6 -> "));
}

TEST_CASE("what binds next: the advice is followed, and the next verdict names it") {
  struct Pair {
    SimulatedPipeline pipeline;
    std::string first;
    std::string next;
    std::string second;
    Cause cause;
  };
  std::vector<Pair> pairs;
  const auto pair = [&](std::string first, std::string next, std::string second, Cause cause,
                        auto change) {
    pairs.push_back({fed(), std::move(first), std::move(next), std::move(second), cause});
    change(pairs.back().pipeline);
  };
  pair("Decoder", "the kernel", "Consumer", Cause::kernel, [](SimulatedPipeline& pipeline) {
    pipeline.stages[1] = sleeping(Kind::decoder, 2, 2e-3);
    pipeline.stages[3].device_s = 0.4e-3;
  });
  pair("Reader", "the Decoder", "Decoder", Cause::too_few_workers, [](SimulatedPipeline& pipeline) {
    pipeline.stages[0] = sleeping(Kind::reader, 1, 4e-3);
    pipeline.stages[1] = sleeping(Kind::decoder, 1, 1.5e-3);
  });
  pair("Decoder", "the bus", "AsyncCopier", Cause::bus, [](SimulatedPipeline& pipeline) {
    pipeline.stages[1] = sleeping(Kind::decoder, 3, 3e-3);
    pipeline.bus_rate = 2e9;
  });
  pair("Decoder", "all cores", "Decoder", Cause::cores, [](SimulatedPipeline& pipeline) {
    pipeline.stages[1] = host(Kind::decoder, 2, 3e-3);
    pipeline.processors = 4;
  });
  pair("Consumer", "the kernel", "Consumer", Cause::kernel, [](SimulatedPipeline& pipeline) {
    pipeline.stages[3].waits = 1;
    pipeline.stages[3].wait_s = 1.5e-3;
    pipeline.stages[3].device_s = 0.2e-3;
  });
  pair("Consumer", "the Decoder", "Decoder", Cause::too_few_workers,
       [](SimulatedPipeline& pipeline) {
         pipeline.stages[1] = host(Kind::decoder, 2, 1e-3);
         pipeline.stages[3].pageable_s = 5e-3;
       });
  for (const Pair& each : pairs) {
    const Judged judged{each.pipeline};
    INFO(judged.text());
    CHECK(judged.verdict.stage == each.first);
    REQUIRE_FALSE(judged.verdict.advice.empty());
    const ps::Advice& advice = judged.verdict.advice[0];
    CHECK(advice.next == each.next);
    const SimulatedPipeline after = advised(each.pipeline, judged.report, judged.verdict, advice);
    check_names(Judged{after}, each.second, each.cause);
    const double gain = SimulatedRun{after}.rate() / SimulatedRun{each.pipeline}.rate();
    CHECK(gain == Approx(advice.gain).epsilon(0.2));
  }
}

TEST_CASE("a healthy run is not blamed: nothing to gain, the kernel binds") {
  SimulatedPipeline pipeline = fed();
  pipeline.stages[3].device_s = 1e-3;
  const Judged judged{pipeline};
  check_names(judged, "Consumer", Cause::kernel);
  CHECK_FALSE(judged.verdict.worth_it);
  CHECK(judged.text().starts_with("nothing to gain in the pipeline: Consumer: kernel"));
  CHECK(judged.verdict.advice.at(0).gain == Approx(2).epsilon(0.05));
  pipeline.stages[3].kind = Kind::loop;
  pipeline.stages[1] = host(Kind::decoder, 8, 7e-3); // nearly as slow
  pipeline.observed = false;
  const Judged loop{pipeline};
  check_names(loop, "loop", Cause::kernel);
  CHECK_FALSE(loop.verdict.worth_it);
}

TEST_CASE("the body of a loop on the host binds, which enqueues nothing") {
  ps::Report report = by_hand({{Kind::reader, 0.1}, {Kind::consumer, 0.98}});
  report.stages[1].kind = Kind::loop;
  report.stages[1].name = "loop";
  const Judged judged{report};
  check_names(judged, "loop", Cause::host_work);
  CHECK(judged.text() ==
        "loop: host work in a callable or loop: the loop's body has 98 % of the run.\n"
        "  put the body's work into a Decoder of several .workers: at most x 8.0; then all cores "
        "are in use\n");
}

TEST_CASE("one thing is told of as one, and several as several") {
  ps::Report report = by_hand({{Kind::reader, 0.1}, {Kind::consumer, 0.98}});
  ps::StageReport& last = report.stages[1];
  last.calling_s = 9.8;
  last.calls = {.launches = 1, .waits = 2, .copies = 1, .wait_s = 1};
  CHECK(Judged{report}.says("in it: 1 launch (0.0 us), 2 waits (1.0 s), 1 copy (0.0 us)"));
  last.calls = {.waits = 1, .allocations = 1, .copies = 1, .pageable_copies = 1, .wait_s = 1};
  CHECK(Judged{report}.says(
      "1 wait (1.0 s), 1 allocation (0.0 us), 1 copy of pageable memory (0.0 us)"));
  last.calls.copies = last.calls.pageable_copies = 2;
  CHECK(Judged{report}.says("2 copies, all of pageable memory"));
  report.processors = 1;
  report.cpu_s = 9.9;
  report.stages[1] = report.stages[0];
  CHECK(Judged{report}.says("0.99 of 1 processor is in use: more workers gain nothing"));
}

TEST_CASE("a run too short to tell has no stage to blame") {
  check_names(Judged{ps::Report{}}, "", Cause::too_short);
  ps::Report zero = by_hand({{Kind::reader, 0.5}, {Kind::consumer, 0.5}});
  zero.seconds = 0;
  check_names(Judged{zero}, "", Cause::too_short);
  SimulatedPipeline pipeline; // three units through stages of one speed
  pipeline.slots = 3;
  pipeline.stages = {sleeping(Kind::reader, 1, 2e-3), sleeping(Kind::decoder, 1, 2e-3),
                     sleeping(Kind::consumer, 1, 2e-3)};
  pipeline.stages[2].depth = 0;
  const Judged judged{pipeline};
  check_names(judged, "", Cause::too_short);
  CHECK(judged.verdict.advice.empty());
  CHECK_FALSE(judged.verdict.worth_it);
}

TEST_CASE("one stage, a stopped run, a failed one and unknown sizes are judged") {
  ps::Report report = by_hand({{Kind::reader, 0.99}});
  check_names(Judged{report}, "Reader", Cause::too_few_workers);
  report = by_hand({{Kind::reader, 0.2}, {Kind::decoder, 0.99}, {Kind::consumer, 0.2}});
  report.stopped = true;
  report.error = "penstock: Decoder: a record is damaged";
  report.records_in_all = std::numeric_limits<std::uint64_t>::max();
  check_names(Judged{report}, "Decoder", Cause::too_few_workers);
  // A Reader that had read all in the first half does not hold up what comes after.
  report.stages[0].busy_s = 5;
  report.stages[0].starved_s = 0;
  check_names(Judged{report}, "Decoder", Cause::too_few_workers);
}

TEST_CASE("in the middle of a run, what a worker does now counts") {
  ps::Report report = by_hand({{Kind::reader, 0}, {Kind::decoder, 0.1}, {Kind::consumer, 0.1}});
  ps::StageReport& reader = report.stages[0];
  reader.starved_s = reader.busy_s = 0; // its first read has not come back for ten seconds
  reader.units = reader.records = reader.bytes = 0;
  reader.busy_now = 1;
  check_names(Judged{report}, "Reader", Cause::too_few_workers);
  SimulatedPipeline pipeline = fed();
  pipeline.stages[1] = host(Kind::decoder, 2, 4e-3);
  pipeline.until = 0.5;
  check_names(Judged{pipeline}, "Decoder", Cause::too_few_workers);
}

namespace {

/// A FanOut's: the copiers and loops of two devices were at work for these shares, what hands slots
/// on for this one.
ps::Report fan_out(const std::vector<std::pair<double, double>>& devices, double hands_on = 0,
                   double reads = 0.2) {
  ps::Report report = by_hand({{Kind::reader, reads}, {Kind::fan_out, hands_on}});
  report.stages[0].blocked_s = std::exchange(report.stages[0].starved_s, 0);
  report.stages[1].name = "FanOut";
  report.stages[1].depth = report.stages[1].units = report.stages[1].slot_bytes = 0;
  for (const auto& [copies, works] : devices) {
    const std::string number = report.stages.size() == 2 ? "" : " 2";
    const ps::Report device = by_hand({{Kind::copy_to_device, copies}, {Kind::loop, works}});
    report.stages.insert(report.stages.end(), device.stages.begin(), device.stages.end());
    ps::StageReport* const added = &report.stages.back() - 1;
    added[0].name = "AsyncCopier" + number;
    added[0].units = 0;
    added[0].blocked_s = std::exchange(added[0].starved_s, 0);
    added[1].name = "loop" + number;
    added[1].depth = 0;
    added[1].calling_s = 0.01;
    added[1].queued_s = 10 * works;
  }
  report.waited_s = 10 * (1 - devices.back().second);
  return report;
}

} // namespace

TEST_CASE("of a FanOut it names the device whose loop binds, and what is to gain for all") {
  for (const bool first : {true, false}) {
    CAPTURE(first);
    const double one = first ? 0.99 : 0.3;
    const double other = first ? 0.3 : 0.99;
    const Judged kernel{fan_out({{0.25, one}, {0.1, other}})};
    check_names(kernel, first ? "loop" : "loop 2", Cause::kernel);
    CHECK(kernel.says(first ? "its device is number 0 of 2" : "its device is number 1 of 2"));
    // The other device's loop does not bind next, since it has the same kernel.
    CHECK(kernel.says("a kernel that takes half the time, for each device: x 2.0"));

    ps::Report report = fan_out({{0.25, one}, {0.1, other}});
    report.stages[first ? 3 : 5].calling_s = 9.9;
    report.stages[first ? 3 : 5].queued_s = 0;
    check_names(Judged{report}, first ? "loop" : "loop 2", Cause::host_work);
  }
  const Judged both{fan_out({{0.25, 0.99}, {0.1, 0.98}})};
  check_names(both, "loop", Cause::kernel);
  CHECK(both.says("x 2.0; then the same stage binds"));
  CHECK(Judged{fan_out({{0.7, 0.99}, {0.1, 0.98}})}.says("x 1.4; then the bus binds"));
}

TEST_CASE("of a FanOut it names the link that binds, though a loop waits for its copies") {
  for (const bool first : {true, false}) {
    CAPTURE(first);
    ps::Report report = fan_out({{first ? 0.99 : 0.3, 0.2}, {first ? 0.3 : 0.99, 0.2}});
    const std::string name = first ? "AsyncCopier" : "AsyncCopier 2";
    for (ps::StageReport& stage : report.stages) {
      stage.blocked_s = stage.name == name ? 0 : stage.blocked_s;
    }
    check_names(Judged{report}, name, Cause::bus);
    CHECK(Judged{report}.says(first ? "number 0 of 2" : "number 1 of 2"));
    CHECK(Judged{report}.says("half the bytes a record"));
    CHECK_FALSE(Judged{report}.says("two devices"));
    CHECK_FALSE(Judged{report}.says("copy it once"));
    report.epochs = 10;
    report.device_memory = std::uint64_t{80} << 30;
    report.stages[2].bytes = report.stages[4].bytes = 400'000'000'000;
    CHECK(Judged{report}.says("copy it once"));
    ps::StageReport& loop = report.stages[first ? 3 : 5];
    loop.busy_s = loop.calling_s = 9.95;
    loop.queued_s = 0;
    loop.calls = {.launches = 100, .waits = 100, .wait_s = 9.9};
    check_names(Judged{report}, name, Cause::bus);
    CHECK(Judged{report}.says("the " + loop.name + " waits for them meanwhile"));
  }
  ps::Report both = fan_out({{0.98, 0.2}, {0.99, 0.2}});
  both.stages[2].blocked_s = both.stages[4].blocked_s = 0;
  check_names(Judged{both}, "AsyncCopier 2", Cause::bus);
  CHECK(Judged{both}.says("x 2.0; then the same stage binds"));
}

TEST_CASE("of a FanOut it names the host's stages, and the ring before its devices") {
  const Judged reader{fan_out({{0.25, 0.3}, {0.2, 0.3}}, 0, 0.99)};
  check_names(reader, "Reader", Cause::too_few_workers);
  CHECK_FALSE(reader.says("number"));
  CHECK(reader.says("then the kernel binds"));

  ps::Report report = fan_out({{0.25, 0.3}, {0.2, 0.3}}, 0.99);
  report.stages[1].cpu_share = 1;
  const Judged hands_on{report};
  check_names(hands_on, "FanOut", Cause::small_batches);
  CHECK(hands_on.says("Reader: .batch 10 -> 80"));

  // Nobody can change what it does.
  report = fan_out({{0.25, 0.3}, {0.2, 0.3}});
  report.processors = 2;
  report.cpu_s = 20;
  report.stages[1].cpu_share = 1;
  report.stages[0].cpu_share = 0.7;
  const Judged cores{report};
  CHECK(cores.verdict.cause == Cause::cores);
  CHECK(cores.says("Reader: half the work a record, since it takes 35 % of the CPU time"));
  CHECK_FALSE(cores.says("FanOut: half"));
  report = fan_out({{0.25, 0.8}, {0.2, 0.8}});
  report.processors = 2;
  report.cpu_s = 20;
  const Judged shared{report}; // by all devices
  check_names(shared, "loop 2", Cause::cores);
  CHECK(shared.says("twice the processors: "));
  CHECK_FALSE(shared.says("for each device"));

  // What hands slots on waits nearly all the time; the copiers tell whether the ring is too small.
  report = fan_out({{0.25, 0.3}, {0.2, 0.3}});
  report.stages[0].depth = 2;
  CHECK(Judged{report}.verdict.stage != "Reader");
  report.stages[2].starved_s = std::exchange(report.stages[2].blocked_s, 0);
  CHECK(Judged{report}.verdict.stage != "Reader"); // the other one has slots
  report.stages[4].starved_s = std::exchange(report.stages[4].blocked_s, 0);
  const Judged ring{report};
  check_names(ring, "Reader", Cause::depth);
  CHECK(ring.says("the AsyncCopier behind it waits for input"));
}

TEST_CASE("of a FanOut it names the device whose thread has asked for no batch") {
  ps::Report report = fan_out({{0.25, 0.3}, {0.2, 0.99}});
  report.stages[5].records = 0;
  report.stages[5].calling_s = report.stages[5].queued_s = 0;
  const Judged judged{report};
  check_names(judged, "loop 2", Cause::host_work);
  CHECK(judged.says("has asked for no batch; its device is number 1 of 2"));
  CHECK(judged.verdict.advice.empty());
  report.stages[5].records = 1;
  CHECK(Judged{report}.says("the loop's body has 99 % of the run"));
}

TEST_CASE("of workers that were at work for a part of a run it says who waited for them") {
  ps::Report report = by_hand({{Kind::reader, 0.1}, {Kind::decoder, 0.8}, {Kind::consumer, 0.4}});
  report.waited_s = 6;
  report.stages[1].busy_in_waits_s = 5.5;
  CHECK(
      Judged{report}.says("Decoder: too few workers: it is at work for 80 % of the run, and "
                          "processors are free; the last stage waits for it for 55 % of the run"));
  report.stages[1].workers = 10;
  CHECK(
      Judged{report}.says("of its 10 workers 8.0 are at work on average, and processors are free; "
                          "the last stage waits for it for 55 % of the run"));
  report.stages[1].busy_s = 9.5;
  report.stages[1].starved_s = 0.5;
  CHECK_FALSE(Judged{report}.says("waits for"));
}

TEST_CASE("what held back in one half of a run, and what did in the other") {
  SimulatedPipeline pipeline;
  pipeline.stages = {sleeping(Kind::reader, 1, 1e-3), sleeping(Kind::decoder, 1, 0.2e-3),
                     sleeping(Kind::consumer, 1, 0.4e-3)};
  pipeline.stages[2].depth = 0;
  pipeline.stages[0].later = 0.1; // the second half comes from memory
  const Judged judged{pipeline};
  INFO(judged.text());
  CHECK(judged.verdict.stage == "Reader");
  CHECK(judged.verdict.advice.at(0).at_most);
  CHECK(judged.verdict.advice.at(0).gain < 2);
}

TEST_CASE("any Report at all has a verdict of plain numbers") {
  Dice dice{7};
  const auto any = [&] { return dice.one_in(4) ? 0.0 : dice.between(1e-9, 1e6); };
  const auto count = [&] { return dice.one_in(4) ? 0U : dice.whole(0, 100); };
  for (int i = 0; i != 3000; ++i) {
    ps::Report report;
    report.seconds = any();
    report.cpu_s = any();
    report.processors = count();
    report.waited_s = any();
    report.storage_bytes = count();
    report.epochs = count();
    report.device_memory = dice.one_in(2) ? 0 : std::uint64_t{1} << 40;
    report.observed = dice.one_in(2);
    report.throttled_s = dice.one_in(4) ? any() : 0;
    if (dice.one_in(3)) {
      report.gpu.emplace();
      report.gpu->kernel_s = any();
    }
    for (unsigned stages = dice.whole(0, 6); stages != 0; --stages) {
      ps::StageReport stage;
      stage.name = "Stage " + std::to_string(stages);
      stage.kind = static_cast<Kind>(dice.whole(0, 10));
      stage.workers = count();
      stage.records = count();
      stage.bytes = count();
      stage.units = count();
      stage.busy_s = any();
      stage.starved_s = any();
      stage.blocked_s = any();
      stage.busy_in_waits_s = any();
      stage.unit_p50_s = any();
      stage.unit_p99_s = any();
      stage.calling_s = dice.one_in(2) ? 0 : any();
      stage.calls.launches = count();
      stage.calls.wait_s = any();
      stage.calls.copy_s = any();
      stage.busy_now = count();
      stage.cpu_share = any();
      stage.depth = count();
      stage.slot_bytes = count();
      report.stages.push_back(stage);
    }
    const Judged judged{report};
    INFO(judged.text());
    bool good = !judged.says("nan") && !judged.says("inf") && !judged.says("-> 0");
    for (const ps::Advice& advice : judged.verdict.advice) {
      good = good && advice.gain >= 1 && advice.gain <= 10.01;
    }
    const std::string& stage = judged.verdict.stage;
    good = good &&
           (stage.empty() ||
            report.stages
                    .at(ps::detail::limiting_stage(report.stages, report.seconds, report.waited_s))
                    .name == stage);
    REQUIRE(good);
  }
}

TEST_CASE("a verdict as JSON has its text, and each member by its name") {
  ps::Verdict verdict;
  verdict.stage = "Reader";
  verdict.cause = Cause::disk;
  verdict.or_cause = Cause::too_few_workers;
  verdict.evidence = "it reads";
  verdict.trial = "run it";
  verdict.worth_it = true;
  verdict.advice.push_back({"Reader: .workers 1 -> 2", 1.5, "all cores", true});
  CHECK(ps::to_json(verdict).text() ==
        R"({"verdict": "Reader: disk, or too few workers: it reads.\u000a  To tell: run it.\u000a)"
        R"(  Reader: .workers 1 -> 2: at most x 1.5; then all cores are in use\u000a", )"
        R"("stage": "Reader", "cause": "disk", "or": "too few workers", "evidence": "it reads", )"
        R"("trial": "run it", "worth_it": true, "advice": [{"change": "Reader: .workers 1 -> 2", )"
        R"("gain": 1.5, "at_most": true, "next": "all cores"}]})");
  CHECK(ps::to_json(ps::Verdict{}).text().find(R"("or": null)") != std::string::npos);
}

// Of many pipelines: whether the stage that a verdict names is the one whose speed-up gains most,
// and whether advice gains what it promises.
namespace {

struct Score {
  int pipelines{};
  int right{};
  int in_vain{}; // blamed a stage that could be faster, and nothing would be gained
  int promises{};
  int kept{};
  std::string misses;
};

bool names_right(const Judged& judged, const SimulatedPipeline& pipeline, double rate,
                 Score& score) {
  const ps::Verdict& verdict = judged.verdict;
  if (verdict.stage.empty()) {
    return true;
  }
  double most = 1;
  double named = 1;
  for (std::size_t i = 0; i != pipeline.stages.size(); ++i) {
    const double gain = SimulatedRun{sped_up(pipeline, i, 1.5)}.rate() / rate;
    most = std::max(most, gain);
    named = judged.report.stages[i].name == verdict.stage ? gain : named;
  }
  if (verdict.cause == Cause::cores || verdict.cause == Cause::depth ||
      verdict.cause == Cause::too_few_units) { // not the stage's speed: their promises are checked
    return true;
  }
  const bool right =
      named - 1 >= 0.5 * (most - 1) || most < 1.03 || (!verdict.worth_it && most < 1.12);
  score.in_vain += !right && named < 1.01 ? 1 : 0;
  return right;
}

Score score_of(std::uint64_t first, std::uint64_t pipelines, std::uint64_t most_slots) {
  Score score;
  for (std::uint64_t seed = first; seed != first + pipelines; ++seed) {
    SimulatedPipeline pipeline = random_pipeline(seed);
    pipeline.slots = std::min(pipeline.slots, 1 + seed % most_slots);
    const double rate = SimulatedRun{pipeline}.rate();
    const Judged judged{pipeline};
    ++score.pipelines;
    const bool right = names_right(judged, pipeline, rate, score);
    score.right += right ? 1 : 0;
    std::ostringstream miss;
    for (const ps::Advice& advice : judged.verdict.advice) {
      // What the simulation cannot follow.
      if (advice.change.find("ps::replayed: one") != std::string::npos ||
          advice.change.starts_with("leave it out")) {
        continue;
      }
      const double gain = std::min(
          SimulatedRun{advised(pipeline, judged.report, judged.verdict, advice)}.rate() / rate,
          10.0);
      const bool kept = gain <= 1.2 * advice.gain && (advice.at_most || gain >= 0.8 * advice.gain);
      ++score.promises;
      score.kept += kept ? 1 : 0;
      if (!kept) {
        miss << advice.change << ": " << advice.gain << ", gained " << gain << '\n';
      }
    }
    if (!right) {
      miss << "wrong: " << judged.report << judged.text();
    }
    score.misses += miss.str().empty() ? "" : "seed " + std::to_string(seed) + ": " + miss.str();
  }
  return score;
}

} // namespace

TEST_CASE("of pipelines at random it names what binds, blames none in vain, and keeps promises") {
  const Score score = score_of(30'001, thorough() ? 2000 : 100, 1'000'000);
  INFO(score.misses);
  CHECK(score.right >= 0.99 * score.pipelines);
  CHECK(score.in_vain <= 0.01 * score.pipelines);
  CHECK(score.kept >= 0.95 * score.promises);
}

TEST_CASE("of short runs too, or it says that they are too short") {
  const Score score = score_of(40'001, thorough() ? 2000 : 200, 50);
  INFO(score.misses);
  CHECK(score.right >= 0.98 * score.pipelines);
  CHECK(score.in_vain <= 0.01 * score.pipelines);
  CHECK(score.kept >= 0.9 * score.promises);
}

TEST_CASE("a Kernel in place, which holds slots that stages behind it hold, lacks none") {
  ps::Report report;
  report.seconds = 1;
  report.processors = 16;
  report.cpu_s = 2;
  report.device = "host";
  report.waited_s = 0.2;
  report.stages = {{.name = "Reader",
                    .kind = Kind::reader,
                    .workers = 2,
                    .bytes = 1 << 30,
                    .busy_s = 0.1,
                    .blocked_s = 0.9,
                    .units = 1024,
                    .depth = 48,
                    .depth_in_use = 48,
                    .slot_bytes = 1 << 20,
                    .ring_bytes = 48 << 20,
                    .note = {}},
                   {.name = "AsyncCopier",
                    .kind = Kind::copy_to_device,
                    .workers = 1,
                    .bytes = 1 << 30,
                    .busy_s = 0.1,
                    .blocked_s = 0.9,
                    .depth = 9,
                    .depth_in_use = 8,
                    .slot_bytes = 4 << 20,
                    .ring_bytes = 36 << 20,
                    .note = {}},
                   {.name = "Kernel",
                    .kind = Kind::kernel,
                    .workers = 1,
                    .bytes = 1 << 30,
                    .busy_s = 0.1,
                    .starved_s = 0.9,
                    .units = 256,
                    .calling_s = 0.01,
                    .depth = 9,
                    .depth_in_use = 8,
                    .slot_bytes = 4 << 20,
                    .note = {}},
                   {.name = "AsyncCopier 2",
                    .kind = Kind::copy_to_host,
                    .workers = 1,
                    .bytes = 1 << 30,
                    .busy_s = 0.1,
                    .starved_s = 0.12,
                    .blocked_s = 0.78,
                    .depth = 48,
                    .depth_in_use = 48,
                    .slot_bytes = 1 << 20,
                    .ring_bytes = 48 << 20,
                    .note = {}},
                   {.name = "Writer",
                    .kind = Kind::writer,
                    .workers = 1,
                    .bytes = 1 << 30,
                    .busy_s = 0.8,
                    .starved_s = 0.2,
                    .units = 1024,
                    .slot_bytes = 1 << 20,
                    .note = {}}};
  const ps::Verdict verdict = ps::judge(report);
  INFO(verdict);
  CHECK(verdict.stage == "Writer");
  CHECK(verdict.cause == Cause::writer);
  report.stages[2].ring_bytes = 36 << 20; // a Kernel with a ring of its own
  CHECK(ps::judge(report).cause == Cause::depth);
}

TEST_CASE("a device that idles for most of the run is not what binds") {
  ps::Report report;
  report.seconds = 0.24;
  report.processors = 16;
  report.cpu_s = 0.1;
  report.device = "host";
  report.waited_s = 0.2;
  report.stages = {{.name = "Reader",
                    .kind = Kind::reader,
                    .workers = 2,
                    .bytes = 1 << 24,
                    .busy_s = 0.001,
                    .units = 64,
                    .depth = 48,
                    .depth_in_use = 40,
                    .slot_bytes = 1 << 18,
                    .ring_bytes = 48 << 18,
                    .note = {}},
                   {.name = "AsyncCopier",
                    .kind = Kind::copy_to_device,
                    .workers = 1,
                    .bytes = 1 << 24,
                    .busy_s = 0.02,
                    .starved_s = 0.22,
                    .depth = 9,
                    .depth_in_use = 1,
                    .slot_bytes = 1 << 18,
                    .ring_bytes = 36 << 18,
                    .note = {}},
                   {.name = "Consumer",
                    .kind = Kind::consumer,
                    .workers = 1,
                    .bytes = 1 << 24,
                    .busy_s = 0.07,
                    .starved_s = 0.17,
                    .units = 64,
                    .calling_s = 0.001,
                    .slot_bytes = 1 << 18,
                    .note = {}}};
  const ps::Verdict verdict = ps::judge(report);
  INFO(verdict);
  CHECK(verdict.cause == Cause::too_short);
  CHECK(verdict.stage.empty());
  CHECK(verdict.advice.empty());
}
