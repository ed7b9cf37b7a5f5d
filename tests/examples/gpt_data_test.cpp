// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What feeds the transformer of examples/gpt/: which events are cured, the vocabulary of a text,
// and batches of windows, by the pipeline and in turn.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/temp_dir.hpp"

#include "../../examples/gpt/corpus.hpp"
#include "../../examples/gpt/events.hpp"
#include "../../examples/gpt/feeds.hpp"
#include "../../examples/gpt/text.hpp"

#include <penstock/order/permutation.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/windows.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace transformer;
using ps::tests::caught;
using ps::tests::TempDir;

namespace {

constexpr std::size_t context = 7;
constexpr std::size_t batch = 4;

/// The ways to feed, which must not differ in what they feed.
const std::vector<std::string> ways{"none",
                                    "layout",
                                    "prefetch",
                                    "prefetch,layout",
                                    "pinned",
                                    "pinned,layout",
                                    "pinned,prefetch",
                                    "pinned,workers,layout",
                                    "pinned,prefetch,workers,layout"};

std::string has_said(const std::exception& error, const std::string& part) {
  const std::string text = error.what();
  CHECK(text.find('\n') == text.npos);
  return text.find(part) != text.npos ? part : text;
}

/// Tokens that are all different.
std::vector<std::uint16_t> numbered(std::size_t count) {
  std::vector<std::uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
  return tokens;
}
std::string llm_c_header(std::size_t count) {
  const std::int32_t header[256] = {20240520, 1, static_cast<std::int32_t>(count)};
  return {reinterpret_cast<const char*>(header), sizeof header};
}
std::string bytes_of(const std::vector<std::uint16_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof tokens[0]};
}
/// Words of some letters.
std::string some_text(std::size_t count) {
  std::string text;
  std::uint32_t random = 1;
  while (text.size() < count) {
    random = random * 1664525 + 1013904223;
    text += "etaoin shrdlu\n"[random >> 28 & 13];
  }
  return text;
}

/// One batch: what the model gets, and the position behind it.
struct Fed {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
  std::string position;

  bool operator==(const Fed&) const = default;
};
/// Takes `count` batches of a part from a position on.
std::vector<Fed> feed(const Corpus& corpus, const std::string& events, std::size_t count,
                      FeedOptions options, const ps::Position& from = {},
                      PartName part = PartName::trained) {
  ps::HostDevice device;
  auto stream = device.stream();
  const std::size_t numbers = options.batch * options.context;
  auto inputs = ps::device_array<std::int32_t>(device, numbers);
  auto targets = ps::device_array<std::int32_t>(device, numbers);
  options.events = parse_events(events);
  const auto made = make_feed(device, corpus, part, options, {inputs.data(), targets.data()});
  std::vector<Fed> fed;
  if (count != 0) {
    made->each(stream, from, [&](const ps::Position& position) {
      fed.push_back({inputs.read(stream), targets.read(stream), position.text()});
      return fed.size() != count;
    });
  }
  device.sync(stream);
  return fed;
}

constexpr FeedOptions usual{.batch = batch, .context = context};

/// What should be fed, by a plain loop over the ids of the part that is trained on.
std::vector<Fed> wanted(const std::vector<std::int32_t>& ids, std::size_t count,
                        const ps::Ranks& ranks = {}) {
  const auto windows = ps::windows(ids, {.length = context + 1, .seed = usual.seed});
  const std::uint64_t turns = windows.size() / ranks.world;
  std::vector<Fed> fed;
  for (std::uint64_t epoch = 0; fed.size() < count; ++epoch) {
    const ps::Permutation order{windows.size(), usual.seed, epoch};
    for (std::uint64_t turn = 0; turn + batch <= turns && fed.size() < count; turn += batch) {
      Fed& one = fed.emplace_back();
      for (std::size_t i = 0; i < batch; ++i) {
        const std::uint64_t window = order((turn + i) * ranks.world + ranks.rank);
        const auto at = ids.begin() + static_cast<std::ptrdiff_t>(windows.offset_of(window, epoch));
        one.inputs.insert(one.inputs.end(), at, at + context);
        one.targets.insert(one.targets.end(), at + 1, at + context + 1);
      }
    }
  }
  return fed;
}
/// Checks that all ways feed what is wanted, with equal positions.
void check_ways(const Corpus& corpus, const std::vector<std::int32_t>& ids,
                const ps::Ranks& ranks = {}) {
  FeedOptions options = usual;
  options.ranks = ranks;
  constexpr std::size_t count = 40;
  const std::vector<Fed> first = feed(corpus, ways.front(), count, options);
  const std::vector<Fed> plain = wanted(ids, count, ranks);
  REQUIRE(first.size() == count);
  for (std::size_t i = 0; i < count; ++i) {
    INFO("batch " << i);
    REQUIRE(first[i].inputs == plain[i].inputs);
    REQUIRE(first[i].targets == plain[i].targets);
  }
  CHECK(ps::Position{first.back().position}.epoch() > 0); // else an end of an epoch is not tried
  for (const std::string& way : ways) {
    INFO(way);
    CHECK(feed(corpus, way, count, options) == first);
  }
}

} // namespace

TEST_CASE("events are switched on by name, all or none") {
  CHECK(parse_events("none") == Events{});
  CHECK(text_of({}) == "none");
  const Events all = parse_events("all");
  CHECK(text_of(all) == "pinned,prefetch,workers,graph,layout,tensor_cores,recompute,optimiser");
  Events fastest = all;
  fastest.recompute = false;
  CHECK(parse_events("fastest") == fastest);
  for (const EventName& event : event_names) {
    const std::string with = event.name == "workers" ? "pinned," : "";
    const Events alone = parse_events(with + std::string{event.name});
    CHECK(alone.*event.member);
    CHECK(text_of(alone) == with + std::string{event.name});
    CHECK(parse_events(text_of(alone)) == alone);
    CHECK_FALSE(alone.overlapped);
  }
  CHECK(parse_events("layout,pinned") == parse_events("pinned,layout,pinned"));
  const Events overlapped = parse_events("optimiser=overlapped");
  CHECK((overlapped.optimiser && overlapped.overlapped));
  CHECK(text_of(overlapped) == "optimiser=overlapped");
}

TEST_CASE("events that are none, or mean nothing alone, are refused with the cure") {
  const auto refused = [](const std::string& text, const std::string& part) {
    INFO(text);
    const auto error = caught<std::invalid_argument>([&] { return parse_events(text); });
    CHECK(has_said(error, part) == part);
  };
  refused("pined", "there is no event \"pined\"");
  refused("pinned,,layout", "there is no event \"\"");
  refused("", "give none, all, fastest, or a list of pinned, prefetch, workers, graph, layout, "
              "tensor_cores, recompute, optimiser");
  refused("pinned,", "there is no event \"\"");
  refused("all,pinned", "there is no event \"all\"");
  refused("optimiser=late", "optimiser=overlapped");
  refused("workers", "give pinned,workers");
  refused("layout,workers,prefetch", "without pinned there is none");
}

TEST_CASE("a text's vocabulary is its bytes in order, and goes through a checkpoint as text") {
  std::array<std::uint64_t, 256> counts{};
  for (const unsigned char byte : std::string{"hello, \xFF\n"} + '\0') {
    ++counts[byte];
  }
  const Vocabulary vocabulary{counts};
  const std::string bytes{"\0\n ,ehlo\xFF", 9};
  REQUIRE(vocabulary.size() == bytes.size());
  for (std::size_t id = 0; id < bytes.size(); ++id) {
    const auto byte = static_cast<std::uint8_t>(bytes[id]);
    CHECK(vocabulary.byte(id) == byte);
    CHECK(vocabulary.id(byte) == id);
    CHECK(vocabulary.ids()[byte] == id);
    CHECK(vocabulary.has(byte));
  }
  CHECK_FALSE(vocabulary.has('x'));
  CHECK_FALSE(Vocabulary{}.has(0));
  CHECK(vocabulary.characters() == bytes);
  CHECK(Vocabulary{bytes} == vocabulary);
  CHECK(Vocabulary{""} == Vocabulary{});
  counts.fill(1);
  const Vocabulary all{counts};
  CHECK(all.size() == 256);
  CHECK(Vocabulary{all.characters()} == all);
  for (const std::string text : {"ba", "aa", "abca"}) {
    INFO(text);
    CHECK_THROWS_AS(Vocabulary{text}, std::invalid_argument);
  }
}

TEST_CASE("a corpus is text or tokens, and a tenth of it is held out") {
  const TempDir folder;
  const std::string text = folder.write("text", "abcabcabcdz");
  const Corpus of_text{text};
  CHECK(of_text.is_text());
  CHECK(of_text.ids() == 5);
  CHECK(of_text.vocabulary().characters() == "abcdz"); // with what is held out
  CHECK(of_text.trained() == 10);
  CHECK(of_text.held_out() == 1);

  const std::string tokens = bytes_of(numbered(1000));
  const Corpus raw{folder.write("raw.bin", tokens)};
  CHECK_FALSE(raw.is_text());
  CHECK(raw.ids() == 1000);
  CHECK(raw.vocabulary().size() == 0);
  CHECK(raw.trained() == 900);
  CHECK(raw.held_out() == 100);
  const Corpus llm_c{folder.write("llm_c", llm_c_header(1000) + tokens)};
  CHECK_FALSE(llm_c.is_text());
  CHECK(llm_c.ids() == 50'257);
  CHECK(llm_c.trained() == 900);

  CHECK(Corpus{folder.write("named", tokens)}.is_text());
  CHECK(Corpus{folder / "named", {}, DataFormat::tokens}.ids() == 1000);
  CHECK(Corpus{folder / "raw.bin", {}, DataFormat::text}.trained() == 1800);

  const Corpus two{text, folder.write("other", "xyz")};
  CHECK(two.trained() == 11);
  CHECK(two.held_out() == 3);
  CHECK(two.vocabulary().characters() == "abcdxyz");
}

TEST_CASE("both files of a corpus are of one kind, and no directories") {
  const TempDir folder;
  const std::string text = folder.write("text", "abcabcabcdze");
  const std::string raw = folder.write("raw.bin", bytes_of(numbered(1000)));
  const std::string llm_c = folder.write("llm_c", llm_c_header(1000) + bytes_of(numbered(1000)));
  CHECK(Corpus{raw, llm_c}.held_out() == 1000);
  for (const std::string& tokens : {raw, llm_c}) {
    for (const auto& [data, held_out] : {std::pair{text, tokens}, std::pair{tokens, text}}) {
      const auto error = caught<std::invalid_argument>([&] { Corpus{data, held_out}; });
      const std::string said = tokens + " has tokens, and " + text + " is a text";
      CHECK(has_said(error, said) == said);
    }
  }
  CHECK_THROWS_AS((Corpus{raw, folder / "missing"}), ps::SourceError);
  const std::string said = folder.path() + " is a directory";
  CHECK(has_said(caught<std::invalid_argument>([&] { Corpus{folder.path()}; }), said) == said);
  CHECK_THROWS_AS((Corpus{text, folder.path()}), std::invalid_argument);
}

TEST_CASE("a text goes on with the vocabulary of a checkpoint, and no other") {
  const TempDir folder;
  const std::string text = folder.write("text", "abcabcabc");
  const Corpus corpus{text, {}, DataFormat::automatic, Vocabulary{"`abc"}};
  CHECK(corpus.ids() == 4);
  CHECK(corpus.vocabulary().id('a') == 1);
  const auto error = caught<std::invalid_argument>(
      [&] { Corpus{text, {}, DataFormat::automatic, Vocabulary{"ab"}}; });
  CHECK(has_said(error, "a byte of value 99") == "a byte of value 99");
  CHECK(has_said(error, text) == text);
  const std::string other = folder.write("other", "abcz");
  const auto of_two = caught<std::invalid_argument>(
      [&] { Corpus{text, other, DataFormat::automatic, Vocabulary{"abc"}}; });
  CHECK(has_said(of_two, text + " or " + other) == text + " or " + other);
  CHECK_THROWS_AS(Corpus{folder.write("empty", "")}, std::invalid_argument);
  CHECK_THROWS_AS(Corpus{folder / "missing"}, ps::SourceError);
}

TEST_CASE("all ways feed the windows of a text, tokenised by bytes, in one order") {
  const TempDir folder;
  const std::string text = some_text(500);
  const Corpus corpus{folder.write("text", text)};
  std::vector<std::int32_t> ids;
  for (const char byte : text.substr(0, 450)) {
    ids.push_back(corpus.vocabulary().id(static_cast<std::uint8_t>(byte)));
  }
  check_ways(corpus, ids);
}

TEST_CASE("all ways feed the windows of tokens in one order, on any rank") {
  const TempDir folder;
  const std::vector<std::uint16_t> tokens = numbered(1'000);
  const std::vector<std::int32_t> ids(tokens.begin(), tokens.begin() + 900);
  check_ways(Corpus{folder.write("raw.bin", bytes_of(tokens))}, ids);
  const Corpus llm_c{folder.write("llm_c", llm_c_header(tokens.size()) + bytes_of(tokens))};
  check_ways(llm_c, ids);
  check_ways(llm_c, ids, {.rank = 0, .world = 3});
  check_ways(llm_c, ids, {.rank = 2, .world = 3});
}

TEST_CASE("ranks feed each window of an epoch once, and go on where another number stood") {
  const TempDir folder;
  const std::vector<std::uint16_t> tokens = numbered(712);
  const Corpus corpus{folder.write("raw.bin", bytes_of(tokens))}; // 91 windows: 7 are left
  // The windows of the first `count` batches of 12, in all of which ranks have their part.
  const auto fed_by = [&](std::uint32_t world, const std::string& way, std::size_t count,
                          const ps::Position& from) {
    std::vector<std::vector<std::int32_t>> batches(count);
    std::string position;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      FeedOptions options = usual;
      options.batch = 12 / world;
      options.ranks = {.rank = rank, .world = world};
      const std::vector<Fed> fed = feed(corpus, way, count, options, from);
      REQUIRE(fed.size() == count);
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t at = 0; at < fed[i].inputs.size(); at += context) {
          batches[i].push_back(fed[i].inputs[at]);
        }
      }
      CHECK((rank == 0 || fed.back().position == position));
      position = fed.back().position;
    }
    for (auto& batch_of_all : batches) {
      std::ranges::sort(batch_of_all);
    }
    return std::pair{batches, position};
  };
  constexpr std::size_t an_epoch = 7;
  for (const char* way : {"none", "pinned,prefetch,layout"}) {
    INFO(way);
    const auto [alone, end] = fed_by(1, way, 2 * an_epoch, {});
    std::set<std::int32_t> windows;
    for (std::size_t i = 0; i < an_epoch; ++i) {
      windows.insert(alone[i].begin(), alone[i].end());
    }
    CHECK(windows.size() == 12 * an_epoch);
    CHECK(ps::Position{end}.epoch() == 1); // windows are left
    for (const std::uint32_t world : {2U, 3U, 4U}) {
      INFO(world << " ranks");
      CHECK(fed_by(world, way, 2 * an_epoch, {}) == std::pair{alone, end});
      const auto [before, position] = fed_by(world, way, 5, {});
      for (const std::uint32_t others : {1U, 2U, 3U, 6U}) {
        const auto rest = fed_by(others, way, 2 * an_epoch - 5, ps::Position{position});
        CHECK(std::ranges::equal(rest.first, std::span{alone}.subspan(5)));
        CHECK(rest.second == end);
      }
    }
  }
  // Where the step is no multiple of the ranks: 3 x 4 windows, and then 5 at a time.
  FeedOptions five = usual;
  five.batch = 1;
  const ps::Position at_12{fed_by(3, "none", 1, {}).second};
  CHECK(at_12.step() == 12);
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    five.ranks = {.rank = rank, .world = 5};
    const std::vector<Fed> naive = feed(corpus, "none", 20, five, at_12);
    CHECK(naive == feed(corpus, "pinned", 20, five, at_12));
    CHECK(ps::Position{naive[0].position}.step() == 17);
  }
}

TEST_CASE("from any position the rest comes exactly, another way too") {
  const TempDir folder;
  const Corpus corpus{folder.write("text", some_text(200))};
  constexpr std::size_t count = 14; // six batches an epoch
  const std::vector<Fed> all = feed(corpus, "none", count, usual);
  CHECK(ps::Position{all.back().position}.epoch() == 2);
  for (std::size_t at = 1; at < count; ++at) {
    const ps::Position from{all[at - 1].position};
    const std::vector<Fed> rest(all.begin() + static_cast<std::ptrdiff_t>(at), all.end());
    for (const std::string& way : {ways[at % ways.size()], ways.back(), ways.front()}) {
      INFO("behind batch " << at << ", " << way);
      CHECK(feed(corpus, way, count - at, usual, from) == rest);
    }
  }
}

TEST_CASE("epochs do not end before the steps of any training") {
  const TempDir folder;
  const Corpus corpus{folder.write("text", some_text(200))};
  std::string late = feed(corpus, "none", 1, usual).front().position;
  const std::string epoch = "epoch=0 ";
  late.replace(late.find(epoch), epoch.size(), "epoch=999999 ");
  for (const std::string way : {"none", "pinned"}) {
    INFO(way);
    CHECK(feed(corpus, way, 20, usual, ps::Position{late}).size() == 20);
  }
}

TEST_CASE("what is held out is never trained on, and nothing else is evaluated") {
  const TempDir folder;
  const Corpus corpus{folder.write("raw.bin", bytes_of(numbered(1'000)))};
  std::set<std::int32_t> trained;
  for (const Fed& fed : feed(corpus, "pinned", 3 * 32, usual)) {
    trained.insert(fed.inputs.begin(), fed.inputs.end());
    trained.insert(fed.targets.begin(), fed.targets.end());
  }
  CHECK(*trained.rbegin() < 900);
  CHECK(trained.size() > 880); // ends of an epoch may come in no batch

  FeedOptions held_out = usual;
  held_out.shifted = false;
  held_out.records = 2 * batch;
  held_out.epochs = 1;
  const std::vector<Fed> first = feed(corpus, "none", 99, held_out, {}, PartName::held_out);
  REQUIRE(first.size() == 2);
  for (const Fed& fed : first) {
    CHECK(*std::ranges::min_element(fed.inputs) >= 900);
  }
  for (const std::string& way : ways) {
    INFO(way);
    CHECK(feed(corpus, way, 99, held_out, {}, PartName::held_out) == first);
  }
}

TEST_CASE("a feed refuses too few tokens, and positions of other data") {
  const TempDir folder;
  const Corpus corpus{folder.write("text", some_text(50))};
  for (const std::string way : {"none", "pinned"}) {
    INFO(way);
    FeedOptions options = usual;
    options.context = 45;
    const auto none = caught<std::invalid_argument>([&] { feed(corpus, way, 1, options); });
    CHECK(has_said(none, "there are 45 tokens, fewer than a window of 46") ==
          "there are 45 tokens, fewer than a window of 46");
    const auto held_out =
        caught<std::invalid_argument>([&] { feed(corpus, way, 1, usual, {}, PartName::held_out); });
    CHECK(has_said(held_out, "or --val FILE") == "or --val FILE");
    options = usual;
    options.batch = 7;
    try {
      feed(corpus, way, 1, options);
      FAIL("nothing was thrown");
    } catch (const std::exception& few) { // the pipeline's is another type
      CHECK(has_said(few, "fewer than the 7 of a batch") == "fewer than the 7 of a batch");
    }

    const ps::Position from{feed(corpus, way, 1, usual).front().position};
    options = usual;
    options.seed = 1;
    CHECK_THROWS_AS(feed(corpus, way, 1, options, from), ps::OptionError);

    const auto changed = [&](const std::string& was, const std::string& to) {
      std::string text = from.text();
      text.replace(text.find(was), was.size(), to);
      return ps::Position{text};
    };
    for (const ps::Position& late :
         {changed("step=4 ", "step=99999 "), changed("epoch=0 ", "epoch=18446744073709551615 ")}) {
      CHECK_THROWS_AS(feed(corpus, way, 1, usual, late), ps::OptionError);
    }
  }
}
