// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How many workers a stage has if nobody says: by pretended numbers of processors, and by the
// devices that pipelines of this process feed.

#include "support/catch.hpp"

#include <penstock/detail/engine/sizes.hpp>
#include <penstock/device/detail/fed_devices.hpp>
#include <penstock/machine/usable.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace ps = penstock;
namespace detail = penstock::detail;

namespace {

constexpr detail::ProcessorShare pinned{8, 14, 2};

// Several objects may be of one device.
struct NumberedDevice : ps::HostDevice {
  explicit NumberedDevice(std::uintptr_t is) : number{is} {}
  std::uintptr_t identity() const { return number; }
  std::uintptr_t number;
};

template <ps::AnyDevice D> auto pipeline_to(D& device, const std::vector<std::uint32_t>& data) {
  return ps::Reader{ps::memory(data), ps::to_pinned} | ps::AsyncCopier{device} |
         ps::Consumer{[](ps::Batch<const std::uint32_t, ps::Device>, ps::HostStream&) {}};
}

} // namespace

TEST_CASE("a pipeline alone takes its share of the processors, up to its most") {
  CHECK(detail::processors_of(32, 1, pinned) == 14);
  CHECK(detail::processors_of(16, 1, pinned) == 14);
  CHECK(detail::processors_of(8, 1, pinned) == 6);
  CHECK(detail::processors_of(5, 1, pinned) == 3);
  CHECK(detail::processors_of(4, 1, pinned) == 3); // of few it leaves one
  CHECK(detail::processors_of(2, 1, pinned) == 1);
  CHECK(detail::processors_of(1, 1, pinned) == 1);
  CHECK(detail::processors_of(32, 1, {4, 16}) == 16);
  CHECK(detail::processors_of(64, 1, {7, 24}) == 24);
}

TEST_CASE("sixteen processors a pipeline give each reader into pinned memory fourteen workers") {
  for (const unsigned parts : {2U, 4U, 8U}) {
    CHECK(detail::processors_of(16 * parts, parts, pinned) == 14);
  }
  CHECK(detail::processors_of(64, 2, pinned) == 14);
  CHECK(detail::processors_of(32, 2, {4, 16}) == 8); // a Decoder's part is what it was
}

TEST_CASE("all parts together are never more than the processors, nor one more than it has alone") {
  for (unsigned usable = 1; usable <= 256; ++usable) {
    for (unsigned parts = 1; parts <= 16; ++parts) {
      for (const detail::ProcessorShare share : {pinned, detail::ProcessorShare{7, 24}}) {
        const unsigned each = detail::processors_of(usable, parts, share);
        CAPTURE(usable, parts, each);
        CHECK(each >= 1);
        CHECK(each * parts <= std::max(usable, parts));
        CHECK(each <= detail::processors_of(usable, 1, share));
      }
    }
  }
}

TEST_CASE("pipelines of several devices have a part each, those of one device do not") {
  const std::vector<std::uint32_t> data(1000, 7);
  ps::HostDevice first;
  ps::HostDevice second;
  const unsigned before = detail::FedDevice::count();
  REQUIRE(before == 1);
  auto training = pipeline_to(first, data);
  CHECK(detail::FedDevice::count() == 1); // a description feeds nothing
  training.prepare();
  auto validation = pipeline_to(first, data);
  validation.prepare();
  CHECK(detail::FedDevice::count() == 1);
  {
    auto other = pipeline_to(second, data);
    other.prepare();
    CHECK(detail::FedDevice::count() == 2);
    const ps::Report& report = other.run();
    const unsigned usable = ps::usable_processors();
    CHECK(report.stages.at(0).workers == std::max(detail::processors_of(usable, 2, pinned), 2U));
  }
  CHECK(detail::FedDevice::count() == 1);
  CHECK(training.run().records_in_all == data.size());
}

TEST_CASE("a device counts once, whatever number of objects it has") {
  const std::vector<std::uint32_t> data(1000, 7);
  NumberedDevice first{1};
  NumberedDevice again{1};
  NumberedDevice second{2};
  auto training = pipeline_to(first, data);
  training.prepare();
  auto validation = pipeline_to(again, data);
  validation.prepare();
  CHECK(detail::FedDevice::count() == 1);
  auto other = pipeline_to(second, data);
  other.prepare();
  CHECK(detail::FedDevice::count() == 2);
}

TEST_CASE("more ranks and devices than 32 bits count leave each pipeline a worker or two") {
  constexpr std::uint32_t half = std::uint32_t{1} << 31;
  detail::Plan plan;
  plan.local_world = half;
  plan.devices = 2;
  CHECK(plan.parts() == std::uint64_t{half} * 2);
  CHECK(detail::processors_of(32, plan.parts(), pinned) == 1);
}

TEST_CASE("a pipeline of the host alone feeds no device, and more than can be counted do no harm") {
  const std::vector<std::uint32_t> data(1000, 7);
  auto on_host = ps::Reader{ps::memory(data)} |
                 ps::Consumer{[](ps::Batch<const std::uint32_t, ps::Pageable>) {}};
  on_host.prepare();
  CHECK(detail::FedDevice::count() == 1);
  constexpr std::size_t many = 200;
  {
    std::vector<std::unique_ptr<detail::FedDevice>> fed;
    for (std::uintptr_t device = 1; device <= many; ++device) {
      fed.push_back(std::make_unique<detail::FedDevice>());
      fed.back()->note(device);
    }
    CHECK(detail::FedDevice::count() == 128);
  }
  CHECK(detail::FedDevice::count() == 1);
}

TEST_CASE("a forked child has none of its parent's pipelines") {
  detail::FedDevice one;
  detail::FedDevice other;
  one.note(1);
  other.note(2);
  REQUIRE(detail::FedDevice::count() == 2);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::_Exit(detail::FedDevice::count() == 1 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(detail::FedDevice::count() == 2);
}
