// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a Reader with an order delivers: the same records in the same order whatever the workers,
// for every kind of schema and source; what it refuses; what it leaves out, and how it names that.

#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/host/device.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/zip.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
namespace tests = penstock::tests;
using tests::has;
using Record = std::uint64_t;
using Records = std::vector<Record>;

ps::HostDevice& device() {
  static ps::HostDevice one;
  return one;
}

struct Numbers {
  using schema = Record;
  std::uint64_t count;
  std::set<std::uint64_t> bad{}; // cannot be read

  std::uint64_t size() const { return count; }
  template <class Where> std::size_t read(ps::Batch<Record, Where> into) const {
    for (std::size_t i = 0; i != into.size(); ++i) {
      if (bad.count(into.index() + i) != 0) {
        throw ps::SourceError{"penstock: this one is bad", {}, 0, into.index() + i};
      }
      into.data()[i] = into.index() + i;
    }
    return into.size();
  }
};

/// Gives half of what it is asked for, for now.
struct Hesitates : Numbers {
  template <class Where>
  ps::Filled read(ps::Batch<Record, Where> into, const ps::Patience& /*patience*/) const {
    const std::size_t half = (into.size() + 1) / 2;
    for (std::size_t i = 0; i != half; ++i) {
      into.data()[i] = into.index() + i;
    }
    return half == into.size() ? ps::Filled{half} : ps::for_now(half);
  }
};
/// Says that it has a record 77, and has none.
struct Lacks : Numbers {
  template <class Where>
  std::size_t read_at(std::span<const std::uint64_t> numbers, ps::Batch<Record, Where> into) const {
    std::size_t i = 0;
    for (; i != numbers.size() && numbers[i] != 77; ++i) {
      into.data()[i] = numbers[i];
    }
    return i;
  }
};

/// A plain record, an array, and a text whose length differs from record to record.
struct Sample : ps::Columns<ps::Field<"number", std::uint32_t>, ps::Field<"text", ps::Ragged<char>>,
                            ps::Field<"row", float, 3>> {};
std::string text_of(std::uint64_t record) {
  return std::string(record % 5, 'a' + record % 26);
}
struct Samples {
  using schema = Sample;
  std::uint64_t count;
  bool tells_lengths = false;

  std::uint64_t size() const { return count; }
  template <class Where> std::size_t read(ps::Batch<Sample, Where> into) const {
    const auto texts = ps::get<"text">(into);
    for (std::size_t i = 0; i != into.size(); ++i) {
      const std::uint64_t record = into.index() + i;
      ps::get<"number">(into)[i] = static_cast<std::uint32_t>(record);
      const std::string text = text_of(record);
      char* const to = texts.put(i, text.size());
      std::copy(text.begin(), text.end(), to);
      for (std::size_t k = 0; k != 3; ++k) {
        ps::get<"row">(into)[i][k] = static_cast<float>(3 * record + k);
      }
    }
    return into.size();
  }
};
struct LongSamples : Samples {
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const {
    for (std::size_t i = 0; i != into.size(); ++i) {
      into[i] = text_of(first + i).size();
    }
  }
};

/// Notes of which blocks of ten records it heard, and whether it was late.
struct Hears : Numbers {
  std::set<std::uint64_t>* heard;
  std::mutex* mutex;
  bool* late;
  template <class Where> std::size_t read(ps::Batch<Record, Where> into) const {
    const std::scoped_lock lock{*mutex};
    *late = *late || heard->count(into.index() / 10 * 10) == 0;
    return Numbers::read(into);
  }
  void will_read(std::uint64_t first, std::uint64_t some) const {
    const std::scoped_lock lock{*mutex};
    const bool again = !heard->insert(first).second;
    *late = *late || again || first % 10 != 0 || some != std::min<std::uint64_t>(10, count - first);
  }
};

/// Records that are larger than a read.
constexpr std::size_t bytes = (std::size_t{1} << 20) + 4096 + 7;
constexpr std::uint64_t count = 9;
struct Large {
  using schema = std::byte;
  std::uint64_t size() const { return count; }
  std::size_t record_bytes() const { return bytes; }
  template <class Where> std::size_t read(ps::Batch<std::byte, Where> into) const {
    read_bytes(into.index() * bytes, {into.data(), into.size() * bytes});
    return into.size();
  }
  void read_bytes(std::uint64_t at, std::span<std::byte> into) const {
    for (std::size_t i = 0; i != into.size(); ++i) {
      const std::uint64_t record = (at + i) / bytes;
      into[i] = static_cast<std::byte>(record * 31 + (at + i) % bytes % 251);
    }
  }
};
/// Its 33rd record puts its text, and fails then.
struct Torn : Samples {
  template <class Where> std::size_t read(ps::Batch<Sample, Where> into) const {
    const std::size_t got = Samples::read(into); // puts its text first
    if (into.index() <= 33 && 33 < into.index() + into.size()) {
      throw std::runtime_error{"torn"};
    }
    return got;
  }
};

/// Does not put the text of its 33rd record.
struct Forgets : Samples {
  template <class Where> std::size_t read(ps::Batch<Sample, Where> into) const {
    if (into.index() != 33) {
      return Samples::read(into);
    }
    ps::get<"number">(into)[0] = 33;
    return into.size();
  }
};

/// Returns all records of a run, each of which must be whole.
template <class P> Records numbers_of(P&& pipeline, const ps::Position& from = {}) {
  Records all;
  for (auto batch : pipeline.batches({.from = from})) {
    if constexpr (requires { batch.data()[0] + Record{1}; }) {
      all.insert(all.end(), batch.data(), batch.data() + batch.size());
    } else {
      for (std::size_t i = 0; i != batch.size(); ++i) {
        const Record record = ps::get<"number">(batch)[i];
        const auto text = ps::get<"text">(batch)[i];
        REQUIRE(std::string(text.data(), text.size()) == text_of(record));
        REQUIRE(ps::get<"row">(batch)[i][2] == static_cast<float>(3 * record + 2));
        all.push_back(record);
      }
    }
  }
  return all;
}
template <class S> Records read(S source, const ps::Order& order, unsigned workers,
                                std::size_t batch) {
  return numbers_of(
      ps::Reader{std::move(source), {.workers = workers, .order = order, .batch = batch}} |
      ps::PinnedStager{device()});
}
bool each_once(Records records, std::uint64_t size) {
  std::sort(records.begin(), records.end());
  for (std::uint64_t i = 0; i != size; ++i) {
    if (records.size() != size || records[i] != i) {
      return false;
    }
  }
  return true;
}

} // namespace

TEST_CASE("The order is the same for any number of workers and any batch") {
  const ps::Order order{.shuffle = 12};
  const Records alone = read(Numbers{1000}, order, 1, 7);
  CHECK(each_once(alone, 1000));
  CHECK(alone != read(Numbers{1000}, {}, 1, 7));
  for (const unsigned workers : {2U, 3U, 8U}) {
    for (const std::size_t batch : {1, 16, 1000}) {
      CHECK(read(Numbers{1000}, order, workers, batch) == alone);
    }
  }
  CHECK(read(Numbers{1000}, {.shuffle = 13}, 2, 7) != alone);
}

TEST_CASE("Two epochs differ, and each has all records") {
  const Records two = numbers_of(ps::Reader{Numbers{500}, {.epochs = 2, .order = {.shuffle = 1}}} |
                                 ps::PinnedStager{device()});
  REQUIRE(two.size() == 1000);
  const Records first{two.begin(), two.begin() + 500};
  const Records second{two.begin() + 500, two.end()};
  CHECK(each_once(first, 500));
  CHECK(each_once(second, 500));
  CHECK(first != second);
}

TEST_CASE("Columns, also of variable length, come in the order of plain records") {
  const ps::Order order{.shuffle = 4, .block = 3, .window = 2};
  const Records plain = read(Numbers{300}, order, 3, 16);
  CHECK(read(Samples{300}, order, 3, 16) == plain);
  CHECK(read(LongSamples{{300}}, order, 3, 16) == plain);
}

TEST_CASE("Sources side by side come in one order") {
  struct Pair : ps::Columns<ps::Field<"a", Record>, ps::Field<"b", Record>> {};
  const auto numbers = [](Record plus) {
    return ps::generate<Record>(200, [plus](std::span<Record> out, std::uint64_t first) {
      for (Record& record : out) {
        record = first++ + plus;
      }
    });
  };
  auto pipeline = ps::Reader{ps::zip<Pair>(numbers(0), numbers(1000)), {.order = {.shuffle = 2}}} |
                  ps::PinnedStager{device()};
  Records all;
  for (auto batch : pipeline.batches()) {
    for (std::size_t i = 0; i != batch.size(); ++i) {
      REQUIRE(ps::get<"b">(batch)[i] == ps::get<"a">(batch)[i] + 1000);
      all.push_back(ps::get<"a">(batch)[i]);
    }
  }
  CHECK(all == read(Numbers{200}, {.shuffle = 2}, 1, 200));
}

TEST_CASE("Records larger than a read come in the order too, in pieces") {
  ps::HostStream stream = device().stream();
  auto pipeline = ps::Reader{Large{}, ps::to_pinned, {.order = {.shuffle = 3}}} |
                  ps::AsyncCopier{device(), {.batch = 2}};
  Records order;
  ps::Position middle;
  for (auto batch : pipeline.on(stream)) {
    device().sync(stream);
    for (std::size_t i = 0; i != batch.size(); ++i) {
      const Record record = batch.visit(i).record;
      order.push_back(record);
      const std::byte* const data = batch.data() + i * bytes;
      std::size_t wrong = 0;
      for (std::size_t k = 0; k != bytes; ++k) {
        wrong += data[k] != static_cast<std::byte>(record * 31 + k % 251) ? 1 : 0;
      }
      REQUIRE(wrong == 0);
    }
    middle = order.size() == 4 ? batch.position() : middle;
  }
  CHECK(order == read(Numbers{count}, {.shuffle = 3}, 1, 2));
  Records rest;
  for (auto batch : pipeline.on(stream, {.from = middle})) {
    for (std::size_t i = 0; i != batch.size(); ++i) {
      rest.push_back(batch.visit(i).record);
    }
  }
  CHECK(rest == Records{order.begin() + 4, order.end()});
}

TEST_CASE("One record that cannot be read leaves out itself alone, and is named") {
  const ps::Order order{.shuffle = 6};
  Records wanted = read(Numbers{400}, order, 1, 32);
  for (const Record bad : {17, 200}) {
    wanted.erase(std::find(wanted.begin(), wanted.end(), bad));
  }
  auto pipeline =
      ps::Reader{Numbers{400, {17, 200}},
                 {.workers = 3, .order = order, .batch = 32, .on_error = {.skips = 2}}} |
      ps::PinnedStager{device()};
  CHECK(numbers_of(pipeline) == wanted);
  const ps::Report report = pipeline.report();
  CHECK(report.skipped == 2);
  REQUIRE(report.skips.size() == 2);
  CHECK(std::set<std::uint64_t>{report.skips[0].record, report.skips[1].record} ==
        std::set<std::uint64_t>{17, 200});
  CHECK(report.skips[0].records == 1);

  auto fails = ps::Reader{Numbers{400, {17}}, {.order = order}} | ps::PinnedStager{device()};
  CHECK(tests::caught<ps::StageError>([&] { numbers_of(fails); }).record() == 17);
}

TEST_CASE("A source that gives for now is asked for the rest in the order too") {
  const auto shuffled = [](const auto& source) {
    auto pipeline = ps::Reader{source, {.workers = 2, .order = {.shuffle = 5}, .batch = 8}} |
                    ps::Decoder{[](const Record& in, Record& out) { out = in; }};
    Records all;
    for (auto batch : pipeline.batches()) {
      all.insert(all.end(), batch.data(), batch.data() + batch.size());
    }
    return all;
  };
  CHECK(shuffled(Hesitates{{100}}) == shuffled(Numbers{100}));
}

TEST_CASE("Where the order's reads fall short, the record that is missing is named") {
  try {
    auto pipeline = ps::Reader{Lacks{{100}}, {.order = {.shuffle = 5}, .batch = 100}} |
                    ps::Consumer{[](ps::Batch<const Record, ps::Pageable>) {}};
    pipeline.run();
    FAIL("nothing was thrown");
  } catch (const ps::StageError& e) {
    const auto cause = tests::caught<ps::SourceError>([&] { std::rethrow_if_nested(e); });
    CHECK(cause.record() == 77);
  }
}

TEST_CASE("A Ragged record that cannot be read leaves its neighbours whole") {
  auto pipeline =
      ps::Reader{Torn{{100}}, {.order = {.shuffle = 6}, .batch = 8, .on_error = {.skips = 1}}} |
      ps::PinnedStager{device()};
  Records wanted = read(Numbers{100}, {.shuffle = 6}, 1, 8);
  wanted.erase(std::find(wanted.begin(), wanted.end(), 33));
  CHECK(numbers_of(pipeline) == wanted);
}

TEST_CASE(
    "A Ragged record that the source forgets is found, also among others that are read again") {
  auto pipeline = ps::Reader{Forgets{{100}},
                             {.workers = 1,
                              .depth = 2,
                              .epochs = 3,
                              .order = {.shuffle = 6},
                              .batch = 8,
                              .on_error = {.skips = 3}}} |
                  ps::PinnedStager{device()};
  const Records all = numbers_of(pipeline);
  CHECK(all.size() == 297);
  CHECK(std::count(all.begin(), all.end(), 33) == 0);
}

TEST_CASE("A source hears of each block once before its records are read one by one") {
  for (const unsigned workers : {1U, 3U}) {
    std::set<std::uint64_t> heard;
    std::mutex mutex;
    bool late = false;
    const Records mixed = read(Hears{{203}, &heard, &mutex, &late},
                               {.shuffle = 1, .block = 10, .window = 4}, workers, 7);
    CHECK(each_once(mixed, 203));
    CHECK(heard.size() == 21);
    CHECK((!late || workers != 1)); // one of several may be first behind a window's beginning
    heard.clear();
    read(Hears{{203}, &heard, &mutex, &late}, {.shuffle = 1, .block = 10}, workers, 7);
    CHECK(heard.empty());
  }
}

TEST_CASE("A Decoder under an order is told the record, and its step over all epochs") {
  std::vector<ps::Visit> visits(3 * 50);
  auto pipeline = ps::Reader{Numbers{50}, {.epochs = 3, .order = {.shuffle = 8}}} |
                  ps::Decoder{[&](const Record& in, Record& out, ps::Visit visit) {
                    out = in;
                    visits[visit.step] = visit;
                  }};
  const Records all = numbers_of(pipeline);
  for (std::size_t step = 0; step != all.size(); ++step) {
    REQUIRE(visits[step].record == all[step]);
    REQUIRE(visits[step].epoch == step / 50);
  }
}

TEST_CASE("source_index() is none where records are no neighbours, and the source's number else") {
  const auto first_of = [](const ps::Order& order) {
    auto pipeline =
        ps::Reader{Numbers{50}, {.order = order, .batch = 10}} | ps::PinnedStager{device()};
    auto batches = pipeline.batches();
    batches.next().release();
    return batches.next().source_index();
  };
  CHECK(first_of({}) == 10);
  CHECK(first_of({.shuffle = 1}) == ~std::uint64_t{0});
  CHECK(first_of({.ranks = {.rank = 0, .world = 2}}) == ~std::uint64_t{0});
}

TEST_CASE("Fewer records an epoch are a sample, another in each") {
  const auto sampled = [](const ps::Order& order) {
    return numbers_of(ps::Reader{Numbers{1000}, {.epochs = 2, .order = order}} |
                      ps::PinnedStager{device()});
  };
  const Records two = sampled({.shuffle = 1, .records = 30});
  REQUIRE(two.size() == 60);
  CHECK(std::set<Record>{two.begin(), two.begin() + 30}.size() == 30);
  CHECK(std::set<Record>{two.begin(), two.begin() + 30} !=
        std::set<Record>{two.begin() + 30, two.end()});
  CHECK(sampled({.records = 2}) == Records{0, 1, 0, 1});
}

TEST_CASE("Ranks without a shuffle take a read's worth each, unless a block is given") {
  const auto of_rank = [](unsigned rank, std::uint64_t block) {
    return numbers_of(ps::Reader{Numbers{300'000},
                                 {.order = {.block = block, .ranks = {.rank = rank, .world = 2}}}} |
                      ps::PinnedStager{device()});
  };
  const Records second = of_rank(1, 0);
  CHECK(second.size() == 150'000);
  CHECK(second.front() == 131'072); // 1 MiB of 8 bytes
  CHECK(of_rank(1, 10).front() == 10);
}

TEST_CASE("The ranks of a host share its processors") {
  const auto workers_of = [](unsigned local_world) {
    auto pipeline =
        ps::Reader{Numbers{100},
                   {.order = {.ranks = {.world = local_world, .local_world = local_world}}}} |
        ps::Decoder{[](const Record& in, Record& out) { out = in; }};
    pipeline.prepare();
    return pipeline.report().stages[1].workers;
  };
  CHECK(workers_of(64) == 1);
  CHECK(workers_of(1) >= 1);
}

TEST_CASE("Orders that cannot be are refused by name") {
  const auto refused = [](auto source, const ps::Order& order, const ps::ReaderOptions& more = {}) {
    ps::ReaderOptions options = more;
    options.order = order;
    auto pipeline = ps::Reader{source, options} | ps::PinnedStager{device()};
    return tests::caught<ps::OptionError>([&] { pipeline.prepare(); });
  };
  CHECK(has(refused(Numbers{10}, {.shuffle = 1, .window = 4}),
            "order.window is 4, which mixes blocks"));
  CHECK(has(refused(Numbers{10}, {.block = 4, .window = 4}), "order.window is 4"));
  CHECK(has(refused(Numbers{10}, {.records = 11}), "order.records is 11, and the source has 10"));
  CHECK(has(refused(Numbers{10}, {.ranks = {.rank = 2, .world = 2}}),
            "order.ranks.rank=2 is no rank of order.ranks.world=2"));
  CHECK(has(refused(Numbers{10}, {.ranks = {.world = 0}}), "order.ranks.world=0 is no number"));
  CHECK(has(refused(Numbers{10}, {.ranks = {.world = 11}}),
            "order.ranks.world is 11, an epoch has fewer records, 10, and Uneven::drop"));
  CHECK(has(refused(Numbers{10}, {.ranks = {.world = 3}, .records = 2}), "fewer records, 2, and"));
  CHECK(has(refused(Numbers{10}, {}, {.batch = 11, .drop_last = true}),
            "an epoch has 10 records, fewer than the 11 of a batch, and drop_last would leave"));
  CHECK(has(refused(Numbers{10}, {.ranks = {.world = 2}}, {.batch = 6, .drop_last = true}),
            "an epoch has 5 records for this rank, fewer than the 6 of a batch"));
  CHECK(has(
      refused(ps::generate<Record>([](std::span<Record>, std::uint64_t) { return std::size_t{0}; }),
              {.shuffle = 1}),
      "does not know its size"));
  CHECK(has(refused(Numbers{std::uint64_t{1} << 63}, {}),
            "epochs is 1, each of 9223372036854775808 records, and a run counts at most"));
  CHECK(has(refused(ps::mix<Record>({{Numbers{10}, 1}}), {.records = std::uint64_t{1} << 62},
                    {.epochs = 4, .batch = 1}),
            "epochs is 4, each of 4611686018427387904 records, and a run counts at most"));
  struct InOrder : Numbers {
    bool random_access() const { return false; }
  };
  CHECK(has(refused(InOrder{{10}}, {.shuffle = 1}), "come in order only"));
  CHECK(has(refused(Numbers{10}, {.ranks = {.world = 2}}, {.flush = std::chrono::milliseconds{1}}),
            "flush makes short batches"));
  CHECK(
      has(refused(Numbers{10}, {.ranks = {.world = 2}}, {.ahead = 8}), "give the Reader a .batch"));
}

TEST_CASE("A source that only comes in order tells no position, and takes none") {
  struct InOrder : Numbers {
    bool random_access() const { return false; }
  };
  auto pipeline = ps::Reader{InOrder{{10}}, {.batch = 5}} | ps::PinnedStager{device()};
  for (auto batch : pipeline.batches()) {
    CHECK(has(tests::caught<ps::OptionError>([&] { batch.position(); }), "come in order only"));
  }
  CHECK_FALSE(pipeline.report().position);
  auto other = ps::Reader{Numbers{10}, {.batch = 5}} | ps::PinnedStager{device()};
  auto batches = other.batches();
  const ps::Position at = batches.next().position();
  CHECK(
      has(tests::caught<ps::OptionError>([&] { numbers_of(pipeline, at); }), "come in order only"));
}

TEST_CASE("A mix comes in exact shares, on each rank, and goes on where it stood") {
  const auto mixed = [] {
    return ps::mix<Record>({{Numbers{100}, 3},
                            {ps::generate<Record>(40,
                                                  [](std::span<Record> out, std::uint64_t first) {
                                                    for (Record& record : out) {
                                                      record = 1000 + first++;
                                                    }
                                                  }),
                             1}});
  };
  for (const bool shuffled : {false, true}) {
    const ps::Order order{.shuffle = shuffled ? ps::Seed{5} : ps::Seed{}, .records = 400};
    auto pipeline = ps::Reader{mixed(), {.workers = 3, .epochs = 2, .order = order, .batch = 16}} |
                    ps::PinnedStager{device()};
    Records all;
    ps::Position middle;
    for (auto batch : pipeline.batches()) {
      for (std::size_t i = 0; i != batch.size(); ++i) {
        const Record number = batch.visit(i).record; // as concat() numbers them
        REQUIRE(batch.data()[i] == (number < 100 ? number : 1000 + number - 100));
        all.push_back(batch.data()[i]);
      }
      middle = all.size() == 16 * 20 ? batch.position() : middle;
    }
    REQUIRE(all.size() == 800);
    for (std::size_t group = 0; group != 200; ++group) {
      REQUIRE(std::count_if(all.begin() + static_cast<std::ptrdiff_t>(4 * group),
                            all.begin() + static_cast<std::ptrdiff_t>(4 * group + 4),
                            [](Record record) { return record >= 1000; }) == 1);
    }
    // 300 of part 0 an epoch: each of its 100 records three times.
    for (Record record = 0; record != 100; ++record) {
      REQUIRE(std::count(all.begin(), all.begin() + 400, record) == 3);
    }
    CHECK(numbers_of(pipeline, middle) == Records{all.begin() + 320, all.end()});
    for (unsigned world = 1; world <= 8; ++world) {
      for (unsigned rank = 0; rank != world; ++rank) {
        ps::Order of_rank = order;
        of_rank.ranks = {.rank = rank, .world = world};
        const Records share = read(mixed(), of_rank, 2, 16);
        const auto others = static_cast<std::size_t>(std::count_if(
            share.begin(), share.end(), [](Record record) { return record >= 1000; }));
        CAPTURE(world, rank, share.size());
        REQUIRE(others >= share.size() / 4);
        REQUIRE(others <= share.size() / 4 + 1);
      }
    }
  }
  auto without = ps::Reader{mixed(), {.batch = 4}} | ps::PinnedStager{device()};
  CHECK(has(tests::caught<ps::OptionError>([&] { without.prepare(); }),
            "say how many records an epoch has, such as .order = {.records = 100000}"));
}

TEST_CASE("The Report says that a run began with epoch 0 again, in the order of a run before") {
  const auto noted = [](const auto& pipeline) {
    return pipeline.report().stages.front().note.find("began with epoch 0 again: the order") !=
           std::string::npos;
  };
  const auto numbers_of = [](auto& pipeline, const ps::Position& from = {}) {
    std::vector<Record> numbers;
    for (auto batch : pipeline.batches({.from = from})) {
      numbers.insert(numbers.end(), batch.data(), batch.data() + batch.size());
    }
    return numbers;
  };
  const auto copy = [](const Record& in, Record& out) { out = in; };
  auto shuffled = ps::Reader{Numbers{20}, {.epochs = 3, .order = {.shuffle = 1}, .batch = 5}} |
                  ps::Decoder{copy};
  const std::vector<Record> first = numbers_of(shuffled);
  CHECK_FALSE(noted(shuffled));
  CHECK(numbers_of(shuffled) == first);
  CHECK(noted(shuffled));
  std::ostringstream text;
  text << shuffled.report();
  CHECK(text.str().find("give the Reader .epochs = n") != std::string::npos);
  CHECK(numbers_of(shuffled) == first);
  CHECK(noted(shuffled));

  // A loop for each epoch that goes on where the last one stood.
  auto goes_on = ps::Reader{Numbers{20}, {.epochs = 3, .order = {.shuffle = 1}, .batch = 5}} |
                 ps::Decoder{copy};
  std::vector<Record> all;
  ps::Position from;
  for (std::uint64_t epoch = 0; epoch != 3; ++epoch) {
    for (auto batch : goes_on.batches({.from = from})) {
      all.insert(all.end(), batch.data(), batch.data() + batch.size());
      from = batch.position();
      if (all.size() % 20 == 0) {
        break;
      }
    }
    CHECK_FALSE(noted(goes_on));
  }
  CHECK(all == first);

  auto as_they_lie = ps::Reader{Numbers{20}, {.batch = 5}} | ps::Decoder{copy};
  CHECK(numbers_of(as_they_lie) == numbers_of(as_they_lie));
  CHECK_FALSE(noted(as_they_lie));
}

TEST_CASE("An empty source has an order, and nothing in it") {
  CHECK(read(Numbers{0}, {.shuffle = 1}, 2, 4).empty());
  CHECK(read(Numbers{0}, {.shuffle = 1, .block = 4, .window = 2, .ranks = {.rank = 1, .world = 3}},
             2, 4)
            .empty());
  CHECK(read(Numbers{1},
             {.shuffle = 1, .ranks = {.rank = 1, .world = 3}, .uneven = ps::Uneven::repeat}, 2,
             4) == Records{0});
}
