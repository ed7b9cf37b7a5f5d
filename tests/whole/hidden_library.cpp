// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "hidden_library.hpp"

namespace penstock::tests {

AnyBatches<DeviceNumbers> hidden_batches(const std::vector<std::uint64_t>& data, HostDevice& device,
                                         HostStream& stream) {
  return AnyBatches<DeviceNumbers>{
      Reader{memory(data), to_pinned} | AsyncCopier{device, {.batch = 100}}, stream};
}
const void* hidden_trace_hooks() {
  return &detail::trace_hooks;
}
const void* hidden_pinned_pieces() {
  return &detail::pinned_pieces;
}
const void* hidden_page() {
  return &detail::page;
}
std::vector<const std::type_info*> hidden_errors() {
  return {&typeid(Error),     &typeid(OptionError), &typeid(SourceError),
          &typeid(SinkError), &typeid(DeviceError), &typeid(StageError)};
}

} // namespace penstock::tests
