// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/faulty_io.hpp"
#include "support/temp_dir.hpp"

#include <penstock/io/file.hpp>
#include <penstock/io/folder.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ps = penstock;
using ps::tests::FaultyIo;
using ps::tests::IoCall;
using ps::tests::IoFaults;
using ps::tests::TempDir;

namespace {

// Ends a test that hangs: the process is killed, and the run fails.
struct Alarm {
  Alarm() { ::alarm(20); }
  ~Alarm() { ::alarm(0); }
};

std::vector<std::byte> some_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  return bytes;
}

template <class Call> auto error_of(Call call) {
  return ps::tests::thrown_by<ps::SourceError>(call);
}

bool says(const ps::SourceError& e, const std::string& text) {
  return std::string{e.what()}.find(text) != std::string::npos;
}

template <class Io>
std::vector<std::byte> read_all(const ps::File<Io>& file, std::uint64_t offset, std::size_t size) {
  std::vector<std::byte> into(size);
  ps::read_full(file, offset, std::span{into});
  return into;
}

template <class Io = ps::PosixIo> auto open_error(const std::string& path, Io io = Io{}) {
  return error_of([&] { ps::File{io, path}; });
}

// Sets the time of the last write to so many nanoseconds after a time in the past.
void set_time(const std::string& path, long nanoseconds) {
  const timespec time{1'600'000'000, 123'456'000 + nanoseconds};
  const timespec times[2] = {time, time};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

// Reads as if from an endless file, without touching memory.
struct HugeIo : ps::PosixIo {
  std::shared_ptr<std::vector<std::size_t>> asked = std::make_shared<std::vector<std::size_t>>();
  int status(int, ps::FileStatus& status) const {
    status = {ps::FileKind::regular, std::uint64_t{1} << 40};
    return 0;
  }
  std::int64_t read(int, std::byte*, std::size_t bytes, std::uint64_t) const {
    asked->push_back(bytes);
    return static_cast<std::int64_t>(bytes);
  }
};

} // namespace

TEST_CASE("a file is read in full, whatever a single read gives") {
  const TempDir dir;
  const auto bytes = some_bytes(1000);
  const std::string path = dir.write("a", bytes);
  for (const std::size_t most : {1, 3, 999, 1000, 4096}) {
    CAPTURE(most);
    IoFaults faults;
    faults.most_bytes = most;
    const FaultyIo<> io{faults};
    const ps::File file{io, path};
    REQUIRE(file.size() == 1000);
    REQUIRE(file.path() == path);
    REQUIRE(read_all(file, 0, 1000) == bytes);
    REQUIRE(io.reads() == static_cast<long>((1000 + most - 1) / most));
    REQUIRE(read_all(file, 17, 400) == std::vector(bytes.begin() + 17, bytes.begin() + 417));
    REQUIRE(read_all(file, 1000, 0).empty());
  }
}

TEST_CASE("a folder is listed once a descriptor is free again") {
  const TempDir dir;
  const std::string path = dir.write("a", "x");
  for (const int error : {EMFILE, ENFILE}) {
    CAPTURE(error);
    int refusals = 0;
    const FaultyIo<> io{IoFaults::fail(
        [&](const IoCall& c) { return c.name == "open_folder" && ++refusals <= 20 ? error : 0; })};
    CHECK(ps::files_at(io, dir.path()) == std::vector{path});
    CHECK(io.pauses() == 20);
  }
}

TEST_CASE("an interrupted call is made again at once, and one to be tried later after a pause") {
  const TempDir dir;
  const auto bytes = some_bytes(100);
  const std::string path = dir.write("a", bytes);
  for (const int error : {EINTR, EAGAIN}) {
    CAPTURE(error);
    IoFaults faults = IoFaults::fail([error](const IoCall& c) {
      return c.number % 3 == 0 || c.name.substr(0, 5) == "close" ? 0 : error;
    });
    faults.most_bytes = 10;
    const FaultyIo<> io{faults};
    REQUIRE(ps::files_at(io, dir.path()) == std::vector{path});
    REQUIRE(read_all(ps::File{io, path}, 0, 100) == bytes);
    REQUIRE(io.failures() > 20);
    REQUIRE(io.pauses() == (error == EAGAIN ? io.failures() : 0));
  }
}

TEST_CASE("a call that is interrupted for ever is given up") {
  const Alarm alarm;
  const TempDir dir;
  const std::string path = dir.write("a", some_bytes(100));
  for (const int error : {EINTR, EAGAIN}) {
    CAPTURE(error);
    const FaultyIo<> io{
        IoFaults::fail([error](const IoCall& c) { return c.name == "read" ? error : 0; })};
    const ps::File file{io, path};
    const auto e = error_of([&] { read_all(file, 0, 100); });
    REQUIRE(e);
    REQUIRE(says(*e, std::generic_category().message(error)));
    REQUIRE(io.reads() == ps::detail::most_tries);
  }
}

TEST_CASE("each byte that is read starts the count of interruptions anew") {
  const TempDir dir;
  const auto bytes = some_bytes(5);
  long since = 0;
  IoFaults faults = IoFaults::fail([&since](const IoCall& c) {
    if (c.name != "read" || ++since == ps::detail::most_tries) {
      since = 0;
      return 0;
    }
    return EINTR;
  });
  faults.most_bytes = 1;
  const FaultyIo<> io{faults};
  const ps::File file{io, dir.write("a", bytes)};
  REQUIRE(read_all(file, 0, 5) == bytes);
  REQUIRE(io.reads() == 5 * ps::detail::most_tries);
}

TEST_CASE("a read that fails names the file, the byte, the cause and what to do") {
  const TempDir dir;
  const std::string path = dir.write("a", some_bytes(100));
  IoFaults faults = IoFaults::fail([](const IoCall& c) { return c.number == 5 ? EIO : 0; });
  faults.most_bytes = 20; // open, status, two reads: the third fails
  const ps::File file{FaultyIo<>{faults}, path};
  const auto e = error_of([&] { read_all(file, 10, 90); });
  REQUIRE(e);
  REQUIRE(e->file() == path);
  REQUIRE(e->offset() == 50);
  REQUIRE(says(*e, "penstock: cannot read byte 50 of " + path + ": Input/output error."));
  REQUIRE(says(*e, "system's log"));
}

TEST_CASE("a file that shrinks while it is read is refused with its size and where it ends now") {
  const Alarm alarm;
  const TempDir dir;
  const std::string path = dir.write("a", some_bytes(100));
  const auto check = [&](const auto& e) {
    REQUIRE(e);
    REQUIRE(e->file() == path);
    REQUIRE(e->offset() == 60);
    REQUIRE(says(*e, path + " shrank while it was read: it had 100 bytes"));
    REQUIRE(says(*e, "now ends before byte 60."));
  };
  SECTION("in truth") {
    const ps::File file{ps::PosixIo{}, path};
    REQUIRE(::truncate(path.c_str(), 60) == 0);
    REQUIRE(read_all(file, 0, 60) == some_bytes(60));
    check(error_of([&] { read_all(file, 20, 80); }));
  }
  SECTION("between two reads") {
    IoFaults faults;
    faults.ends_at = 60;
    faults.most_bytes = 7;
    const ps::File file{FaultyIo<>{faults}, path};
    check(error_of([&] { read_all(file, 0, 100); }));
  }
}

TEST_CASE("a read that is too large for the system is made in several") {
  const std::size_t bytes = (std::size_t{5} << 30) / 2;
  void* const at =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(at != MAP_FAILED);
  const HugeIo io;
  {
    const TempDir dir;
    const ps::File file{io, dir.write("a", "x")};
    ps::read_full(file, std::uint64_t{1} << 33, {static_cast<std::byte*>(at), bytes});
  }
  ::munmap(at, bytes);
  const std::size_t most = std::size_t{1} << 30;
  REQUIRE(*io.asked == std::vector<std::size_t>{most, most, most / 2});
}

TEST_CASE("offsets beyond 4 GiB reach their own bytes") {
  const TempDir dir;
  const std::string path = dir.write("a", "start");
  const std::uint64_t far = (std::uint64_t{1} << 32) + 3;
  std::filesystem::resize_file(path, far);
  {
    std::fstream out{path, std::ios::in | std::ios::out | std::ios::binary};
    out.seekp(static_cast<std::streamoff>(far));
    out << "end";
  }
  const ps::File file{ps::PosixIo{}, path};
  REQUIRE(file.size() == far + 3);
  std::string text(3, ' ');
  ps::read_full(file, far, std::as_writable_bytes(std::span{text}));
  REQUIRE(text == "end");
  ps::read_full(file, 0, std::as_writable_bytes(std::span{text}));
  REQUIRE(text == "sta");
}

TEST_CASE("a file that is not there, or not for this user, is named with the reason") {
  const TempDir dir;
  const std::string none = dir / "none";
  auto e = error_of([&] { ps::files_at(ps::PosixIo{}, none); });
  REQUIRE(e);
  REQUIRE(e->file() == none);
  REQUIRE(
      says(*e, "penstock: cannot find " + none + ": No such file or directory. Check the path"));

  for (const char* pattern : {"train-{00..03}.tar", "*.bin", "a?.bin", "a[0-9].bin"}) {
    e = error_of([&] { ps::files_at(ps::PosixIo{}, dir / pattern); });
    REQUIRE(e);
    REQUIRE(says(*e, "No such file or directory. Check the path: it is taken as it stands, and no "
                     "pattern is filled in. Give a list of paths, or a folder."));
  }

  e = open_error(none);
  REQUIRE(e);
  REQUIRE(says(*e, "cannot open " + none + ": No such file or directory"));

  const std::string path = dir.write("a", "x");
  e = error_of([&] { ps::files_at(ps::PosixIo{}, path + "/b"); });
  REQUIRE(e);
  REQUIRE(says(*e, path + "/b: Not a directory. Check the path"));

  // FaultyIo refuses, since no file system refuses the superuser.
  const auto refuse = [](int error) {
    return FaultyIo<>{
        IoFaults::fail([error](const IoCall& c) { return c.name == "open" ? error : 0; })};
  };
  e = open_error(path, refuse(EACCES));
  REQUIRE(e);
  REQUIRE(says(*e, path + ": Permission denied. Give this user the right"));
  e = open_error(path, refuse(EMFILE));
  REQUIRE(e);
  REQUIRE(says(*e, "ulimit -n"));
}

TEST_CASE("what is no regular file is refused without waiting for it") {
  const Alarm alarm;
  const TempDir dir;
  const std::string fifo = dir / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const std::string socket_path = dir / "socket";
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  for (const std::string& path : {fifo, socket_path, std::string{"/dev/zero"}}) {
    CAPTURE(path);
    const FaultyIo<> io;
    const auto e = error_of([&] { ps::files_at(io, path); });
    REQUIRE(e);
    REQUIRE(e->file() == path);
    REQUIRE(says(*e, "penstock: " + path + " is not a regular file"));
    REQUIRE(io.calls() == 1); // looked at, not opened
  }
  // As if each had taken the place of a file that was looked at before.
  for (const std::string& path : {fifo, std::string{"/dev/zero"}, dir.path()}) {
    CAPTURE(path);
    const FaultyIo<> io;
    const auto e = open_error(path, io);
    REQUIRE(e);
    REQUIRE(says(*e, path + " is not a regular file"));
    REQUIRE(io.reads() == 0);
    REQUIRE(io.opens() == 1);
    REQUIRE(io.open_now() == 0);
  }
  ::close(fd);
}

TEST_CASE("a file of the system's own that does not tell its size is refused") {
  const auto e = open_error("/proc/self/status");
  REQUIRE(e);
  REQUIRE(says(*e, "/proc/self/status says that it has 0 bytes, but something is in it"));
  const TempDir dir;
  REQUIRE(ps::File{ps::PosixIo{}, dir.write("empty", "")}.size() == 0);
}

TEST_CASE("a file is closed once, in the end or before") {
  using File = ps::File<FaultyIo<>>;
  static_assert(!std::is_copy_constructible_v<File> && std::is_nothrow_move_constructible_v<File>);
  const TempDir dir;
  const FaultyIo<> io;
  {
    File file{io, dir.write("a", "abc")};
    REQUIRE(io.open_now() == 1);
    File moved{std::move(file)};
    REQUIRE(io.open_now() == 1);
    REQUIRE(moved.is_open());
    moved.close();
    REQUIRE(io.open_now() == 0);
    REQUIRE(!moved.is_open());

    // From now on each read opens the file for itself.
    REQUIRE(read_all(moved, 1, 2) == std::vector{std::byte{'b'}, std::byte{'c'}});
    REQUIRE(read_all(moved, 0, 1) == std::vector{std::byte{'a'}});
    REQUIRE(io.opens() == 3);
    REQUIRE(io.open_now() == 0);
    const File other{io, moved.path()};
    REQUIRE(io.open_now() == 1);
  }
  REQUIRE(io.open_now() == 0);
}

TEST_CASE("what is opened again is what was opened first, or the error says what has changed") {
  const TempDir dir;
  const auto bytes = some_bytes(100);
  const std::string path = dir.write("a", bytes);
  set_time(path, 0);
  ps::File file{ps::PosixIo{}, path};
  file.close();
  REQUIRE(read_all(file, 0, 100) == bytes);
  const auto refused = [&](const std::string& why) {
    const auto e = error_of([&] { read_all(file, 10, 20); });
    REQUIRE(e);
    REQUIRE(e->file() == path);
    REQUIRE(says(*e, "penstock: " + path + " changed while it was read: " + why + ". Leave a"));
  };
  SECTION("another file took its name, of the same size and time") {
    set_time(dir.write("b", some_bytes(100)), 0);
    std::filesystem::rename(dir / "b", path);
    refused("another file has its name now");
  }
  SECTION("it has grown") {
    std::filesystem::resize_file(path, 101);
    refused("it had 100 bytes and now has 101");
  }
  SECTION("it has shrunk, though not to where it is read") {
    std::filesystem::resize_file(path, 99);
    refused("it had 100 bytes and now has 99");
  }
  SECTION("it was written to, a nanosecond later") {
    dir.write("a", some_bytes(100));
    set_time(path, 1);
    refused("it was written to, or its time was set");
  }
  SECTION("a folder took its name") {
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    const auto e = error_of([&] { read_all(file, 10, 20); });
    REQUIRE(e);
    REQUIRE(says(*e, path + " is not a regular file"));
  }
}

TEST_CASE("a file that keeps its descriptor is read on, whatever takes its name") {
  const TempDir dir;
  const std::string path = dir.write("a", some_bytes(100));
  const ps::File file{ps::PosixIo{}, path};
  std::filesystem::rename(dir.write("b", "another"), path);
  REQUIRE(read_all(file, 0, 100) == some_bytes(100));
}

TEST_CASE("to open a file again and to read nothing of it takes no call beside those") {
  const TempDir dir;
  const FaultyIo<> io;
  ps::File file{io, dir.write("a", some_bytes(100))};
  file.close();
  const long before = io.calls();
  REQUIRE(read_all(file, 7, 13).size() == 13);
  REQUIRE(io.calls() == before + 4); // opened, looked at, read, closed
  REQUIRE(read_all(file, 7, 0).empty());
  REQUIRE(io.calls() == before + 4);
}

TEST_CASE("a relative path leads to where it led when the file was opened") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "other");
  dir.write("other/a", "another");
  const auto bytes = some_bytes(100);
  dir.write("a", bytes);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  ps::File file{ps::PosixIo{}, "a"};
  file.close();
  std::filesystem::current_path(dir / "other");
  std::vector<std::byte> got;
  auto e = error_of([&] { got = read_all(file, 0, 100); });
  std::filesystem::current_path(before);
  REQUIRE(!e);
  REQUIRE(got == bytes);
  REQUIRE(file.path() == "a");
  std::filesystem::remove(dir / "a");
  e = error_of([&] { read_all(file, 0, 100); });
  REQUIRE(e);
  REQUIRE(e->file() == "a");
  REQUIRE(says(*e, "penstock: cannot open a: No such file"));
}

TEST_CASE("a directory stands for its files in the order of their bytes") {
  const TempDir dir;
  for (const char* name : {"b", "B", "a10", "a9", "\xc3\xa4", ".hidden"}) {
    dir.write(name, name);
  }
  std::filesystem::create_directory(dir / "folder");
  dir.write("folder/inside", "x");
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  std::filesystem::create_symlink("b", dir / "link");
  std::filesystem::create_directory_symlink("folder", dir / "link_to_folder");
  const std::vector<std::string> names{"B", "a10", "a9", "b", "link", "\xc3\xa4"};
  std::vector<std::string> expected;
  for (const std::string& name : names) {
    expected.push_back(dir / name);
  }
  const FaultyIo<> io;
  REQUIRE(ps::files_at(io, dir.path()) == expected);
  REQUIRE(ps::files_at(io, dir.path() + '/') == expected);
  REQUIRE(io.opens() == 0);
  REQUIRE(io.open_now() == 0);
  REQUIRE(ps::files_at(io, dir / "link") == std::vector{dir / "link"});
  REQUIRE(ps::files_at(io, dir / ".hidden") ==
          std::vector{dir / ".hidden"}); // if asked for by name
}

TEST_CASE("a directory without files, and a link that leads nowhere, are named") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "folder");
  dir.write(".hidden", "x");
  auto e = error_of([&] { ps::files_at(ps::PosixIo{}, dir.path()); });
  REQUIRE(e);
  REQUIRE(e->file() == dir.path());
  REQUIRE(says(*e, "there is no file to read in the directory " + dir.path()));

  dir.write("a", "x");
  std::filesystem::create_symlink("nowhere", dir / "link");
  e = error_of([&] { ps::files_at(ps::PosixIo{}, dir.path()); });
  REQUIRE(e);
  REQUIRE(e->file() == dir / "link");
  REQUIRE(says(*e, "cannot find " + (dir / "link")));
}

TEST_CASE("a path with a zero byte inside does not stand for its first part") {
  const TempDir dir;
  const std::string path = dir.write("a", "x");
  const auto e = error_of([&] { ps::files_at(ps::PosixIo{}, path + '\0' + ".bin"); });
  REQUIRE(e);
  REQUIRE(says(*e, "\"" + path + "\" goes on after a zero byte"));
}

TEST_CASE("whichever call fails, the bytes are right or the error says why, and all is closed") {
  const TempDir dir;
  const auto bytes = some_bytes(40);
  for (const char* name : {"a", "b", "c"}) {
    dir.write(name, bytes);
  }
  dir.write("empty", "");
  int fired = 0;
  for (const int error : {EIO, EINTR, EAGAIN, ESTALE}) {
    for (const bool persistent : {false, true}) {
      for (long k = 1;; ++k) {
        CAPTURE(error, persistent, k);
        IoFaults faults =
            persistent ? IoFaults::fail_from(k, error) : IoFaults::fail_once(k, error);
        faults.most_bytes = 15;
        std::string_view failed;
        faults.error = [inner = faults.error, &failed](const IoCall& call) {
          const int e = inner(call);
          failed = e != 0 && failed.empty() ? call.name : failed;
          return e;
        };
        const FaultyIo<> io{faults};
        bool all_right = true;
        const auto e = error_of([&] {
          for (const std::string& path : ps::files_at(io, dir.path())) {
            ps::File file{io, path};
            if (file.size() == 0) {
              continue;
            }
            all_right &= read_all(file, 0, 40) == bytes;
            file.close();
            all_right &= read_all(file, 20, 20) == std::vector(bytes.begin() + 20, bytes.end());
          }
        });
        REQUIRE(all_right);
        REQUIRE(io.open_now() == 0);
        const bool passing = !persistent && (error == EINTR || error == EAGAIN);
        const bool last_close = failed.substr(0, 5) == "close" && io.failures() == 1;
        REQUIRE(e.has_value() == (io.failures() > 0 && !passing && !last_close));
        if (e) {
          REQUIRE(says(*e, std::generic_category().message(error)));
          REQUIRE(e->file().find(dir.path()) == 0);
        }
        if (io.failures() == 0) {
          REQUIRE(k > 30);
          break;
        }
        ++fired;
      }
    }
  }
  std::cout << "File and folder: " << fired << " failing calls tried.\n";
}

TEST_CASE("a relative path is good where the folders above it may not be passed through") {
  const TempDir dir;
  const std::filesystem::path closed = std::filesystem::path{dir.path()} / "closed";
  std::filesystem::create_directories(closed / "open");
  std::filesystem::permissions(closed / "open", std::filesystem::perms::all);
  dir.write("closed/open/data", std::string{"four"});
  const pid_t child = ::fork();
  if (child == 0) {
    // Root may pass through any folder, so the child becomes another user.
    bool good = ::chdir((closed / "open").c_str()) == 0 && ::chmod(closed.c_str(), 0) == 0 &&
                (::geteuid() != 0 || ::setuid(65534) == 0);
    try {
      ps::File file{ps::PosixIo{}, "data"};
      file.close(); // and opened again
      std::byte bytes[4];
      ps::read_full(file, 0, bytes);
      good = good && std::memcmp(bytes, "four", 4) == 0;
    } catch (...) {
      good = false;
    }
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ::chmod(closed.c_str(), 0700);
  CHECK(status == 0);
}
