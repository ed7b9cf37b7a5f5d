// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How ranks of the examples tell each other what rank 0 has: threads here. tools/check_gpt_ranks.py
// and tools/check_weights.py have processes.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/environment.hpp"
#include "support/temp_dir.hpp"

#include "../../examples/support/meeting.hpp"
#include "../../examples/support/require_same.hpp"

#include <penstock/order/order.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::Environment;
using ps::tests::TempDir;

namespace {

using namespace std::chrono_literals;

penstock::Ranks rank_of(std::uint32_t rank, std::uint32_t world) {
  return {rank, world, rank, world};
}
/// Returns what a rank has after rank 0 has shared these numbers, one at a time.
std::vector<int> shared(Meeting& meeting, std::vector<int> numbers) {
  for (int& number : numbers) {
    meeting.share(std::as_writable_bytes(std::span{&number, 1}));
  }
  return numbers;
}
std::string why(const std::function<void()>& f) {
  const std::string text = caught<std::runtime_error>(f).what();
  INFO(text);
  CHECK(text.find('\n') == text.npos);
  return text;
}
bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != text.npos;
}

} // namespace

TEST_CASE("all ranks have what rank 0 shares, in its order, and nothing is left") {
  const TempDir folder;
  for (const std::string& given : {folder / "new", folder / "empty"}) {
    std::filesystem::create_directory(folder / "empty");
    const Environment environment{"MEETING=" + given};
    std::vector<std::future<std::vector<int>>> ranks;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      ranks.push_back(std::async(std::launch::async, [rank] {
        Meeting meeting{rank_of(rank, 3)};
        const int first = rank == 0 ? 10 : 0;
        return shared(meeting, {first, first + 1, first + 2});
      }));
    }
    for (auto& rank : ranks) {
      CHECK(rank.get() == std::vector<int>{10, 11, 12});
    }
    CHECK_FALSE(std::filesystem::exists(given));
  }
}

TEST_CASE("ranks of one parent meet in memory") {
  const Environment none;
  auto first = std::async(std::launch::async, [] {
    Meeting meeting{rank_of(0, 2)};
    return shared(meeting, {5});
  });
  Meeting meeting{rank_of(1, 2)};
  CHECK(shared(meeting, {0}) == std::vector<int>{5});
  CHECK(first.get() == std::vector<int>{5});
}

TEST_CASE("one rank meets nobody") {
  const Environment environment{"MEETING=/no/such/folder"};
  Meeting meeting{{}};
  CHECK(shared(meeting, {7}) == std::vector<int>{7});
}

TEST_CASE("a rank waits for rank 0 no longer than its patience") {
  const TempDir folder;
  const Environment environment{"MEETING=" + folder.path()};
  Meeting alone{rank_of(1, 2), 20ms};
  const std::string said = why([&] { shared(alone, {0}); });
  CHECK(has(said, "rank 1 of 2 has waited 20 ms for " + folder.path() + "/0, which rank 0 writes"));
  CHECK(has(said, "Set the variable MEETING to a folder that all ranks see"));
  {
    Meeting first{rank_of(0, 2), 20ms};
    shared(first, {1}); // nobody reads it
  }
  CHECK_FALSE(std::filesystem::exists(folder.path()));
}

TEST_CASE("a folder that another job has left is refused, and so is what is no folder") {
  const TempDir folder;
  folder.write("0", std::string{"left"});
  const Environment environment{"MEETING=" + folder.path()};
  const std::string said = why([] { const Meeting first{rank_of(0, 2)}; });
  CHECK(has(said,
            "rank 0 cannot make the folder " + folder.path() + ": File exists. If another job"));
  CHECK(std::filesystem::exists(folder / "0"));
  const Environment missing{"MEETING=" + folder / "no/such"};
  CHECK(has(why([] { const Meeting first{rank_of(0, 2)}; }), "No such file or directory"));
}

TEST_CASE("ranks of several hosts need a folder that all see") {
  const Environment none;
  CHECK(has(why([] { const Meeting first{{0, 4, 0, 2}}; }),
            "of 4 ranks only 2 are on this host. Set the variable MEETING"));
}

TEST_CASE("what differs from rank 0 is refused") {
  const TempDir folder;
  const Environment environment{"MEETING=" + folder.path()};
  auto first = std::async(std::launch::async, [] {
    Meeting meeting{rank_of(0, 2), 100ms};
    require_same(meeting, "a text", "the texts");
    require_same(meeting, "another", "the texts");
    char more = 0;
    meeting.share(std::as_writable_bytes(std::span{&more, 1}));
  });
  Meeting meeting{rank_of(1, 2)};
  require_same(meeting, "a text", "the texts");
  CHECK(std::string{caught<std::invalid_argument>([&] {
                      require_same(meeting, "some other", "the texts");
                    }).what()} == "the texts are not those of rank 0: give all ranks the same");
  CHECK(
      has(why([&] { shared(meeting, {0}); }), "it has 1 bytes, of 4. Start all ranks as one user"));
  first.get();
}
