// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How CUPTI's records are read, with a CUPTI of the test's own in its place: no test needs a GPU or
// libcupti.

#include <penstock/diagnose/detail/cupti.hpp>

#include "support/catch.hpp"
#include "support/caught.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

using namespace penstock;
using detail::ActivityLog;
using detail::GpuWork;
using tests::caught;
using tests::has;

namespace {

/// The state of the CUPTI below.
struct Fake {
  CUpti_BuffersCallbackRequestFunc requested = nullptr;
  CUpti_BuffersCallbackCompleteFunc completed = nullptr;
  std::set<CUpti_ActivityKind> enabled;
  CUpti_ActivityKind refused = CUPTI_ACTIVITY_KIND_INVALID;
  CUptiResult refusal = CUPTI_SUCCESS;
  CUptiResult flush = CUPTI_SUCCESS;
  std::size_t dropped = 0;
  std::vector<std::vector<std::uint8_t>> records;
  std::vector<std::size_t> sizes; // of the records in the buffer handed over

  template <class Record> void add(const Record& record) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&record);
    records.emplace_back(bytes, bytes + sizeof record);
  }
  /// Hands over the records added, as CUPTI's thread does.
  void deliver() {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0;
    std::size_t most = 1;
    requested(&buffer, &size, &most);
    REQUIRE(buffer != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer) % 8 == 0);
    CHECK(most == 0);
    std::size_t valid = 0;
    sizes.clear();
    for (const auto& record : records) {
      REQUIRE(valid + record.size() <= size);
      std::memcpy(buffer + valid, record.data(), record.size());
      valid += record.size();
      sizes.push_back(record.size());
    }
    records.clear();
    completed(nullptr, 0, buffer, size, valid);
  }
};
Fake fake;

CUpti_ActivityKernel10 kernel(std::uint64_t start, std::uint64_t end, std::uint32_t device = 0) {
  CUpti_ActivityKernel10 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.start = start;
  record.end = end;
  record.deviceId = device;
  return record;
}
CUpti_ActivityMemcpy6 copy(CUpti_ActivityMemcpyKind kind, std::uint64_t start,
                           std::uint64_t bytes) {
  CUpti_ActivityMemcpy6 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  record.copyKind = static_cast<std::uint8_t>(kind);
  record.start = start;
  record.end = start + 10;
  record.bytes = bytes;
  return record;
}

ActivityLog::Records stop() {
  CUptiResult status = CUPTI_SUCCESS;
  ActivityLog::Records records = ActivityLog::only().stop(status);
  CHECK(status == CUPTI_SUCCESS);
  return records;
}

} // namespace

extern "C" {

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                                    CUpti_BuffersCallbackCompleteFunc completed) {
  fake.requested = requested;
  fake.completed = completed;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (kind == fake.refused) {
    return fake.refusal;
  }
  fake.enabled.insert(kind);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
  fake.enabled.erase(kind);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityFlushAll(std::uint32_t flag) {
  CHECK(flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (!fake.records.empty()) {
    fake.deliver();
  }
  return fake.flush;
}
CUptiResult CUPTIAPI cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid,
                                                CUpti_Activity** record) {
  std::size_t at = 0;
  std::size_t k = 0;
  if (*record != nullptr) {
    const auto last = static_cast<std::size_t>(reinterpret_cast<std::uint8_t*>(*record) - buffer);
    while (at != last) {
      at += fake.sizes.at(k++);
    }
    at += fake.sizes.at(k);
  }
  if (at >= valid) {
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  }
  *record = reinterpret_cast<CUpti_Activity*>(buffer + at);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t,
                                                       std::size_t* dropped) {
  *dropped = fake.dropped;
  fake.dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult, const char** name) {
  *name = "THE_NAME";
  return CUPTI_SUCCESS;
}
}

TEST_CASE("a recording enables what it needs, and leaves nothing enabled") {
  ActivityLog::only().start(0);
  CHECK(fake.enabled == std::set<CUpti_ActivityKind>{
                            CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                            CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET});
  CHECK(stop().intervals.empty());
  CHECK(fake.enabled.empty());
}

TEST_CASE("records of every kind become intervals, in the order in which they began") {
  ActivityLog::only().start(0);
  fake.add(kernel(500, 600));
  fake.add(copy(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 300, 4096));
  fake.deliver();
  fake.add(copy(CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, 200, 512));
  fake.add(copy(CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, 210, 64));
  fake.add(copy(CUPTI_ACTIVITY_MEMCPY_KIND_HTOA, 220, 32));
  fake.add(copy(CUPTI_ACTIVITY_MEMCPY_KIND_ATOH, 230, 16));
  CUpti_ActivityMemset4 memset{};
  memset.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  memset.start = 100;
  memset.end = 150;
  fake.add(memset);
  CUpti_ActivityMemcpyPtoP4 peer{};
  peer.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  peer.start = 50;
  peer.end = 60;
  peer.bytes = 8;
  fake.add(peer);
  CUpti_ActivityAPI other{}; // of a kind that nobody asked for
  other.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  fake.add(other);
  const ActivityLog::Records records = stop();
  CHECK(records.dropped == 0);

  struct Expected {
    std::uint64_t begin, end, bytes;
    GpuWork work;
  };
  const std::vector<Expected> expected{
      {50, 60, 8, GpuWork::other_copy},     {100, 150, 0, GpuWork::kernel},
      {200, 210, 512, GpuWork::to_host},    {210, 220, 64, GpuWork::other_copy},
      {220, 230, 32, GpuWork::to_device},   {230, 240, 16, GpuWork::to_host},
      {300, 310, 4096, GpuWork::to_device}, {500, 600, 0, GpuWork::kernel}};
  REQUIRE(records.intervals.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(records.intervals[i].begin == expected[i].begin);
    CHECK(records.intervals[i].end == expected[i].end);
    CHECK(records.intervals[i].bytes == expected[i].bytes);
    CHECK((records.intervals[i].work == expected[i].work));
  }
}

TEST_CASE("another GPU's records are passed over") {
  ActivityLog::only().start(1);
  fake.add(kernel(10, 20, 0));
  fake.add(kernel(30, 40, 1));
  const ActivityLog::Records records = stop();
  REQUIRE(records.intervals.size() == 1);
  CHECK(records.intervals[0].begin == 30);
  CHECK(records.dropped == 0);
}

TEST_CASE("what CUPTI lost or could not time is counted, and work of no time takes a nanosecond") {
  ActivityLog::only().start(0);
  fake.dropped = 5;
  fake.add(kernel(0, 0));
  fake.add(kernel(70, 0));
  fake.deliver();
  fake.dropped = 2;
  fake.add(kernel(80, 80));
  const ActivityLog::Records records = stop();
  CHECK(records.dropped == 9);
  REQUIRE(records.intervals.size() == 1);
  CHECK(records.intervals[0].end == 81);
}

TEST_CASE("a recording begins with nothing, whatever came before it") {
  ActivityLog::only().start(0);
  fake.add(kernel(1, 2));
  CHECK(stop().intervals.size() == 1);
  fake.dropped = 1;
  fake.add(kernel(3, 4));
  fake.deliver();
  ActivityLog::only().start(0);
  fake.add(kernel(5, 6));
  const ActivityLog::Records records = stop();
  CHECK(records.dropped == 0);
  REQUIRE(records.intervals.size() == 1);
  CHECK(records.intervals[0].begin == 5);
}

TEST_CASE("one recording at a time, and the first goes on") {
  ActivityLog::only().start(0);
  CHECK(has(caught<Error>([] { ActivityLog::only().start(0); }), "stop() that one first"));
  CHECK_FALSE(fake.enabled.empty());
  fake.add(kernel(1, 2));
  CHECK(stop().intervals.size() == 1);
  ActivityLog::only().start(0);
  stop();
}

TEST_CASE("a kind that is refused undoes the others, and the error has the cure") {
  struct Case {
    CUptiResult status;
    const char* cure;
  };
  for (const Case& one : {Case{CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "may not profile"},
                          Case{CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "Another profiler"},
                          Case{CUPTI_ERROR_UNKNOWN, "libcupti.so must be"}}) {
    CAPTURE(one.cure);
    fake.refused = CUPTI_ACTIVITY_KIND_MEMCPY2;
    fake.refusal = one.status;
    const auto error = caught<CuptiError>([] { ActivityLog::only().start(0); });
    fake.refused = CUPTI_ACTIVITY_KIND_INVALID;
    CHECK(has(error, "cuptiActivityEnable failed: THE_NAME"));
    CHECK(has(error, one.cure));
    CHECK(error.status() == one.status);
    CHECK(error.call() == "cuptiActivityEnable");
    CHECK(fake.enabled.empty());
  }
  ActivityLog::only().start(0);
  stop();
}

TEST_CASE("a flush that fails is told, with what has come") {
  ActivityLog::only().start(0);
  fake.add(kernel(1, 2));
  fake.flush = CUPTI_ERROR_UNKNOWN;
  CUptiResult status = CUPTI_SUCCESS;
  const ActivityLog::Records records = ActivityLog::only().stop(status);
  fake.flush = CUPTI_SUCCESS;
  CHECK(status == CUPTI_ERROR_UNKNOWN);
  CHECK(records.intervals.size() == 1);
}
