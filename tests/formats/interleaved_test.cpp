// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/compressed_files.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"

#include <penstock/detail/base/interrupt.hpp>
#include <penstock/detail/measure/meter.hpp>
#include <penstock/formats/gzip.hpp>
#include <penstock/formats/interleaved.hpp>
#include <penstock/formats/lz4.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace ps = penstock;
using namespace ps::tests;
using Strings = std::vector<std::string>;

static_assert(ps::Source<ps::Interleaved<ps::Line, ps::Zstd>>);

namespace {

Strings split(const std::string& text) {
  Strings lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Which lines come of these files, in which order.
Strings in_turn(const Strings& texts, std::size_t at_once, std::size_t block) {
  std::vector<std::deque<std::string>> lanes(std::min(at_once, texts.size()));
  for (std::size_t file = 0; file != texts.size(); ++file) {
    const Strings all = split(texts[file]);
    std::deque<std::string>& lane = lanes[file % lanes.size()];
    lane.insert(lane.end(), all.begin(), all.end());
  }
  Strings lines;
  for (std::size_t turn = 0; !lanes.empty();) {
    std::size_t taken = 0;
    for (; taken != block && !lanes[turn].empty(); ++taken) {
      lines.push_back(lanes[turn].front());
      lanes[turn].pop_front();
    }
    if (taken == block) {
      turn = (turn + 1) % lanes.size();
    } else {
      lanes.erase(lanes.begin() + static_cast<std::ptrdiff_t>(turn));
      turn = lanes.empty() ? 0 : turn % lanes.size();
    }
  }
  return lines;
}

template <class C> Strings read(const Strings& paths, C codec, ps::InterleavedOptions options,
                                std::size_t runs = 1) {
  Strings lines;
  auto pipeline = ps::Reader{ps::interleaved<ps::Line>(paths, codec, options),
                             {.batch = 50, .value_bytes = 20'000}} |
                  ps::Consumer{[&](ps::Batch<const ps::Line, ps::Pageable> batch) {
                    const auto text = ps::get<"text">(batch);
                    for (std::size_t i = 0; i != batch.size(); ++i) {
                      lines.emplace_back(text[i].data(), text[i].size());
                    }
                  }};
  for (std::size_t run = 0; run != runs; ++run) {
    pipeline.run();
  }
  return lines;
}

template <class Pack> Strings write(const TempDir& dir, const Strings& texts, Pack compress) {
  Strings paths;
  for (const std::string& text : texts) {
    paths.push_back(dir.write(std::to_string(paths.size()), compress(text)));
  }
  return paths;
}
std::string as_zstd(const std::string& text) {
  return zstd_frame(text);
}

const Strings texts{numbered_lines(1000, "a"), numbered_lines(70, "b"),     "",
                    numbered_lines(64, "d"),   numbered_lines(30'000, "e"), "one",
                    numbered_lines(129, "g")};

template <class C> std::string refusal(const std::string& compressed, C codec,
                                       ps::InterleavedOptions options = {}) {
  const TempDir dir;
  const std::string path = dir.write("bad", compressed);
  std::string said;
  try {
    read({path}, codec, options);
  } catch (const ps::StageError& e) {
    const auto cause = caught<ps::SourceError>([&] { e.rethrow_nested(); });
    CHECK(cause.file() == path);
    CHECK(cause.offset() <= compressed.size());
    CHECK(cause.record());
    said = cause.what();
  }
  return said;
}
void check_says(const std::string& said, const std::string& part) {
  INFO(said);
  CHECK(said.find(part) != std::string::npos);
}

} // namespace

TEST_CASE("which line comes when depends on files, .at_once and .block alone") {
  const TempDir dir;
  const Strings paths = write(dir, texts, as_zstd);
  for (const std::size_t at_once : {1U, 2U, 3U, 16U}) {
    for (const std::size_t block : {1U, 64U, 1000U}) {
      const Strings expected = in_turn(texts, at_once, block);
      for (const unsigned threads : {1U, 3U}) {
        INFO(at_once << ' ' << block << ' ' << threads);
        CHECK(read(paths, ps::Zstd{}, {.at_once = at_once, .block = block, .threads = threads}) ==
              expected);
      }
    }
  }
}

TEST_CASE("files of every codec are taken in turn, and in every run alike") {
  const TempDir dir;
  const Strings expected = in_turn(texts, 16, 64);
  const auto compress = [](const std::string& text) {
    return skippable_frame() + lz4_frame(text.substr(0, text.size() / 2)) + lz4_frame("") +
           lz4_frame(text.substr(text.size() / 2), false);
  };
  CHECK(read(write(dir, texts, compress), ps::Lz4{}, {}) == expected);
  const auto members = [](const std::string& text) {
    return gzip_member(text.substr(0, text.size() / 3)) + gzip_member(text.substr(text.size() / 3));
  };
  CHECK(read(write(dir, texts, members), ps::Gzip{}, {}) == expected);
  Strings twice = expected;
  twice.insert(twice.end(), expected.begin(), expected.end());
  CHECK(read(write(dir, texts, as_zstd), ps::Zstd{}, {}, 2) == twice);
}

TEST_CASE("lines end with a line feed, a carriage return before it, or their file") {
  const TempDir dir;
  const Strings paths = write(dir, {"a\r\n\n\r\nb\r", "", "\n", "c"}, as_zstd);
  CHECK(read(paths, ps::Zstd{}, {}) == Strings{"a", "", "", "b\r", "", "c"});
}

TEST_CASE("records of fixed size are taken in turn") {
  const TempDir dir;
  Strings texts_of_numbers;
  for (const std::uint32_t first : {0U, 1000U}) {
    std::vector<std::uint32_t> numbers(100'000);
    for (std::uint32_t& number : numbers) {
      number = first + static_cast<std::uint32_t>(&number - numbers.data());
    }
    texts_of_numbers.emplace_back(reinterpret_cast<const char*>(numbers.data()),
                                  numbers.size() * 4);
  }
  std::vector<std::uint32_t> got;
  auto pipeline =
      ps::Reader{ps::interleaved<std::uint32_t>(write(dir, texts_of_numbers, gzip_member),
                                                ps::Gzip{}, {.block = 10}),
                 {.batch = 1024}} |
      ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Pageable> batch) {
        got.insert(got.end(), batch.data(), batch.data() + batch.size());
      }};
  pipeline.run();
  REQUIRE(got.size() == 200'000);
  for (std::uint32_t i = 0; i != 200'000; ++i) {
    REQUIRE(got[i] == i / 20 * 10 + i % 10 + (i / 10 % 2) * 1000);
  }
}

TEST_CASE("what is damaged, cut or no frame is one error with file and byte") {
  const std::string frame = zstd_frame(numbered_lines(300));
  check_says(refusal(frame + "garbage", ps::Zstd{}), "begin no zstd frame");
  check_says(refusal(frame + "garbage", ps::Zstd{}),
             "at byte " + std::to_string(frame.size()) + " (zstd)");
  check_says(refusal(frame.substr(0, frame.size() - 1), ps::Zstd{}), "it was cut");
  check_says(refusal(gzip_member("x") + std::string(512, '\0'), ps::Gzip{}), "begin no gzip");
  check_says(refusal(lz4_frame("x") + "x", ps::Lz4{}), "it was cut");
  check_says(refusal("text\n", ps::Gzip{}), "at byte 0 (gzip)");
  check_says(refusal(zstd_frame(std::string(1 << 20, 'x')), ps::Zstd{}, {.longest = 1 << 16}),
             "longer than .longest, which is 65536 bytes");
  CHECK(refusal(zstd_frame(std::string(1000, 'x')), ps::Zstd{}, {.longest = 1000}).empty());
  check_says(refusal(zstd_frame(std::string(1001, 'x')), ps::Zstd{}, {.longest = 1000}), "longer");
}

TEST_CASE("files and options are checked before a run") {
  const TempDir dir;
  const auto open = [](Strings paths, ps::InterleavedOptions options) {
    auto source = ps::interleaved<ps::Line>(std::move(paths), ps::Zstd{}, options);
    source.open();
  };
  CHECK(has(caught<ps::SourceError>([&] { open({}, {}); }), "list of files is empty"));
  CHECK(has(caught<ps::SourceError>([&] { open({dir / "none"}, {}); }), "none"));
  CHECK(has(caught<ps::OptionError>([&] { open({"a"}, {.block = 0}); }), ".block"));
  CHECK(has(caught<ps::OptionError>([&] { open({"a"}, {.longest = 1ULL << 32}); }), "4 GiB"));
  for (const int window_log : {-1, 0, 9, 32}) {
    CHECK(has(caught<ps::OptionError>([&] { ps::Zstd{{.window_log = window_log}}; }), "give 10"));
  }
}

TEST_CASE("a block as long as numbers go is a whole lane") {
  const TempDir dir;
  const Strings paths = write(dir, {"a\n", "b\n", "c\n", "d\n"}, as_zstd);
  const Strings lane(9, "a"); // whose only file comes again and again
  constexpr std::uint64_t quarter = std::uint64_t{1} << 62;
  for (const std::uint64_t block : {quarter, quarter + 1, 2 * quarter, ~std::uint64_t{0}}) {
    INFO(block);
    CHECK(read(paths, ps::Zstd{}, {.block = block, .records = 9}) == lane);
  }
}

TEST_CASE("a read that passes over records hears of the run's end, and the next one goes on") {
  const TempDir dir;
  const Strings paths = write(dir, {std::string(400'000, 'a')}, as_zstd);
  for (const std::uint64_t records : {0U, 100'000U}) {
    auto source = ps::interleaved<std::uint32_t>(paths, ps::Zstd{}, {.records = records});
    source.open();
    std::vector<std::uint32_t> values(100);
    const auto read = [&](std::uint64_t index, const ps::Patience& patience) {
      return source.read(
          ps::Batch<std::uint32_t, ps::Pageable>{values.data(), values.size(), index}, patience);
    };
    ps::detail::Interrupt over;
    over.raise();
    ps::detail::Meter meter;
    CHECK(read(99'950, {over, meter, 0, 0}) == 0);
    CHECK(read(10, {}) == values.size());
    CHECK(read(50'000, {over, meter, 0, 0}) == 0);
    CHECK(read(99'950, {}) == (records == 0 ? 50 : values.size()));
  }
}

TEST_CASE("a forked child destroys a source whose threads are its parent's, and both go on") {
  if (ps::tests::under_tsan) {
    SUCCEED("ThreadSanitizer has no threads after a fork");
    return;
  }
  const TempDir dir;
  const std::string numbers(4 << 20, 'x'); // more than the threads decode ahead
  const std::string path = dir.write("a.gz", gzip_member(numbers));
  auto source = std::make_unique<ps::Interleaved<std::uint32_t, ps::Gzip>>(
      ps::interleaved<std::uint32_t>({path}, ps::Gzip{}));
  source->open();
  std::vector<std::uint32_t> values(100);
  const auto read = [&](std::uint64_t index) {
    return source->read(
        ps::Batch<std::uint32_t, ps::Pageable>{values.data(), values.size(), index});
  };
  REQUIRE(read(0) == values.size());
  // Its threads wait for room then. To destroy what they wait by would take until they are gone.
  std::this_thread::sleep_for(std::chrono::milliseconds{300});
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = has(caught<ps::Error>([&] { read(0); }), "after the fork");
    source.reset();
    ::_exit(refused ? 7 : 8);
  }
  int status = 0;
  const auto due = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > due) {
      ::kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(read(values.size()) == values.size());
}
