// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Records that come out of FIFOs, pipes and sockets, in pieces of any size.

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/fifo.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

namespace ps = penstock;
using ps::tests::Came;
using ps::tests::Outcome;
using ps::tests::outcome_of;
using ps::tests::TempDir;
using ps::tests::Watchdog;

namespace {

// Twelve bytes, which no buffer's size is a multiple of.
struct Reading {
  std::uint32_t number;
  std::uint32_t twice;
  std::uint32_t inverse;
  friend bool operator==(const Reading&, const Reading&) = default;
};
using Readings = std::vector<Reading>;

Readings readings(std::uint32_t count, std::uint32_t first = 0) {
  Readings made;
  for (std::uint32_t i = first; i < first + count; ++i) {
    made.push_back({i, 2 * i, ~i});
  }
  return made;
}

// The two ends of something that bytes go through.
struct Ends {
  enum Kind { pipe, stream_socket, packet_socket };
  explicit Ends(Kind kind) {
    REQUIRE((kind == pipe ? ::pipe2(fds, O_CLOEXEC)
                          : ::socketpair(AF_UNIX,
                                         (kind == stream_socket ? SOCK_STREAM : SOCK_SEQPACKET) |
                                             SOCK_CLOEXEC,
                                         0, fds)) == 0);
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  ~Ends() {
    ::close(fds[0]);
    hang_up();
  }
  int out() const { return fds[0]; }
  void hang_up() {
    if (fds[1] >= 0) {
      ::close(std::exchange(fds[1], -1));
    }
  }
  // Writes all bytes, so many at a time.
  void write(std::span<const std::byte> bytes, std::size_t at_once) const {
    write(fds[1], bytes, at_once);
  }
  static void write(int to, std::span<const std::byte> bytes, std::size_t at_once) {
    while (!bytes.empty()) {
      const auto sent = ::write(to, bytes.data(), std::min(at_once, bytes.size()));
      if (sent <= 0) {
        std::abort();
      }
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
  }
  int fds[2]{};
};

template <class Source> auto pipeline_of(const Source& source, std::size_t batch = 100) {
  return ps::Pipeline{std::tuple{ps::Reader{source, {.workers = 4, .depth = 4, .batch = batch}}}};
}
// Returns what a run delivers, and leaves it after `most` records.
template <class P> Readings run(P& pipeline, std::size_t most = ~std::size_t{0}) {
  Readings seen;
  for (auto batch : pipeline.batches()) {
    REQUIRE(batch.index() == seen.size());
    seen.insert(seen.end(), batch.data(), batch.data() + batch.size());
    if (seen.size() >= most) {
      break;
    }
  }
  return seen;
}

} // namespace

TEST_CASE("records come whole, however they were cut on their way") {
  Watchdog dog{"pieces"};
  const Readings all = readings(1234);
  for (const auto kind : {Ends::pipe, Ends::stream_socket}) {
    for (const std::size_t at_once : {1U, 5U, 12U, 31U, 4096U}) {
      CAPTURE(kind, at_once);
      dog.progress(at_once);
      Ends ends{kind};
      std::thread writer{[&] {
        ends.write(std::as_bytes(std::span{all}), at_once);
        ends.hang_up();
      }};
      auto pipeline = pipeline_of(ps::fifo<Reading>(ends.out()));
      const Readings seen = run(pipeline);
      writer.join();
      CHECK(seen == all);
      CHECK(pipeline.report().records == 1234);
      CHECK(pipeline.report().stages[0].workers == 1);
    }
  }
}

TEST_CASE("a descriptor that you give stays open, and as it was") {
  for (const int flags : {0, O_NONBLOCK}) {
    CAPTURE(flags);
    Ends ends{Ends::pipe};
    REQUIRE(::fcntl(ends.out(), F_SETFL, flags) == 0);
    const int before = ::fcntl(ends.out(), F_GETFL);
    const Readings all = readings(50);
    ends.write(std::as_bytes(std::span{all}), 4096);
    ends.hang_up();
    {
      auto pipeline = pipeline_of(ps::fifo<Reading>(ends.out()));
      CHECK(run(pipeline) == all);
      CHECK(::fcntl(ends.out(), F_GETFL) == before);
    }
    CHECK(::fcntl(ends.out(), F_GETFL) == before);
  }
}

TEST_CASE("a path is opened without a writer, once, and closed in the end") {
  const Watchdog dog{"path"};
  const TempDir dir;
  const std::string path = dir / "fifo";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const auto opened = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
      std::error_code error;
      if (std::filesystem::read_symlink(entry, error) == path) {
        CHECK((::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC) != 0);
        ++count;
      }
    }
    return count;
  };
  const Readings all = readings(150);
  {
    auto pipeline = pipeline_of(ps::fifo<Reading>(path), 50);
    CHECK(opened() == 0);
    pipeline.prepare();
    CHECK(opened() == 1);
    std::thread writer{[&] {
      const int to = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      Ends::write(to, std::as_bytes(std::span{all}), 100);
      ::close(to);
    }};
    CHECK(run(pipeline) == all);
    writer.join();
    CHECK(opened() == 1);
    // Nobody has written since.
    CHECK(run(pipeline).empty());
  }
  CHECK(opened() == 0);
}

TEST_CASE("a run goes on where the one before stopped") {
  const Watchdog dog{"going on"};
  Ends ends{Ends::stream_socket};
  const ps::Fifo<Reading> source = ps::fifo<Reading>(ends.out());
  auto pipeline = pipeline_of(source, 10);
  // Ten whole ones, and the beginning of the next.
  const Readings all = readings(30);
  const auto bytes = std::as_bytes(std::span{all});
  ends.write(bytes.first(10 * sizeof(Reading) + 7), 4096);
  CHECK(run(pipeline, 10) == readings(10));
  CHECK(pipeline.report().stopped);
  ends.write(bytes.subspan(10 * sizeof(Reading) + 7), 4096);
  CHECK(run(pipeline, 10) == readings(10, 10));
  ends.hang_up();
  // The rest is lost if the Reader had read it already when the loop was left; and a copy goes on
  // too.
  auto other = pipeline_of(source, 10);
  const Readings rest = run(other);
  CHECK((rest.empty() || rest == readings(10, 20)));
}

TEST_CASE("what was read and not delivered when a run is left counts as dropped") {
  const Watchdog dog{"dropped"};
  Ends ends{Ends::pipe};
  auto pipeline = pipeline_of(ps::fifo<Reading>(ends.out()), 10);
  const Readings all = readings(17);
  ends.write(std::as_bytes(std::span{all}), 4096);
  for (auto batch : pipeline.batches()) {
    CHECK(batch.size() == 10);
    int left = 1;
    while (left != 0) {
      REQUIRE(::ioctl(ends.out(), FIONREAD, &left) == 0);
    }
    break;
  }
  CHECK(pipeline.report().records == 10);
  CHECK(pipeline.report().dropped == 7);
}

TEST_CASE("an end within a record is an error that names the place") {
  const Watchdog dog{"cut"};
  for (const bool by_path : {false, true}) {
    CAPTURE(by_path);
    const TempDir dir;
    const Readings all = readings(25);
    const auto bytes = std::as_bytes(std::span{all}).first(25 * sizeof(Reading) - 5);
    const std::string path = dir.write("cut", bytes);
    Ends ends{Ends::pipe};
    ends.write(bytes, 4096);
    ends.hang_up();
    const std::string name = by_path ? path : "descriptor " + std::to_string(ends.out());
    auto pipeline =
        pipeline_of(by_path ? ps::fifo<Reading>(path) : ps::fifo<Reading>(ends.out()), 10);
    const Outcome cut = outcome_of([&] { run(pipeline); });
    CHECK(cut.came == Came::stage_error);
    CHECK(cut.says(name + " ended in the middle of a record: of the 12 bytes from byte 288 on it "
                          "gave 7."));
    CHECK(cut.file == name);
    CHECK(cut.offset == 288);
    CHECK(cut.record == 24);
    CHECK(cut.stage == "Reader");
  }
}

TEST_CASE("what an end has cut is lost, and the next writer begins anew") {
  const Watchdog dog{"cut, and on"};
  const TempDir dir;
  const std::string path = dir / "line";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const Readings all = readings(40);
  const auto bytes = std::as_bytes(std::span{all});
  auto pipeline = ps::Pipeline{
      std::tuple{ps::Reader{ps::fifo<Reading>(path), {.batch = 10, .on_error = {.retries = 2}}}}};
  pipeline.prepare();
  const auto sent = [&](std::span<const std::byte> some) {
    // Until another writer is there, a run sees the end that the last one left.
    const int to = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    REQUIRE(to >= 0);
    std::thread writer{[&] {
      Ends::write(to, some, 4096);
      ::close(to);
    }};
    Readings seen;
    const Outcome outcome = outcome_of([&] { seen = run(pipeline); });
    writer.join();
    return std::pair{outcome, seen};
  };
  const auto [cut, lost] = sent(bytes.first(25 * sizeof(Reading) - 5));
  CHECK(cut.came == Came::stage_error);
  CHECK(cut.says("of the 12 bytes from byte 288 on it gave 7."));
  const auto [whole, seen] = sent(bytes.last(15 * sizeof(Reading)));
  CHECK(whole.came == Came::nothing);
  CHECK(seen == readings(15, 25));
}

TEST_CASE("a terminal that nobody has open any more has ended") {
  const Watchdog dog{"terminal"};
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(terminal >= 0);
  REQUIRE(::grantpt(terminal) == 0);
  REQUIRE(::unlockpt(terminal) == 0);
  const int other = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(other >= 0);
  termios raw{};
  REQUIRE(::tcgetattr(other, &raw) == 0);
  ::cfmakeraw(&raw);
  REQUIRE(::tcsetattr(other, TCSANOW, &raw) == 0);
  const Readings all = readings(2);
  Ends::write(other, std::as_bytes(std::span{all}), 4096);
  ::close(other);
  auto pipeline = pipeline_of(ps::fifo<Reading>(terminal));
  CHECK(run(pipeline) == all);
  ::close(terminal);
}

TEST_CASE("what cannot be opened or read is named") {
  const TempDir dir;
  const auto text_of = [](const auto& source) {
    auto pipeline = pipeline_of(source);
    return outcome_of([&] {
      pipeline.prepare();
      run(pipeline);
    });
  };
  const Outcome missing = text_of(ps::fifo<Reading>(dir / "none"));
  CHECK(missing.came == Came::source_error);
  CHECK(missing.says("cannot open " + (dir / "none") +
                     ": No such file or directory. Check the path."));
  const Outcome none = text_of(ps::fifo<Reading>(9999));
  CHECK(none.came == Came::source_error);
  CHECK(none.says("cannot open descriptor 9999: Bad file descriptor."));
  CHECK(text_of(ps::fifo<Reading>(-1)).says("cannot open descriptor -1: Bad file descriptor."));
  const Outcome folder = text_of(ps::fifo<Reading>(dir.path()));
  CHECK(folder.came == Came::stage_error);
  CHECK(folder.says("cannot read byte 0 of " + dir.path() + ": Is a directory."));
  const Ends pipe{Ends::pipe};
  CHECK(
      text_of(ps::fifo<Reading>(pipe.fds[1])).says("is open for writing only: give the end that"));
  Ends packets{Ends::packet_socket};
  CHECK(text_of(ps::fifo<Reading>(packets.out()))
            .says("is a socket of packets, and what of a packet has no room would be lost"));
  const auto skips = [&] {
    const Ends ends{Ends::pipe};
    auto pipeline = ps::Pipeline{
        std::tuple{ps::Reader{ps::fifo<Reading>(ends.out()), {.on_error = {.skips = 1}}}}};
    pipeline.prepare();
  };
  CHECK(outcome_of(skips).says("come in order only, so skips cannot say which it left out"));
  const auto twice = [&] {
    Ends ends{Ends::pipe};
    auto pipeline =
        ps::Pipeline{std::tuple{ps::Reader{ps::fifo<Reading>(ends.out()), {.epochs = 2}}}};
    pipeline.prepare();
  };
  CHECK(outcome_of(twice).says("epochs is 2: it must be at least 1, and 1 where the source's size "
                               "is unknown."));
}

TEST_CASE("a run is left while nothing comes, and then reads what does") {
  Watchdog dog{"left"};
  Ends ends{Ends::pipe};
  auto pipeline = pipeline_of(ps::fifo<Reading>(ends.out()), 10);
  for (std::uint32_t round = 0; round < 20; ++round) {
    dog.progress(round);
    const Readings some = readings(10, 10 * round);
    ends.write(std::as_bytes(std::span{some}), 4096);
    CHECK(run(pipeline, 10) == some);
    CHECK(pipeline.report().stopped);
  }
}
