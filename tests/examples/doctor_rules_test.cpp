// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The rules by which 17_doctor finds causes in a WatchSummary, on recorded ones and on some that
// are made up.

#include "../examples/doctor/kernel_rules.hpp"
#include "../examples/doctor/watch_figures.hpp"
#include "../examples/doctor/watch_findings.hpp"
#include "../examples/doctor/watch_print.hpp"

#include "support/catch.hpp"
#include "support/recorded_watches.hpp"

#include <penstock/diagnose/gpu_watch_summary.hpp>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

using namespace doctor;
using penstock::tests::recorded_watches;
using penstock::tests::RecordedWatch;

namespace {

WatchSummary recorded(const std::string& program) {
  for (const RecordedWatch& one : recorded_watches()) {
    if (one.program == program) {
      return one.summary;
    }
  }
  return {};
}
bool names(const WatchSummary& summary, const std::string& page) {
  const std::vector<WatchFinding> found = findings(summary);
  return std::ranges::any_of(found, [&](const WatchFinding& one) { return one.page == page; });
}
std::string text_of(const WatchSummary& summary) {
  std::ostringstream text;
  print(text, summary);
  return text.str();
}
bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A GPU that is busy with good kernels all of the time.
WatchSummary healthy() {
  WatchSummary is;
  is.seconds = 1;
  is.gpu = {.seconds = 1,
            .kernel_s = 0.97,
            .to_device_s = 0.3,
            .copy_s = 0.3,
            .overlap_s = 0.29,
            .busy_s = 0.98,
            .kernels = 2000,
            .copies_to_device = 1000,
            .bytes_to_device = 16'000'000'000};
  is.launches = {2000, 0.01};
  is.waits = {3, 0.9};
  is.copies = {1000, 0.005};
  is.idle = {.launch_s = 0.01, .wait_s = 0.01};
  is.streams = 2;
  is.device_bytes = 2'000'000'000;
  is.device_memory = 80'000'000'000;
  is.memory_bytes_per_s = 3e12;
  is.functions = {{"cudaStreamSynchronize", {3, 0.9}}};
  is.kernels = {{"nvjet_sm90_tst_192x128_64x5_1x2_h_bz_NNT", 1000, 0.7, 132, 1, 384, 168, 200'000},
                {"_Z4normPf", 1000, 0.27, 8192, 1, 256, 32, 0}};
  return is;
}

} // namespace

TEST_CASE(
    "each program of bench/blocking_events, in its first way: the first finding is its page") {
  const auto check = [](const RecordedWatch& one) {
    CAPTURE(one.program, one.summary);
    const std::vector<WatchFinding> found = findings(one.summary);
    REQUIRE_FALSE(found.empty());
    CHECK(found.front().page == one.page);
    CHECK_FALSE(found.front().cause.empty());
    CHECK_FALSE(found.front().evidence.empty());
    CHECK(found.front().cost_s <= 1.0001 * one.summary.seconds);
    CHECK(found.front().hint == (one.page == std::string{"07_kept_activations"}));
  };
  for (RecordedWatch one : recorded_watches()) {
    check(one);                          // of a link that is not known
    one.summary.link_bytes_per_s = 50e9; // as theirs was
    check(one);
  }
}

TEST_CASE("what one recording cannot part is called \"a or b\"") {
  const std::vector<WatchFinding> step = findings(recorded("08_optimizer, its step alone"));
  REQUIRE_FALSE(step.empty());
  CHECK(step.front().or_page == "08_optimizer");
  const std::vector<WatchFinding> layout = findings(recorded("05_memory_layout"));
  REQUIRE_FALSE(layout.empty());
  CHECK(holds(layout.front().or_cause, "computes much"));
  CHECK(findings(recorded("04_tiny_kernels")).front().or_page.empty());
}

TEST_CASE("a GPU that is busy with good kernels is not blamed, and one that did nothing neither") {
  CHECK(findings(healthy()).empty());
  CHECK(holds(text_of(healthy()),
              "Nothing costs a tenth of the time: kernels ran in 97.0 % of it, copies in 30.0 %"));
  CHECK(findings(WatchSummary{}).empty());
  WatchSummary nothing;
  nothing.seconds = 2;
  CHECK(findings(nothing).empty());
  CHECK(text_of(nothing) == "GPU idle: nothing ran on it in 2.00 s\n");
}

TEST_CASE("an idle GPU is not called healthy where no rule names the cause") {
  WatchSummary is = healthy();
  is.gpu.kernel_s = 0.2;
  is.gpu.to_device_s = is.gpu.copy_s = is.gpu.overlap_s = 0;
  is.gpu.busy_s = 0.2;
  is.idle = {.other_s = 0.05, .elsewhere_s = 0.75, .gaps = 2}; // it got its data, once
  CHECK(findings(is).empty());
  CHECK(holds(text_of(is), "No rule tells why: while the GPU was idle, no thread was in "
                           "a call of CUDA for 75.0 % of the time (2 times), and threads called "
                           "CUDA for 5.00 % of it; kernels ran in 20.0 % of it"));
  CHECK_FALSE(holds(text_of(is), "Nothing costs"));
}

TEST_CASE("only copies to the GPU and back, again and again, take turns with kernels") {
  WatchSummary is = healthy();
  is.gpu.kernel_s = 0.5;
  is.gpu.to_device_s = 0.45;
  is.gpu.copy_s = 0.45;
  is.gpu.overlap_s = 0;
  is.gpu.busy_s = 0.95;
  CHECK(names(is, "11_one_stream"));
  is.gpu.copies_to_device = 3; // what it loads at its start
  CHECK_FALSE(names(is, "11_one_stream"));
  is.gpu.copies_to_device = 0;
  is.gpu.other_copies = 1000; // within the GPU
  is.gpu.to_device_s = 0;
  CHECK(findings(is).empty());
  is.gpu.copies_to_device = 1000;
  CHECK(findings(is).empty());
}

TEST_CASE("each cause has a threshold") {
  WatchSummary is = healthy();
  is.idle.elsewhere_s = 0.09;
  is.idle.gaps = 100;
  CHECK(findings(is).empty());
  is.idle.elsewhere_s = 0.11;
  CHECK(names(is, "02_waiting_for_data"));
  is.idle.gaps = 7; // no loop
  CHECK(findings(is).empty());

  is = healthy();
  is.link_bytes_per_s = 20e9;
  is.pageable = {100, 1'000'000'000, 0.14}; // 0.05 s of it are the link's
  CHECK(findings(is).empty());
  is.pageable.seconds = 0.16;
  CHECK(names(is, "01_pageable_copies"));

  is = healthy();
  is.allocations = {1000, 0.2};
  is.loop = {1000, {500, 0.1}, {}};
  is.idle.allocation_s = 0.15;
  CHECK(names(is, "10_sync_per_item"));
  is.idle.allocation_s = 0.09;
  CHECK(findings(is).empty());

  is = healthy();
  is.gpu.overlap_s = 0.01;
  is.gpu.kernel_s = 0.6;
  is.gpu.to_device_s = 0.3;
  is.gpu.busy_s = 0.89;
  CHECK(names(is, "11_one_stream"));

  is = healthy();
  is.page_locked = 20'000'000'000;
  is.page_locks = {1, 0.15};
  is.idle.setup_s = 0.15;
  CHECK(names(is, "12_pinning_a_copy"));
  is.page_locked = 50'000'000; // a ring
  CHECK_FALSE(names(is, "12_pinning_a_copy"));

  is = healthy();
  is.in_a_row = {20, 3000, 0.04, 0.03};
  CHECK(findings(is).empty());
  is.in_a_row.seconds = 0.06;
  CHECK(names(is, "08_optimizer"));
}

TEST_CASE("allocations of a program's set-up are not blamed") {
  // A model's 300 tensors, each allocated and filled by a kernel, while the GPU is idle. Then comes
  // the loop.
  WatchSummary is = healthy();
  is.launches = {100'000, 0.1};
  is.allocations = {300, 0.3};
  is.releases = {300, 0.1};
  is.idle.allocation_s = 0.35;
  is.loop = {60'000, {}, {}};
  CHECK(findings(is).empty());
  is.loop = {60'000, {9, 0.009}, {9, 0.003}}; // and a few buffers that grow
  CHECK(findings(is).empty());
  is.waits = {1000, 0.5}; // which are many, but what they cost is little
  CHECK_FALSE(names(is, "10_sync_per_item"));
  is.loop = {60'000, {180, 0.18}, {180, 0.06}}; // all the time
  CHECK(names(is, "10_sync_per_item"));
}

TEST_CASE("page-locked buffers of a program's set-up are not blamed") {
  // A ring is page-locked, and what goes through it is read from a file for most of the time.
  WatchSummary is = healthy();
  is.seconds = is.gpu.seconds = 2;
  is.gpu.bytes_to_device = 90'000'000;
  is.page_locks = {8, 0.03};
  is.allocations = {10, 0.4}; // with cudaMalloc(), which makes CUDA ready
  is.page_locked = 50'000'000;
  is.host_peak_bytes = 400'000'000;
  is.idle = {.elsewhere_s = 0.9, .gaps = 3, .setup_s = 0.4};
  CHECK(findings(is).empty());
  // Data that were read into page-locked memory, of which there is no other copy.
  is.page_locked = is.gpu.bytes_to_device = 1'000'000'000;
  is.host_peak_bytes = 1'200'000'000;
  is.idle.elsewhere_s = 1.2;
  CHECK(findings(is).empty());
  is.host_peak_bytes = 2'200'000'000;
  CHECK(names(is, "12_pinning_a_copy"));
}

TEST_CASE("kernels between products are an optimiser's if they are short, and behind a step") {
  WatchSummary is = healthy();
  is.in_a_row = {10, 400, 0.42, 0.4}; // of a ms each, such as a simulation's
  CHECK(findings(is).empty());
  is.in_a_row = {10, 20'000, 0.42, 0.3};
  CHECK(names(is, "08_optimizer"));
  is.kernels.front().launches = 20; // two products for each row: no training
  CHECK(findings(is).empty());
}

TEST_CASE("a training that keeps its activations is right, unless memory is short") {
  WatchSummary is = healthy();
  is.kernels = {{"nvjet_sm90_tst_192x128_64x5_1x2_h_bz_NNT", 900, 0.5, 132, 1, 384, 168, 200'000},
                {"_ZN5layer8backwardEPf", 100, 0.3, 768, 1, 256, 200, 90'000},
                {"_ZN5layer7forwardEPf", 100, 0.17, 768, 1, 256, 200, 90'000}};
  is.device_bytes = 50'000'000'000;
  const auto found = findings(is);
  REQUIRE(found.size() == 1);
  CHECK(found.front().hint);
  CHECK(holds(text_of(is), "Nothing costs a tenth of the time: kernels ran in 97.0 %"));
  CHECK(holds(text_of(is), "A hint: activations that fill the memory, if that is too small"));
  CHECK_FALSE(holds(text_of(is), "1. "));
  CHECK(holds(json_with_findings(is).text(), "\"hint\": true"));

  is.idle.elsewhere_s = 0.2; // something else is to blame: no hint
  is.idle.gaps = 100;
  REQUIRE(findings(is).size() == 1);
  CHECK(findings(is).front().page == "02_waiting_for_data");

  is.idle = {};
  is.device_bytes = 70'000'000'000;
  REQUIRE(findings(is).size() == 1);
  CHECK(findings(is).front().page == "07_kept_activations");
  CHECK_FALSE(findings(is).front().hint);
  CHECK(holds(text_of(is), "1. activations that fill the memory: "));

  is.kernels.back().launches = 190; // most of forward runs again
  CHECK(findings(is).empty());
}

TEST_CASE("copies of pageable memory are slow by what the link does") {
  WatchSummary is = healthy();
  is.pageable = {100, 10'000'000'000, 0.9}; // 11.1 GB/s
  CHECK(findings(is).empty());              // what PCIe 3 does
  is.link_bytes_per_s = 12.6e9;
  CHECK(names(is, "01_pageable_copies")); // 0.11 s
  is.link_bytes_per_s = 12.2e9;
  CHECK(findings(is).empty());
  is.link_bytes_per_s = 50e9;
  CHECK(names(is, "01_pageable_copies"));
  is.page_locked_bytes_per_s = 12e9; // which is what it does here
  CHECK(findings(is).empty());
  is.page_locked_bytes_per_s = 25e9;
  CHECK(names(is, "01_pageable_copies"));
  CHECK(holds(text_of(is), "at 11.1 GB/s, where page-locked memory reaches 25.0 GB/s"));
}

TEST_CASE("a copy that waits is a wait") {
  WatchSummary is = healthy();
  is.gpu.busy_s = is.gpu.kernel_s = 0.5;
  is.gpu.to_device_s = is.gpu.overlap_s = is.gpu.copy_s = 0;
  is.launches = {2000, 0.02};
  is.waits = {};
  is.idle = {.copy_s = 0.45, .launch_s = 0.04};
  is.functions = {{"cudaMemcpyAsync", {2000, 0.4}}};
  CHECK_FALSE(names(is, "10_sync_per_item"));
  is.functions = {{"cudaMemcpy", {2000, 0.4}}};
  CHECK(names(is, "10_sync_per_item"));
  CHECK(holds(text_of(is), "0 waits (0.000 ms) and 2000 copies that wait (400 ms)"));
}

TEST_CASE("kernels are known by the names that libraries give them") {
  for (const char* plain :
       {"ampere_sgemm_128x64_tn", "cutlass_80_simt_sgemm_256x128_8x4_tn_align1",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_ffma_execute"}) {
    CAPTURE(plain);
    CHECK(is_plain_product(plain));
  }
  for (const char* tensor : {"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_tn",
                             "cutlass_80_tensorop_s1688gemm_128x256_16x3_tn_align4",
                             "nvjet_sm90_tst_192x192_64x4_1x2_h_bz_coopB_bias_TNN",
                             "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64"}) {
    CAPTURE(tensor);
    CHECK_FALSE(is_plain_product(tensor));
  }
  CHECK(is_softmax("_ZN2at6native12_GLOBAL__N_120softmax_warp_forwardIfffLi8ELb0ELb0EEEvPT0_"));
  CHECK(is_softmax("_ZN2at6native18cunn_SoftMaxForwardILi4EfffEEvPT2_"));
  CHECK_FALSE(is_softmax("_ZN5flash16flash_fwd_kernelI7softmaxEEv"));
}

TEST_CASE("a summary prints what was asked, what it cost, and the page with the cure") {
  const std::string text = text_of(recorded("10_sync_per_item"));
  CAPTURE(text);
  CHECK(holds(text, "GPU idle 93.8 % of 0.54 s: 3000 waits (cudaStreamSynchronize, "));
  CHECK(holds(text, "6000 allocations (cudaMalloc, "));
  CHECK(holds(text, "6000 copies (cudaMemcpyAsync, "));
  CHECK(holds(text, "), all of pageable memory, 3000 launches (cudaLaunchKernelExC, "));
  CHECK(holds(text, "1. a wait for each item, up to "));
  CHECK(holds(text, "Cure: docs/blocking_events/10_sync_per_item.md\n"));
  CHECK(
      holds(text, "kernel penstock_bench::sum_kernel<penstock_bench::Record<65536ul>, Put>: 3000"));
  WatchSummary lost = healthy();
  lost.gpu.dropped = 3;
  lost.late = 4;
  CHECK(holds(text_of(lost), "3 records were lost"));
  CHECK(holds(text_of(lost), "4 records of the GPU's work came late"));
}

TEST_CASE("a summary as JSON has its findings and figures") {
  const std::string json = json_with_findings(recorded("10_sync_per_item")).text();
  CAPTURE(json);
  CHECK(holds(json, "{\"seconds\": 0.5"));
  CHECK(holds(
      json, "\"findings\": [{\"cause\": \"a wait for each item\", \"page\": \"10_sync_per_item\""));
  CHECK(holds(json, "\"waits\": {\"calls\": 3000, \"seconds\": "));
  CHECK(holds(json, "\"name\": \"cudaMalloc\", \"calls\": 6000"));
  CHECK(holds(json, "\"pageable\": {\"copies\": 6000"));
}
