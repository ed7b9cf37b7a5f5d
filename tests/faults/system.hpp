// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

/// What a process can lose. Where it is for good, each returns why it cannot be done here; empty if
/// it is done.
namespace penstock::tests::faults {

inline std::string why(const char* call) {
  return std::string{call} + ": " + std::strerror(errno);
}

/// The kernel refuses these calls to this process, as a container's filter does.
inline std::string without(std::initializer_list<unsigned> calls) {
  std::vector<sock_filter> filter{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  for (const unsigned call : calls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0                 ? why("no_new_privs")
         : ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 ? why("seccomp")
                                                                       : "";
}

/// `folder` is all that there is: no /proc, no /sys. Its paths keep their names.
inline std::string alone_in(const std::string& folder) {
  if (::geteuid() != 0 && ::unshare(CLONE_NEWUSER) != 0) {
    return why("unshare");
  }
  // So that "/tmp/x" is "/tmp/x" inside too.
  std::error_code failed;
  const std::filesystem::path inside = folder + folder;
  std::filesystem::create_directories(inside.parent_path(), failed);
  std::filesystem::create_directory_symlink("/", inside, failed);
  return failed                          ? failed.message()
         : ::chroot(folder.c_str()) != 0 ? why("chroot")
         : ::chdir("/") != 0             ? why("chdir")
                                         : "";
}

/// While it lives, the process may have so many descriptors beside those that it has.
class FewDescriptors {
 public:
  explicit FewDescriptors(int more) {
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(next);
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{static_cast<rlim_t>(next + more), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

/// Gives each thread of another process other processors, at random. Returns whether it could.
inline bool deal_processors(pid_t process, std::mt19937& random) {
  cpu_set_t mine;
  if (::sched_getaffinity(0, sizeof mine, &mine) != 0 || CPU_COUNT(&mine) < 2) {
    return false;
  }
  std::error_code failed;
  for (const auto& task :
       std::filesystem::directory_iterator{"/proc/" + std::to_string(process) + "/task", failed}) {
    cpu_set_t some;
    CPU_ZERO(&some);
    while (CPU_COUNT(&some) == 0) {
      for (std::size_t cpu = 0; cpu != CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &mine) && random() % 2 == 0) {
          CPU_SET(cpu, &some);
        }
      }
    }
    ::sched_setaffinity(std::stoi(task.path().filename().string()), sizeof some, &some);
  }
  return !failed;
}

} // namespace penstock::tests::faults
