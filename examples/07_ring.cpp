// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 07_ring: the ring that joins stages, on its own. Three threads look for the divisors of numbers,
// some of which take much longer than others, and two threads write down what they find. The
// results come in the order of the numbers, without a lock, though three threads work side by side.
//
//   07_ring
//
// It prints the first results and how many primes there are. It fails if a plain loop finds other
// results.

#include <penstock/ring/ring.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ps = penstock;

constexpr std::uint64_t numbers = 20'000;

std::uint64_t least_divisor(std::uint64_t n) {
  for (std::uint64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) {
      return d;
    }
  }
  return n;
}

/// What travels with a slot.
struct Found {
  std::uint64_t number;
  std::uint64_t divisor;
};
// That a side has many threads is known here: the ring then has the code for that alone.
using Ring = ps::Ring<Found, ps::RingPolicy, ps::RingKind::with_many>;

/// A ticket stands for the number to look at. The thread that claims one past the last ends the
/// ring: takers get the slots before it, and then none.
void look(Ring& ring) {
  while (Ring::Claim claim = ring.claim()) {
    const std::uint64_t number = claim.ticket() + 2;
    if (claim.ticket() >= numbers) {
      ring.end_at(numbers);
      return;
    }
    claim.slot() = {number, least_divisor(number)};
    claim.publish();
  }
}

/// Puts each result where its ticket says; the slot goes back when `take` dies.
void write_down(Ring& ring, std::vector<Found>& results) {
  while (const Ring::Take take = ring.take()) {
    results[take.ticket()] = take.slot();
  }
}

int main() try {
  std::vector<Found> results(numbers);
  Ring ring{16};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] { look(ring); });
    }
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] { write_down(ring, results); });
    }
  }
  std::uint64_t primes = 0;
  for (std::uint64_t i = 0; i < numbers; ++i) {
    if (results[i].number != i + 2 || results[i].divisor != least_divisor(i + 2)) {
      throw std::runtime_error{"result " + std::to_string(i) + " is wrong"};
    }
    primes += results[i].divisor == results[i].number ? 1U : 0U;
  }
  for (std::size_t i = 0; i < 5; ++i) {
    std::cout << results[i].number << " is divided by " << results[i].divisor << '\n';
  }
  std::cout << primes << " primes among " << numbers << " numbers, through " << ring.slots()
            << " slots\n";
} catch (const std::exception& error) {
  std::cerr << "07_ring: " << error.what() << '\n';
  return 1;
}

// prints:
//   2 is divided by 2
//   3 is divided by 3
//   4 is divided by 2
//   5 is divided by 5
//   6 is divided by 2
//   2262 primes among 20000 numbers, through 16 slots
