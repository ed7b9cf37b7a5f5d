// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A tool as NVTX loads one, from the path in NVTX_INJECTION64_PATH: a library of its own, which
// notes the calls that it gets. It allocates nothing.

#include "cuda/nvtx_injection.hpp"

#include <cstdint>
#include <cstring>
#include <thread>

#include <nvtx3/nvToolsExt.h>

using penstock::tests::NvtxCall;
using penstock::tests::NvtxCalls;

namespace {

NvtxCalls seen;

std::uint64_t number_of(nvtxDomainHandle_t domain) {
  return reinterpret_cast<std::uintptr_t>(domain);
}

void note(NvtxCall::What what, const char* text, std::uint64_t payload, std::uint64_t domain) {
  const std::size_t number = seen.count++;
  if (number < seen.calls.size()) {
    NvtxCall& call = seen.calls[number];
    call.what = what;
    std::strncpy(call.text.data(), text, call.text.size() - 1);
    call.payload = payload;
    call.domain = domain;
    call.thread = std::this_thread::get_id();
  }
}

nvtxDomainHandle_t NVTX_API domain_create(const char* name) {
  const std::uint64_t domain = ++seen.domains;
  note(NvtxCall::domain_create, name, 0, domain);
  return reinterpret_cast<nvtxDomainHandle_t>(static_cast<std::uintptr_t>(domain));
}

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
  if (range->version != NVTX_VERSION || range->size != sizeof(nvtxEventAttributes_t) ||
      range->messageType != NVTX_MESSAGE_TYPE_ASCII ||
      range->payloadType != NVTX_PAYLOAD_TYPE_UNSIGNED_INT64) {
    ++seen.wrong;
    return 0;
  }
  note(NvtxCall::push, range->message.ascii, range->payload.ullValue, number_of(domain));
  return 0;
}

int NVTX_API pop(nvtxDomainHandle_t domain) {
  note(NvtxCall::pop, "", 0, number_of(domain));
  return 0;
}

template <class F> NvtxFunctionPointer pointer(F* function) {
  return reinterpret_cast<NvtxFunctionPointer>(function);
}

} // namespace

extern "C" {

[[gnu::visibility("default")]] NvtxCalls* nvtx_calls() {
  return &seen;
}

[[gnu::visibility("default")]] int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size) == 0 ||
      size <= NVTX_CBID_CORE2_DomainCreateA) {
    return 0;
  }
  *functions[NVTX_CBID_CORE2_DomainCreateA] = pointer(domain_create);
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = pointer(push);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = pointer(pop);
  return 1;
}
}
