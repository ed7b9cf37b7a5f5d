// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a watch knows of the machine and of a program's loop.

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/diagnose/detail/watch_sums.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/diagnose/watch.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace penstock;

TEST_CASE("a link does what the slowest part of the way to the slowest GPU allows") {
  const tests::TempDir root;
  const std::string pci = root.path() + "/sys/devices/pci0000:00";
  const std::string list = root.path() + "/sys/bus/pci/devices";
  std::filesystem::create_directories(list);
  const auto write = [](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path{path}.parent_path());
    std::ofstream{path} << text << '\n';
  };
  const auto add = [&](const std::string& at, const std::string& name, const char* vendor,
                       const char* kind, const char* speed, const char* width) {
    write(at + "/vendor", vendor);
    write(at + "/class", kind);
    write(at + "/max_link_speed", speed);
    write(at + "/max_link_width", width);
    std::filesystem::create_directory_symlink(at, list + '/' + name);
  };
  CHECK(detail::pcie_bytes_per_s(root.path() + "/none") == 0);
  CHECK(detail::pcie_bytes_per_s(root.path()) == 0);
  add(pci + "/disk", "disk", "0x144d", "0x010802", "8.0 GT/s PCIe", "4");
  add(pci + "/sound", "sound", "0x10de", "0x040300", "2.5 GT/s PCIe", "1");
  add(pci + "/unknown", "unknown", "0x10de", "0x030200", "Unknown", "255");
  CHECK(detail::pcie_bytes_per_s(root.path()) == 0);
  add(pci + "/port5/gpu5", "gpu5", "0x10de", "0x030200", "32.0 GT/s PCIe", "16");
  write(pci + "/port5/max_link_speed", "32.0 GT/s PCIe");
  write(pci + "/port5/max_link_width", "16");
  CHECK(detail::pcie_bytes_per_s(root.path()) == Approx(50.4e9).epsilon(0.001));
  add(pci + "/port3/gpu4", "gpu4", "0x10de", "0x030000", "16.0 GT/s PCIe", "16");
  CHECK(detail::pcie_bytes_per_s(root.path()) == Approx(25.2e9).epsilon(0.001));
  write(pci + "/port3/max_link_speed", "8.0 GT/s PCIe"); // a card of PCIe 4 in a slot of PCIe 3
  write(pci + "/port3/max_link_width", "16");
  CHECK(detail::pcie_bytes_per_s(root.path()) == Approx(12.6e9).epsilon(0.001));
  write(pci + "/port3/max_link_speed", "5.0 GT/s PCIe");
  CHECK(detail::pcie_bytes_per_s(root.path()) == Approx(6.4e9).epsilon(0.001));
}

TEST_CASE("the calls of a loop are told from those of a program's set-up and end") {
  using detail::CudaCall;
  const auto of = [](const std::vector<CudaCall>& calls) {
    detail::LoopCalls loop;
    for (const CudaCall call : calls) {
      loop.add(call, 0.5);
    }
    return loop.later();
  };
  CHECK(of({CudaCall::allocation, CudaCall::launch}).launches == 0); // no loop
  const std::vector<CudaCall> set_up(100, CudaCall::allocation);
  const std::vector<CudaCall> end(100, CudaCall::release);
  for (const int launches : {2, 7, 8, 9, 1000}) {
    CAPTURE(launches);
    std::vector<CudaCall> calls = set_up;
    calls.resize(calls.size() + static_cast<std::size_t>(launches), CudaCall::launch);
    calls.insert(calls.end(), end.begin(), end.end());
    const WatchedLoop loop = of(calls);
    CHECK(loop.launches >= static_cast<std::uint64_t>(launches) / 2);
    CHECK(loop.launches < static_cast<std::uint64_t>(launches));
    CHECK(loop.allocations.calls + loop.releases.calls == 0);
  }
  std::vector<CudaCall> calls;
  for (int i = 0; i < 1000; ++i) {
    calls.insert(calls.end(), {CudaCall::page_lock, CudaCall::allocation, CudaCall::launch,
                               CudaCall::copy, CudaCall::release});
  }
  const WatchedLoop loop = of(calls);
  CHECK(loop.launches >= 500);
  CHECK(loop.allocations.calls == 2 * loop.launches);
  CHECK(loop.allocations.seconds == Approx(static_cast<double>(loop.launches)));
  CHECK(loop.releases.calls == loop.launches);
}
