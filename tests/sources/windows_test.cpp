// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/temp_dir.hpp"

#include <penstock/penstock.hpp>
#include <penstock/sources/any_source.hpp>
#include <penstock/sources/concat.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/slice.hpp>
#include <penstock/sources/windows.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>

namespace ps = penstock;
using ps::tests::caught;
using ps::tests::has;
using ps::tests::TempDir;
using Token = std::uint16_t;
using Window = ps::Window<Token>;

namespace {

std::vector<Token> some_tokens(std::size_t count) {
  std::vector<Token> tokens(count);
  std::iota(tokens.begin(), tokens.end(), Token{1000});
  return tokens;
}

// Reads `count` windows of an epoch from `first` on, into memory for windows of `length`.
template <class Where = ps::Pageable, class Source>
std::vector<Token> read(const Source& source, std::uint64_t first, std::size_t count,
                        std::size_t length, std::uint64_t epoch = 0) {
  std::vector<Token> into(count * length, Token{7});
  typename ps::Batch<Window, Where>::View view;
  view.parts[0] = into.data();
  view.sizes[0] = length;
  view.size = count;
  view.index = first;
  const ps::detail::Interrupt interrupt;
  ps::detail::Meter meter;
  const ps::Filled got =
      source.read(ps::Batch<Window, Where>{view}, ps::Patience{interrupt, meter, epoch, 0});
  REQUIRE(got.count == count);
  return into;
}
template <class Source>
std::vector<Token> expected(const std::vector<Token>& tokens, const Source& source,
                            std::uint64_t first, std::size_t count, std::size_t length,
                            std::uint64_t epoch = 0) {
  std::vector<Token> all;
  for (std::uint64_t i = first; i < first + count; ++i) {
    const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(source.offset_of(i, epoch));
    all.insert(all.end(), from, from + static_cast<std::ptrdiff_t>(length));
  }
  return all;
}

// Tokens that are their own numbers, of a source that may lie.
struct Counting {
  using schema = Token;
  std::uint64_t tokens = 100;
  std::uint64_t ends_at = 100;
  bool at_hand = true;
  std::size_t bytes = sizeof(Token);

  std::uint64_t size() const { return tokens; }
  bool random_access() const { return at_hand; }
  std::size_t record_bytes() const { return bytes; }
  template <ps::HostSpace W> std::size_t read(ps::Batch<Token, W> into) const {
    const std::uint64_t left = ends_at - std::min(ends_at, into.index());
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left, into.size()));
    std::iota(into.data(), into.data() + count, static_cast<Token>(into.index()));
    return count;
  }
};

// Gives one token at a time.
struct Slow : Counting {
  template <ps::HostSpace W> ps::Filled read(ps::Batch<Token, W> into) const {
    *into.data() = static_cast<Token>(into.index());
    return ps::for_now(1);
  }
};

// Gives nothing once the run ends.
struct Heeding : Counting {
  template <ps::HostSpace W>
  std::size_t read(ps::Batch<Token, W> into, const ps::Patience& patience) const {
    return patience.stop_requested() ? 0 : Counting::read(into);
  }
};

// Which window came, and whether it had its tokens.
struct Came {
  std::uint64_t window;
  std::uint64_t epoch;
  bool right;
};

template <class C>
concept Windowed = requires(C&& c) { ps::windows(std::forward<C>(c), {.length = 1}); };
static_assert(Windowed<std::vector<Token>&> && Windowed<const std::vector<Token>&>);
static_assert(Windowed<std::span<const Token>>);
static_assert(Windowed<Counting> && Windowed<const Counting&>);
static_assert(ps::Source<ps::Windows<ps::Memory<Token>>>);
static_assert(ps::Source<ps::Windows<ps::Records<Token>>>);

} // namespace

TEST_CASE("windows lie on a grid, and are read in any order") {
  const auto tokens = some_tokens(5000);
  const auto check = [&](auto source) {
    source.open();
    REQUIRE(source.size() == 156);
    REQUIRE(source.extents()[0] == 33);
    for (std::uint64_t i = 0; i < 156; ++i) {
      REQUIRE(source.offset_of(i, i % 3) == i * 32);
    }
    for (const auto& [first, count] : {std::pair{0, 156}, {155, 1}, {7, 50}, {156, 0}}) {
      const auto from = static_cast<std::uint64_t>(first);
      const auto n = static_cast<std::size_t>(count);
      REQUIRE(read(source, from, n, 33) == expected(tokens, source, from, n, 33));
      REQUIRE(read<ps::Pinned>(source, from, n, 33) == read(source, from, n, 33));
    }
  };
  const ps::WindowsOptions options{.length = 33, .stride = 32};
  check(ps::windows(tokens, options));
  check(ps::windows(std::span{tokens}, options));
  check(ps::windows(ps::memory(tokens), options));
  static_assert(std::is_same_v<decltype(ps::windows(std::span{tokens}, options)),
                               decltype(ps::windows(ps::memory(tokens), options))>);
}

TEST_CASE("without a stride an epoch predicts each token once") {
  const auto tokens = some_tokens(101);
  const auto source = ps::windows(tokens, {.length = 11});
  REQUIRE(source.size() == 10);
  std::vector<int> predicted(101);
  for (std::uint64_t i = 0; i < source.size(); ++i) {
    for (std::size_t k = 1; k < 11; ++k) {
      ++predicted.at(source.offset_of(i) + k);
    }
  }
  REQUIRE(predicted[0] == 0);
  REQUIRE(std::all_of(predicted.begin() + 1, predicted.end(), [](int n) { return n == 1; }));

  REQUIRE(ps::windows(tokens, {.length = 1}).size() == 101);
  REQUIRE(ps::windows(tokens, {.length = 10, .stride = 10}).size() == 10);
  REQUIRE(ps::windows(tokens, {.length = 10, .stride = 1}).size() == 92);
  REQUIRE(ps::windows(tokens, {.length = 10, .stride = ~std::uint64_t{0}}).size() == 1);
}

TEST_CASE("where a window begins follows from seed, epoch and number alone") {
  // Another program computed these, from splitmix64's definition.
  const auto tokens = some_tokens(1'000'000);
  const auto seeded = [&](std::uint64_t seed) {
    return ps::windows(tokens, {.length = 1025, .stride = 1024, .seed = seed});
  };
  const auto beyond =
      caught<ps::OptionError>([&] { static_cast<void>(seeded(0).offset_of(seeded(0).size())); });
  CHECK(has(beyond, "windows: asked for number "));
  REQUIRE(seeded(0).offset_of(0) == 623);
  REQUIRE(seeded(0).offset_of(0, 1) == 270);
  REQUIRE(seeded(1).offset_of(0) == 286);
  REQUIRE(seeded(42).offset_of(700, 123'456'789'012) == 717'110);
}

TEST_CASE("a seed shifts each epoch by any number of tokens below a stride, evenly") {
  const auto tokens = some_tokens(100);
  const auto source = ps::windows(tokens, {.length = 5, .stride = 8, .seed = 3});
  std::vector<int> hits(8);
  for (std::uint64_t epoch = 0; epoch < 80'000; ++epoch) {
    ++hits.at(source.offset_of(0, epoch));
  }
  // Ten thousand are expected for each; a standard deviation is 94.
  REQUIRE(*std::min_element(hits.begin(), hits.end()) > 9'500);
  REQUIRE(*std::max_element(hits.begin(), hits.end()) < 10'500);

  std::set<std::uint64_t> others;
  const auto large = some_tokens(60'000);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    others.insert(ps::windows(large, {.length = 5, .stride = 30'000, .seed = seed}).offset_of(0));
  }
  REQUIRE(others.size() > 95);
}

TEST_CASE("however far it is shifted, every epoch has as many windows, and no room for one more") {
  for (std::size_t count = 1; count <= 30; ++count) {
    const auto tokens = some_tokens(count);
    for (std::size_t length = 1; length <= count; ++length) {
      for (std::uint64_t stride = 1; stride <= 32; ++stride) {
        CAPTURE(count, length, stride);
        const auto still = ps::windows(tokens, {.length = length, .stride = stride});
        const std::uint64_t last = count - length; // where the last window may begin
        REQUIRE(still.offset_of(still.size() - 1) <= last);
        REQUIRE(still.offset_of(still.size() - 1) + stride > last);

        const auto source = ps::windows(tokens, {.length = length, .stride = stride, .seed = 1});
        std::uint64_t furthest = 0;
        // With this seed 300 epochs reach every shift.
        for (std::uint64_t epoch = 0; epoch < 300; ++epoch) {
          furthest = std::max(furthest, source.offset_of(0, epoch));
        }
        REQUIRE(furthest == std::min(stride - 1, last));
        REQUIRE(furthest + (source.size() - 1) * stride <= last);
        REQUIRE(furthest + source.size() * stride > last);
      }
    }
  }
}

TEST_CASE("windows lie across files, behind the offset of each") {
  const auto tokens = some_tokens(1000);
  const TempDir dir;
  std::vector<std::string> shards;
  std::size_t first = 0;
  for (const std::size_t count :
       {std::size_t{400}, std::size_t{3}, std::size_t{0}, std::size_t{597}}) {
    std::vector<Token> shard(4, Token{9}); // what stands before the tokens
    shard.insert(shard.end(), tokens.begin() + static_cast<std::ptrdiff_t>(first),
                 tokens.begin() + static_cast<std::ptrdiff_t>(first + count));
    shards.push_back(dir.write(std::to_string(shards.size()), std::as_bytes(std::span{shard})));
    first += count;
  }
  auto source = ps::windows(ps::records<Token>(shards, {.offset = 8}),
                            {.length = 17, .stride = 12, .seed = 6});
  source.open();
  REQUIRE(source.size() == 82);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    REQUIRE(read(source, 0, 82, 17, epoch) == expected(tokens, source, 0, 82, 17, epoch));
  }
  REQUIRE(source.offset_of(0, 0) != source.offset_of(0, 1));

  REQUIRE(::truncate(shards[3].c_str(), 8 + 2 * 100) == 0);
  const auto e = caught<ps::SourceError>([&] { read(source, 30, 52, 17); });
  REQUIRE(e.file() == shards[3]);
  const std::uint64_t cut =
      (503 - source.offset_of(0) - 17) / 12 + 1; // the first that is not whole
  REQUIRE(e.record() == cut);
  REQUIRE(e.offset() == 8 + 2 * 100);
  REQUIRE(has(e, "In windows() it is record " + std::to_string(cut)));
}

TEST_CASE("windows refuse what cannot be, with the numbers") {
  const auto tokens = some_tokens(10);
  auto none = ps::windows(tokens, {.stride = 5});
  REQUIRE(has(caught<ps::OptionError>([&] { none.open(); }), "windows: length is 0"));
  REQUIRE(none.size() == 0);

  ps::windows(tokens, {.length = 10}).open();
  ps::windows(tokens, {.length = 10, .stride = 100, .seed = 1}).open();
  for (const std::size_t length : {std::size_t{11}, ~std::size_t{0}}) {
    for (const ps::Seed seed : {ps::Seed{}, ps::Seed{1}}) {
      auto longer = ps::windows(tokens, {.length = length, .seed = seed});
      REQUIRE(longer.size() == 0);
      REQUIRE(has(caught<ps::SourceError>([&] { longer.open(); }),
                  "the sequence has 10 tokens, fewer than the " + std::to_string(length)));
    }
  }
  for (const Counting& endless :
       {Counting{.tokens = ps::unknown_size}, Counting{.at_hand = false}}) {
    auto source = ps::windows(endless, {.length = 5});
    REQUIRE(has(caught<ps::OptionError>([&] { source.open(); }), "the tokens come in order only"));
  }
  auto slow = ps::windows(ps::AnySource<Token>{Slow{}}, {.length = 5});
  REQUIRE(has(caught<ps::OptionError>([&] { slow.open(); }), "the tokens come in order only"));
  auto mixed = ps::windows(ps::AnySource<Token>{ps::mix<Token>({{Counting{}, 1}})}, {.length = 5});
  REQUIRE(has(caught<ps::OptionError>([&] { mixed.open(); }), "call windows() of its parts"));
  auto larger = ps::windows(Counting{.bytes = 6}, {.length = 5});
  REQUIRE(has(caught<ps::SourceError>([&] { larger.open(); }),
              "the source has records of 6 bytes, and a token has 2"));

  const auto two = ps::windows(tokens, {.length = 5, .stride = 5});
  auto e = caught<ps::SourceError>([&] { read(two, 1, 2, 5); });
  REQUIRE(e.record() == 1);
  REQUIRE(has(e, "windows: asked for 2 records from record 1 on, but the source has 2"));
  e = caught<ps::SourceError>([&] { read(two, 0, 1, 4); });
  REQUIRE(has(e, "asked for records of 8 bytes, but they have 10"));

  const auto lies = ps::windows(Counting{.ends_at = 57}, {.length = 10, .stride = 10});
  e = caught<ps::SourceError>([&] { read(lies, 3, 5, 10); });
  REQUIRE(e.record() == 5);
  REQUIRE(has(e, "of the 10 tokens from number 50 on the source has 7"));
}

TEST_CASE("windows are of sources of sources, and parts of others, which hand the epoch on") {
  auto of_parts =
      ps::windows(ps::concat(ps::take(Counting{}, 30), ps::AnySource<Token>{Counting{}}),
                  {.length = 20, .stride = 10});
  of_parts.open();
  REQUIRE(of_parts.size() == 12);
  const auto across = read(of_parts, 2, 1, 20);
  REQUIRE(across[9] == 29);
  REQUIRE(across[10] == 0);

  const auto tokens = some_tokens(1000);
  const auto first = ps::windows(ps::take(ps::memory(tokens), 300), {.length = 17, .seed = 2});
  const auto second = ps::windows(ps::drop(ps::memory(tokens), 300), {.length = 17, .seed = 2});
  auto opened = second;
  opened.open();
  auto both = ps::concat(std::vector{ps::AnySource<Window>{first}, ps::AnySource<Window>{second}});
  both.open();
  const std::uint64_t behind = both.size() - opened.size();
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    REQUIRE(read(both, behind, 42, 17, epoch) == read(opened, 0, 42, 17, epoch));
  }
  REQUIRE(read(opened, 0, 1, 17, 0) != read(opened, 0, 1, 17, 1));

  auto mix = ps::Reader{ps::mix<Window>({{first, 1}, {second, 3}}),
                        {.epochs = 2, .order = {.shuffle = 7, .records = 400}}} |
             ps::Decoder{[&](ps::Row<const Window> in, Came& out, ps::Visit visit) {
               const std::uint64_t i = visit.record;
               const std::uint64_t token = i < behind
                                               ? i * 16 + opened.offset_of(0, visit.epoch)
                                               : 300 + opened.offset_of(i - behind, visit.epoch);
               out = {i, visit.epoch, ps::get<"tokens">(in).data()[0] == tokens[token]};
             }};
  std::size_t right = 0;
  for (auto batch : mix.batches()) {
    for (const Came& one : std::span{batch.data(), batch.size()}) {
      right += one.right ? 1 : 0;
    }
  }
  REQUIRE(right == 800);
}

TEST_CASE("a read that is told to return gives the windows that are whole") {
  const ps::WindowsOptions options{.length = 10, .stride = 10};
  ps::detail::Interrupt interrupt;
  ps::detail::Meter meter;
  const ps::Patience patience{interrupt, meter, 0, 0};
  std::array<Token, 100> into{};
  ps::Batch<Window, ps::Pageable>::View view;
  view.parts[0] = into.data();
  view.sizes[0] = 10;
  view.size = 10;
  const ps::Batch<Window, ps::Pageable> batch{view};
  REQUIRE(ps::windows(Heeding{}, options).read(batch, patience) == 10);
  interrupt.raise();
  REQUIRE(ps::windows(Heeding{}, options).read(batch, patience) == 0);
  REQUIRE(ps::windows(Counting{.ends_at = 57}, options).read(batch, patience) == 5);
}

TEST_CASE("the source of tokens hears where windows lie that are soon to be read") {
  struct Hearing : Counting {
    std::pair<std::uint64_t, std::uint64_t>* told;
    void will_read(std::uint64_t first, std::uint64_t count) const noexcept {
      *told = {first, first + count};
    }
  };
  std::pair<std::uint64_t, std::uint64_t> told;
  Hearing tokens;
  tokens.told = &told;
  const auto source = ps::windows(tokens, {.length = 10, .stride = 8, .seed = 1});
  REQUIRE(source.size() == 11);
  source.will_read(2, 3);
  REQUIRE(told.first <= source.offset_of(2));
  for (std::uint64_t epoch = 0; epoch < 100; ++epoch) {
    REQUIRE(told.second >= source.offset_of(4, epoch) + 10);
  }
  REQUIRE(told.second < 2 * 8 + 3 * 8 + 10 + 8);
  ps::windows(tokens, {.length = 10, .stride = 8}).will_read(11, 1);
  REQUIRE(told == std::pair<std::uint64_t, std::uint64_t>{88, 100});
  static_assert(!ps::detail::HearsWhatComes<ps::Windows<Counting>>);
}

TEST_CASE("windows go through a pipeline to the device, in order, each epoch shifted") {
  const auto tokens = some_tokens(100'000);
  constexpr std::size_t length = 129;
  const auto source = ps::windows(tokens, {.length = length, .stride = 13, .seed = 5});
  REQUIRE(source.size() == 7682);
  ps::HostDevice device;
  std::uint64_t next = 0;
  bool right = true;
  auto pipeline =
      ps::Reader{source, ps::to_pinned, {.workers = 3, .epochs = 3}} |
      ps::AsyncCopier{device, {.batch = 64}} |
      ps::Consumer{[&](ps::Batch<const Window, ps::Device> batch, ps::HostStream& stream) {
        stream.enqueue([&, batch] {
          const auto windows = ps::get<"tokens">(batch);
          right = right && batch.index() == next && windows.elements() == length;
          for (std::size_t i = 0; i < batch.size(); ++i) {
            const std::uint64_t from = source.offset_of(next % 7682, next / 7682);
            right = right && std::equal(tokens.begin() + static_cast<std::ptrdiff_t>(from),
                                        tokens.begin() + static_cast<std::ptrdiff_t>(from + length),
                                        windows[i].data());
            ++next;
          }
        });
      }};
  REQUIRE(pipeline.run().records == 3 * 7682);
  REQUIRE(next == 3 * 7682);
  REQUIRE(right);
}

TEST_CASE("an order shuffles windows among ranks: each comes once an epoch, shifted as that one") {
  const auto tokens = some_tokens(10'000);
  const auto source = ps::windows(tokens, {.length = 21, .seed = 5});
  const std::uint64_t size = source.size();
  std::vector<int> came(2 * size);
  std::uint64_t neighbours = 0;
  for (const std::uint32_t rank : {0U, 1U}) {
    auto pipeline = ps::Reader{source,
                               {.workers = 2,
                                .epochs = 2,
                                .order = {.shuffle = 7,
                                          .ranks = {.rank = rank, .world = 2},
                                          .uneven = ps::Uneven::keep}}} |
                    ps::Decoder{[&](ps::Row<const Window> in, Came& out, ps::Visit visit) {
                      const auto window = ps::get<"tokens">(in);
                      const auto from =
                          tokens.begin() +
                          static_cast<std::ptrdiff_t>(source.offset_of(visit.record, visit.epoch));
                      out = {visit.record, visit.epoch, std::equal(from, from + 21, window.data())};
                    }};
    std::uint64_t last = size;
    for (auto batch : pipeline.batches()) {
      for (const Came& one : std::span{batch.data(), batch.size()}) {
        REQUIRE(one.right);
        ++came.at(one.epoch * size + one.window);
        neighbours += one.window == last + 1 ? 1 : 0;
        last = one.window;
      }
    }
  }
  REQUIRE(std::all_of(came.begin(), came.end(), [](int n) { return n == 1; }));
  REQUIRE(neighbours < 10); // one is expected
}
