// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Decoders of single records of columns: what they read and fill, which of them are left out, and
// which visit each is.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/outcome.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ps = penstock;
using ps::tests::Came;
using ps::tests::Outcome;
using ps::tests::outcome_of;

namespace {

using Number = std::uint64_t;
constexpr Number count = 1000;

/// One column of each kind that has a place for every record.
struct Sample : ps::Columns<ps::Field<"number", Number>, ps::Field<"image", std::uint16_t, 2, 3>,
                            ps::Field<"frame", std::uint8_t, ps::dynamic>> {};
struct Text : ps::Columns<ps::Field<"text", ps::Ragged<char>>, ps::Field<"number", Number>,
                          ps::Field<"tags", ps::Ragged<std::uint32_t>>> {};
template <class S> using Host = ps::Batch<S, ps::Pageable>;

constexpr std::size_t frame = 5; // values

static_assert(std::is_trivially_copyable_v<ps::Row<Sample>>);
static_assert(sizeof(ps::Row<Text>) == 2 * sizeof(void*));
static_assert(
    std::is_same_v<decltype(ps::get<"number">(std::declval<ps::Row<Sample>&>())), Number&>);
static_assert(std::is_same_v<decltype(ps::get<"image">(std::declval<ps::Row<const Sample>&>())),
                             const std::uint16_t (&)[2][3]>);
static_assert(std::is_same_v<decltype(ps::get<"frame">(std::declval<ps::Row<Sample>&>())),
                             ps::Column<std::uint8_t>>);
static_assert(std::is_same_v<decltype(ps::get<"text">(std::declval<ps::Row<const Text>&>())),
                             ps::Column<const char>>);
static_assert(
    std::is_same_v<decltype(ps::put<"tags">(std::declval<ps::Row<Text>&>(), 1)), std::uint32_t*>);

/// Numbers from 0 on; from a source that does not tell its size, if `told` is false.
struct Numbers {
  using schema = Number;
  bool told{true};
  Number size() const { return told ? count : ps::unknown_size; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Number, Where> into) const {
    const Number first = std::min<Number>(into.index(), count);
    const std::size_t got = std::min<Number>(into.size(), count - first);
    std::iota(into.data(), into.data() + got, first);
    return got;
  }
};

/// Numbers from 0 on, each the first of 24 bytes.
struct Apart {
  using schema = Number;
  Number size() const { return count; }
  std::size_t record_bytes() const { return 3 * sizeof(Number); }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Number, Where> into) const {
    for (std::size_t i = 0; i < into.size(); ++i) {
      std::fill_n(into.data() + 3 * i, 3, into.index() + i);
    }
    return into.size();
  }
};

[[noreturn]] void bad() {
  throw std::runtime_error{"bad"};
}

// What the columns of a number hold.
std::size_t length_of(Number n) {
  return n % 7;
}
std::size_t tags_of(Number n) {
  return n % 3;
}

void fill(Number n, ps::Row<Sample> out) {
  ps::get<"number">(out) = n;
  auto& image = ps::get<"image">(out);
  for (std::size_t i = 0; i < 6; ++i) {
    image[i / 3][i % 3] = static_cast<std::uint16_t>(n + i);
  }
  const auto values = ps::get<"frame">(out);
  std::fill_n(values.data(), values.size(), static_cast<std::uint8_t>(n));
}
void fill_text(Number n, ps::Row<Text> out) {
  std::fill_n(ps::put<"text">(out, length_of(n)), length_of(n), static_cast<char>(n));
  ps::get<"number">(out) = n;
  std::fill_n(ps::put<"tags">(out, tags_of(n)), tags_of(n), static_cast<std::uint32_t>(n));
}

bool is_right(ps::Row<const Sample> row) {
  const Number n = ps::get<"number">(row);
  const auto& image = ps::get<"image">(row);
  const auto values = ps::get<"frame">(row);
  bool right = values.size() == frame;
  for (std::size_t i = 0; i < 6; ++i) {
    right = right && image[i / 3][i % 3] == static_cast<std::uint16_t>(n + i);
  }
  return right && std::count(values.data(), values.data() + frame, static_cast<std::uint8_t>(n)) ==
                      std::ptrdiff_t{frame};
}
template <class Texts> bool is_right(const Texts& text, Number n, const auto& tags) {
  return text.size() == length_of(n) && tags.size() == tags_of(n) &&
         std::count(text.data(), text.data() + text.size(), static_cast<char>(n)) ==
             std::ptrdiff_t(length_of(n)) &&
         std::count(tags.data(), tags.data() + tags.size(), static_cast<std::uint32_t>(n)) ==
             std::ptrdiff_t(tags_of(n));
}
bool is_right(ps::Row<const Text> row) {
  return is_right(ps::get<"text">(row), ps::get<"number">(row), ps::get<"tags">(row));
}

/// The numbers of a batch of either schema, if all of it is as it should be and no value lies
/// between those of its records.
template <class W> std::vector<Number> numbers_of(ps::Batch<const Text, W> batch, bool& right) {
  const auto text = ps::get<"text">(batch);
  const auto tags = ps::get<"tags">(batch);
  const auto numbers = ps::get<"number">(batch);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    right = right && text.offsets()[i] == at && is_right(text[i], numbers[i], tags[i]);
    at += static_cast<std::int64_t>(length_of(numbers[i]));
  }
  right = right && text.offsets()[batch.size()] == at;
  return {numbers.data(), numbers.data() + batch.size()};
}
template <class W> std::vector<Number> numbers_of(ps::Batch<const Sample, W> batch, bool& right) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    right = right && is_right(ps::Row<const Sample>{batch.view(), i});
  }
  const auto numbers = ps::get<"number">(batch);
  return {numbers.data(), numbers.data() + batch.size()};
}

/// What a run delivered, one batch after the other.
struct Seen {
  template <class Batch> void add(const Batch& batch) {
    const std::vector<Number> more = numbers_of(batch, right);
    right = right && !more.empty() && batch.source_index() == more.front() &&
            batch.index() == numbers.size();
    numbers.insert(numbers.end(), more.begin(), more.end());
  }
  bool right{true};
  std::vector<Number> numbers{};
};

/// The numbers of `epochs` epochs for which `bad` is false.
std::vector<Number> without(const std::function<bool(Number)>& bad, Number epochs) {
  std::vector<Number> left;
  for (Number i = 0; i < epochs * count; ++i) {
    if (!bad(i % count)) {
      left.push_back(i % count);
    }
  }
  return left;
}

ps::DecoderOptions leaving_out(unsigned workers, unsigned retries = 0) {
  return {.workers = workers, .on_error = {.retries = retries, .skips = 1'000'000}};
}

} // namespace

TEST_CASE("a row of columns is left out without its neighbours, whoever works on them") {
  // Neighbours, and the first and last of a slot.
  const auto left_out = [](Number n) { return n % 10 == 3 || n % 10 == 4 || n % 50 == 0; };
  const auto decode = [=](const Number& in, ps::Row<Sample> out) {
    fill(left_out(in) ? in + 1 : in, out);
    if (left_out(in)) {
      bad();
    }
  };
  for (const unsigned workers : {1U, 8U}) {
    for (const std::size_t batch : {0, 1, 50}) {
      CAPTURE(workers, batch);
      Seen seen;
      ps::DecoderOptions options = leaving_out(workers);
      options.extents = {frame};
      auto pipeline = ps::Reader{Numbers{}, {.epochs = 2, .batch = batch}} |
                      ps::Decoder{decode, options} |
                      ps::Consumer{[&](Host<const Sample> some) { seen.add(some); }};
      for (int run = 0; run < 2; ++run) {
        seen = {};
        const ps::Report& report = pipeline.run();
        CHECK(seen.right);
        CHECK(seen.numbers == without(left_out, 2));
        CHECK(report.skipped + seen.numbers.size() == 2 * count);
        CHECK(report.dropped == 0);
        CHECK(report.skips.front().records == 1);
      }
    }
  }
}

TEST_CASE("a record of variable length that is left out leaves no gap, and nothing behind it") {
  const auto left_out = [](Number n) { return n % 5 == 2 || n % 5 == 3 || n % 100 == 0; };
  const auto decode = [=](const Number& in, ps::Row<Text> out) {
    if (left_out(in)) {
      // More than it would have, in one of two columns.
      std::fill_n(ps::put<"text">(out, 20), 20, 'x');
      bad();
    }
    fill_text(in, out);
  };
  for (const unsigned workers : {1U, 8U}) {
    for (const std::size_t batch : {0, 1, 100}) {
      CAPTURE(workers, batch);
      Seen seen;
      auto on_the_host = ps::Reader{Numbers{}, {.epochs = 2, .batch = batch}} |
                         ps::Decoder{decode, leaving_out(workers)} |
                         ps::Consumer{[&](Host<const Text> some) { seen.add(some); }};
      for (int run = 0; run < 2; ++run) {
        seen = {};
        const ps::Report& report = on_the_host.run();
        CHECK(seen.right);
        CHECK(seen.numbers == without(left_out, 2));
        CHECK(report.skipped + seen.numbers.size() == 2 * count);
      }

      ps::HostDevice device{{.late_seed = 1}};
      Seen on_device;
      auto to_the_device =
          ps::Reader{Numbers{}, {.epochs = 2, .batch = batch}} |
          ps::Decoder{decode, ps::to_pinned, leaving_out(workers)} | ps::AsyncCopier{device} |
          ps::Consumer{[&](ps::Batch<const Text, ps::Device> some, ps::HostStream& stream) {
            stream.enqueue([&on_device, some] { on_device.add(some); });
          }};
      to_the_device.run();
      CHECK(on_device.right);
      CHECK(on_device.numbers == without(left_out, 2));
    }
  }
}

TEST_CASE("rows and plain records mix, and Ragged rows become others or fixed ones") {
  const auto first = [](Number n) { return n % 11 == 5; };
  const auto second = [](Number n) { return n % 13 == 0; };
  const auto third = [](Number n) { return n % 9 == 8; };
  const auto spell = [=](const Number& in, ps::Row<Text>& out) {
    first(in) ? bad() : fill_text(in, out);
  };
  const auto copy = [=](const ps::Row<const Text>& in, const ps::Row<Text>& out) {
    const auto text = ps::get<"text">(in);
    const auto tags = ps::get<"tags">(in);
    std::copy_n(tags.data(), tags.size(), ps::put<"tags">(out, tags.size()));
    if (second(ps::get<"number">(in))) {
      bad();
    }
    std::copy_n(text.data(), text.size(), ps::put<"text">(out, text.size()));
    ps::get<"number">(out) = ps::get<"number">(in);
  };
  const auto to_sample = [=](ps::Row<const Text> in, ps::Row<Sample> out) {
    const Number n = ps::get<"number">(in);
    fill(n, out);
    if (!is_right(in) || third(n)) {
      bad();
    }
  };
  const auto to_plain = [](ps::Row<const Sample> in, Number& out) {
    out = is_right(in) ? ps::get<"number">(in) : count;
  };
  const auto all = [=](Number n) { return first(n) || second(n) || third(n); };
  for (const unsigned workers : {1U, 4U}) {
    CAPTURE(workers);
    ps::HostDevice device;
    ps::DecoderOptions framed = leaving_out(workers);
    framed.extents = {frame};
    std::vector<Number> got;
    bool placed = true;
    auto pipeline =
        ps::Reader{Numbers{}, {.epochs = 2}} | ps::Decoder{spell, leaving_out(workers)} |
        ps::PinnedStager{device} | ps::Decoder{std::function{copy}, leaving_out(workers)} |
        ps::Decoder{std::ref(to_sample), framed} | ps::Decoder{to_plain, {.workers = workers}} |
        ps::Consumer{[&](Host<const Number> some) {
          placed = placed && some.source_index() == some.data()[0];
          got.insert(got.end(), some.data(), some.data() + some.size());
        }};
    pipeline.run();
    CHECK(placed);
    CHECK(got == without(all, 2));
  }
  // A record of a size that run time knows is passed as its first byte.
  std::vector<std::uint8_t> bytes(12 * 20);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  std::vector<Number> sums;
  auto of_bytes = ps::Reader{ps::memory(bytes, {.record_bytes = 12})} |
                  ps::Decoder{[](const std::uint8_t& in, ps::Row<Sample> out) {
                                ps::get<"number">(out) = std::accumulate(&in, &in + 12, Number{0});
                              },
                              {.extents = {frame}}} |
                  ps::Consumer{[&](Host<const Sample> some) {
                    const auto numbers = ps::get<"number">(some);
                    sums.insert(sums.end(), numbers.data(), numbers.data() + some.size());
                  }};
  of_bytes.run();
  REQUIRE(sums.size() == 20);
  CHECK(sums[1] == 12 * 12 + 66);
  CHECK(sums[19] == 12 * 19 * 12 + 66);
  Seen apart;
  (ps::Reader{Apart{}} |
   ps::Decoder{[](const Number& in, ps::Row<Text> out) { fill_text(in, out); }} |
   ps::Consumer{[&](Host<const Text> some) {
     apart.add(some);
   }}).run();
  CHECK(apart.right);
  CHECK(apart.numbers == without([](Number) { return false; }, 1));
}

TEST_CASE("a row is tried again as if nothing had been put, and others are not tried with it") {
  std::array<std::atomic<int>, count> tries{};
  // Some succeed at once, some when tried again, some never.
  const auto decode = [&](const Number& in, ps::Row<Text> out) {
    const int before = tries[in]++;
    if (in % 10 >= 7) {
      std::fill_n(ps::put<"text">(out, 30), 30, 'x');
      ps::put<"tags">(out, 9);
      if (in % 10 == 9 || before < 2) {
        bad();
      }
    }
    fill_text(in, out);
  };
  for (const unsigned workers : {1U, 4U}) {
    CAPTURE(workers);
    for (auto& n : tries) {
      n = 0;
    }
    Seen seen;
    auto pipeline = ps::Reader{Numbers{}} | ps::Decoder{decode, leaving_out(workers, 2)} |
                    ps::Consumer{[&](Host<const Text> some) { seen.add(some); }};
    const ps::Report& report = pipeline.run();
    CHECK(seen.right);
    CHECK(seen.numbers == without([](Number n) { return n % 10 == 9; }, 1));
    CHECK(report.stages[1].retries == 600);
    CHECK(report.skipped == 100);
    bool as_often = true;
    for (Number n = 0; n < count; ++n) {
      as_often = as_often && tries[n] == (n % 10 >= 7 ? 3 : 1);
    }
    CHECK(as_often);
  }
}

TEST_CASE("a row that is not put, or does not fit, fails by its record's number") {
  const auto run = [](auto decode, ps::DecoderOptions options) {
    auto pipeline =
        ps::Reader{Numbers{}, {.batch = 100}} |
        ps::Decoder{[](const Number& in, Number& out) { in % 4 == 0 ? bad() : void(out = in); },
                    leaving_out(2)} |
        ps::Decoder{decode, options} | ps::Consumer{[](Host<const Text>) {}};
    return outcome_of([&] { pipeline.run(); });
  };
  // What was put at the first try does not count at the second.
  std::atomic<int> tries{0};
  const Outcome forgot = run(
      [&](const Number& in, ps::Row<Text> out) {
        if (in != 333) {
          fill_text(in, out);
        } else if (tries++ == 0) {
          ps::put<"tags">(out, 1);
          bad();
        } else {
          ps::put<"text">(out, 1);
        }
      },
      {.workers = 2, .on_error = {.retries = 1}});
  CAPTURE(forgot);
  CHECK(tries == 2);
  CHECK(forgot.stage == "Decoder 2");
  CHECK(forgot.record == 333);
  CHECK(forgot.says("record 333 of a Ragged column was not put"));

  const Outcome full = run(
      [&](const Number& in, ps::Row<Text> out) {
        fill_text(in, out);
        if (in == 555) {
          ps::put<"text">(out, 100'000);
        }
      },
      {.workers = 2, .value_bytes = 10'000});
  CAPTURE(full);
  CHECK(full.record == 555);
  CHECK(full.says("record 555 has 100000 values of a Ragged column, and of the 10000 that a slot "
                  "has room for"));

  // Such a record may be left out like any other.
  Seen seen;
  auto pipeline = ps::Reader{Numbers{}} |
                  ps::Decoder{[](const Number& in, ps::Row<Text> out) {
                                if (in % 10 != 1) {
                                  fill_text(in, out);
                                }
                              },
                              leaving_out(3)} |
                  ps::Consumer{[&](Host<const Text> some) { seen.add(some); }};
  CHECK(pipeline.run().skipped == 100);
  CHECK(seen.right);
  CHECK(seen.numbers == without([](Number n) { return n % 10 == 1; }, 1));
}

namespace {

/// What a callable was told of a record, by its number over all epochs.
struct Visits {
  void note(Number record, const ps::Visit& visit) {
    const std::scoped_lock lock{mutex};
    of.push_back({record, visit.record, visit.epoch, visit.step});
  }
  std::vector<std::array<Number, 4>> sorted() {
    std::sort(of.begin(), of.end(), [](const auto& a, const auto& b) { return a[3] < b[3]; });
    return std::exchange(of, {});
  }
  std::mutex mutex;
  std::vector<std::array<Number, 4>> of;
};

} // namespace

TEST_CASE("a visit is the same for any number of workers, whatever was left out before it") {
  const auto left_out = [](Number n) { return n % 100 < 3 || n % 7 == 6 || n / 50 == 4; };
  const auto some = [=](const Number& in, Number& out, ps::Visit visit) {
    left_out(in) || visit.record != in ? bad() : void(out = in);
  };
  std::vector<std::array<Number, 4>> wanted;
  for (Number epoch = 0; epoch < 3; ++epoch) {
    for (Number n = 0; n < count; ++n) {
      if (!left_out(n)) {
        wanted.push_back({n, n, epoch, epoch * count + n});
      }
    }
  }
  for (const unsigned workers : {1U, 8U}) {
    for (const std::size_t batch : {0, 1, 50}) {
      CAPTURE(workers, batch);
      Visits fixed, ragged, back;
      const auto reader = ps::Reader{Numbers{}, {.epochs = 3, .batch = batch}};
      (ps::Reader{reader} | ps::Decoder{some, leaving_out(workers)} |
       ps::Decoder{[&](const Number& in, Number& out, const ps::Visit& visit) {
                     fixed.note(in, visit);
                     out = in;
                   },
                   {.workers = workers}} |
       ps::Decoder{[&](const Number& in, ps::Row<Text> out, ps::Visit visit) {
                     ragged.note(in, visit);
                     fill_text(in, out);
                   },
                   {.workers = workers}} |
       ps::Consumer{[](Host<const Text>) {
       }}).run();
      CHECK(fixed.sorted() == wanted);
      CHECK(ragged.sorted() == wanted);

      ps::HostDevice device{{.late_seed = 1}};
      (ps::Reader{reader} | ps::Decoder{some, ps::to_pinned, leaving_out(workers)} |
       ps::AsyncCopier{device, {.batch = 64}} | ps::AsyncCopier{ps::to_host} |
       ps::Decoder{[&](const Number& in, Number& out, const ps::Visit& visit) {
                     back.note(in, visit);
                     out = in;
                   },
                   {.workers = workers}} |
       ps::Consumer{[](Host<const Number>) {
       }}).run();
      CHECK(back.sorted() == wanted);
    }
  }
  // Without a size there is one epoch.
  Visits untold;
  wanted.resize(wanted.size() / 3);
  (ps::Reader{Numbers{false}} | ps::Decoder{some, leaving_out(3)} |
   ps::Decoder{[&](const Number& in, Number& out, ps::Visit visit) {
                 untold.note(in, visit);
                 out = in;
               },
               {.workers = 3}} |
   ps::Consumer{[](Host<const Number>) {
   }}).run();
  CHECK(untold.sorted() == wanted);
}

TEST_CASE("behind a Decoder that leaves out records index() goes on as if nothing was") {
  // The first of each slot, some of them whole.
  const auto left_out = [](Number n) { return n % 50 < 3 || n / 50 == 4 || n % 50 == 49; };
  const auto first = [=](const Number& in, Number& out) { left_out(in) ? bad() : void(out = in); };
  const auto to_text = [=](const Number& in, ps::Row<Text> out) {
    left_out(in) ? bad() : fill_text(in, out);
  };
  std::atomic<bool> right{true};
  const auto check = [&](std::uint64_t index, std::uint64_t source_index, Number n) {
    right = right && source_index == n && index % count == n;
  };
  for (const unsigned workers : {1U, 8U}) {
    CAPTURE(workers);
    const auto reader = ps::Reader{Numbers{}, {.epochs = 2, .batch = 50}};
    (ps::Reader{reader} | ps::Decoder{first, leaving_out(workers)} |
     ps::Decoder{[&](Host<const Number> in, Host<Number> out) {
                   check(in.index(), in.source_index(), in.data()[0]);
                   std::copy_n(in.data(), in.size(), out.data());
                 },
                 {.workers = workers}} |
     ps::Consumer{[](Host<const Number>) {
     }}).run();
    CHECK(right);
    (ps::Reader{reader} | ps::Decoder{to_text, leaving_out(workers)} |
     ps::Decoder{[&](Host<const Text> in, Host<Number> out) {
                   check(in.index(), in.source_index(), ps::get<"number">(in)[0]);
                   std::fill_n(out.data(), out.size(), 0);
                 },
                 {.workers = workers}} |
     ps::Consumer{[](Host<const Number>) {
     }}).run();
    CHECK(right);
  }
}

TEST_CASE("a slot that is full ends short, and leaves out only what no slot has room for") {
  const auto values = [](std::size_t many) {
    return [many](const Number& in, ps::Row<Text> out) {
      fill_text(in, out);
      ps::put<"text">(out, in == 300 ? 20'000 : many);
    };
  };
  // One that no slot has room for is left out, and said to be.
  std::size_t records = 0;
  auto pipeline =
      ps::Reader{Numbers{}, {.batch = 10}} |
      ps::Decoder{values(20), {.workers = 2, .value_bytes = 1000, .on_error = {.skips = 1}}} |
      ps::Consumer{[&](Host<const Text> some) { records += some.size(); }};
  const ps::Report report = pipeline.run();
  CHECK(report.skipped == 1);
  REQUIRE(report.skips.size() == 1);
  CHECK(report.skips[0].record == 300);
  CHECK(report.skips[0].reason.find("has 20000 values") != std::string::npos);
  CHECK(report.skips[0].reason.ends_with("This record alone needs .value_bytes = 20000."));
  CHECK(records == report.stages[0].records - 1);
}
