// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 08_tokens: how to feed a language model. Windows of 16-bit tokens from several files, behind
// llm.c's header, come in a shuffled order, another one in each epoch. They travel as they lie in
// the files; from each a kernel makes the 64-bit inputs x and targets y, which are x one token
// later. Instead of a model, a rule guesses y from x. The training breaks off in its second epoch
// and goes on from there.
//
//   08_tokens [--device auto|cuda|host] [TOKENS]
//
// TOKENS is a file of 16-bit tokens of your own, plain or packed by 21_pack: its first bytes tell.
//
// It prints how often the rule is right, the position from which it went on, and the Report of what
// came then. It fails if a plain loop over the same windows finds other inputs and targets, or
// another number.

#include "support/arguments.hpp"
#include "support/temporary_file.hpp"

#include <penstock/formats/packed.hpp>
#include <penstock/formats/tokens.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/windows.hpp>
#include <penstock/with_device.hpp>
#if defined(__CUDACC__)
#include <penstock/cuda/algorithm.cuh>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iomanip>
#include <iostream>
#include <list>
#include <stdexcept>
#include <string>
#include <vector>

namespace ps = penstock;

using Token = std::uint16_t;
constexpr std::int64_t vocabulary = 50'257;
constexpr std::size_t context = 1'024;
constexpr std::size_t batch_size = 64;
constexpr std::uint64_t epochs = 2;

/// Returns what follows a token more often than not.
PENSTOCK_HD constexpr std::int64_t guess(std::int64_t token) {
  return (token * 5 + 1) % vocabulary;
}

/// For ps::for_each: makes input and target number i of a batch.
struct Shift {
  ps::Column<const Token, ps::dynamic> tokens;
  std::int64_t* x;
  std::int64_t* y;

  PENSTOCK_HD void operator()(std::size_t i) const {
    const Token* const token = tokens[i / context].data() + i % context;
    x[i] = token[0];
    y[i] = token[1];
  }
};
/// Counts the right guesses. Several threads of a GPU may add to one number; on the host for_each
/// has only one.
struct Score {
  const std::int64_t* x;
  const std::int64_t* y;
  unsigned long long* right;

  PENSTOCK_HD void operator()(std::size_t i) const {
    if (guess(x[i]) == y[i]) {
#if defined(__CUDA_ARCH__)
      atomicAdd(right, 1ULL);
#else
      ++*right;
#endif
    }
  }
};

struct Result {
  std::vector<std::int64_t> x, y; // of the last batch
  std::vector<ps::Visit> windows; // of it
  unsigned long long right = 0;
  std::string position;
  ps::Report report;
};

template <ps::AnyDevice D, class Source> Result train(D& device, const Source& source) {
  auto x = ps::device_array<std::int64_t>(device, batch_size * context);
  auto y = ps::device_array<std::int64_t>(device, batch_size * context);
  auto right = ps::device_array<unsigned long long>(device, 1);
  auto stream = device.stream();
  Result result;

  // Returns the position that a program saves with its weights.
  const auto steps = [&](std::size_t most, const ps::Position& from) {
    auto data = ps::Reader{source, ps::to_pinned, {.epochs = epochs, .order = {.shuffle = 1337}}} |
                ps::AsyncCopier{device, {.batch = batch_size}};
    ps::Position position = from;
    for (auto batch : data.on(stream, {.from = from})) {
      const std::size_t n = batch.size() * context;
      ps::for_each(stream, n, Shift{ps::get<"tokens">(batch), x.data(), y.data()});
      ps::for_each(stream, n, Score{x.data(), y.data(), right.data()});

      result.windows.clear();
      for (std::size_t i = 0; i < batch.size(); ++i) {
        result.windows.push_back(batch.visit(i));
      }
      position = batch.position();
      if (--most == 0) {
        break;
      }
    }
    result.report = data.report();
    return position.text();
  };
  result.position = steps(20, {});
  steps(~std::size_t{0}, ps::Position{result.position});

  result.x = x.read(stream);
  result.y = y.read(stream);
  result.right = right.read(stream).front();
  return result;
}

/// Throws if a plain loop finds something else.
template <class Source>
void check(const Result& found, const std::vector<Token>& tokens, const Source& source) {
  unsigned long long right = 0;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::uint64_t i = 0; i < source.size(); ++i) {
      const Token* const window = tokens.data() + source.offset_of(i, epoch);
      for (std::size_t k = 0; k < context; ++k) {
        right += guess(window[k]) == window[k + 1] ? 1U : 0U;
      }
    }
  }
  bool same = true;
  std::size_t at = 0;
  for (const ps::Visit& visit : found.windows) {
    const Token* const window = tokens.data() + source.offset_of(visit.record, visit.epoch);
    for (std::size_t k = 0; k < context; ++k, ++at) {
      same = same && found.x[at] == window[k] && found.y[at] == window[k + 1];
    }
  }
  if (!same || right != found.right) {
    throw std::runtime_error{"a plain loop finds other inputs and targets"};
  }
}

/// Makes tokens that follow the rule, all but one in eight.
std::vector<Token> some_tokens() {
  std::vector<Token> tokens(1'000'000);
  std::uint64_t random = 1;
  std::int64_t token = 0;
  for (Token& next : tokens) {
    random = random * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    token =
        (random >> 61) != 0 ? guess(token) : static_cast<std::int64_t>(random >> 33) % vocabulary;
    next = static_cast<Token>(token);
  }
  return tokens;
}

/// Trains on windows of opened tokens, and says what came of it.
template <class Tokens> int run(const Tokens& all, const std::string& device_name) {
  std::vector<Token> tokens;
  auto once = ps::Reader{all} | ps::Consumer{[&](ps::Batch<const Token, ps::Pageable> batch) {
                tokens.insert(tokens.end(), batch.data(), batch.data() + batch.size());
              }};
  once.run();
  auto source = ps::windows(all, {.length = context + 1, .seed = 1337});
  source.open(); // as prepare() does: this program asks it, too, where windows begin

  return ps::with_device(device_name, [&](auto& device) {
    const auto attached = device.attach();
    const Result result = train(device, source);
    check(result, tokens, source);
    const std::uint64_t guesses = epochs * source.size() * context;
    std::cout << result.right << " of " << guesses << " tokens guessed, " << std::setprecision(3)
              << 100.0 * static_cast<double>(result.right) / static_cast<double>(guesses)
              << " %\nwent on from " << result.position << '\n'
              << result.report;
    return 0;
  });
}

int main(int argc, char** argv) try {
  const Arguments args{argc, argv, 1, "TOKENS"};
  if (!args.files.empty()) {
    const std::string& file = args.files.front();
    return ps::is_packed(file) ? run(ps::unpacked<Token>(file), args.device)
                               : run(ps::tokens<Token>(file), args.device);
  }
  const std::vector<Token> tokens = some_tokens();
  std::list<TemporaryFile> shards;
  std::vector<std::string> paths;
  constexpr std::size_t most = 300'000; // in a file
  for (std::size_t first = 0; first < tokens.size(); first += most) {
    const std::size_t count = std::min(most, tokens.size() - first);
    const std::int32_t header[256] = {20240520, 1, static_cast<std::int32_t>(count)};
    std::string shard{reinterpret_cast<const char*>(header), sizeof header};
    shard.append(reinterpret_cast<const char*>(tokens.data() + first), count * sizeof(Token));
    paths.push_back(shards.emplace_back(shard).path());
  }
  return run(ps::tokens<Token>(paths), args.device);
} catch (const std::exception& error) {
  std::cerr << "08_tokens: " << error.what() << '\n';
  return 1;
}

// prints with --device host:
//   1747384 of 1996800 tokens guessed, 87.5 %
//   went on from penstock-position 1 epoch=1 step=256 …
//   719 records, … on host
//   …
