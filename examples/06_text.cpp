// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 06_text: records of any length. The lines of a text file travel as one Ragged column. A kernel
// reads its values and offsets as they lie, and counts as `wc` does, but for the "\r" of "\r\n".
//
//   06_text [--device auto|cuda|host] [FILE]
//
// Without FILE it makes a small text. It prints lines, words, characters and the longest line, and
// the Report. It fails if a plain loop counts differently.

#include "support/arguments.hpp"
#include "support/temporary_file.hpp"

#include <penstock/formats/lines.hpp>
#include <penstock/penstock.hpp>
#include <penstock/with_device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

namespace ps = penstock;

struct Counts {
  std::uint64_t lines, words, characters, longest;
};
struct Add {
  PENSTOCK_HD Counts operator()(const Counts& a, const Counts& b) const {
    return {a.lines + b.lines, a.words + b.words, a.characters + b.characters,
            a.longest < b.longest ? b.longest : a.longest};
  }
};

/// Counts what is in one line.
PENSTOCK_HD inline Counts count(ps::Column<const char> text) {
  Counts counts{1, 0, text.size(), text.size()};
  bool in_a_word = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text.data()[i];
    const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
    counts.words += !blank && !in_a_word ? 1 : 0;
    in_a_word = !blank;
  }
  return counts;
}

/// For ps::for_each: counts line i.
struct CountLine {
  ps::Column<ps::Ragged<const char>> text;
  Counts* counts;
  PENSTOCK_HD void operator()(std::size_t i) const { counts[i] = count(text[i]); }
};
/// Adds the counts of a batch.
struct Include {
  const Counts* part;
  Counts* all;
  PENSTOCK_HD void operator()(std::size_t) const { *all = Add{}(*all, *part); }
};

struct Result {
  Counts counts;
  ps::Report report;
};

template <ps::AnyDevice D> Result count_on(D& device, const std::string& path) {
  // A batch of lines is one slot all the way: at most this many lines and characters.
  constexpr std::size_t most_lines = 4096;
  constexpr std::size_t most_characters = std::size_t{1} << 20;
  auto each = ps::device_array<Counts>(device, most_lines);
  auto part = ps::device_array<Counts>(device, 1);
  auto all = ps::device_array<Counts>(device, 1);
  ps::Workspace<D> workspace{device};
  auto pipeline =
      ps::Reader{
          ps::lines(path), ps::to_pinned, {.batch = most_lines, .value_bytes = most_characters}} |
      ps::AsyncCopier{device} |
      ps::Consumer{[&](ps::Batch<const ps::Line, ps::Device> batch, ps::Stream<D> stream) {
        ps::for_each(stream, batch.size(), CountLine{ps::get<"text">(batch), each.data()});
        ps::reduce(stream, each.data(), batch.size(), part.data(), Counts{}, Add{}, workspace);
        ps::for_each(stream, 1, Include{part.data(), all.data()});
      }};
  const ps::Report& report = pipeline.run();
  auto stream = device.stream();
  return {all.read(stream).front(), report};
}

/// Throws if a plain loop counts differently.
void check(const Counts& found, const std::string& path) {
  Counts expected{};
  std::ifstream file{path, std::ios::binary};
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r') && !file.eof()) {
      line.pop_back();
    }
    expected = Add{}(expected, count({line.data(), line.size()}));
  }
  if (found.lines != expected.lines || found.words != expected.words ||
      found.characters != expected.characters || found.longest != expected.longest) {
    throw std::runtime_error{"a plain loop counts " + std::to_string(expected.words) +
                             " words in " + std::to_string(expected.lines) + " lines"};
  }
}

std::string some_text() {
  std::string text;
  for (int i = 0; i < 50'000; ++i) {
    for (int word = 0; word < i * 7 % 23; ++word) {
      text += std::string(static_cast<std::size_t>(1 + i * word % 11), 'a') + ' ';
    }
    text += '\n';
  }
  return text;
}

int main(int argc, char** argv) try {
  const Arguments args{argc, argv, 1, "FILE"};
  std::optional<TemporaryFile> made;
  const std::string path = args.files.empty() ? made.emplace(some_text()).path() : args.files[0];
  return ps::with_device(args.device, [&](auto& device) {
    const auto attached = device.attach();
    const Result result = count_on(device, path);
    check(result.counts, path);
    std::cout << result.counts.lines << " lines, " << result.counts.words << " words, "
              << result.counts.characters << " characters, the longest line has "
              << result.counts.longest << '\n'
              << result.report;
    return 0;
  });
} catch (const std::exception& error) {
  std::cerr << "06_text: " << error.what() << '\n';
  return 1;
}

// prints with --device host:
//   50000 lines, 549997 words, 3491297 characters, the longest line has 154
//   50000 records, … on host
//   …
