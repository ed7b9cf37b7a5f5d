// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Which processors are near a device: on machines laid out in a folder, as the kernel shows them;
// and which threads of a pipeline run there.

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

#include <penstock/device/detail/fed_devices.hpp>
#include <penstock/machine/detail/mapping.hpp>
#include <penstock/machine/detail/processor_set.hpp>
#include <penstock/machine/usable.hpp>
#include <penstock/penstock.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <thread>

#include <sched.h>

namespace ps = penstock;
namespace detail = penstock::detail;
using detail::ProcessorSet;
using ps::tests::TempDir;

namespace {

const std::string gpu = "0000:18:00.0";

// Two nodes of 16 processors each; the GPU is on the second. All of them may be used.
class Machine {
 public:
  Machine() {
    write("/sys/devices/system/node/online", "0-1\n");
    write("/sys/devices/system/cpu/online", "0-31\n");
    write("/sys/bus/pci/devices/" + gpu + "/numa_node", "1\n");
    write("/sys/bus/pci/devices/" + gpu + "/local_cpulist", "16-31\n");
  }
  Machine& write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path{dir_ / path}.parent_path());
    dir_.write(path, text);
    return *this;
  }
  ProcessorSet near(const std::string& allowed, const std::string& device = gpu) const {
    return detail::processors_near(dir_.path(), device, ProcessorSet::listed(allowed));
  }
  unsigned devices_near(const std::string& device) const {
    return detail::devices_near(dir_.path(), device);
  }

 private:
  TempDir dir_;
};

// A device that says which processors are near it.
struct NearDevice : ps::HostDevice {
  explicit NearDevice(const std::string& list, unsigned devices = 1)
      : near{ProcessorSet::listed(list)}, neighbours{devices} {}
  ProcessorSet processors_near() const { return near; }
  unsigned devices_near() const {
    ++times_counted;
    return neighbours;
  }
  ProcessorSet near;
  unsigned neighbours;
  mutable unsigned times_counted{};
};

// Returns how many processors the Reader's worker may run on, in a pipeline of three threads, the
// caller among them.
unsigned processors_of_a_reader(NearDevice& device, std::uint32_t ranks = 1) {
  std::atomic<unsigned> seen{0};
  const auto fill = [&seen](std::span<std::uint32_t> out, std::uint64_t) {
    seen = ProcessorSet::of_this_thread().count();
    for (std::uint32_t& value : out) {
      value = 1;
    }
  };
  auto pipeline = ps::Reader{ps::generate<std::uint32_t>(10, fill),
                             ps::to_pinned,
                             {.workers = 1,
                              .order = {.ranks = {.world = ranks, .local_world = ranks},
                                        .uneven = ps::Uneven::repeat}}} |
                  ps::AsyncCopier{device} |
                  ps::Consumer{[](ps::Batch<const std::uint32_t, ps::Device>, ps::HostStream&) {}};
  pipeline.run();
  return seen;
}

} // namespace

TEST_CASE("a list of processors is read as the kernel writes it, and nothing else is") {
  CHECK(ProcessorSet::listed("0-3,8,10-11\n").count() == 7);
  CHECK(ProcessorSet::listed("5") == ProcessorSet::listed("5-5\n"));
  CHECK((ProcessorSet::listed("0-7") & ProcessorSet::listed("4-12")) ==
        ProcessorSet::listed("4-7"));
  CHECK(ProcessorSet::listed("8191").count() == 1);
  for (const char* text : {"", "\n", "x", "3-1", "0-8192", "-", "1-", "1-x", "max", "0,,1",
                           "99999999999999999999999"}) {
    CAPTURE(text);
    CHECK(ProcessorSet::listed(text).empty());
  }
}

TEST_CASE("of several nodes the device's is near") {
  Machine machine;
  CHECK(machine.near("0-31") == ProcessorSet::listed("16-31"));
  machine.write("/sys/bus/pci/devices/" + gpu + "/local_cpulist", "0-7,16-23\n");
  CHECK(machine.near("0-31") == ProcessorSet::listed("0-7,16-23"));
}

TEST_CASE("where there is no choice, nothing is near") {
  Machine machine;
  CHECK(machine.near("0-31", "0000:99:00.0").empty());
  machine.write("/sys/bus/pci/devices/" + gpu + "/numa_node", "-1\n"); // as virtual machines say
  CHECK(machine.near("0-31").empty());
  machine.write("/sys/bus/pci/devices/" + gpu + "/numa_node", "0\n");
  CHECK_FALSE(machine.near("0-31").empty());
  machine.write("/sys/devices/system/node/online", "0\n");
  CHECK(machine.near("0-31").empty());
}

TEST_CASE("whoever has chosen processors keeps them") {
  const Machine machine;
  CHECK(machine.near("0-30").empty());
  CHECK(machine.near("16-23").empty());
  CHECK(machine.near("0-15").empty());
  CHECK(machine.near("").empty());
}

TEST_CASE("what a container was given is no choice of the user's") {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/pod/c\n")
      .write("/proc/self/mountinfo", "25 30 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  const std::string at = "/sys/fs/cgroup/pod";
  CHECK(machine.near("8-23").empty()); // nothing says that this is all
  machine.write(at + "/cpuset.cpus.effective", "8-23\n");
  CHECK(machine.near("8-23") == ProcessorSet::listed("16-23"));
  CHECK(machine.near("8-22").empty());
  machine.write(at + "/c/cpuset.cpus.effective", "0-3\n"); // the innermost counts
  CHECK(machine.near("8-23").empty());
  CHECK(machine.near("0-3").empty()); // none of them is near
  Machine old;
  old.write("/proc/self/cgroup", "3:cpuset:/c\n")
      .write("/proc/self/mountinfo",
             "33 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n")
      .write("/sys/fs/cgroup/cpuset/c/cpuset.effective_cpus", "12-19\n");
  CHECK(old.near("12-19") == ProcessorSet::listed("16-19"));
}

TEST_CASE("if all processors are near, there is no choice to make") {
  Machine machine; // as one whose second node is the device's own memory
  machine.write("/sys/bus/pci/devices/" + gpu + "/local_cpulist", "0-31\n");
  CHECK(machine.near("0-31").empty());
  Machine contained;
  contained.write("/proc/self/cgroup", "0::/\n")
      .write("/proc/self/mountinfo", "25 30 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
      .write("/sys/fs/cgroup/cpuset.cpus.effective", "20-23\n");
  CHECK(contained.near("20-23").empty());
}

TEST_CASE("threads that penstock starts run near the device, and the user's where it was") {
  const ProcessorSet before = ProcessorSet::of_this_thread();
  REQUIRE_FALSE(before.empty());
  const std::string here = std::to_string(::sched_getcpu());
  // Processors that are not there count, and the kernel leaves them out.
  NearDevice near{here + ",4000-4010"};
  CHECK(processors_of_a_reader(near) == 1);
  CHECK(ProcessorSet::of_this_thread() == before);
}

TEST_CASE("a chain keeps all processors if it has more threads than there are near") {
  const std::string here = std::to_string(::sched_getcpu());
  NearDevice one{here};
  CHECK(processors_of_a_reader(one) == ProcessorSet::of_this_thread().count());
  NearDevice anywhere{""};
  CHECK(processors_of_a_reader(anywhere) == ProcessorSet::of_this_thread().count());
}

TEST_CASE("the processors near a device are for the pipelines of all devices there") {
  const unsigned all = ProcessorSet::of_this_thread().count();
  const std::string list =
      std::to_string(::sched_getcpu()) + ",4000-4007"; // nine, for three threads each
  NearDevice two{list, 2};
  CHECK(processors_of_a_reader(two, 8) == 1);
  NearDevice four{list, 4};
  CHECK(processors_of_a_reader(four, 8) == all);
  CHECK(processors_of_a_reader(four, 3) == 1); // of four devices three are fed
  CHECK(processors_of_a_reader(four, 1) == 1);
}

TEST_CASE("a pipeline alone does not look for other devices") {
  NearDevice four{std::to_string(::sched_getcpu()) + ",4000-4007", 4};
  CHECK(processors_of_a_reader(four) == 1);
  CHECK(four.times_counted == 0);
  processors_of_a_reader(four, 2);
  CHECK(four.times_counted == 1);
}

TEST_CASE("devices of the same maker and class on one node are counted") {
  Machine machine;
  const auto add = [&machine](const std::string& id, const char* vendor, const char* kind,
                              const char* node) {
    const std::string at = "/sys/bus/pci/devices/" + id;
    machine.write(at + "/vendor", vendor).write(at + "/class", kind);
    machine.write(at + "/numa_node", node);
  };
  add(gpu, "0x10de\n", "0x030200\n", "1\n");
  add("0000:2a:00.0", "0x10de\n", "0x030200\n", "1\n");
  add("0000:aa:00.0", "0x10de\n", "0x030200\n", "0\n"); // another node
  add("0000:05:00.0", "0x10de\n", "0x068000\n", "1\n"); // a switch
  add("0000:03:00.0", "0x1a03\n", "0x030200\n", "1\n"); // someone else's
  CHECK(machine.devices_near(gpu) == 2);
  CHECK(machine.devices_near("0000:aa:00.0") == 1);
  CHECK(machine.devices_near("0000:99:00.0") == 1); // it is not there
  CHECK(detail::devices_near("/nowhere", gpu) == 1);
}

TEST_CASE("nobody asks for the processors near a device for a few pages") {
  for (const std::size_t bytes :
       {detail::page, detail::huge_page - detail::page, detail::huge_page}) {
    unsigned asked = 0;
    void* const at = detail::map_pages_near(bytes, [&] {
      ++asked;
      return ProcessorSet{};
    });
    CHECK(asked == (bytes < detail::huge_page ? 0U : 1U));
    detail::unmap_pages(at, bytes);
  }
}

TEST_CASE("pages are touched from near, and the thread that asks for them stays where it was") {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const ProcessorSet before = ProcessorSet::of_this_thread();
  const std::string here = std::to_string(::sched_getcpu());
  for (const std::string& list : {here, std::string{"4000"}}) { // the second is refused
    auto* const at =
        static_cast<const std::byte*>(detail::map_pages(bytes, ProcessorSet::listed(list)));
    CHECK(at[bytes - 1] == std::byte{0});
    CHECK(ProcessorSet::of_this_thread() == before);
    detail::unmap_pages(const_cast<std::byte*>(at), bytes);
  }
}
