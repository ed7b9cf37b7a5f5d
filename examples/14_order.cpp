// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 14_order: the numbers from 0 on in an order: shuffled, shared among ranks, and gone on with where
// an earlier run was killed.
//
//   14_order --records N [--seed S] [--block B --window W] [--rank R --world W]
//            [--uneven drop|repeat|keep] [--epochs E] [--batch B] [--from POSITION]
//            [--stop-after BATCHES] [--workers W] [--bad-every K] [--positions FILE] [--step-ms MS]
//
// It prints the number of each record, one a line, and flushes them after each batch. Then it adds
// a line to FILE: how many lines it has printed, and its position. With --bad-every a Decoder
// leaves out each K-th record. Its last line, on stderr, is "position: " and its position.
//
// Without --rank and --world it is the rank that a launcher says: torchrun, mpirun, srun, or
// examples/run_ranks. All must have the same options, but for --positions: with another seed on one
// rank, records would come twice, and others never. If one rank fails, the launcher ends the
// others. A batch takes at least --step-ms, as it would if there were something to compute.

#include <penstock/penstock.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

namespace ps = penstock;

namespace {

class Options {
 public:
  Options(int argc, char** argv) {
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      if (known.count(name) == 0 || i + 1 == argc) {
        throw std::invalid_argument{"what is \"" + name +
                                    "\"? The file's beginning has the usage."};
      }
      given_[name] = argv[i + 1];
    }
    if (!has("--records")) {
      throw std::invalid_argument{"how many? Say --records N."};
    }
  }

  bool has(const std::string& name) const { return given_.count(name) != 0; }
  std::string text(const std::string& name) const { return has(name) ? given_.at(name) : ""; }
  std::uint64_t number(const std::string& name, std::uint64_t otherwise) const {
    if (!has(name)) {
      return otherwise;
    }
    const std::string& text = given_.at(name);
    if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) {
      throw std::invalid_argument{name + " takes a number, and \"" + text + "\" is none."};
    }
    return std::stoull(text);
  }

 private:
  inline static const std::set<std::string> known{
      "--records", "--seed",       "--block",     "--window",    "--rank",
      "--world",   "--uneven",     "--epochs",    "--batch",     "--from",
      "--workers", "--stop-after", "--bad-every", "--positions", "--step-ms"};

  std::map<std::string, std::string> given_;
};

/// Returns which rank this is: as the options say, else as the launcher does.
ps::Ranks ranks_of(const Options& options) {
  if (!options.has("--rank") && !options.has("--world")) {
    return ps::ranks();
  }
  return {.rank = static_cast<std::uint32_t>(options.number("--rank", 0)),
          .world = static_cast<std::uint32_t>(options.number("--world", 1))};
}

ps::Order order_of(const Options& options) {
  static const std::map<std::string, ps::Uneven> uneven{{"", ps::Uneven::drop},
                                                        {"drop", ps::Uneven::drop},
                                                        {"repeat", ps::Uneven::repeat},
                                                        {"keep", ps::Uneven::keep}};
  if (uneven.count(options.text("--uneven")) == 0) {
    throw std::invalid_argument{"--uneven takes drop, repeat or keep."};
  }
  return {.shuffle = options.has("--seed") ? ps::Seed{options.number("--seed", 0)} : ps::Seed{},
          .block = options.number("--block", 0),
          .window = options.number("--window", 1),
          .ranks = ranks_of(options),
          .uneven = uneven.at(options.text("--uneven"))};
}

ps::Position print_numbers(const Options& options) {
  const auto workers = static_cast<unsigned>(options.number("--workers", 2));
  const std::uint64_t bad_every = options.number("--bad-every", 0);
  const auto numbers = ps::generate<std::uint64_t>(
      options.number("--records", 0), [](std::span<std::uint64_t> out, std::uint64_t first) {
        for (std::uint64_t& number : out) {
          number = first++;
        }
      });
  auto pipeline = ps::Reader{numbers,
                             {.workers = workers,
                              .epochs = options.number("--epochs", 1),
                              .order = order_of(options),
                              .batch = options.number("--batch", 100)}} |
                  ps::Decoder{[bad_every](const std::uint64_t& in, std::uint64_t& out) {
                                if (bad_every != 0 && in % bad_every == bad_every - 1) {
                                  throw std::runtime_error{"a bad record"};
                                }
                                out = in;
                              },
                              {.workers = workers,
                               .on_error = {.skips = bad_every == 0 ? 0 : ~std::uint64_t{0}}}};

  std::ofstream positions;
  if (options.has("--positions")) {
    positions.open(options.text("--positions"));
  }
  ps::Position position =
      options.has("--from") ? ps::Position{options.text("--from")} : ps::Position{};
  const std::chrono::milliseconds step{options.number("--step-ms", 0)};
  std::uint64_t lines = 0;
  std::uint64_t batches_left = options.number("--stop-after", ~std::uint64_t{0});
  auto batches = pipeline.batches({.from = position});
  while (batches_left-- != 0) {
    const auto batch = batches.next();
    if (!batch) {
      break;
    }
    for (std::size_t i = 0; i != batch.size(); ++i) {
      std::cout << batch.data()[i] << '\n';
    }
    std::cout << std::flush;
    lines += batch.size();
    position = batch.position();
    positions << lines << ' ' << position << '\n' << std::flush;
    std::this_thread::sleep_for(step);
  }
  return position;
}

} // namespace

int main(int argc, char** argv) try {
  const Options options{argc, argv};
  const ps::Position position = print_numbers(options);
  std::cerr << "position: " + position.text() + '\n'; // at once: other ranks write there, too
} catch (const std::exception& e) {
  std::cerr << std::string{"14_order: "} + e.what() + '\n'; // at once: other ranks write there, too
  return EXIT_FAILURE;
}
