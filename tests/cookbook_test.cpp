// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whether the recipes of docs/cookbook.md, which stand in cookbook/, do what the page says. The one
// for a GPU is tried in cuda/docs_test.cu.

#include "cookbook/bad_records.hpp"
#include "cookbook/camera.hpp"
#include "cookbook/checkpoint.hpp"
#include "cookbook/ctrl_c.hpp"
#include "cookbook/device_vector.hpp"
#include "cookbook/labelled_arrays.hpp"
#include "cookbook/labelled_files.hpp"
#include "cookbook/loader.hpp"
#include "cookbook/metrics.hpp"
#include "cookbook/next_batch.hpp"
#include "cookbook/pack.hpp"
#include "cookbook/predictions.hpp"
#include "cookbook/progress.hpp"
#include "cookbook/sensor.hpp"
#include "cookbook/split.hpp"
#include "cookbook/token_ranks.hpp"
#include "cookbook/two_pipelines.hpp"
#include "cookbook/use_loader.hpp"
#include "cookbook/weights.hpp"

#include "support/catch.hpp"
#include "support/format_files.hpp"
#include "support/temp_dir.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <string_view>
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
  const std::string bytes = penstock::tests::content_of(path);
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

/// Document i has i % 40 tokens, all of them i + 1.
struct Documents {
  using schema = Document;
  std::uint64_t size() const { return 1000; }
  template <ps::HostSpace Where>
  std::size_t read(ps::Batch<Document, Where> into) const {
    for (std::size_t i = 0; i != into.size(); ++i) {
      const std::uint64_t number = into.index() + i;
      const std::size_t length = number % 40;
      std::fill_n(ps::get<"tokens">(into).put(i, length), length,
                  static_cast<std::uint16_t>(number + 1));
    }
    return into.size();
  }
};

} // namespace

TEST_CASE("a camera's thread pushes frames, of which the newest are looked at") {
  const Watched watched = watch(2000);
  CHECK(watched.seen + watched.dropped == 2000);
  CHECK(watched.last == 1999);
}

TEST_CASE("a line for each file says its class, and none for one that has none") {
  const TempDir dir;
  for (const char* name : {"a", "bb", "ccc"}) {
    static_cast<void>(dir.write(name, std::as_bytes(std::span{std::string_view{name}})));
  }
  std::ostringstream lines;
  write_classes(dir.path(), lines, [](const auto& bytes) {
    return bytes.size() == 2 ? throw std::runtime_error{"none"} : static_cast<int>(bytes.size());
  });
  CHECK(lines.str() == dir.path() + "/a,1\n" + dir.path() + "/ccc,3\n");
}

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

TEST_CASE("a file of metrics has what a run has done") {
  const TempDir dir;
  const std::vector<float> numbers(1000);
  auto pipeline = ps::Reader{ps::memory(std::span{numbers})} |
                  ps::Consumer{[](ps::Batch<const float, ps::Pageable>) {}};
  run_with_metrics(pipeline, dir / "penstock.prom");
  const std::string text = penstock::tests::content_of(dir / "penstock.prom");
  CHECK(text.find("penstock_records_total{pipeline=\"train\"} 1000\n") != std::string::npos);
  CHECK(!std::filesystem::exists(dir / "penstock.prom.new"));
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

TEST_CASE("a training loop asks for one batch at a time, epoch after epoch") {
  const TempDir dir;
  std::vector<Sample> samples(1050);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].y = static_cast<float>(i);
  }
  const std::string path = write(dir, "samples", samples);
  ps::HostDevice device{{.late_seed = 1}};
  auto stream = device.stream();
  auto data = std::make_unique<TrainingData<ps::HostDevice>>(device, stream, path, 100);
  CHECK(data->epochs() == 0);
  std::vector<std::set<float>> epochs(4);
  std::vector<float> firsts;
  for (std::size_t step = 0; step < 35; ++step) {
    if (step == 25) { // in the middle
      data = std::make_unique<TrainingData<ps::HostDevice>>(std::move(*data));
    }
    const auto batch = data->next_batch();
    REQUIRE(batch.size() == 100);
    CHECK(data->epochs() == 1 + step / 10);
    stream.sync();
    for (std::size_t i = 0; i != batch.size(); ++i) {
      epochs[step / 10].insert(batch.data()[i].y);
    }
    if (step % 10 == 0) {
      firsts.push_back(batch.data()[0].y);
    }
  }
  for (std::size_t epoch = 0; epoch != 3; ++epoch) { // none comes twice
    CHECK(epochs[epoch].size() == 1000);
  }
  CHECK(std::set<float>{firsts.begin(), firsts.end()}.size() == 4);
  CHECK(epochs[0] != epochs[1]);
  TrainingData few{device, stream, path, 1051};
  CHECK_THROWS_AS(few.next_batch(), ps::OptionError);
  CHECK_THROWS_AS(few.next_batch(), ps::OptionError);
}

TEST_CASE("of a folder of labelled files those that cannot be read are left out and listed") {
  const TempDir dir;
  for (int label = 0; label < 3; ++label) {
    std::filesystem::create_directory(dir / std::to_string(label));
    for (int i = 10; i < 60; ++i) {
      const std::vector<std::uint8_t> pixels(28 * 28, static_cast<std::uint8_t>(50 * label + i));
      write(dir, (std::to_string(label) + "/" + std::to_string(i)).c_str(), pixels);
    }
  }
  const std::string longer = dir.write("1/20", std::string(28 * 28 + 1, 'x'));
  const std::string shorter = dir.write("2/59", std::string(28 * 28 - 1, 'x'));

  std::vector<std::string> seen;
  std::ostringstream log;
  for_each_batch(dir.path(), log, [&](const auto& batch) {
    for (std::size_t i = 0; i != batch.size(); ++i) {
      const int label = ps::get<"label">(batch)[i];
      const int name = ps::get<"pixels">(batch)[i][27][27] - 50 * label;
      seen.push_back(std::to_string(label) + "/" + std::to_string(name));
    }
  });
  std::vector<std::string> expected;
  for (int label = 0; label < 3; ++label) {
    for (int i = 10; i < 60; ++i) {
      expected.push_back(std::to_string(label) + "/" + std::to_string(i));
    }
  }
  std::erase(expected, "1/20");
  std::erase(expected, "2/59");
  CHECK(seen == expected);
  const std::string said = log.str();
  CHECK(std::ranges::count(said, '\n') == 2);
  for (const std::string& bad : {longer, shorter}) {
    CHECK(said.find(bad + ": it is no picture") != std::string::npos);
  }
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

TEST_CASE("a training on two ranks is broken off, and goes on where it stood") {
  constexpr std::size_t scans = 64 * 2 * 250 + 70; // 250 batches an epoch and rank
  const TempDir dir;
  std::vector<Scan> all(scans);
  for (std::size_t i = 0; i < scans; ++i) {
    std::memcpy(all[i].pixels, &i, 3);
  }
  const std::string path = dir.write("scans", std::as_bytes(std::span{all}));
  using Log = std::vector<std::vector<std::uint32_t>>;
  const auto trained = [&](unsigned rank, const std::string& checkpoint, std::size_t most) {
    Log log;
    struct Crash {};
    try {
      train(path, checkpoint, 2, {.rank = rank, .world = 2}, [&](auto& batch) {
        if (log.size() == most) {
          throw Crash{};
        }
        std::vector<std::uint32_t>& numbers = log.emplace_back();
        for (std::size_t i = 0; i < batch.size(); ++i) {
          const float* const p = batch.data()[i].pixels;
          numbers.push_back(static_cast<std::uint32_t>(std::lround(p[0] * 255) +
                                                       256 * std::lround(p[1] * 255) +
                                                       65536 * std::lround(p[2] * 255)));
        }
      });
    } catch (const Crash&) {
    }
    return log;
  };
  const std::string checkpoint = (std::filesystem::path{dir.path()} / "checkpoint").string();
  Log whole[2];
  for (const unsigned rank : {1U, 0U}) {
    whole[rank] = trained(rank, checkpoint + ".of_unbroken", 1000);
    CHECK(whole[rank].size() == 500);
    CHECK(trained(rank, checkpoint, 333).size() == 333);
  }
  for (const unsigned rank : {1U, 0U}) { // rank 0 writes the file anew when it is at the end
    const Log rest = trained(rank, checkpoint, 1000);
    CHECK(rest == Log(whole[rank].begin() + 300, whole[rank].end()));
  }
  std::vector<std::uint32_t> seen;
  for (const Log& log : whole) {
    for (std::size_t batch = 0; batch < 250; ++batch) {
      seen.insert(seen.end(), log[batch].begin(), log[batch].end());
    }
  }
  std::sort(seen.begin(), seen.end());
  CHECK(std::unique(seen.begin(), seen.end()) == seen.end());
  CHECK(seen.size() == 64 * 2 * 250);
}

TEST_CASE("each record is held back in one of ten folds, and trained on in the others") {
  std::vector<std::uint32_t> all(1003);
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    all[i] = i;
  }
  const auto numbers_of = [](auto source) {
    std::vector<std::uint32_t> numbers;
    auto pipeline =
        ps::Reader{source} |
        ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Pageable> batch) {
                       numbers.insert(numbers.end(), batch.data(), batch.data() + batch.size());
                     },
                     {.workers = 1}};
    pipeline.run();
    return numbers;
  };
  std::vector<int> held(all.size());
  for (std::uint64_t fold = 0; fold < 10; ++fold) {
    const auto [training, validation] = split(ps::memory(all), 10, fold);
    const auto in = numbers_of(validation);
    const auto out = numbers_of(training);
    CHECK(in.size() + out.size() == all.size());
    CHECK((in.size() == 100 || in.size() == 101));
    CHECK(std::is_sorted(in.begin(), in.end()));
    for (const std::uint32_t number : in) {
      ++held[number];
      REQUIRE(std::find(out.begin(), out.end(), number) == out.end());
    }
  }
  CHECK(held == std::vector<int>(all.size(), 1));
}

TEST_CASE("records are filtered, packed into windows, and ranks stay in step") {
  std::vector<std::uint16_t> expected;
  for (std::uint64_t first = 0; first < 1000; first += 64) {
    for (std::uint64_t number = first; number < std::min<std::uint64_t>(first + 64, 1000);
         ++number) {
      expected.insert(expected.end(), number % 40, static_cast<std::uint16_t>(number + 1));
      expected.push_back(0);
    }
    expected.resize((expected.size() + 127) / 128 * 128);
  }
  std::vector<std::uint16_t> all;
  auto windows = ps::Reader{Documents{}} | packed();
  for (auto batch : windows.batches()) {
    for (std::size_t i = 0; i != batch.size(); ++i) {
      all.insert(all.end(), std::begin(batch.data()[i].tokens), std::end(batch.data()[i].tokens));
    }
  }
  CHECK(all == expected);

  std::uint64_t kept = 0;
  auto filtered = ps::Reader{Documents{}} | of_length(30);
  for (auto batch : filtered.batches()) {
    for (std::size_t i = 0; i != batch.size(); ++i, ++kept) {
      const auto tokens = ps::get<"tokens">(batch)[i];
      CHECK(tokens.size() == 30 + kept % 10);
      CHECK(tokens[0] == kept / 10 * 40 + 31 + kept % 10);
    }
  }
  CHECK(kept == 250);

  // Two ranks, of which one has fewer batches.
  constexpr std::uint32_t world = 2;
  std::barrier together{world};
  std::array<bool, world> has{};
  std::array<int, world> steps{};
  const auto rank = [&](std::uint32_t number) {
    auto data =
        ps::Reader{ps::take(ps::memory(all), number == 0 ? 900 : 500), {.batch = 10}} |
        ps::Decoder{[](const std::uint16_t& in, ps::Output<std::uint16_t>& out) { out.push(in); }};
    in_step(
        data, [&](const auto&) { ++steps[number]; },
        [&](bool mine) {
          has[number] = mine;
          together.arrive_and_wait();
          const bool all_have = has[0] && has[1];
          together.arrive_and_wait();
          return all_have;
        });
  };
  std::thread other{rank, 1};
  rank(0);
  other.join();
  CHECK(steps == std::array{50, 50});
}

TEST_CASE("each image comes with its label, once an epoch and in another order") {
  using namespace ps::tests;
  const TempDir dir;
  std::vector<float> pixels(300 * 28 * 28);
  std::vector<std::int64_t> numbers(300);
  for (std::size_t i = 0; i != numbers.size(); ++i) {
    numbers[i] = static_cast<std::int64_t>(i);
    std::fill_n(pixels.begin() + static_cast<std::ptrdiff_t>(i * 28 * 28), 28 * 28,
                static_cast<float>(i));
  }
  const auto x =
      dir.write("x.npy", npy_file(npy_text("<f4", "(300, 28, 28)"), all_bytes_of(pixels)));
  const auto y = dir.write("y.npy", npy_file(npy_text("<i8", "(300,)"), all_bytes_of(numbers)));
  std::vector<std::int64_t> seen;
  each_image(x, y, 2, [&](const float(&image)[28][28], std::int64_t label) {
    CHECK(image[0][0] == static_cast<float>(label));
    CHECK(image[27][27] == static_cast<float>(label));
    seen.push_back(label);
  });
  REQUIRE(seen.size() == 600);
  CHECK_FALSE(std::equal(seen.begin(), seen.begin() + 300, seen.begin() + 300));
  for (const auto begin : {seen.begin(), seen.begin() + 300}) {
    CHECK(std::is_permutation(begin, begin + 300, numbers.begin()));
  }
}

TEST_CASE("two ranks share windows of tokens, and go on where they stood") {
  using namespace ps::tests;
  const TempDir dir;
  std::vector<std::uint16_t> all(200'000);
  for (std::size_t i = 0; i != all.size(); ++i) {
    all[i] = static_cast<std::uint16_t>(i / 8);
  }
  const std::vector<std::string> files{
      dir.write("a.bin", all_bytes_of(std::vector(all.begin(), all.begin() + 90'000))),
      dir.write("b.bin", all_bytes_of(std::vector(all.begin() + 90'000, all.end())))};
  using Log = std::vector<std::uint16_t>; // the first tokens of windows
  ps::HostDevice device;
  const auto trained = [&](unsigned rank, const ps::Position& from, std::size_t most, Log& log) {
    std::size_t steps = 0;
    auto stream = device.stream();
    const ps::Position stands =
        train_on(device, stream, files, {.rank = rank, .world = 2}, from, [&](const auto& batch) {
          const auto tokens = ps::get<"tokens">(batch);
          stream.enqueue([&log, first = tokens.data(), count = batch.size()] {
            for (std::size_t i = 0; i != count; ++i) {
              log.push_back(first[i * 1025]);
            }
          });
          return ++steps != most;
        });
    stream.sync();
    return stands;
  };
  Log whole[2], parts[2];
  for (const unsigned rank : {0U, 1U}) {
    trained(rank, {}, 1000, whole[rank]);
    const ps::Position stood = trained(rank, {}, 5, parts[rank]);
    CHECK(parts[rank].size() == 40);
    trained(rank, stood, 1000, parts[rank]);
    CHECK(parts[rank] == whole[rank]);
  }
  CHECK(whole[0].size() == whole[1].size());
  CHECK(whole[0].size() > 80);
  whole[0].insert(whole[0].end(), whole[1].begin(), whole[1].end());
  std::sort(whole[0].begin(), whole[0].end());
  CHECK(std::unique(whole[0].begin(), whole[0].end()) == whole[0].end());
}

TEST_CASE("a tensor comes to the device as it lies in the file") {
  using namespace ps::tests;
  const TempDir dir;
  const std::string header = R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                             R"("b":{"dtype":"U8","shape":[3000000],"data_offsets":[5,3000005]}})";
  const std::string data = some_bytes(3'000'005);
  const auto model =
      dir.write("model.safetensors", bytes_of(std::uint64_t{header.size()}) + header + data);
  ps::HostDevice device;
  auto stream = device.stream();
  for (const auto& [name, bytes] : {std::pair{"a", data.substr(0, 5)}, {"b", data.substr(5)}}) {
    const std::vector<std::byte> got = tensor_on(device, model, name).read(stream);
    CHECK(std::string{reinterpret_cast<const char*>(got.data()), got.size()} == bytes);
  }
}
