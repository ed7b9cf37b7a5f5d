// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 04_own_source_and_stage: a source and a stage of your own. `Lines` is a source, the lines of a
// text file; `numbers_after(',')` is a stage that makes a number of each line, on several threads.
// It leaves out lines without a number, up to a hundred of them, and the Report lists them.
//
//   04_own_source_and_stage [--device auto|cuda|host] [FILE]
//
// FILE has lines such as "Oslo,-3.5"; without it the program makes a small one, with four bad
// lines. It prints how many numbers there are, the least, the greatest and the mean, as summed up
// on the device, and the Report. It fails if a plain loop finds other numbers.

#include "support/arguments.hpp"
#include "support/temporary_file.hpp"

#include <penstock/penstock.hpp>
#include <penstock/with_device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace ps = penstock;

/// A record: a line without its end, in a place of fixed size.
struct Line {
  char text[60];
  std::uint32_t size;

  std::string_view view() const { return {text, size}; }
};

/// The source. open() finds where lines begin; read() fetches the bytes of many lines at once.
class Lines {
 public:
  using schema = Line;

  explicit Lines(const std::string& path) : path_{path}, bytes_{ps::records<char>(path)} {}

  void open() {
    bytes_.open();
    std::vector<std::uint64_t> begins{0};
    std::vector<char> piece(std::size_t{1} << 20);
    for (std::uint64_t at = 0; at < bytes_.size(); at += piece.size()) {
      piece.resize(std::min<std::uint64_t>(piece.size(), bytes_.size() - at));
      bytes_.read_bytes(at, std::as_writable_bytes(std::span{piece}));
      for (std::size_t i = 0; i < piece.size(); ++i) {
        const std::uint64_t next = at + i + 1;
        if (piece[i] == '\n' || next == bytes_.size()) {
          check(begins.size() - 1, begins.back(), piece[i] == '\n' ? next - 1 : next);
          begins.push_back(next);
        }
      }
    }
    begins_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(begins));
  }
  std::uint64_t size() const { return begins_->size() - 1; }

  /// Many threads call this at once, each for lines of its own.
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Line, Where> into) const {
    const std::uint64_t* begins = begins_->data() + into.index();
    std::vector<char> text(begins[into.size()] - begins[0]);
    bytes_.read_bytes(begins[0], std::as_writable_bytes(std::span{text}));
    for (std::size_t i = 0; i < into.size(); ++i) {
      const char* from = text.data() + (begins[i] - begins[0]);
      const char* end = text.data() + (begins[i + 1] - begins[0]);
      end -= end != from && end[-1] == '\n' ? 1 : 0;
      Line& line = into.data()[i];
      line.size = static_cast<std::uint32_t>(end - from);
      std::copy(from, end, line.text);
    }
    return into.size();
  }

 private:
  // The error that run() throws has the file, offset and record of this one.
  void check(std::uint64_t line, std::uint64_t begin, std::uint64_t end) const {
    if (end - begin > sizeof(Line::text)) {
      throw ps::SourceError{path_ + ": line " + std::to_string(line) + " has " +
                                std::to_string(end - begin) + " characters, more than " +
                                std::to_string(sizeof(Line::text)) + ": make Line larger.",
                            path_, begin, line};
    }
  }

  std::string path_;
  ps::Records<char> bytes_;
  std::shared_ptr<const std::vector<std::uint64_t>> begins_; // one more than there are lines
};

/// What the stage does with one line; each of its threads has a copy of this.
struct ParseNumber {
  char separator;

  void operator()(const Line& line, float& number) const {
    const std::string_view text = line.view();
    const std::string_view field = text.substr(text.rfind(separator) + 1);
    const char* end = field.data() + field.size();
    const auto parsed = std::from_chars(field.data(), end, number);
    if (parsed.ec != std::errc{} || parsed.ptr != end || !std::isfinite(number)) {
      throw std::invalid_argument{"no number ends \"" + std::string{text} + '"'};
    }
  }
};

/// The stage: the number after the last separator of each line, in page-locked memory.
auto numbers_after(char separator, std::uint64_t most_bad = 100) {
  return ps::Decoder{
      ParseNumber{separator}, ps::to_pinned, {.workers = 2, .on_error = {.skips = most_bad}}};
}

/// What the program knows of some numbers.
struct Summary {
  Summary() = default;
  PENSTOCK_HD explicit Summary(float x) : sum{x}, least{x}, greatest{x}, count{1} {}

  double sum;
  float least;
  float greatest;
  std::uint64_t count;
};
struct Join {
  PENSTOCK_HD Summary operator()(Summary a, const Summary& b) const {
    if (a.count == 0 || b.count == 0) {
      return a.count == 0 ? b : a;
    }
    a.sum += b.sum;
    a.least = b.least < a.least ? b.least : a.least;
    a.greatest = b.greatest > a.greatest ? b.greatest : a.greatest;
    a.count += b.count;
    return a;
  }
};
/// For ps::for_each: joins one summary with another.
struct Include {
  const Summary* part;
  Summary* all;
  PENSTOCK_HD void operator()(std::size_t) const { *all = Join{}(*all, *part); }
};

struct Result {
  Summary numbers;
  ps::Report report;
};

template <ps::AnyDevice D> Result summarise(D& device, const std::string& path) {
  auto part = ps::device_array<Summary>(device, 1);
  auto all = ps::device_array<Summary>(device, 1);
  ps::Workspace<D> workspace{device};
  auto pipeline =
      ps::Reader{Lines{path}} | numbers_after(',') | ps::AsyncCopier{device} |
      ps::Consumer{[&](ps::Batch<const float, ps::Device> numbers, ps::Stream<D> stream) {
        ps::reduce(stream, numbers.data(), numbers.size(), part.data(), Summary{}, Join{},
                   workspace);
        ps::for_each(stream, 1, Include{part.data(), all.data()});
      }};
  const ps::Report& report = pipeline.run();
  auto stream = device.stream();
  return {all.read(stream).front(), report};
}

/// Throws if a plain loop over the file finds other numbers.
void check(const Result& result, const std::string& path) {
  Summary expected{};
  std::uint64_t bad = 0;
  std::ifstream file{path};
  for (std::string text; std::getline(file, text);) {
    Line line{};
    line.size = static_cast<std::uint32_t>(text.copy(line.text, sizeof line.text));
    try {
      float number = 0;
      ParseNumber{','}(line, number);
      expected = Join{}(expected, Summary{number});
    } catch (const std::invalid_argument&) {
      ++bad;
    }
  }
  const Summary& found = result.numbers;
  if (found.count != expected.count || found.least != expected.least ||
      found.greatest != expected.greatest || result.report.skipped != bad ||
      std::abs(found.sum - expected.sum) > 1e-6 * static_cast<double>(expected.count)) {
    throw std::runtime_error{"a plain loop finds " + std::to_string(expected.count) +
                             " numbers and " + std::to_string(bad) + " bad lines"};
  }
}

std::string some_lines() {
  std::string text;
  for (int i = 0; i < 200'000; ++i) {
    const int tenths = i % 601 - 200;
    text += "station " + std::to_string(i % 97) + ',';
    text += i % 50'000 == 49'999 ? "broken" : std::to_string(tenths / 10.0).substr(0, 5);
    text += '\n';
  }
  return text;
}

int main(int argc, char** argv) try {
  const Arguments args{argc, argv, 1, "FILE"};
  std::optional<TemporaryFile> made;
  const std::string path = args.files.empty() ? made.emplace(some_lines()).path() : args.files[0];
  return ps::with_device(args.device, [&](auto& device) {
    const auto attached = device.attach();
    const Result result = summarise(device, path);
    check(result, path);
    const Summary& numbers = result.numbers;
    std::cout << numbers.count << " numbers from " << numbers.least << " to " << numbers.greatest
              << ", mean " << numbers.sum / static_cast<double>(numbers.count) << ", and "
              << result.report.skipped << " bad lines\n"
              << result.report;
    return 0;
  });
} catch (const std::exception& error) {
  std::cerr << "04_own_source_and_stage: " << error.what() << '\n';
  return 1;
}
