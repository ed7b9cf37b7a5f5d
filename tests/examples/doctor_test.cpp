// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What 17_doctor takes for a workload, and what it tries.

#include "../examples/support/doctor/advice.hpp"
#include "../examples/support/doctor/reading.hpp"
#include "../examples/support/doctor/workload.hpp"

#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/usable.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>

#include <sys/resource.h>

namespace {

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

TEST_CASE("more readers than processors are tried if they wait for what they read") {
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

TEST_CASE("a file that cannot be opened since too many are says how to open more") {
  const auto why = [](const std::string& path) {
    const auto error = penstock::tests::thrown_by<std::system_error>([&] {
      doctor::OpenFile file;
      file.open(path);
    });
    return error ? std::string{error->what()} : std::string{};
  };
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 0;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const std::string refused = why("/proc/self/status");
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(refused.find("raise the limit on open files: ulimit -n") != std::string::npos);
  CHECK(refused.find("check the path") == std::string::npos);
  CHECK(why("/proc/self/status").empty());
  CHECK(why("/proc/self/none").find("check the path") != std::string::npos);
}
