// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What 17_doctor takes for a workload, what it tries, and what it says.

#include "../examples/doctor/advice.hpp"
#include "../examples/doctor/findings.hpp"
#include "../examples/doctor/print.hpp"
#include "../examples/doctor/reading.hpp"
#include "../examples/doctor/workload.hpp"

#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/machine/usable.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <system_error>

namespace {

namespace ps = penstock;

/// A sample of so many MiB of a file of so many bytes.
doctor::Data sample(std::size_t pieces, std::uint64_t all_bytes) {
  doctor::Data data;
  data.all_files = 1;
  data.all_bytes = all_bytes;
  data.paths = {"file"};
  for (std::size_t i = 0; i < pieces; ++i) {
    data.pieces.push_back({0, i * doctor::mib, doctor::mib});
  }
  data.used = pieces;
  return data;
}

/// Of a run of a Reader, an AsyncCopier and a Consumer for two seconds, of 4 MiB batches. The stage
/// `busy` was at work all the time, and the others for a hundredth of it.
ps::Report run_of(std::size_t busy, const std::string& device, std::size_t batch_bytes = 4 << 20,
                  std::uint64_t batches = 1000) {
  ps::Report report;
  report.seconds = 2;
  report.cpu_s = 0.5;
  report.processors = 8;
  report.device = device;
  report.epochs = 1;
  report.bytes = report.records = report.records_in_all = batch_bytes * batches;
  const std::array names{"Reader", "AsyncCopier", "Consumer"};
  const std::array kinds{ps::StageKind::reader, ps::StageKind::copy_to_device,
                         ps::StageKind::consumer};
  for (std::size_t i = 0; i < names.size(); ++i) {
    ps::StageReport stage;
    stage.name = names[i];
    stage.kind = kinds[i];
    stage.workers = stage.workers_used = 1;
    stage.records = stage.bytes = report.bytes;
    stage.units = batches;
    stage.slot_bytes = batch_bytes;
    stage.depth = i == 2 ? 0 : 16;
    stage.busy_s = i == busy ? report.seconds : report.seconds / 100;
    (i <= busy ? stage.blocked_s : stage.starved_s) = report.seconds - stage.busy_s;
    report.stages.push_back(stage);
  }
  report.stages[2].calling_s = 1e-6;
  report.stages[2].queued_s = busy == 2 ? report.seconds : 0;
  report.waited_s = busy == 2 ? 0 : report.seconds;
  report.stages[busy].busy_in_waits_s = report.waited_s;
  return report;
}
constexpr const char* gpu = "cuda:0 H200";

doctor::Limits limits_of(double copies_gb_per_s) {
  doctor::Limits limits;
  limits.add("page_cache_1_thread_gb_per_s", 8);
  limits.add("host_copy_1_thread_gb_per_s", copies_gb_per_s);
  limits.add("pipeline_batches_per_s", 1e6);
  return limits;
}
doctor::Workload work_of(double kernel_s, std::size_t batch_bytes = 4 << 20) {
  return {.batch_bytes = batch_bytes,
          .kernel_s = kernel_s,
          .from_disk = false,
          .data_bytes = std::uint64_t{1} << 30,
          .asked_bytes = batch_bytes};
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a batch is no larger than the sample, and than what is read in two seconds") {
  using doctor::mib;
  const std::size_t asked = 512 * mib;
  doctor::Limits fast;
  fast.add("page_cache_1_thread_gb_per_s", 5);
  CHECK(doctor::workload_on(sample(600, 600 * mib), fast, asked, 5).batch_bytes == asked);
  CHECK(doctor::workload_on(sample(300, 300 * mib), fast, asked, 5).batch_bytes == 300 * mib);
  CHECK(doctor::workload_on(sample(600, 600 * mib), {}, asked, 5).batch_bytes == asked);

  // Data that do not fit into memory, on a disk that one thread reads slowly: some batches of half
  // a GiB would take a minute.
  doctor::Limits slow = fast;
  slow.add("disk_cold_1_thread_gb_per_s", 0.05);
  const std::uint64_t all = std::uint64_t{1} << 60;
  const doctor::Workload work = doctor::workload_on(sample(600, all), slow, asked, 5);
  CHECK(work.from_disk);
  CHECK(work.batch_bytes == 95 * mib);
  CHECK(doctor::workload_on(sample(600, all), slow, 4 * mib, 5).batch_bytes == 4 * mib);
  slow = {};
  slow.add("page_cache_1_thread_gb_per_s", 1e-6);
  CHECK(doctor::workload_on(sample(600, 600 * mib), slow, asked, 5).batch_bytes == mib);
}

TEST_CASE("more readers than processors are tried if they wait for the disk") {
  using penstock::Cause;
  penstock::Report report;
  report.stages.resize(2);
  penstock::StageReport& reader = report.stages.front();
  reader.workers = penstock::usable_processors();
  reader.cpu_share = reader.workers;
  CHECK(doctor::cure(report, Cause::too_few_workers, 4.5).workers == reader.workers + 1);
  reader.workers = 2;
  reader.cpu_share = 0.02;
  CHECK(doctor::cure(report, Cause::too_few_workers, 4.5).workers == 9);
  CHECK(doctor::cure(report, Cause::too_few_workers, 100).workers == 16);
  reader.workers = 8;
  CHECK(doctor::cure(report, Cause::too_few_workers, 100).workers == 32);
}

TEST_CASE("without a GPU copies bind in memory, and not on a bus") {
  const doctor::Diagnosis here = doctor::diagnose(run_of(1, "host"), limits_of(2.5), work_of(0));
  CHECK(here.stage == "AsyncCopier");
  CHECK(here.cause == "copies in memory");
  CHECK(here.verdict.starts_with("AsyncCopier: copies in memory: copies run for 100 % of the run"));
  REQUIRE(here.advice.size() == 1);
  CHECK(here.advice[0].change == "half the bytes a record: narrower types");
  for (const char* part : {"bus", "two devices", "link", "on the device"}) {
    INFO(part);
    CHECK_FALSE(has(here.verdict, part));
  }
  const doctor::Diagnosis there = doctor::diagnose(run_of(1, gpu), limits_of(2.5), work_of(0));
  CHECK(there.cause == "bus");
  CHECK(there.advice.size() == 2);
  CHECK(has(there.verdict, "two devices"));
}

TEST_CASE("a kernel binds only if one was asked for that takes the time") {
  for (const char* device : {"host", gpu}) {
    INFO(device);
    const ps::Report report = run_of(2, device);
    const doctor::Diagnosis with = doctor::diagnose(report, limits_of(10), work_of(2e-3));
    CHECK(with.cause == "kernel");
    CHECK(has(with.verdict, "what stands for your kernel runs for at most 100 % of the run"));
    const doctor::Diagnosis without = doctor::diagnose(report, limits_of(10), work_of(0));
    CHECK(without.cause == "batches too small");
    CHECK(without.advice.empty()); // a batch of 4 MiB is none
  }
}

TEST_CASE("copies of a few bytes are blamed on their number") {
  const ps::Report report = run_of(1, "host", 1, 100'000);
  const doctor::Diagnosis tiny = doctor::diagnose(report, limits_of(5), work_of(0, 1));
  CHECK(tiny.cause == "batches too small");
  CHECK(tiny.stage == "AsyncCopier");
  CHECK(ps::detail::bytes_of(1) == "1 byte");
  CHECK(has(tiny.verdict, "a batch of 1 byte takes 20.0 us, of which its copy takes less than"));
  REQUIRE(tiny.advice.size() == 1);
  CHECK(tiny.advice[0].change == "AsyncCopier: a .batch of 4194304 bytes");
  CHECK(tiny.advice[0].gain == 10);
  doctor::Workload all = work_of(0, 1);
  all.data_bytes = 1; // there is no larger batch
  CHECK(doctor::diagnose(report, limits_of(5), all).advice.empty());
}

TEST_CASE("a larger batch is advised only if it gains a tenth") {
  const ps::Report report = run_of(1, "host", 1, 100'000);
  const double now = static_cast<double>(report.bytes) / report.seconds / 1e9;
  for (const double gain : {1.09, 1.2}) {
    INFO(gain);
    doctor::Limits limits;
    limits.add("page_cache_1_thread_gb_per_s", now * gain);
    limits.add("host_copy_1_thread_gb_per_s", 5);
    const doctor::Diagnosis found = doctor::diagnose(report, limits, work_of(0, 1));
    CHECK(found.cause == "batches too small");
    CHECK(found.advice.size() == (gain < 1.1 ? 0 : 1));
    CHECK(has(found.verdict, "AsyncCopier: a .batch of") == (gain > 1.1));
  }
}

TEST_CASE("what the disk gives limits the first pass") {
  doctor::Findings found;
  found.limits = limits_of(5);
  found.work = work_of(0);
  found.first = run_of(1, "host");
  CHECK(doctor::at_most(found).what == "copies in memory");
  CHECK(doctor::at_most(found).gb_per_s == 5);
  CHECK_FALSE(doctor::at_most_first(found)); // it was not measured
  found.limits.add("disk_direct_1_thread_gb_per_s", 0.5);
  REQUIRE(doctor::at_most_first(found));
  CHECK(doctor::at_most_first(found)->what == "disk");
  CHECK(doctor::at_most_first(found)->gb_per_s == 0.5);
  CHECK(doctor::at_most(found).gb_per_s == 5);
  CHECK(doctor::bounds(found.limits, found.work, true).front().what == "disk");
  // What was reached can be reached.
  found.first_pass = {.pipeline = 0.6, .plain_loop = 0.3};
  CHECK(doctor::at_most_first(found)->gb_per_s == 0.6);
  found.work.from_disk = true;
  CHECK(doctor::at_most(found).what == "disk");
  CHECK(doctor::plain_loop_gb_per_s(found.limits, found.work) > 0.4);
}

TEST_CASE("a pipeline is worth it if it is on the first pass or on later ones") {
  doctor::Findings found;
  found.limits = limits_of(5);
  found.work = work_of(0);
  found.first = run_of(1, "host");
  const double rate = doctor::gb_per_s(found.first);
  found.plain_loop = rate / 2;
  CHECK(doctor::is_worth_it(found));
  CHECK(doctor::worth(found).starts_with("A pipeline is worth it: a pipeline reaches 2.10 GB/s"));
  found.plain_loop = 2 * rate;
  CHECK_FALSE(doctor::is_worth_it(found));
  CHECK(doctor::worth(found).starts_with("A pipeline is not worth it: "));
  found.first_pass = {.pipeline = 0.6, .plain_loop = 0.3};
  CHECK(doctor::is_worth_it(found));
  CHECK(has(doctor::worth(found), "A pipeline is worth it on the first pass, from the disk: "));
  CHECK(has(doctor::worth(found), "A pipeline is not worth it on later passes"));
  // One batch, which nothing can overlap with.
  found.plain_loop = rate / 2;
  found.work.data_bytes = found.work.batch_bytes;
  CHECK_FALSE(doctor::is_worth_it(found));
  CHECK(has(doctor::worth(found), "A smaller --batch"));
  found.work.data_bytes = 1;
  CHECK_FALSE(has(doctor::worth(found), "A smaller --batch"));
}

TEST_CASE("JSON says what the text says") {
  doctor::Findings found;
  found.limits = limits_of(5);
  found.work = work_of(0);
  found.first = run_of(1, "host");
  found.diagnosis = doctor::diagnose(found.first, found.limits, found.work);
  found.plain_loop = 1;
  std::ostringstream json;
  doctor::print_json(json, found);
  for (const char* part :
       {"\"first_pass_gb_per_s\": 5, \"first_pass_limit\": \"copies in memory\"",
        "\"later_passes_gb_per_s\": 5, \"later_passes_limit\": \"copies in memory\"",
        "\"worth_it\": true", "\"cause\": \"copies in memory\""}) {
    INFO(json.str());
    CHECK(has(json.str(), part));
  }
  found.limits.add("disk_cold_1_thread_gb_per_s", 0.5);
  found.plain_loop = 9;
  json.str("");
  doctor::print_json(json, found);
  CHECK(has(json.str(), "\"first_pass_gb_per_s\": 0.5, \"first_pass_limit\": \"disk\""));
  CHECK(has(json.str(), "\"worth_it\": false"));
  std::ostringstream text;
  doctor::print_text(text, found);
  for (const char* part : {"no GPU.", "limit: disk", "The first pass, from the disk:",
                           "a pipeline, at most                           0.50 GB/s (disk)",
                           "Later passes, from the page cache:", "(each record is a byte)"}) {
    INFO(part);
    CHECK(has(text.str(), part));
  }
  found.work.asked_bytes = std::size_t{8} << 20;
  text.str("");
  doctor::print_text(text, found);
  CHECK(has(text.str(), "batches of 4194304 bytes (8388608 bytes are too many to measure with)"));
}

TEST_CASE("a file that cannot be opened says what to do") {
  const auto why = [](const std::string& path) {
    const auto error = penstock::tests::thrown_by<std::system_error>([&] {
      doctor::OpenFile file;
      file.open(path);
    });
    return error ? std::string{error->what()} : std::string{};
  };
  CHECK(why("/proc/self/status").empty());
  CHECK(why("/proc/self/none").find(doctor::cure_of(ENOENT)) != std::string::npos);
  // Sanitizers need files of their own to look at an exception: the limit is not lowered here.
  CHECK(std::string{doctor::cure_of(EMFILE)} == "raise the limit on open files: ulimit -n");
  CHECK(std::string{doctor::cure_of(ENFILE)} == doctor::cure_of(EMFILE));
  CHECK(std::string{doctor::cure_of(ENOENT)} == "check the path, and the right to read it");
}
