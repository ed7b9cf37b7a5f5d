// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <penstock/machine/detail/mapping.hpp>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace detail = penstock::detail;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

// Of the system's pages, which may be larger than ours.
const auto system_page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
std::size_t system_pages(std::size_t bytes) {
  return (bytes + system_page - 1) / system_page;
}

// Returns how many pages of [at, at + bytes) are in memory.
std::size_t resident_pages(void* at, std::size_t bytes) {
  std::vector<unsigned char> in(system_pages(bytes));
  if (::mincore(at, bytes, in.data()) != 0) {
    return 0;
  }
  return static_cast<std::size_t>(
      std::count_if(in.begin(), in.end(), [](unsigned char c) { return (c & 1) != 0; }));
}

// By all mappings: an emulator has statm count its own too.
std::size_t address_space_pages() {
  std::size_t bytes = 0;
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    const std::size_t dash = line.find('-');
    bytes += std::stoull(line.substr(dash + 1), nullptr, 16) - std::stoull(line, nullptr, 16);
  }
  return system_pages(bytes);
}

std::string refusal(std::size_t bytes) {
  try {
    detail::unmap_pages(detail::map_pages(bytes), bytes);
  } catch (const penstock::Error& e) {
    return e.what();
  }
  return {};
}

struct NoThread {
  NoThread() = default;
  template <class F> explicit NoThread(F) {
    throw std::system_error{std::make_error_code(std::errc::resource_unavailable_try_again)};
  }
  bool joinable() const { return false; }
  void join() {}
};

// Stands in for a thread: calls f at once, and tells whether signals were blocked.
struct AsksForSignals {
  AsksForSignals() = default;
  template <class F> explicit AsksForSignals(F f) {
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    ++(sigismember(&blocked, SIGINT) == 1 && sigismember(&blocked, SIGSEGV) == 0 ? quiet : others);
    f();
  }
  bool joinable() const { return false; }
  void join() {}
  static inline int quiet = 0, others = 0;
};

// A mapping that was not touched yet.
struct Untouched {
  explicit Untouched(std::size_t n)
      : bytes{n},
        at{::mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)} {}
  ~Untouched() { ::munmap(at, bytes); }
  std::byte* data() const { return static_cast<std::byte*>(at); }
  std::size_t bytes;
  void* at;
};

} // namespace

TEST_CASE("mapped pages are zero, in memory, aligned and writable to the last byte") {
  for (const std::size_t bytes : {detail::page, 3 * detail::page, 2 * mib - detail::page, 2 * mib,
                                  2 * mib + detail::page, 7 * mib + 5 * detail::page, 40 * mib}) {
    CAPTURE(bytes);
    void* const at = detail::map_pages(bytes);
    REQUIRE(at != nullptr);
    const std::size_t alignment = bytes >= 2 * mib ? 2 * mib : detail::page;
    CHECK(reinterpret_cast<std::uintptr_t>(at) % alignment == 0);
    CHECK(resident_pages(at, bytes) == system_pages(bytes));
    const auto* begin = static_cast<const unsigned char*>(at);
    CHECK(std::all_of(begin, begin + bytes, [](unsigned char c) { return c == 0; }));
    std::memset(at, 0xFF, bytes);
    detail::unmap_pages(at, bytes);
  }
}

TEST_CASE("what a mapping takes beyond its size for alignment is given back at once") {
  // A mapping in between makes the next ones start elsewhere in a huge page.
  for (const std::size_t between : {1, 2, 100, 511, 512, 513}) {
    CAPTURE(between);
    const Untouched filler{between * detail::page};
    const std::size_t bytes = 2 * mib + 3 * detail::page;
    const std::size_t before = address_space_pages();
    void* const at = detail::map_pages(bytes);
    CHECK(address_space_pages() - before == system_pages(bytes));
    detail::unmap_pages(at, bytes);
    CHECK(address_space_pages() == before);
  }
}

TEST_CASE("a size that is no multiple of a page is refused with the size") {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, detail::page - 1,
                                  detail::page + 1, std::numeric_limits<std::size_t>::max()}) {
    const std::string text = refusal(bytes);
    CAPTURE(bytes, text);
    CHECK(text.find("penstock: ") == 0);
    CHECK(text.find(" " + std::to_string(bytes) + " bytes") != std::string::npos);
    CHECK(text.find("multiple of 4096") != std::string::npos);
  }
}

TEST_CASE("more memory than there can be is refused with the size and the cure") {
  const std::size_t most = std::numeric_limits<std::size_t>::max() / detail::page * detail::page;
  for (const std::size_t bytes : {std::size_t{1} << 60, most}) {
    const std::string text = refusal(bytes);
    CAPTURE(bytes, text);
    CHECK(text.find("penstock: ") == 0);
    CHECK(text.find(" " + std::to_string(bytes) + " bytes") != std::string::npos);
    CHECK(text.find("Cannot allocate memory") != std::string::npos);
    CHECK(text.find("depth") != std::string::npos);
  }
}

TEST_CASE("giving back nothing does nothing") {
  const std::size_t before = address_space_pages();
  detail::unmap_pages(nullptr, detail::page);
  CHECK(address_space_pages() == before);
}

TEST_CASE("every page is touched, however many threads share the work") {
  for (const std::size_t workers : {1, 2, 3, 8, 50}) {
    for (const std::size_t pages : {1, 511, 512, 513, 5000, 8192}) {
      CAPTURE(workers, pages);
      const Untouched memory{pages * detail::page};
      REQUIRE(resident_pages(memory.at, memory.bytes) == 0);
      detail::touch_pages(memory.data(), memory.bytes, workers);
      CHECK(resident_pages(memory.at, memory.bytes) == system_pages(memory.bytes));
    }
  }
}

TEST_CASE("threads that touch pages leave signals to the program's") {
  const Untouched memory{33 * mib};
  detail::touch_pages<AsksForSignals>(memory.data(), memory.bytes, 4);
  CHECK(AsksForSignals::quiet == 3);
  CHECK(AsksForSignals::others == 0);
}

TEST_CASE("a forked child does not have the mapped pages") {
  for (const std::size_t bytes : {detail::page, 7 * mib + 5 * detail::page}) {
    void* const at = detail::map_pages(bytes);
    const pid_t child = ::fork();
    if (child == 0) {
      unsigned char in = 0;
      const bool first = ::mincore(at, detail::page, &in) == 0;
      void* const end = static_cast<std::byte*>(at) + (bytes - 1) / system_page * system_page;
      const bool last = ::mincore(end, detail::page, &in) == 0;
      std::_Exit(first || last ? 1 : 0);
    }
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    detail::unmap_pages(at, bytes);
  }
}

TEST_CASE("pages are touched even where no thread can be started") {
  const Untouched memory{33 * mib};
  detail::touch_pages<NoThread>(memory.data(), memory.bytes, 4);
  CHECK(resident_pages(memory.at, memory.bytes) == system_pages(memory.bytes));
}

TEST_CASE("small mappings are touched by one thread, large ones by a few") {
  CHECK(detail::touch_workers(detail::page, 64) == 1);
  CHECK(detail::touch_workers(16 * mib, 64) == 1);
  CHECK(detail::touch_workers(48 * mib, 64) == 3);
  CHECK(detail::touch_workers(48 * mib, 2) == 2);
  CHECK(detail::touch_workers(48 * mib, 0) == 1);
  CHECK(detail::touch_workers(1024 * mib, 64) == 8);
}
