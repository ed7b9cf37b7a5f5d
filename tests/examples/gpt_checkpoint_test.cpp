// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Checkpoints of examples/gpt/: what llm.c finds in them, what comes back, and that no damaged file
// is taken for a whole one.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/faulty_io.hpp"
#include "support/temp_dir.hpp"

#include "../../examples/gpt/checkpoint.hpp"
#include "../../examples/gpt/gradients_file.hpp"

#include <penstock/data/float16.hpp>
#include <penstock/error.hpp>
#include <penstock/io/crc32c.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fs = std::filesystem;
namespace ps = penstock;
using namespace transformer;
using ps::tests::caught;
using ps::tests::content_of;
using ps::tests::FaultyIo;
using ps::tests::IoCall;
using ps::tests::IoFaults;
using ps::tests::TempDir;

namespace {

constexpr Config small_one{.layers = 2, .width = 16, .heads = 4, .context = 8, .vocabulary = 50};

CheckpointState some_state() {
  return {.steps = 7,
          .passes = 28,
          .seed = 0xffff'ffff'ffff'ffffU,
          .dropout = 0.2F,
          .position = "penstock-position 1 epoch=3 step=8",
          .characters = {"\0\n =\\a", 6},
          .options = {{"--batch", "64"}, {"--data", "a\\b\n=c"}}};
}

/// Returns a value that tells its array and its place.
float value_at(StateArray array, std::size_t at) {
  return static_cast<float>(at) + 0.25F * static_cast<float>(static_cast<int>(array) + 1);
}

void write_to(const std::string& path, const CheckpointState& state = some_state()) {
  write_checkpoint(path, small_one, state,
                   [](StateArray array, std::size_t first, std::span<float> into) {
                     for (std::size_t i = 0; i < into.size(); ++i) {
                       into[i] = value_at(array, first + i);
                     }
                   });
}

/// Returns the whole of an array, and NaN where nothing was put.
std::vector<float> read(const Checkpoint<>& checkpoint, StateArray array) {
  std::vector<float> all(ModelLayout{checkpoint.config()}.size(), std::nanf(""));
  checkpoint.read(array, [&](std::size_t first, std::span<const float> values) {
    std::ranges::copy(values, all.begin() + static_cast<std::ptrdiff_t>(first));
  });
  return all;
}

void check_array(const std::vector<float>& is, StateArray array) {
  std::size_t wrong = 0;
  std::size_t seen = 0;
  for (const Place& place : ModelLayout{small_one}.places()) {
    for (std::size_t i = place.begin; i < place.begin + place.count(); ++i) {
      wrong += is[i] != value_at(array, i) ? 1 : 0;
      ++seen;
    }
  }
  CHECK(wrong == 0);
  CHECK(seen == weights_of(small_one));
}

template <class T> T at(const std::string& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string error_of(const std::string& path) {
  return caught<ps::SourceError>([&] { Checkpoint<>{path}; }).what();
}

/// Returns the first `count` bytes, in order.
std::string all_bytes(std::size_t count) {
  std::string bytes;
  while (bytes.size() < count) {
    bytes += static_cast<char>(bytes.size());
  }
  return bytes;
}

/// Writes a checkpoint with one number of its header changed; returns the error.
std::string error_of_header(std::size_t number, std::int32_t value) {
  const TempDir dir;
  write_to(dir / "c");
  std::string bytes = content_of(dir / "c");
  std::memcpy(bytes.data() + 4 * number, &value, sizeof value);
  return error_of(dir.write("d", bytes));
}

bool has(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != text.npos;
}

} // namespace

TEST_CASE("a checkpoint comes back as it was written") {
  const TempDir dir;
  write_to(dir / "c");
  const Checkpoint<> checkpoint{dir / "c"};
  CHECK(checkpoint.config() == small_one);
  REQUIRE(checkpoint.state());
  CHECK(*checkpoint.state() == some_state());
  for (const StateArray array : {StateArray::masters, StateArray::means, StateArray::squares}) {
    check_array(read(checkpoint, array), array);
  }
}

TEST_CASE("a checkpoint begins as llm.c's own file of the model") {
  const TempDir dir;
  write_to(dir / "c");
  const std::string bytes = content_of(dir / "c");
  const std::array<std::int32_t, 8> header{20240326, 3, 8, 50, 2, 4, 16, 128};
  for (std::size_t i = 0; i < 256; ++i) {
    CHECK(at<std::int32_t>(bytes, 4 * i) == (i < header.size() ? header[i] : 0));
  }
  // wte, wpe, ln1w, ln1b, qkvw, …, each for both layers: as llm.c's fill_in_parameter_sizes().
  const ModelLayout layout{small_one};
  const auto of_block = [&](std::size_t block, Tensor tensor) {
    return layout.blocks() + block * layout.block().block() + layout.block().begin(tensor);
  };
  std::size_t offset = 1024;
  const auto check = [&](std::size_t begin, std::size_t count) {
    CHECK(at<float>(bytes, offset) == value_at(StateArray::masters, begin));
    offset += 4 * count;
    CHECK(at<float>(bytes, offset - 4) == value_at(StateArray::masters, begin + count - 1));
  };
  check(layout.token_embedding(), 128 * 16);
  check(layout.position_embedding(), 8 * 16);
  const std::array<std::size_t, tensors> counts{16, 16, 768,  48, 256,  16,
                                                16, 16, 1024, 64, 1024, 16};
  for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
    check(of_block(0, static_cast<Tensor>(tensor)), counts[tensor]);
    check(of_block(1, static_cast<Tensor>(tensor)), counts[tensor]);
  }
  check(layout.norm_weight(), 16);
  check(layout.norm_bias(), 16);
  CHECK(offset == 1024 + 4 * weights_of(small_one));
}

TEST_CASE("a model of llm.c's has weights and no state, in floats or bf16") {
  const TempDir dir;
  write_to(dir / "c");
  const std::string bytes = content_of(dir / "c").substr(0, 1024 + 4 * weights_of(small_one));
  const Checkpoint<> plain{dir.write("plain", bytes)};
  CHECK(!plain.state());
  check_array(read(plain, StateArray::masters), StateArray::masters);
  CHECK(has(caught<ps::SourceError>([&] { read(plain, StateArray::means); }).what(),
            "has weights alone"));
  CHECK_NOTHROW(require_same(plain, {{"--batch", "1"}}));

  std::string halves = bytes.substr(0, 1024);
  halves[4] = 5;
  for (std::size_t i = 0; i < weights_of(small_one); ++i) {
    const ps::BFloat16 half{at<float>(bytes, 1024 + 4 * i)};
    halves.append(reinterpret_cast<const char*>(&half), sizeof half);
  }
  const Checkpoint<> half{dir.write("half", halves)};
  CHECK(!half.state());
  const std::vector<float> values = read(half, StateArray::masters);
  for (const Place& place : ModelLayout{small_one}.places()) {
    const std::size_t last = place.begin + place.count() - 1;
    CHECK(values[last] == float(ps::BFloat16{value_at(StateArray::masters, last)}));
  }
  CHECK(has(error_of(dir.write("short", halves.substr(0, halves.size() - 1))), "it ends there"));
}

TEST_CASE("a model larger than a piece comes back too") {
  const TempDir dir;
  // Of more floats than a piece in one tensor, and no multiple of it.
  constexpr Config wide{.layers = 1, .width = 200, .heads = 2, .context = 3, .vocabulary = 6000};
  static_assert(6000 * 200 > piece_floats);
  write_checkpoint(dir / "c", wide, {}, [](StateArray, std::size_t first, std::span<float> into) {
    for (std::size_t i = 0; i < into.size(); ++i) {
      into[i] = static_cast<float>(first + i);
    }
  });
  const Checkpoint<> checkpoint{dir / "c"};
  for (const StateArray array : {StateArray::masters, StateArray::squares}) {
    const std::vector<float> values = read(checkpoint, array);
    std::size_t wrong = 0;
    for (const Place& place : ModelLayout{wide}.places()) {
      for (std::size_t i = place.begin; i < place.begin + place.count(); ++i) {
        wrong += values[i] != static_cast<float>(i) ? 1 : 0;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a checkpoint takes the place of another whole, or not at all") {
  const TempDir dir;
  write_to(dir / "c");
  const std::string before = content_of(dir / "c");
  SECTION("a training that fails to give its state leaves the old one") {
    CHECK_THROWS_AS(write_checkpoint(dir / "c", small_one, {},
                                     [](StateArray array, std::size_t, std::span<float>) {
                                       if (array == StateArray::squares) {
                                         throw std::runtime_error{"no device"};
                                       }
                                     }),
                    std::runtime_error);
  }
  SECTION("so does a disk that fails, at any call") {
    const auto trial = [&](long call) {
      const FaultyIo<> io{IoFaults::fail_once(call, ENOSPC)};
      bool failed = false;
      try {
        write_checkpoint(
            dir / "c", small_one, {}, [](StateArray, std::size_t, std::span<float>) {}, io);
      } catch (const ps::SinkError& error) {
        failed = true;
        CHECK(has(error.what(), dir / "c"));
      }
      return failed && io.calls() > 0;
    };
    // status, create, two writes, sync, close and rename.
    for (long call = 1; call <= 7; ++call) {
      CHECK(trial(call));
      CHECK(content_of(dir / "c") == before);
    }
  }
  CHECK(content_of(dir / "c") == before);
  CHECK(std::distance(fs::directory_iterator{dir.path()}, {}) == 1);
}

TEST_CASE("a header that lies is refused with its place, before anything is allocated") {
  CHECK(has(error_of_header(0, 20240327), "byte 0: it does not begin with llm.c's number"));
  CHECK(has(error_of_header(1, 4), "byte 4: its version is 4"));
  CHECK(has(error_of_header(2, -8), "byte 8: the context is -8, not from 1 to 1048576"));
  CHECK(has(error_of_header(3, 0), "byte 12: the vocabulary is 0"));
  CHECK(has(error_of_header(4, 0x7fffffff), "byte 16: the number of layers is 2147483647"));
  CHECK(has(error_of_header(4, 1024), "it ends there"));
  CHECK(has(error_of_header(5, 3), "byte 24: its width of 16 is no multiple of its 3 heads"));
  CHECK(has(error_of_header(6, 65536), "it ends there"));
  CHECK(has(error_of_header(7, 256), "byte 28: its vocabulary of 50 is padded to 256, not to 128"));
  // The padding is right for 51 too, so that only the sum over all bytes tells.
  CHECK(has(error_of_header(3, 51), "the CRC-32C there is not that of the bytes before it"));
}

TEST_CASE("a state that is damaged or unknown is refused with its place") {
  const TempDir dir;
  write_to(dir / "c");
  const std::string whole = content_of(dir / "c");
  const std::size_t state = 1024 + 4 * weights_of(small_one);
  const auto changed = [&](std::size_t at, char to) {
    std::string bytes = whole;
    bytes[at] = to;
    return error_of(dir.write("d", bytes));
  };
  const std::string place = "byte " + std::to_string(state) + ": ";
  CHECK(has(changed(state, 'P'), place + "what follows the weights is no training's state"));
  CHECK(has(changed(state + 8, 2), place + "the state's version is 2, not 1"));
  CHECK(has(changed(state + 15, '\xff'), place + "by its headers it has "));
  CHECK(has(changed(state + 20, 'X'), "the CRC-32C"));
  CHECK(has(changed(2000, 1), "the CRC-32C"));
  CHECK(has(changed(whole.size() - 1, static_cast<char>(whole.back() + 1)), "the CRC-32C"));
  CHECK(has(error_of(dir.write("d", whole.substr(0, state + 15))), place + "too few bytes"));
  CHECK(has(error_of(dir.write("d", whole + "x")), place + "by its headers it has "));
  CHECK(has(error_of(dir.write("d", whole.substr(0, 1000))), "it has 1000 bytes"));
  CHECK(has(error_of(dir.write("d", std::string{})), "it has 0 bytes"));
  CHECK(has(error_of(dir / "none"), "none"));
  for (const std::string& characters : {std::string{"ba"}, std::string{"aa"}, all_bytes(51)}) {
    CheckpointState other = some_state();
    other.characters = characters;
    write_to(dir / "e", other);
    CHECK(has(error_of(dir / "e"), "are no vocabulary of 50 tokens"));
  }
  CHECK(CheckpointState::of(some_state().text()) == some_state());
  for (const char* text : {"steps=", "steps=-1\n", "steps=1x\n", "who=1\n", "steps\n", "seed=1",
                           "characters=a\\\n", "characters=\\x\n", "option a=1\noption a=2\n"}) {
    INFO(text);
    CHECK_THROWS_AS(CheckpointState::of(text), std::invalid_argument);
  }
}

TEST_CASE("no random damage is taken for a whole checkpoint, or crashes") {
  const TempDir dir;
  write_to(dir / "c");
  const std::string whole = content_of(dir / "c");
  std::mt19937 random{5};
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution{std::size_t{0}, n - 1}(random);
  };
  const std::size_t state = 1024 + 4 * weights_of(small_one);
  std::size_t taken = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::string bytes = whole;
    // Mostly where numbers stand that say how long something is.
    for (std::size_t change = 0, changes = 1 + below(4); change < changes; ++change) {
      const std::size_t where = trial % 3 == 0   ? below(32)
                                : trial % 3 == 1 ? state + below(200)
                                                 : below(bytes.size());
      bytes[where] = static_cast<char>(below(256));
    }
    if (trial % 5 == 0) {
      bytes.resize(below(bytes.size() + 100));
    }
    if (bytes == whole) {
      continue;
    }
    try {
      const Checkpoint<> checkpoint{dir.write("d", bytes)};
      // Cut at the end of the weights it is a model of llm.c's, and nothing else.
      CHECK(!checkpoint.state());
      static_cast<void>(read(checkpoint, StateArray::masters));
      ++taken;
    } catch (const ps::SourceError& error) {
      CHECK(has(error.what(), dir / "d"));
    }
  }
  CHECK(taken < 5);
}

TEST_CASE("a training goes on only as what it was") {
  const TempDir dir;
  write_to(dir / "c");
  const Checkpoint<> checkpoint{dir / "c"};
  CHECK_NOTHROW(require_same(checkpoint, small_one));
  Config other = small_one;
  other.layers = 3;
  CHECK(has(caught<std::invalid_argument>([&] { require_same(checkpoint, other); }).what(),
            "has 2 layers, not 3: give the --config"));
  CHECK_NOTHROW(require_same(checkpoint, some_state().options));
  CHECK(has(
      caught<std::invalid_argument>([&] { require_same(checkpoint, {{"--batch", "32"}}); }).what(),
      "was trained with --batch 64, not 32: give --batch 64"));
  CHECK_NOTHROW(require_same(checkpoint, some_state().options, 2));
  CHECK(has(caught<std::invalid_argument>([&] {
              require_same(checkpoint, {{"--batch", "128"}}, 2);
            }).what(),
            "was trained with --batch 64, and these 2 ranks have 128 together: give each its equal "
            "part of 64"));
  CHECK(has(
      caught<std::invalid_argument>([&] { require_same(checkpoint, {{"--clip", "1"}}); }).what(),
      "was trained with --clip none, not 1"));
}

TEST_CASE("gradients lie in their file behind the batch, in the order of llm.c's weights") {
  const TempDir dir;
  const std::vector<std::int32_t> batch{1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> targets{2, 3, 4, 5, 6, 49};
  const auto write = [&](std::size_t tokens) {
    write_gradients(dir / "g", small_one, tokens, batch, targets, 3.5F,
                    [](std::size_t first, std::span<float> into) {
                      for (std::size_t i = 0; i < into.size(); ++i) {
                        into[i] = value_at(StateArray::masters, first + i);
                      }
                    });
  };
  write(3);
  const std::string bytes = content_of(dir / "g");
  CHECK(bytes.starts_with("gradient"));
  CHECK(at<std::uint32_t>(bytes, 12) == 2);
  CHECK(at<std::uint32_t>(bytes, 16) == 3);
  CHECK(at<float>(bytes, 20) == 3.5F);
  CHECK(at<std::int32_t>(bytes, 24 + 4 * 6) == 16); // llm.c's width
  CHECK(at<std::int32_t>(bytes, 1048) == 1);
  CHECK(at<std::int32_t>(bytes, 1048 + 11 * 4) == 49);
  const std::size_t weights = 1048 + 12 * 4;
  write_to(dir / "c");
  CHECK(bytes.substr(weights, 4 * weights_of(small_one)) ==
        content_of(dir / "c").substr(1024, 4 * weights_of(small_one)));
  REQUIRE(bytes.size() == weights + 4 * weights_of(small_one) + 4);
  CHECK(at<std::uint32_t>(bytes, bytes.size() - 4) ==
        ps::crc32c(std::as_bytes(std::span{bytes}).first(bytes.size() - 4)));
  CHECK_THROWS_AS(write(4), ps::OptionError);
}
