// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whether the recipes of docs/cookbook.md, which stand in cookbook/, do what the page says. The one
// for a GPU is tried in cuda/docs_test.cu.

#include "cookbook/bad_records.hpp"
#include "cookbook/ctrl_c.hpp"
#include "cookbook/device_vector.hpp"
#include "cookbook/loader.hpp"
#include "cookbook/progress.hpp"
#include "cookbook/sensor.hpp"
#include "cookbook/two_pipelines.hpp"
#include "cookbook/use_loader.hpp"

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <sstream>
#include <streambuf>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using ps::tests::TempDir;
using namespace std::chrono_literals;

namespace {

std::string some_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<char>(i % 251);
  }
  return bytes;
}
float number_of(char byte) {
  return static_cast<float>(static_cast<unsigned char>(byte)) / 255;
}

template <class T> std::vector<T> contents(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  const std::string bytes{std::istreambuf_iterator<char>{file}, {}};
  std::vector<T> records(bytes.size() / sizeof(T));
  std::memcpy(records.data(), bytes.data(), records.size() * sizeof(T));
  return records;
}
template <class T> std::string write(const TempDir& dir, const char* name, const T& records) {
  return dir.write(name, std::as_bytes(std::span{records}));
}

/// Goes through all batches up to the end; returns how many numbers were not the file's.
std::size_t wrong_numbers(Loader& loader, const std::string& bytes) {
  std::size_t at = 0;
  std::size_t wrong = 0;
  for (std::span<const float> batch; !(batch = loader.next()).empty();) {
    for (const float number : batch) {
      wrong += at < bytes.size() && number == number_of(bytes[at]) ? 0 : 1;
      ++at;
    }
  }
  return wrong + (at == bytes.size() ? 0 : 1);
}

/// A process that does what `f` does; what it prints is read, and its end waited for.
class Child {
 public:
  template <class F> explicit Child(F f) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    std::cout.flush();
    std::fflush(nullptr);
    process_ = ::fork();
    REQUIRE(process_ >= 0);
    if (process_ == 0) {
      ::alarm(30); // ends it if nothing else does
      ::dup2(ends[1], STDOUT_FILENO);
      ::_exit(f());
    }
    ::close(ends[1]);
    out_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::close(out_);
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
  }

  /// As Ctrl-C does.
  void interrupt() const { ::kill(process_, SIGINT); }
  /// Waits for `count` bytes of output, or its end.
  std::string read(std::size_t count) const {
    std::string text(count, '\0');
    std::size_t got = 0;
    for (ssize_t n = 1; got < count && n > 0; got += n > 0 ? static_cast<std::size_t>(n) : 0) {
      n = ::read(out_, text.data() + got, count - got);
    }
    text.resize(got);
    return text;
  }
  /// All that it still prints.
  std::string rest() const {
    std::string all;
    for (std::string piece; !(piece = read(4096)).empty();) {
      all += piece;
    }
    return all;
  }
  /// Whether it has ended; exit_code() is then known.
  bool over() {
    int status = 0;
    if (process_ > 0 && ::waitpid(process_, &status, WNOHANG) == process_) {
      process_ = 0;
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    return process_ == 0;
  }
  int exit_code() {
    while (!over()) {
      std::this_thread::sleep_for(1ms);
    }
    return code_;
  }

 private:
  pid_t process_{};
  int out_{};
  int code_{};
};

/// In a child: says that it is at work.
void say_at_work() {
  std::cout << "at work\n" << std::flush;
}

ps::Report report_of(double seconds, std::uint64_t records, std::uint64_t in_all,
                     std::uint64_t skipped = 0) {
  ps::Report report;
  report.seconds = seconds;
  report.records = records;
  report.records_in_all = in_all;
  report.skipped = skipped;
  return report;
}

/// Where std::cerr's text goes meanwhile; any thread may ask how many lines there are.
class Lines final : public std::streambuf {
 public:
  Lines() : before_{std::cerr.rdbuf(this)} {}
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  ~Lines() override { std::cerr.rdbuf(before_); }

  std::size_t count() const { return count_; }
  /// When nobody writes.
  const std::vector<std::string>& all() const { return lines_; }

 private:
  int overflow(int character) override {
    if (character == '\n') {
      lines_.push_back(std::exchange(line_, {}));
      ++count_;
    } else {
      line_ += static_cast<char>(character);
    }
    return character;
  }

  std::streambuf* before_;
  std::string line_;
  std::vector<std::string> lines_;
  std::atomic<std::size_t> count_{0};
};

} // namespace

TEST_CASE("a class of a header and a source hides its pipeline") {
  const TempDir dir;
  const std::string bytes = some_bytes(10'500);
  const std::string path = dir.write("bytes", bytes);

  double sum = 0;
  for (const char byte : bytes) {
    sum += number_of(byte);
  }
  CHECK(sum_of(path) == sum);

  Loader loader{path, 1000};
  CHECK(loader.next().size() == 1000);
  Loader moved{std::move(loader)}; // in the middle
  CHECK(moved.next()[0] == number_of(bytes[1000]));
  std::size_t batches = 2;
  while (!moved.next().empty()) {
    ++batches;
  }
  CHECK(batches == 11);
  CHECK(wrong_numbers(moved, bytes) == 0);
  CHECK(wrong_numbers(moved, bytes) == 0);
  CHECK_FALSE(moved.next().empty()); // it dies in the middle

  Converter converter{path, dir / "numbers"};
  for (int run = 0; run < 2; ++run) {
    CHECK(converter.run() == bytes.size());
    CHECK(std::ranges::equal(contents<float>(dir / "numbers"), bytes, {}, {}, number_of));
  }
}

TEST_CASE("a class that hides its pipeline throws what the pipeline does, and goes on") {
  const TempDir dir;
  Loader none{dir / "none", 1000};
  for (int tries = 0; tries < 2; ++tries) {
    CHECK_THROWS_AS(none.next(), ps::SourceError);
  }
  const std::string path = dir.write("shrinks", "");
  std::filesystem::resize_file(path, 200'000'000);
  Loader loader{path, 1000};
  CHECK(loader.next().size() == 1000);
  std::filesystem::resize_file(path, 1'000'000); // the rings hold less than the rest
  const auto go_on = [&] {
    while (!loader.next().empty()) {
    }
  };
  for (int tries = 0; tries < 2; ++tries) {
    CHECK_THROWS_AS(go_on(), ps::StageError);
  }
}

TEST_CASE("Ctrl-C ends the run: its file does not appear, and the Report is printed") {
  const TempDir dir;
  const std::string out = dir.write("squares", "as before");
  const auto endless = ps::generate<float>([](std::span<float> numbers, std::uint64_t first) {
    if (first == 0) {
      say_at_work();
    }
    std::this_thread::sleep_for(50ms); // the file that goes again need not be large
    std::ranges::fill(numbers, 2.0F);
    return numbers.size();
  });
  Child child{[&] { return write_squares(endless, out); }};
  CHECK(child.read(8) == "at work\n");
  child.interrupt();
  CHECK(child.rest().find(" on none, stopped early") != std::string::npos);
  CHECK(child.exit_code() == EXIT_FAILURE);
  CHECK(contents<char>(out) == contents<char>(dir.write("before", "as before")));
  CHECK(std::distance(std::filesystem::directory_iterator{dir.path()}, {}) == 2);
}

TEST_CASE("without a Ctrl-C the same program writes its file") {
  const TempDir dir;
  const std::string in = write(dir, "numbers", std::vector<float>{1, 2, 3});
  Child child{[&] { return write_squares(ps::records<float>(in), dir / "squares"); }};
  CHECK(child.rest().starts_with("3 records"));
  CHECK(child.exit_code() == EXIT_SUCCESS);
  CHECK(contents<float>(dir / "squares") == std::vector<float>{1, 4, 9});
}

TEST_CASE("a second Ctrl-C ends a program whose read never returns") {
  const TempDir dir;
  const auto hangs = ps::generate<float>(100, [](std::span<float>, std::uint64_t) {
    say_at_work();
    while (true) {
      ::pause();
    }
  });
  Child child{[&] { return write_squares(hangs, dir / "squares"); }};
  CHECK(child.read(8) == "at work\n");
  while (!child.over()) { // two that come at once count as one
    child.interrupt();
    std::this_thread::sleep_for(1ms);
  }
  CHECK(child.exit_code() == 128 + SIGINT);
  CHECK_FALSE(std::filesystem::exists(dir / "squares"));
}

TEST_CASE("a line of progress has what is done, its share, and the rate since the last line") {
  const Lines said;
  ShowProgress show;
  show(report_of(0.5, 200, 1000));
  show(report_of(1.5, 700, 1000, 50));
  ShowProgress unknown;
  unknown(report_of(2, 50, ps::unknown_size));
  CHECK(said.all() == std::vector<std::string>{"200 records, 20 %, 400 records/s",
                                               "750 records, 75 %, 550 records/s",
                                               "50 records, 25 records/s"});
}

TEST_CASE("a run shows its progress each half second, and at its end") {
  const Lines said;
  const auto begun = std::chrono::steady_clock::now();
  // The last number waits for two lines.
  const auto slow = ps::generate<float>(10, [&](std::span<float> numbers, std::uint64_t first) {
    while (first + numbers.size() == 10 && said.count() < 2) {
      std::this_thread::sleep_for(1ms);
    }
    std::ranges::fill(numbers, 3.0F);
  });
  CHECK(sum_with_progress(slow) == 30);
  CHECK(std::chrono::steady_clock::now() - begun >= 1s);
  REQUIRE(said.all().size() >= 3);
  CHECK(said.all()[0] == "0 records, 0 %, 0 records/s");
  CHECK(said.all().back().starts_with("10 records, 100 %, "));
}

TEST_CASE("two pipelines on one device: training data, and validation data in its midst") {
  const TempDir dir;
  std::vector<float> training(150 * batch_size);
  std::vector<float> validation(20 * batch_size);
  for (std::size_t i = 0; i < training.size(); ++i) {
    training[i] = static_cast<float>(i % 1000);
  }
  for (std::size_t i = 0; i < validation.size(); ++i) {
    validation[i] = static_cast<float>(i % 77);
  }
  std::vector<double> trained(batch_size);
  std::vector<double> checked(batch_size);
  for (std::size_t i = 0; i < training.size(); ++i) {
    trained[i % batch_size] += 2 * training[i]; // epochs
  }
  for (std::size_t i = 0; i < validation.size(); ++i) {
    checked[i % batch_size] += 3 * validation[i]; // once after each hundred of 300 batches
  }
  ps::HostDevice device{{.late_seed = 1}};
  const Trained found =
      train(device, write(dir, "training", training), write(dir, "validation", validation));
  CHECK(found.training == trained);
  CHECK(found.validation == checked);
  CHECK(found.validations == 3);
  CHECK(found.report.records == 2 * training.size());
}

TEST_CASE("two pipelines on one device: a batch of each in every step") {
  const TempDir dir;
  const std::string ones = write(dir, "ones", std::vector<float>(30 * batch_size, 1));
  const std::string tens = write(dir, "tens", std::vector<float>(20 * batch_size, 10));
  ps::HostDevice device{{.late_seed = 1}};
  CHECK(add_both(device, ones, tens) == std::vector<double>(batch_size, 20 * 11));
  CHECK(add_both(device, tens, ones) == std::vector<double>(batch_size, 20 * 11));
}

TEST_CASE("bad records are left out, and listed with number and reason") {
  const TempDir dir;
  std::vector<Reading> readings(500'000);
  for (std::uint32_t i = 0; i < readings.size(); ++i) {
    readings[i] = {static_cast<std::int32_t>(i % 40), i % 7};
  }
  for (const std::size_t bad : {499'999, 17, 262'144}) {
    readings[bad].celsius = -300;
  }
  const std::string from = write(dir, "readings", readings);
  std::ostringstream log;
  convert(from, dir / "kelvin", log);
  CHECK(log.str() == "record 17: station 3 says -300 degrees\n"
                     "record 262144: station 1 says -300 degrees\n"
                     "record 499999: station 3 says -300 degrees\n"
                     "499997 readings, 3 left out\n");
  const std::vector<double> kelvin = contents<double>(dir / "kelvin");
  REQUIRE(kelvin.size() == 499'997);
  CHECK(kelvin[16] == readings[16].celsius + 273.15);
  CHECK(kelvin[17] == readings[18].celsius + 273.15);
  CHECK(kelvin.back() == readings[499'998].celsius + 273.15);
}

TEST_CASE("of many bad records the first thousand are listed, and too many end the run") {
  const TempDir dir;
  const std::string from = write(dir, "readings", std::vector<Reading>(10'000, {-300, 1}));
  std::ostringstream log;
  convert(from, dir / "kelvin", log);
  const std::string said = log.str();
  CHECK(std::ranges::count(said, '\n') == 1001);
  CHECK(said.ends_with("0 readings, 10000 left out\n"));

  const std::string worse = write(dir, "worse", std::vector<Reading>(10'001, {-300, 1}));
  CHECK_THROWS_AS(convert(worse, dir / "none", log), ps::StageError);
  CHECK_FALSE(std::filesystem::exists(dir / "none"));
}

TEST_CASE("standard algorithms take a device batch of the host device, and a vector shows one") {
  std::vector<float> numbers(10'500);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i);
  }
  std::vector<float> first;
  std::vector<float> greatest;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const float square = numbers[i] * numbers[i];
    if (i < 1000) {
      first.push_back(square);
    }
    if (i % 1000 == 999 || i + 1 == numbers.size()) {
      greatest.push_back(square);
    }
  }
  ps::HostDevice device{{.late_seed = 1}};
  const Looked found = squares_of(device, numbers);
  CHECK(found.first_batch == first);
  CHECK(found.greatest == greatest);
}

TEST_CASE("a sensor on a socket is read until it hangs up, and fails by its own error") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  std::thread sensor{[&] {
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const auto now = static_cast<double>(i);
      if (::send(ends[1], &now, sizeof now, 0) != sizeof now) {
        std::abort();
      }
    }
    ::close(ends[1]);
  }};
  CHECK(mean_of(Sensor{ends[0]}) == 499.5);
  sensor.join();
  ::close(ends[0]);
  CHECK_THROWS_WITH(mean_of(Sensor{9999}),
                    "penstock: Reader failed at record 0: the sensor: Bad file descriptor");
}
