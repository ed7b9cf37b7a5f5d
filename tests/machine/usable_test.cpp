// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a process may use of the machine: by control groups as the kernel shows them, laid out in a
// folder, and by this process's own.

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

#include <penstock/detail/engine/sizes.hpp>
#include <penstock/io/posix.hpp>
#include <penstock/machine/usable.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>

#include <sched.h>

namespace ps = penstock;
using ps::tests::TempDir;

namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

// A machine of 64 processors, with 900 GiB free, as a process on it sees it.
class Machine {
 public:
  Machine() { write("/proc/meminfo", meminfo); }

  Machine& write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path{dir_ / path}.parent_path());
    dir_.write(path, text);
    return *this;
  }
  Machine& remove(const std::string& path) {
    std::filesystem::remove(dir_ / path);
    return *this;
  }
  unsigned processors(unsigned allowed = 64) const {
    return ps::detail::processors_within(dir_.path(), allowed);
  }
  std::uint64_t memory() const { return ps::detail::memory_within(dir_.path()); }

 private:
  static constexpr const char* meminfo = "MemTotal:       1056784384 kB\n"
                                         "MemFree:         104857600 kB\n"
                                         "MemAvailable:    943718400 kB\n"
                                         "Buffers:            1048576 kB\n";
  TempDir dir_;
};

const std::string v2_mount =
    "25 30 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
const std::string v1_mounts =
    "30 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"
    "31 23 0:26 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro,mode=755\n"
    "32 31 0:28 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,name=systemd\n"
    "33 31 0:29 / /sys/fs/cgroup/cpuset rw shared:12 - cgroup cgroup rw,cpuset\n"
    "34 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:13 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:31 / /sys/fs/cgroup/memory rw shared:14 - cgroup cgroup rw,memory\n";
const std::string v1_groups = "12:cpuset:/other\n"
                              "9:memory:/kubepods/pod1/c\n"
                              "4:cpu,cpuacct:/kubepods/pod1/c\n"
                              "1:name=systemd:/kubepods/pod1/c\n";

} // namespace

TEST_CASE("without control groups the processors are those allowed, and memory is the machine's") {
  Machine machine;
  CHECK(machine.processors() == 64);
  CHECK(machine.processors(0) == 1); // nothing tells how many
  CHECK(machine.memory() == 900 * gib);
  machine.remove("/proc/meminfo");
  CHECK(machine.memory() == 0);
}

TEST_CASE("a quota of time is worth processors, parts rounded up, of the group or any above it") {
  Machine machine;
  machine.write("/proc/self/mountinfo", v2_mount).write("/proc/self/cgroup", "0::/a.slice/b/c\n");
  const std::string at = "/sys/fs/cgroup/a.slice";
  CHECK(machine.processors() == 64);
  machine.write(at + "/b/c/cpu.max", "max 100000\n");
  CHECK(machine.processors() == 64);
  machine.write(at + "/b/c/cpu.max", "1200000 100000\n");
  CHECK(machine.processors() == 12);
  CHECK(machine.processors(8) == 8);
  machine.write(at + "/b/cpu.max", "310000 100000\n");
  CHECK(machine.processors() == 4);
  machine.write(at + "/cpu.max", "50000 50000\n");
  CHECK(machine.processors() == 1);
  machine.write(at + "/cpu.max", "100 100000\n");
  CHECK(machine.processors() == 1);
  // A group beside this process's limits nothing; only those above do.
  machine.write(at + "/cpu.max", "max 100000\n").write("/sys/fs/cgroup/d/cpu.max", "1000 100000\n");
  CHECK(machine.processors() == 4);
  // In a namespace of its own, the topmost group has limits too.
  machine.write("/proc/self/cgroup", "0::/\n").write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  CHECK(machine.processors() == 2);
}

TEST_CASE("version 1 has its quotas in files of their own, and hierarchies for each controller") {
  Machine machine;
  machine.write("/proc/self/mountinfo", v1_mounts).write("/proc/self/cgroup", v1_groups);
  const std::string at = "/sys/fs/cgroup/cpu,cpuacct";
  const auto limit = [&](const std::string& group, const std::string& quota) {
    machine.write(group + "/cpu.cfs_quota_us", quota + '\n');
    machine.write(group + "/cpu.cfs_period_us", "50000\n");
  };
  limit(at, "-1");
  limit(at + "/kubepods/pod1/c", "-1");
  CHECK(machine.processors() == 64);
  limit("/sys/fs/cgroup/cpuset/other", "50000"); // a group of another hierarchy
  limit("/sys/fs/cgroup/memory/kubepods", "50000");
  limit(at + "/other", "50000");
  CHECK(machine.processors() == 64);
  limit(at + "/kubepods/pod1/c", "1000000");
  CHECK(machine.processors() == 20);
  limit(at + "/kubepods", "175000");
  CHECK(machine.processors() == 4);
  machine.remove(at + "/kubepods/cpu.cfs_period_us");
  CHECK(machine.processors() == 20);
}

TEST_CASE(
    "memory is what the control groups have left, without what the page cache would give up") {
  Machine machine;
  machine.write("/proc/self/mountinfo", v2_mount).write("/proc/self/cgroup", "0::/pod/c\n");
  const std::string at = "/sys/fs/cgroup/pod";
  const auto group = [&](const std::string& where, const std::string& max, std::uint64_t current,
                         std::uint64_t inactive, std::uint64_t active) {
    machine.write(where + "/memory.max", max + '\n');
    machine.write(where + "/memory.current", std::to_string(current) + '\n');
    machine.write(where + "/memory.stat", "anon 12345\nfile " + std::to_string(inactive + active) +
                                              "\ninactive_anon 99\nactive_anon 77\ninactive_file " +
                                              std::to_string(inactive) + "\nactive_file " +
                                              std::to_string(active) + "\nunevictable 0\n");
  };
  group(at + "/c", "max", 7 * gib, 0, 0);
  CHECK(machine.memory() == 900 * gib);
  group(at + "/c", std::to_string(32 * gib), 7 * gib, 0, 0);
  CHECK(machine.memory() == 25 * gib);
  group(at + "/c", std::to_string(32 * gib), 7 * gib, 4 * gib, 1 * gib);
  CHECK(machine.memory() == 30 * gib);
  group(at, std::to_string(16 * gib), 15 * gib, 2 * gib, 0);
  CHECK(machine.memory() == 3 * gib);
  group(at, std::to_string(16 * gib), 17 * gib, 0, 0); // above the limit, which was lowered
  CHECK(machine.memory() == 0);
  group(at, std::to_string(16 * gib), 1 * gib, 2 * gib, 0); // counted later
  CHECK(machine.memory() == 16 * gib);
  machine.remove(at + "/memory.current").remove(at + "/memory.stat");
  CHECK(machine.memory() == 16 * gib);
  machine.write(at + "/memory.high", std::to_string(15 * gib) + '\n');
  CHECK(machine.memory() == 15 * gib);
  machine.write(at + "/memory.high", "max\n");
  CHECK(machine.memory() == 16 * gib);
  // The machine itself may have less, or report nothing.
  machine.write("/proc/meminfo", "MemAvailable:    1048576 kB\n");
  CHECK(machine.memory() == 1 * gib);
  machine.remove("/proc/meminfo");
  CHECK(machine.memory() == 16 * gib);
}

TEST_CASE("version 1 counts a group's memory with the groups below it") {
  Machine machine;
  machine.write("/proc/self/mountinfo", v1_mounts).write("/proc/self/cgroup", v1_groups);
  const std::string at = "/sys/fs/cgroup/memory";
  machine.write(at + "/memory.limit_in_bytes", "9223372036854771712\n")
      .write(at + "/memory.usage_in_bytes", "5368709120\n");
  CHECK(machine.memory() == 900 * gib);
  machine.write(at + "/kubepods/pod1/memory.limit_in_bytes", std::to_string(8 * gib) + '\n')
      .write(at + "/kubepods/pod1/memory.usage_in_bytes", std::to_string(7 * gib) + '\n')
      .write(at + "/kubepods/pod1/memory.stat",
             "cache 1\nrss 1\ninactive_file 1\nactive_file 1\ntotal_inactive_file 1073741824\n"
             "total_active_file 2147483648\n");
  CHECK(machine.memory() == 4 * gib);
}

TEST_CASE("a group lies where its hierarchy is mounted, in a container too") {
  const auto processors = [](const std::string& mounts, const std::string& group) {
    Machine machine;
    machine.write("/proc/self/mountinfo", mounts).write("/proc/self/cgroup", group);
    machine.write("/cg/cpu.max", "100000 100000\n")
        .write("/cg/sub/cpu.max", "200000 100000\n")
        .write("/cg/ce/cpu.max", "300000 100000\n")
        .write("/other/cpu.max", "400000 100000\n");
    return machine.processors();
  };
  const auto mount = [](const std::string& from, const std::string& at) {
    return "1 2 0:22 " + from + ' ' + at + " ro - cgroup2 any rw,nsdelegate\n";
  };
  CHECK(processors(mount("/", "/cg"), "0::/sub\n") == 1);
  CHECK(processors(mount("/docker/12", "/cg"), "0::/docker/12\n") == 1);
  CHECK(processors(mount("/docker/12", "/other"), "0::/docker/12/sub\n") == 4);
  // Groups with a blank or a backslash in their names, which mountinfo writes differently.
  CHECK(processors(mount("/docker\\04012", "/other"), "0::/docker 12\n") == 4);
  CHECK(processors(mount("/a\\134b", "/other"), "0::/a\\b/sub\n") == 4);
  CHECK(processors(mount("/", "/ot\\150er"), "0::/\n") == 4);
  // Groups of others, and groups outside of the visible part.
  CHECK(processors(mount("/docker/1", "/cg"), "0::/docker/12\n") == 64);
  CHECK(processors(mount("/docker/13", "/cg"), "0::/docker/12\n") == 64);
  CHECK(processors(mount("/", "/cg/sub"), "0::/../ce\n") == 64);
  CHECK(processors(mount("/", "/cg/sub"), "0::/..\n") == 64);
  // Both versions, with optional fields or without, in any order.
  CHECK(processors("9 9 0:1 / /nothing rw - cgroup cgroup rw,memory\n" + mount("/", "/other"),
                   "3:memory:/\n0::/\n") == 4);
  CHECK(processors("1 2 0:22 / /cg rw shared:1 master:2 - cgroup2 cgroup2 rw", "0::/") == 1);
  CHECK(processors("1 2 0:22 / /cg rw - tmpfs cgroup2 rw\n", "0::/\n") == 64);
}

TEST_CASE("what cannot be read, or says nothing, limits nothing") {
  const std::string texts[] = {"",
                               "\n",
                               "max",
                               "-1",
                               " ",
                               "x y z",
                               ":::",
                               "0:",
                               "0 0\n",
                               "5",
                               "5 0",
                               std::string(100'000, '/'),
                               std::string(3, '\0'),
                               " - - - \n",
                               "99999999999999999999999999 1\n"};
  for (const std::string& text : texts) {
    CAPTURE(text.substr(0, 30));
    Machine machine;
    machine.write("/proc/self/mountinfo", v2_mount).write("/proc/self/cgroup", "0::/\n");
    machine.write("/sys/fs/cgroup/cpu.max", text);
    CHECK(machine.processors() == 64);
    machine.write("/proc/meminfo", text);
    CHECK(machine.memory() == 0);
    Machine other;
    other.write("/proc/self/mountinfo", text).write("/proc/self/cgroup", "0::/\n");
    CHECK(other.processors() == 64);
    other.write("/proc/self/mountinfo", v2_mount).write("/proc/self/cgroup", text);
    CHECK(other.processors() == 64);
    CHECK(other.memory() == 900 * gib);
  }
}

TEST_CASE("this process may use some memory, and a processor that it is bound to") {
  CHECK(ps::usable_memory() > gib / 16);
  CHECK(ps::usable_memory() < gib * gib);
  CHECK(ps::PosixIo{}.available_memory() > gib / 16);
  const unsigned all = ps::usable_processors();
  CHECK(all >= 1);
  CHECK(all <= std::max(std::thread::hardware_concurrency(), 1U));
  unsigned bound = 0;
  unsigned all_for_a_stage = 0;
  std::thread{[&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(::sched_getcpu(), &set);
    ::sched_setaffinity(0, sizeof set, &set);
    bound = ps::usable_processors();
    all_for_a_stage = ps::detail::processors({}, {8, 1024});
  }}.join();
  CHECK(bound == 1);
  CHECK(all_for_a_stage == 1);
  CHECK(ps::usable_processors() == all);
}
