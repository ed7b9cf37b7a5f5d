// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/faulty_io.hpp"
#include "support/temp_dir.hpp"

#include <penstock/io/new_file.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;
namespace ps = penstock;
using ps::tests::content_of;
using ps::tests::FaultyIo;
using ps::tests::IoCall;
using ps::tests::IoFaults;
using ps::tests::TempDir;
using Names = std::vector<std::string>;

namespace {

// Ends a test that hangs: the process is killed, and the run fails.
struct Alarm {
  Alarm() { ::alarm(20); }
  ~Alarm() { ::alarm(0); }
};

std::string some_text(std::size_t size) {
  std::string text(size, ' ');
  for (std::size_t i = 0; i < size; ++i) {
    text[i] = static_cast<char>(i * 7 + i / 251);
  }
  return text;
}

std::span<const std::byte> part(const std::string& text, std::size_t from, std::size_t size) {
  return std::as_bytes(std::span{text}).subspan(from, size);
}

// Returns the names of all files in a folder, hidden ones too.
Names names_in(const TempDir& dir) {
  Names names;
  for (const auto& entry : fs::directory_iterator{dir.path()}) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

template <class Call> auto error_of(Call call) {
  return ps::tests::thrown_by<ps::SinkError>(call);
}

template <class Io = ps::PosixIo> auto create_error(const std::string& path, Io io = Io{}) {
  return error_of([&] { ps::NewFile{io, path}; });
}

bool says(const ps::SinkError& e, const std::string& text) {
  return std::string{e.what()}.find(text) != std::string::npos;
}

// Does all that a file's life has, writing its second half first.
template <class Io>
void write_whole(const Io& io, const std::string& path, const std::string& text, bool durable) {
  ps::NewFile file{io, path};
  const std::size_t half = text.size() / 2;
  file.write(half, part(text, half, text.size() - half));
  file.write(0, part(text, 0, half));
  file.commit(durable);
}

// Writes as if to an endless disk, without reading memory.
struct HugeIo : ps::PosixIo {
  std::shared_ptr<std::vector<std::size_t>> asked = std::make_shared<std::vector<std::size_t>>();
  std::int64_t write(int, const std::byte*, std::size_t bytes, std::uint64_t) const {
    asked->push_back(bytes);
    return static_cast<std::int64_t>(bytes);
  }
};

} // namespace

TEST_CASE("a committed file has its bytes, written in any order by several threads") {
  const TempDir dir;
  const std::string text = some_text(40'003);
  constexpr std::size_t piece = 100;
  for (const bool durable : {false, true}) {
    for (const std::size_t most : {1, 3, 99, 100, 4096}) {
      CAPTURE(durable, most);
      IoFaults faults;
      faults.most_bytes = most;
      const FaultyIo<> io{faults};
      ps::NewFile file{io, dir / "a"};
      REQUIRE(file.path() == dir / "a");
      std::vector<std::thread> threads;
      for (std::size_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
          for (std::size_t k = text.size() / piece + 1; k-- > 0;) {
            if (k % 4 == t) {
              file.write(k * piece,
                         part(text, k * piece, std::min(piece, text.size() - k * piece)));
            }
          }
        });
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
      file.commit(durable);
      REQUIRE(content_of(dir / "a") == text);
      REQUIRE(names_in(dir) == Names{"a"});
      REQUIRE(io.open_now() == 0);
      REQUIRE(io.failures() == 0);
    }
  }
}

TEST_CASE("until it is committed a file has another name, hidden, and the old one stays") {
  const TempDir dir;
  const std::string path = dir / "a";
  for (const bool existing : {false, true}) {
    CAPTURE(existing);
    if (existing) {
      dir.write("a", "old, and longer than the new one");
    }
    ps::NewFile file{ps::PosixIo{}, path};
    file.write(0, part("new", 0, 3));
    const Names names = names_in(dir);
    REQUIRE(names.size() == (existing ? 2 : 1));
    REQUIRE(names[0].substr(0, 3) == ".a.");
    if (existing) {
      REQUIRE(names[1] == "a");
      REQUIRE(content_of(path) == "old, and longer than the new one");
    }
    file.commit(false);
    REQUIRE(content_of(path) == "new");
    REQUIRE(names_in(dir) == Names{"a"});
    fs::remove(path);
  }
}

TEST_CASE("what is not committed leaves nothing") {
  const TempDir dir;
  dir.write("a", "old");
  const FaultyIo<> io;
  for (const char* name : {"a", "b"}) {
    ps::NewFile file{io, dir / name};
    file.write(0, part("new", 0, 3));
    REQUIRE(io.open_now() == 1);
  }
  REQUIRE(names_in(dir) == Names{"a"});
  REQUIRE(content_of(dir / "a") == "old");
  REQUIRE(io.open_now() == 0);
}

TEST_CASE("a file that nothing is written to is empty, and holes are 0") {
  const TempDir dir;
  ps::NewFile empty{ps::PosixIo{}, dir / "empty"};
  empty.write(10, {});
  empty.commit(false);
  REQUIRE(content_of(dir / "empty").empty());
  ps::NewFile holed{ps::PosixIo{}, dir / "holed"};
  holed.write(5, part("x", 0, 1));
  holed.commit(false);
  REQUIRE(content_of(dir / "holed") == std::string(5, '\0') + 'x');
}

TEST_CASE("a file moves, and what it was moved from holds nothing") {
  using File = ps::NewFile<FaultyIo<>>;
  static_assert(!std::is_copy_constructible_v<File> && std::is_nothrow_move_constructible_v<File>);
  const TempDir dir;
  const FaultyIo<> io;
  {
    std::optional<File> first{std::in_place, io, dir / "a"};
    first->write(0, part("abc", 0, 3));
    File second{std::move(*first)};
    first.reset();
    REQUIRE(io.open_now() == 1);
    REQUIRE(names_in(dir).size() == 1);
    REQUIRE(second.path() == dir / "a");
    second.write(3, part("def", 0, 3));
    second.commit(false);
    REQUIRE(content_of(dir / "a") == "abcdef");
  }
  REQUIRE(names_in(dir) == Names{"a"});
  REQUIRE(io.open_now() == 0);
  {
    File uncommitted{io, dir / "b"};
    const File other{std::move(uncommitted)};
    REQUIRE(names_in(dir).size() == 2);
  }
  REQUIRE(names_in(dir) == Names{"a"});
  REQUIRE(io.open_now() == 0);
}

TEST_CASE("files of one name keep apart until they are committed, and the last one stays") {
  const TempDir dir;
  // Left by a killed process with this one's number.
  const std::string left = ".a." + std::to_string(::getpid()) + ".0";
  dir.write(left, "left");
  ps::NewFile one{ps::PosixIo{}, dir / "a"};
  ps::NewFile two{ps::PosixIo{}, dir / "a"};
  one.write(0, part("one", 0, 3));
  two.write(0, part("two", 0, 3));
  REQUIRE(names_in(dir).size() == 3);
  two.commit(false);
  REQUIRE(content_of(dir / "a") == "two");
  one.commit(false);
  REQUIRE(content_of(dir / "a") == "one");
  REQUIRE(names_in(dir) == Names{left, "a"});
  REQUIRE(content_of(dir / left) == "left");
}

TEST_CASE("if all the names are taken, that is told in the end") {
  const Alarm alarm;
  const TempDir dir;
  const FaultyIo<> io{
      IoFaults::fail([](const IoCall& c) { return c.name == "create" ? EEXIST : 0; })};
  const auto e = create_error(dir / "a", io);
  REQUIRE(e);
  REQUIRE(says(*e, "penstock: cannot create " + (dir / "a") + ": File exists. Remove the hidden"));
  REQUIRE(io.failures() > 100);
}

TEST_CASE("an interrupted call of a NewFile is made again at once, a later one after a pause") {
  const TempDir dir;
  const std::string text = some_text(100);
  for (const int error : {EINTR, EAGAIN}) {
    CAPTURE(error);
    IoFaults faults = IoFaults::fail(
        [error](const IoCall& c) { return c.number % 3 == 0 || c.name == "close" ? 0 : error; });
    faults.most_bytes = 10;
    const FaultyIo<> io{faults};
    write_whole(io, dir / "a", text, true);
    REQUIRE(content_of(dir / "a") == text);
    {
      const ps::NewFile uncommitted{io, dir / "b"};
    }
    REQUIRE(names_in(dir) == Names{"a"});
    REQUIRE(io.failures() > 20);
    REQUIRE(io.pauses() == (error == EAGAIN ? io.failures() : 0));
  }
}

TEST_CASE("a write that is interrupted for ever, or never takes a byte, is given up") {
  const Alarm alarm;
  const TempDir dir;
  for (const int error : {EINTR, EAGAIN, 0}) {
    CAPTURE(error);
    IoFaults faults =
        IoFaults::fail([error](const IoCall& c) { return c.name == "write" ? error : 0; });
    faults.most_bytes = 0;
    const FaultyIo<> io{faults};
    const ps::NewFile file{io, dir / "a"};
    const long before = io.calls();
    const auto e = error_of([&] { file.write(7, part("abc", 0, 3)); });
    REQUIRE(e);
    REQUIRE(e->offset() == 7);
    REQUIRE(says(*e, std::generic_category().message(error == 0 ? EAGAIN : error)));
    REQUIRE(io.calls() - before == ps::detail::most_tries);
  }
}

TEST_CASE("a write that fails names the file, the byte, the cause and what to do") {
  const TempDir dir;
  const std::string path = dir / "a";
  IoFaults faults = IoFaults::fail([](const IoCall& c) { return c.number == 5 ? ENOSPC : 0; });
  faults.most_bytes = 20; // status, create, two writes: the third fails
  ps::NewFile file{FaultyIo<>{faults}, path};
  const std::string text = some_text(100);
  const auto e = error_of([&] { file.write(10, part(text, 10, 90)); });
  REQUIRE(e);
  REQUIRE(e->file() == path);
  REQUIRE(e->offset() == 50);
  REQUIRE(std::string{e->what()} == "penstock: cannot write byte 50 of " + path +
                                        ": No space left on device. Free some space, or write to "
                                        "another disk.");
  // The same writes succeed now.
  file.write(0, part(text, 0, 100));
  file.commit(false);
  REQUIRE(content_of(path) == text);
}

TEST_CASE("a real limit is met in the middle of a write") {
  const TempDir dir;
  const std::string text = some_text(150);
  const ps::NewFile file{ps::PosixIo{}, dir / "a"};
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlimit small{100, limit.rlim_max};
  const int lowered = ::setrlimit(RLIMIT_FSIZE, &small);
  const auto e = error_of([&] { file.write(0, part(text, 0, 150)); });
  const int restored = ::setrlimit(RLIMIT_FSIZE, &limit);
  REQUIRE((lowered == 0 && restored == 0));
  REQUIRE(e);
  REQUIRE(e->offset() == 100);
  REQUIRE(says(*e, "cannot write byte 100 of " + (dir / "a") + ": File too large. "));
  REQUIRE(says(*e, "ulimit -f"));
}

TEST_CASE("a write that is too large for the system is made in several") {
  const std::size_t bytes = (std::size_t{5} << 30) / 2;
  void* const at =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(at != MAP_FAILED);
  const HugeIo io;
  {
    const TempDir dir;
    const ps::NewFile file{io, dir / "a"};
    file.write(std::uint64_t{1} << 33, {static_cast<const std::byte*>(at), bytes});
  }
  ::munmap(at, bytes);
  const std::size_t most = std::size_t{1} << 30;
  REQUIRE(*io.asked == std::vector<std::size_t>{most, most, most / 2});
}

TEST_CASE("bytes written beyond 4 GiB lie there") {
  const TempDir dir;
  const std::uint64_t far = (std::uint64_t{1} << 32) + 3;
  ps::NewFile file{ps::PosixIo{}, dir / "a"};
  file.write(far, part("end", 0, 3));
  file.write(0, part("start", 0, 5));
  file.commit(false);
  const ps::File read{ps::PosixIo{}, dir / "a"};
  REQUIRE(read.size() == far + 3);
  for (const auto& [at, expected] : {std::pair{std::uint64_t{0}, "star"}, {far - 1, "\0end"}}) {
    std::string text(4, ' ');
    ps::read_full(read, at, std::as_writable_bytes(std::span{text}));
    REQUIRE(text == std::string(expected, 4));
  }
}

TEST_CASE("a durable file is on the disk before it has its name, and the name after") {
  const TempDir dir;
  for (const bool durable : {false, true}) {
    CAPTURE(durable);
    Names names;
    std::string renamed;
    std::string folder;
    const FaultyIo<> io{IoFaults::fail([&](const IoCall& c) {
      names.emplace_back(c.name);
      renamed = c.name == "rename" ? c.path : renamed;
      folder = c.name == "sync_folder" ? c.path : folder;
      return 0;
    })};
    ps::NewFile file{io, dir / "a"};
    file.write(0, part("abc", 0, 3));
    file.commit(durable);
    REQUIRE(names ==
            (durable ? Names{"status", "create", "write", "sync", "close", "rename", "sync_folder"}
                     : Names{"status", "create", "write", "close", "rename"}));
    REQUIRE(renamed == dir / "a");
    REQUIRE((!durable || fs::equivalent(folder, dir.path())));
  }
}

TEST_CASE("whether a file is still wanted is asked once, directly before it gets its name") {
  const TempDir dir;
  for (const bool durable : {false, true}) {
    for (const bool wanted : {false, true}) {
      CAPTURE(durable, wanted);
      dir.write("a", "old");
      Names names;
      const FaultyIo<> io{IoFaults::fail([&](const IoCall& c) {
        names.emplace_back(c.name);
        return 0;
      })};
      ps::NewFile file{io, dir / "a"};
      file.write(0, part("new", 0, 3));
      file.commit(durable, [&] {
        names.emplace_back("wanted");
        return wanted;
      });
      Names expected{"status", "create", "write", "sync", "close", "wanted"};
      if (!durable) {
        std::erase(expected, "sync");
      }
      expected.emplace_back(wanted ? "rename" : "unlink");
      if (durable && wanted) {
        expected.emplace_back("sync_folder");
      }
      REQUIRE(names == expected);
      REQUIRE(content_of(dir / "a") == (wanted ? "new" : "old"));
      REQUIRE(names_in(dir) == Names{"a"});
      REQUIRE(io.open_now() == 0);
      REQUIRE(error_of([&] { file.commit(durable); })); // not a second time
    }
  }
}

TEST_CASE("a folder's name that could not be made durable is an error, but not where none can be") {
  const TempDir dir;
  const auto commit_with = [&](int error) {
    return error_of([&] {
      write_whole(FaultyIo<>{IoFaults::fail(
                      [error](const IoCall& c) { return c.name == "sync_folder" ? error : 0; })},
                  dir / "a", "abc", true);
    });
  };
  REQUIRE(!commit_with(EINVAL));
  fs::remove(dir / "a");
  const auto e = commit_with(EIO);
  REQUIRE(e);
  REQUIRE(e->file() == dir / "a");
  REQUIRE(says(*e, "what now lies at " + (dir / "a") + ": Input/output error. "));
  REQUIRE(content_of(dir / "a") == "abc");
}

TEST_CASE("a close that fails is a commit that fails, whatever it says") {
  const TempDir dir;
  dir.write("a", "old");
  for (const int error : {EIO, ENOSPC, EDQUOT, EINTR}) {
    CAPTURE(error);
    const FaultyIo<> io{
        IoFaults::fail([error](const IoCall& c) { return c.name == "close" ? error : 0; })};
    ps::NewFile file{io, dir / "a"};
    file.write(0, part("new", 0, 3));
    const auto e = error_of([&] { file.commit(false); });
    REQUIRE(e);
    REQUIRE(e->file() == dir / "a");
    REQUIRE(says(*e, "penstock: cannot write " + (dir / "a") + ": " +
                         std::generic_category().message(error)));
    REQUIRE(content_of(dir / "a") == "old");
    REQUIRE(names_in(dir) == Names{"a"}); // at once, not when it dies
    REQUIRE(io.open_now() == 0);
  }
}

TEST_CASE("after commit() a file takes nothing more, and is not committed twice") {
  const TempDir dir;
  const FaultyIo<> io;
  ps::NewFile file{io, dir / "a"};
  file.write(0, part("abc", 0, 3));
  file.commit(false);
  for (const auto& e :
       {error_of([&] { file.write(3, part("d", 0, 1)); }), error_of([&] { file.commit(false); })}) {
    REQUIRE(e);
    REQUIRE(e->file() == dir / "a");
    REQUIRE(says(*e, "A file takes no more once commit() was called."));
  }
  REQUIRE(content_of(dir / "a") == "abc");
  REQUIRE(io.open_now() == 0);
}

TEST_CASE("a path that no file can be made at is named with the reason and the cure") {
  const Alarm alarm;
  const TempDir dir;
  const std::string file = dir.write("file", "x");
  fs::create_directory(dir / "folder");
  const std::string fifo = dir / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const Names before = names_in(dir);
  const auto check = [&](const std::string& path, const std::string& text) {
    CAPTURE(path);
    const FaultyIo<> io;
    const auto e = create_error(path, io);
    REQUIRE(e);
    REQUIRE(e->file() == path);
    REQUIRE(e->offset() == 0);
    CAPTURE(e->what());
    REQUIRE(says(*e, text));
    REQUIRE(io.open_now() == 0);
    REQUIRE(names_in(dir) == before);
  };
  check("", "the path of the file to write is empty: name a file.");
  const std::string none = dir / "none/a";
  check(none, "cannot create " + none + ": No such file or directory. Check the path, and make");
  check(dir / "none/", "No such file or directory. Check the path, and make its folder first.");
  check(file + "/a", "cannot create " + file + "/a: Not a directory. Check the path, and make");
  for (const std::string& path : {dir / "folder", dir / "folder/", dir / "folder/.."}) {
    check(path, "cannot create " + path + ": Is a directory. Name a file in it.");
  }
  check(fifo, fifo + " is not a regular file, so it cannot be replaced");
  check("/dev/null", "/dev/null is not a regular file, so it cannot be replaced");
  check(file + '\0' + ".bin", "\"" + file + "\" goes on after a zero byte");
  const std::string longest = dir / std::string(255, 'x');
  check(longest, "cannot create " + longest + ": File name too long. Take a shorter name");
  check(longest + 'x', "File name too long. Take a shorter name");

  const std::string just = std::string(241, 'x'); // 14 bytes less
  write_whole(ps::PosixIo{}, dir / just, "abc", false);
  REQUIRE(content_of(dir / just) == "abc");
}

TEST_CASE("causes that lie with the system have their own cures") {
  const TempDir dir;
  const std::pair<int, const char*> cures[] = {
      {EACCES, "Give this user the right to make files"},
      {EPERM, "Give this user the right to make files"},
      {EROFS, "write to another"},
      {ENOSPC, "Free some space"},
      {EDQUOT, "have the quota raised"},
      {EFBIG, "write several files"},
      {EMFILE, "ulimit -n"},
      {ENFILE, "ulimit -n"},
      {EIO, "see the system's log"},
      {ESTALE, "Check the file system"},
  };
  for (const auto& [error, cure] : cures) {
    CAPTURE(error);
    const auto e = create_error(dir / "a", FaultyIo<>{IoFaults::fail([code = error](auto& c) {
                                  return c.name == "create" ? code : 0;
                                })});
    REQUIRE(e);
    REQUIRE(says(*e, std::generic_category().message(error) + ". "));
    REQUIRE(says(*e, cure));
  }
}

TEST_CASE("a link is replaced itself, and what it led to stays") {
  const TempDir dir;
  dir.write("target", "old");
  for (const char* leads_to : {"target", "nowhere"}) {
    CAPTURE(leads_to);
    fs::create_symlink(leads_to, dir / "link");
    write_whole(ps::PosixIo{}, dir / "link", "new", true);
    REQUIRE(!fs::is_symlink(dir / "link"));
    REQUIRE(content_of(dir / "link") == "new");
    REQUIRE(content_of(dir / "target") == "old");
    REQUIRE(names_in(dir) == Names{"link", "target"});
    fs::remove(dir / "link");
  }
}

TEST_CASE("a path may be relative, with a folder or without") {
  const TempDir dir;
  fs::create_directory(dir / "folder");
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  const auto e = error_of([] {
    write_whole(ps::PosixIo{}, "a", "abc", true);
    write_whole(ps::PosixIo{}, "folder/b", "def", true);
  });
  fs::current_path(before);
  REQUIRE(!e);
  REQUIRE(content_of(dir / "a") == "abc");
  REQUIRE(content_of(dir / "folder/b") == "def");
  REQUIRE(names_in(dir) == Names{"a", "folder"});
}

TEST_CASE("a file gets its name where it was begun, whatever the current folder is then") {
  const TempDir dir;
  const TempDir other;
  other.write("a", "another");
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  std::string path;
  const auto e = error_of([&] {
    ps::NewFile file{ps::PosixIo{}, "a"};
    path = file.path();
    file.write(0, part("abc", 0, 3));
    fs::current_path(other.path());
    file.commit(true);
  });
  fs::current_path(before);
  REQUIRE(!e);
  REQUIRE(path == "a");
  REQUIRE(names_in(dir) == Names{"a"});
  REQUIRE(content_of(dir / "a") == "abc");
  REQUIRE(content_of(other / "a") == "another");
}

TEST_CASE("whichever call fails, there is the old file or the whole new one, and nothing else") {
  const std::string text = some_text(40);
  int fired = 0;
  for (const int error : {ENOSPC, EIO, EINTR, EAGAIN}) {
    for (const bool persistent : {false, true}) {
      for (const bool existing : {false, true}) {
        for (long k = 1;; ++k) {
          CAPTURE(error, persistent, existing, k);
          const TempDir dir;
          const std::string path = existing ? dir.write("a", "old") : dir / "a";
          IoFaults faults =
              persistent ? IoFaults::fail_from(k, error) : IoFaults::fail_once(k, error);
          faults.most_bytes = 15;
          std::string failed; // the first call that failed
          faults.error = [inner = faults.error, &failed](const IoCall& call) {
            const int e = inner(call);
            failed = e != 0 && failed.empty() ? call.name : failed;
            return e;
          };
          const FaultyIo<> io{faults};
          const auto e = error_of([&] { write_whole(io, path, text, true); });
          REQUIRE(io.open_now() == 0);
          const bool passing =
              !persistent && (error == EINTR || error == EAGAIN) && failed != "close";
          REQUIRE(e.has_value() == (io.failures() > 0 && !passing));
          if (e) {
            REQUIRE(e->file() == path);
            REQUIRE(says(*e, path + ": " + std::generic_category().message(error) + ". "));
          }
          const bool is_new = !e || failed == "sync_folder";
          const bool left = persistent && !is_new && failed != "status" && failed != "create";
          Names expected{"a"};
          if (!is_new && !existing) {
            expected.clear();
          }
          Names names = names_in(dir);
          if (left) { // since it could not be removed either
            REQUIRE(names.size() == expected.size() + 1);
            REQUIRE(names[0].substr(0, 3) == ".a.");
            names.erase(names.begin());
          }
          REQUIRE(names == expected);
          if (!names.empty()) {
            REQUIRE(content_of(path) == (is_new ? text : "old"));
          }
          if (io.failures() == 0) {
            REQUIRE(k == 11); // status, create, 4 writes, sync, close, rename, sync_folder
            break;
          }
          ++fired;
        }
      }
    }
  }
  std::cout << "NewFile: " << fired << " failing calls tried.\n";
}

TEST_CASE("whenever the process is killed, there is the old file or the whole new one") {
  const Alarm alarm;
  const TempDir dir;
  const std::string path = dir.write("a", "old");
  const std::string text = some_text(40);
  int killed = 0;
  bool ended = false;
  for (long k = 1; !ended; ++k) {
    CAPTURE(k);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      IoFaults faults = IoFaults::fail(
          [k](const IoCall& call) { return call.number == k ? ::kill(::getpid(), SIGKILL) : 0; });
      faults.most_bytes = 7;
      write_whole(FaultyIo<>{faults}, path, text, true);
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    ended = WIFEXITED(status);
    REQUIRE((ended ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL));
    const std::string now = content_of(path);
    REQUIRE((now == text || (now == "old" && !ended)));
    killed += ended ? 0 : 1;
    dir.write("a", "old");
  }
  REQUIRE(killed == 12);               // status, create, 6 writes, sync, close, rename, sync_folder
  REQUIRE(names_in(dir).size() == 10); // the file, and nine that killed children left
  // The files left are in nobody's way.
  write_whole(ps::PosixIo{}, path, text, true);
  REQUIRE(content_of(path) == text);
}
