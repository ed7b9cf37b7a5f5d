// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/windows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ps = penstock;
using Token = std::uint16_t;
using Window = ps::Window<Token>;

namespace {

std::vector<Token> some_tokens(std::size_t count) {
  std::vector<Token> tokens(count);
  std::iota(tokens.begin(), tokens.end(), Token{1000});
  return tokens;
}

bool says(const std::exception& e, const std::string& text) {
  return std::string{e.what()}.find(text) != std::string::npos;
}

// Reads `count` windows from `first` on, into memory for windows of `length`.
template <class Where = ps::Pageable>
std::vector<Token> read(const ps::Windows<Token>& source, std::uint64_t first, std::size_t count,
                        std::size_t length) {
  std::vector<Token> into(count * length, Token{7});
  typename ps::Batch<Window, Where>::View view;
  view.parts[0] = into.data();
  view.sizes[0] = length;
  view.size = count;
  view.index = first;
  source.read(ps::Batch<Window, Where>{view});
  return into;
}

std::vector<Token> expected(const std::vector<Token>& tokens, const ps::Windows<Token>& source,
                            std::uint64_t first, std::size_t count, std::size_t length) {
  std::vector<Token> all;
  for (std::uint64_t i = first; i < first + count; ++i) {
    const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(source.offset_of(i));
    all.insert(all.end(), from, from + static_cast<std::ptrdiff_t>(length));
  }
  return all;
}

template <class C>
concept Windowed = requires(C&& c) { ps::windows(std::forward<C>(c), {.length = 1}); };
static_assert(Windowed<std::vector<Token>&> && Windowed<const std::vector<Token>&>);
static_assert(Windowed<std::span<const Token>> && !Windowed<std::vector<Token>>);
static_assert(ps::Source<ps::Windows<Token>>);

} // namespace

TEST_CASE("windows hold the tokens from where offset_of says, in any order of reading") {
  const auto tokens = some_tokens(5000);
  const auto check = [&](const auto& source) {
    source.open();
    REQUIRE(source.size() == 200);
    REQUIRE(source.extents()[0] == 33);
    for (const auto& [first, count] : {std::pair{0, 200}, {199, 1}, {7, 50}, {200, 0}}) {
      const auto from = static_cast<std::uint64_t>(first);
      const auto n = static_cast<std::size_t>(count);
      REQUIRE(read(source, from, n, 33) == expected(tokens, source, from, n, 33));
      REQUIRE(read<ps::Pinned>(source, from, n, 33) == read(source, from, n, 33));
    }
  };
  const ps::WindowsOptions options{.length = 33, .count = 200, .seed = 9};
  check(ps::windows(tokens, options));
  check(ps::windows(std::span{tokens}, options));
  static_assert(std::is_same_v<decltype(ps::windows(std::span{tokens}, options)),
                               decltype(ps::windows(tokens, options))>);
}

TEST_CASE("offsets follow from seed and number alone") {
  // Another program computed these, from splitmix64's definition.
  const auto tokens = some_tokens(1'000'000);
  const auto seeded = [&](std::uint64_t seed) {
    return ps::windows(tokens, {.length = 1025, .count = 10, .seed = seed});
  };
  REQUIRE(seeded(0).offset_of(0) == 856'879);
  REQUIRE(seeded(0).offset_of(1) == 536'436);
  REQUIRE(seeded(1).offset_of(0) == 351'282);
  REQUIRE(seeded(42).offset_of(123'456'789'012) == 339'262);
}

TEST_CASE("offsets reach all places where a window fits, evenly, and no other") {
  const auto tokens = some_tokens(12);
  const auto source = ps::windows(tokens, {.length = 5, .count = 1, .seed = 3});
  std::vector<int> hits(8);
  for (std::uint64_t i = 0; i < 80'000; ++i) {
    ++hits.at(source.offset_of(i));
  }
  // Ten thousand are expected for each; a standard deviation is 94.
  REQUIRE(*std::min_element(hits.begin(), hits.end()) > 9'500);
  REQUIRE(*std::max_element(hits.begin(), hits.end()) < 10'500);

  std::set<std::size_t> others;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto large = some_tokens(60'000);
    others.insert(ps::windows(large, {.length = 5, .seed = seed}).offset_of(0));
  }
  REQUIRE(others.size() > 95);

  const auto whole = ps::windows(tokens, {.length = 12});
  REQUIRE(whole.offset_of(0) == 0);
  REQUIRE(whole.offset_of(77) == 0);
}

TEST_CASE("without a count there are as many windows as lie back to back") {
  const auto tokens = some_tokens(100);
  REQUIRE(ps::windows(tokens, {.length = 10}).size() == 10);
  REQUIRE(ps::windows(tokens, {.length = 11}).size() == 9);
  REQUIRE(ps::windows(tokens, {.length = 11, .count = 1000}).size() == 1000);
}

TEST_CASE("windows refuse what cannot be, with the numbers") {
  const auto tokens = some_tokens(10);
  const auto none = ps::windows(tokens, {.count = 5});
  auto option = ps::tests::thrown_by<ps::OptionError>([&] { none.open(); });
  REQUIRE(option);
  REQUIRE(says(*option, "penstock: windows: length is 0 and count 5"));
  REQUIRE(ps::windows(tokens, {}).size() == 0);
  const auto endless = ps::windows(tokens, {.length = 1, .count = ps::unknown_size});
  option = ps::tests::thrown_by<ps::OptionError>([&] { endless.open(); });
  REQUIRE(option);
  REQUIRE(says(*option, "windows are counted in 64 bits"));

  ps::windows(tokens, {.length = 10}).open();
  for (const std::size_t length : {std::size_t{11}, ~std::size_t{0}}) {
    const auto source = ps::tests::thrown_by<ps::SourceError>(
        [&] { ps::windows(tokens, {.length = length}).open(); });
    REQUIRE(source);
    REQUIRE(says(*source, "the sequence has 10 tokens, fewer than the " + std::to_string(length)));
  }
  const auto two = ps::windows(tokens, {.length = 5});
  two.open();
  auto e = ps::tests::thrown_by<ps::SourceError>([&] { read(two, 1, 2, 5); });
  REQUIRE(e);
  REQUIRE(e->record() == 1);
  REQUIRE(says(*e, "windows: asked for 2 records from record 1 on, but the source has 2"));
  e = ps::tests::thrown_by<ps::SourceError>([&] { read(two, 0, 1, 4); });
  REQUIRE(e);
  REQUIRE(says(*e, "asked for records of 8 bytes, but they have 10"));
}

TEST_CASE("windows go through a pipeline to the device, all of them in order") {
  const auto tokens = some_tokens(100'000);
  constexpr std::size_t length = 129;
  const auto source = ps::windows(tokens, {.length = length, .count = 20'011, .seed = 5});
  ps::HostDevice device;
  std::uint64_t next = 0;
  bool right = true;
  auto pipeline =
      ps::Reader{source, ps::to_pinned, {.workers = 3}} | ps::AsyncCopier{device, {.batch = 64}} |
      ps::Consumer{[&](ps::Batch<const Window, ps::Device> batch, ps::HostStream& stream) {
        stream.enqueue([&, batch] {
          const auto windows = ps::get<"tokens">(batch);
          right = right && batch.index() == next && windows.elements() == length;
          for (std::size_t i = 0; i < batch.size(); ++i) {
            const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(source.offset_of(next));
            right = right && std::equal(from, from + length, windows[i].data());
            ++next;
          }
        });
      }};
  REQUIRE(pipeline.run().records == 20'011);
  REQUIRE(next == 20'011);
  REQUIRE(right);
}
