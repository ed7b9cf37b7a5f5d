// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a WatchSummary tells: facts alone. tests/examples/doctor_rules_test.cpp has what they mean.

#include "support/catch.hpp"
#include "support/recorded_watches.hpp"

#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/diagnose/watch_text.hpp>

#include <sstream>
#include <string>

using namespace penstock;

namespace {

/// Of a wait for each item.
WatchSummary recorded() {
  for (const tests::RecordedWatch& one : tests::recorded_watches()) {
    if (one.program == std::string{"10_sync_per_item"}) {
      return one.summary;
    }
  }
  return {};
}
std::string text_of(const WatchSummary& summary) {
  std::ostringstream text;
  text << summary;
  return text.str();
}
bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a summary prints what was asked and which kernels took longest, and blames nothing") {
  const std::string text = text_of(recorded());
  CAPTURE(text);
  CHECK(holds(text, "GPU idle 93.8 % of 0.54 s: 3000 waits (cudaStreamSynchronize, "));
  CHECK(holds(text, "6000 allocations (cudaMalloc, "));
  CHECK(holds(text, "6000 copies (cudaMemcpyAsync, "));
  CHECK(holds(text, "), all of pageable memory, 3000 launches (cudaLaunchKernelExC, "));
  CHECK(holds(
      text, "\n   kernel penstock_bench::sum_kernel<penstock_bench::Record<65536ul>, Put>: 3000"));
  CHECK_FALSE(holds(text, "Cure"));
  CHECK(text_of({.seconds = 2}) == "GPU idle: nothing ran on it in 2.00 s\n");
}

TEST_CASE("records that were lost or came late are told of") {
  WatchSummary is = recorded();
  CHECK_FALSE(holds(text_of(is), "records"));
  is.gpu.dropped = 3;
  CHECK(holds(text_of(is), "3 records were lost"));
  is.late = 4;
  CHECK(holds(text_of(is), "4 records of the GPU's work came late"));
}

TEST_CASE("a summary as JSON has its figures") {
  const std::string json = to_json(recorded()).text();
  CAPTURE(json);
  CHECK(holds(json, "{\"seconds\": 0.5"));
  CHECK(holds(json, "\"waits\": {\"calls\": 3000, \"seconds\": "));
  CHECK(holds(json, "\"name\": \"cudaMalloc\", \"calls\": 6000"));
  CHECK(holds(json, "\"pageable\": {\"copies\": 6000"));
  CHECK_FALSE(holds(json, "findings"));
}

TEST_CASE("products are known by the names that libraries give them") {
  for (const char* product :
       {"ampere_sgemm_128x64_tn", "cutlass_80_simt_sgemm_256x128_8x4_tn_align1",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_ffma_execute",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_tn",
        "cutlass_80_tensorop_s1688gemm_128x256_16x3_tn_align4",
        "nvjet_sm90_tst_192x192_64x4_1x2_h_bz_coopB_bias_TNN",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64"}) {
    CAPTURE(product);
    CHECK(detail::is_product(product));
  }
  CHECK_FALSE(detail::is_product("_Z4normPf"));
}

TEST_CASE("functions are known by their names, in both interfaces, whatever their version") {
  using detail::cuda_call;
  using detail::CudaCall;
  using detail::plain_name;
  struct Case {
    const char* name;
    CudaCall call;
  };
  for (const Case& one : {Case{"cudaLaunchKernel_v7000", CudaCall::launch},
                          Case{"cudaLaunchKernelExC_ptsz_v11060", CudaCall::launch},
                          Case{"cudaLaunchCooperativeKernel_v9000", CudaCall::launch},
                          Case{"__cudaLaunchKernel_v13000", CudaCall::launch},
                          Case{"__cudaLaunchKernel_ptsz_v13000", CudaCall::launch},
                          Case{"__cudaGetKernel_v13000", CudaCall::other},
                          Case{"cudaGraphLaunch_v10000", CudaCall::launch},
                          Case{"cuLaunchKernelEx", CudaCall::launch},
                          Case{"cudaLaunchHostFunc_v10000", CudaCall::other},
                          Case{"cudaStreamSynchronize_v3020", CudaCall::wait},
                          Case{"cuCtxSynchronize", CudaCall::wait},
                          Case{"cudaStreamWaitEvent_v3020", CudaCall::other},
                          Case{"cudaMemcpyAsync_ptsz_v7000", CudaCall::copy},
                          Case{"cuMemcpyHtoDAsync_v2", CudaCall::copy},
                          Case{"cuMemsetD8Async", CudaCall::copy},
                          Case{"cudaMemcpy2D_v3020", CudaCall::copy},
                          Case{"cudaMemcpy3D_ptds_v7000", CudaCall::copy},
                          Case{"cudaMemset_v3020", CudaCall::copy},
                          Case{"cudaMemDiscardAndPrefetchBatchAsync_v13000", CudaCall::copy},
                          Case{"cuMemcpy_ptds", CudaCall::copy},
                          Case{"cuMemcpy2D_v2", CudaCall::copy},
                          Case{"cuMemcpyAtoH_v2_ptds", CudaCall::copy},
                          Case{"cudaMemGetInfo_v3020", CudaCall::other},
                          Case{"cudaMalloc_v3020", CudaCall::allocation},
                          Case{"cudaMallocAsync_v11020", CudaCall::allocation},
                          Case{"cuMemAlloc_v2", CudaCall::allocation},
                          Case{"cudaMallocPitch_v3020", CudaCall::allocation},
                          Case{"cudaMalloc3D_v3020", CudaCall::allocation},
                          Case{"cuMemAllocPitch_v2", CudaCall::allocation},
                          Case{"cuMipmappedArrayCreate", CudaCall::allocation},
                          Case{"cudaMemPoolTrimTo_v11020", CudaCall::release},
                          Case{"cuCtxSynchronize_v2", CudaCall::wait},
                          Case{"cudaThreadSynchronize_v3020", CudaCall::wait},
                          Case{"cudaMallocHost_v3020", CudaCall::page_lock},
                          Case{"cudaHostAlloc_v3020", CudaCall::page_lock},
                          Case{"cudaHostRegister_v4000", CudaCall::page_lock},
                          Case{"cuMemAllocHost_v2", CudaCall::page_lock},
                          Case{"cudaFree_v3020", CudaCall::release},
                          Case{"cudaHostUnregister_v4000", CudaCall::release},
                          Case{"cuMemFree_v2", CudaCall::release},
                          Case{"cudaEventQuery_v3020", CudaCall::other}}) {
    CAPTURE(one.name);
    CHECK(cuda_call(one.name) == one.call);
  }
  for (const char* waits : {"cudaMemcpy_v3020", "cudaMemcpy2D_ptds_v7000", "cudaMemcpyFromSymbol",
                            "cuMemcpy", "cuMemcpyDtoH_v2", "cuMemcpyAtoH_v2", "cuMemcpy3D_v2"}) {
    CAPTURE(waits);
    CHECK(detail::copy_waits(waits));
  }
  for (const char* goes_on :
       {"cudaMemcpyAsync_v3020", "cudaMemset_v3020", "cuMemcpyDtoD_v2", "cudaMemcpyPeer_v4000",
        "cudaMemcpyBatchAsync_v13000", "cuMemcpyHtoDAsync_v2", "cudaMemcpyArrayToArray_v3020"}) {
    CAPTURE(goes_on);
    CHECK_FALSE(detail::copy_waits(goes_on));
  }
  CHECK(plain_name("__cudaLaunchKernel_v13000") == "cudaLaunchKernel");
  CHECK(plain_name("cudaMemcpyAsync_ptsz_v7000") == "cudaMemcpyAsync");
  CHECK(plain_name("cuMemAlloc_v2") == "cuMemAlloc");
}

TEST_CASE("figures have three digits, and names fit into a line") {
  CHECK(detail::figure(1234.5) == "1234");
  CHECK(detail::figure(12.345) == "12.3");
  CHECK(detail::figure(0.5) == "0.50");
  CHECK(detail::figure(0.0123) == "0.012");
  CHECK(detail::figure_bytes(999) == "999 B");
  CHECK(detail::figure_bytes(1'500'000) == "1.50 MB");
  CHECK(detail::counted(1, "copy", "copies") == "1 copy");
  CHECK(detail::counted(2, "wait") == "2 waits");
  CHECK(detail::source_name("_ZN1a1bIiEEvPKiT_") == "a::b<int>");
  CHECK(detail::base_name("_ZN1a1bIiEEvPKiT_") == "a::b");
  CHECK(detail::short_name(std::string(100, 'x')).size() == 72);
}
