// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What a worker takes at a time: all workers of a Decoder and of a host Consumer have something to
// do, however few, small or large the records are, and the first batch is there soon.

#include "support/catch.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace ps = penstock;

namespace {

constexpr int workers = 8;

/// Where workers wait until all have come, until 20 s after it was made.
class Meeting {
 public:
  explicit Meeting(int all = workers) : all_{all} {}

  void come() {
    const int here = inside_.fetch_add(1) + 1;
    for (int seen = most_.load(); seen < here && !most_.compare_exchange_weak(seen, here);) {
    }
    await(all_);
    inside_.fetch_sub(1);
  }
  /// Waits until so many have come.
  void await(int count) const {
    while (most_.load() < count && std::chrono::steady_clock::now() < until_) {
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
  }
  /// Returns how many were there at once.
  int most() const { return most_.load(); }

 private:
  const int all_;
  const std::chrono::steady_clock::time_point until_ =
      std::chrono::steady_clock::now() + std::chrono::seconds{20};
  std::atomic<int> inside_{0};
  std::atomic<int> most_{0};
};

std::vector<int> numbers(int count) {
  std::vector<int> from(static_cast<std::size_t>(count));
  std::iota(from.begin(), from.end(), 0);
  return from;
}
/// Numbers from 0 on.
template <class T> auto count_up(std::uint64_t count) {
  return ps::generate<T>(count, [](std::span<T> into, std::uint64_t first) {
    std::iota(into.begin(), into.end(), static_cast<T>(first));
  });
}

using In = ps::Batch<const int, ps::Pageable>;
using Out = ps::Batch<int, ps::Pageable>;

/// Numbers from 0 on, as a source that does not tell its size.
struct Untold {
  using schema = int;
  std::uint64_t count;
  std::uint64_t size() const { return ps::unknown_size; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<int, Where> into) const {
    const std::uint64_t first = std::min(into.index(), count);
    const std::size_t got = std::min<std::uint64_t>(into.size(), count - first);
    std::iota(into.data(), into.data() + got, static_cast<int>(first));
    return got;
  }
};

struct Word : ps::Columns<ps::Field<"bytes", ps::Ragged<char>>> {};
struct Length : ps::Columns<ps::Field<"length", std::uint32_t>, ps::Field<"half", float>> {};
/// Words, the i-th of i % 100 characters.
struct Words {
  using schema = Word;
  std::uint64_t count;
  std::uint64_t size() const { return count; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Word, Where> into) const {
    const auto bytes = ps::get<"bytes">(into);
    for (std::size_t i = 0; i < into.size(); ++i) {
      const std::size_t size = (into.index() + i) % 100;
      std::fill_n(bytes.put(i, size), size, 'a');
    }
    return into.size();
  }
};

struct Large {
  int bytes[2 << 20];
};

} // namespace

TEST_CASE("all workers of a Decoder share few records, whole batches too") {
  const auto from = numbers(64);
  const auto check = [](auto source, auto make) {
    Meeting meeting;
    std::atomic<std::uint64_t> sum{0};
    auto pipeline =
        ps::Reader{source} | ps::Decoder{make(meeting), {.workers = workers}} |
        ps::Consumer{[&](In batch) {
          sum += std::accumulate(batch.data(), batch.data() + batch.size(), std::uint64_t{0});
        }};
    pipeline.run();
    CHECK(meeting.most() == workers);
    CHECK(sum == 63 * 64 / 2);
  };
  const auto single = [](Meeting& meeting) {
    return [&meeting](const int& in, int& out) {
      meeting.come();
      out = in;
    };
  };
  const auto whole = [](Meeting& meeting) {
    return [&meeting](In in, Out out) {
      meeting.come();
      std::copy_n(in.data(), in.size(), out.data());
    };
  };
  check(ps::memory(from), single);
  check(ps::memory(from), whole);
  check(Untold{64}, single);
  check(Untold{64}, whole);
}

TEST_CASE("all workers of a host Consumer share few records") {
  const auto from = numbers(64);
  for (int run = 0; run < 2; ++run) {
    Meeting meeting;
    std::mutex mutex;
    std::vector<int> got;
    auto pipeline = ps::Reader{ps::memory(from)} |
                    ps::Consumer{[&](In batch) {
                                   meeting.come();
                                   const std::scoped_lock lock{mutex};
                                   CHECK(batch.index() == std::uint64_t(batch.data()[0]));
                                   CHECK(batch.source_index() == batch.index());
                                   got.insert(got.end(), batch.data(), batch.data() + batch.size());
                                 },
                                 {.workers = workers}};
    pipeline.run();
    CHECK(meeting.most() == workers);
    std::sort(got.begin(), got.end());
    CHECK(got == from);
  }
}

TEST_CASE("all workers have records whose lengths vary, one each at first") {
  Meeting meeting;
  std::atomic<std::uint64_t> sum{0};
  std::atomic<std::size_t> largest{0};
  auto pipeline =
      ps::Reader{Words{64}} |
      ps::Decoder{[&](ps::Batch<const Word, ps::Pageable> in, ps::Batch<Length, ps::Pageable> out) {
                    meeting.come();
                    largest = std::max(largest.load(), in.size());
                    const auto bytes = ps::get<"bytes">(in);
                    const auto lengths = ps::get<"length">(out);
                    for (std::size_t i = 0; i < in.size(); ++i) {
                      lengths[i] = static_cast<std::uint32_t>(bytes[i].size());
                    }
                  },
                  {.workers = workers}} |
      ps::Consumer{[&](ps::Batch<const Length, ps::Pageable> batch) {
        const auto lengths = ps::get<"length">(batch);
        for (std::size_t i = 0; i < batch.size(); ++i) {
          sum += lengths[i];
        }
      }};
  pipeline.run();
  CHECK(meeting.most() == workers);
  CHECK(largest == 1);
  CHECK(sum == 63 * 64 / 2);
}

TEST_CASE("all workers have records that are larger than a slot") {
  Meeting meeting;
  std::atomic<bool> single{true};
  auto pipeline = ps::Reader{ps::generate<Large>(workers, [](std::span<Large>, std::uint64_t) {})} |
                  ps::Consumer{[&](ps::Batch<const Large, ps::Pageable> batch) {
                                 single = single && batch.size() == 1;
                                 meeting.come();
                               },
                               {.workers = workers}};
  pipeline.run();
  CHECK(single);
  CHECK(meeting.most() == workers);
}

TEST_CASE("parts without records do not teach a worker to take many at a time") {
  // Of the first 64 records one is left. A worker keeps it while the other draws the parts of those
  // left out, and then has to leave parts of the next 64.
  const auto from = numbers(128);
  Meeting meeting{2};
  const auto leave_out = ps::Decoder{[](const int& in, int& out) {
                                       if (in > 0 && in < 64) {
                                         throw ps::Error{"is left out"};
                                       }
                                       out = in;
                                     },
                                     {.workers = 1, .on_error = {.skips = 63}}};
  const auto meet = ps::Decoder{[&](const int& in, int& out) {
                                  in < 64 ? meeting.await(1) : meeting.come();
                                  out = in;
                                },
                                {.workers = 2}};
  std::size_t got = 0;
  auto pipeline = ps::Reader{ps::memory(from), {.batch = 64}} | leave_out | meet |
                  ps::Consumer{[&](In batch) { got += batch.size(); }};
  pipeline.run();
  CHECK(meeting.most() == 2);
  CHECK(got == 1 + 64);
}

TEST_CASE("with .batch a batch has as many records as was asked for") {
  const auto from = numbers(1000);
  std::mutex mutex;
  std::vector<std::size_t> decoded, consumed;
  auto pipeline = ps::Reader{ps::memory(from), {.batch = 64}} |
                  ps::Decoder{[&](In in, Out out) {
                                const std::scoped_lock lock{mutex};
                                decoded.push_back(in.size());
                                std::copy_n(in.data(), in.size(), out.data());
                              },
                              {.workers = workers}} |
                  ps::Consumer{[&](In batch) {
                                 const std::scoped_lock lock{mutex};
                                 consumed.push_back(batch.size());
                               },
                               {.workers = workers}};
  pipeline.run();
  for (auto* sizes : {&decoded, &consumed}) {
    std::sort(sizes->begin(), sizes->end());
    REQUIRE(sizes->size() == 16);
    CHECK(sizes->front() == 1000 % 64);
    CHECK(std::count(sizes->begin(), sizes->end(), 64) == 15);
  }
}

TEST_CASE("the first batch is there while the records behind it are being worked on") {
  // Each of them may be the last one's business: nobody waits for more than the first slots.
  for (const bool told : {true, false}) {
    std::atomic<bool> there{false};
    std::atomic<bool> waited{false};
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    const auto decode = ps::Decoder{[&](const int& in, int& out) {
                                      while (in >= 2 * 32 + 32 && !there) {
                                        waited = true;
                                        if (std::chrono::steady_clock::now() > until) {
                                          return;
                                        }
                                        std::this_thread::yield();
                                      }
                                      out = in;
                                    },
                                    {.workers = workers}};
    const auto see = ps::Consumer{[&](In) {
      while (!waited && std::chrono::steady_clock::now() < until) {
        std::this_thread::yield();
      }
      there = true;
    }};
    if (told) {
      (ps::Reader{count_up<int>(100'000)} | decode | see).run();
    } else {
      (ps::Reader{Untold{100'000}} | decode | see).run();
    }
    CHECK(waited);
    CHECK(std::chrono::steady_clock::now() < until);
  }
}

TEST_CASE("slots that grow lose, double and misnumber nothing, in any epoch") {
  for (const int count : {0, 1, 31, 32, 33, 95, 96, 97, 5000}) {
    for (const std::uint64_t epochs : {1, 2, 3}) {
      CAPTURE(count, epochs);
      const auto from = numbers(count);
      std::vector<int> got;
      bool right = true;
      auto pipeline =
          ps::Reader{ps::memory(from), {.epochs = epochs}} |
          ps::Decoder{[](In in, Out out) { std::copy_n(in.data(), in.size(), out.data()); },
                      {.workers = 3}} |
          ps::Consumer{[&](In batch) {
            right = right && batch.index() == got.size() &&
                    batch.source_index() == std::uint64_t(batch.data()[0]);
            got.insert(got.end(), batch.data(), batch.data() + batch.size());
          }};
      for (int run = 0; run < 2; ++run) {
        got.clear();
        pipeline.run();
        CHECK(right);
        REQUIRE(got.size() == from.size() * epochs);
        for (std::uint64_t epoch = 0; epoch != epochs; ++epoch) {
          right =
              right && std::equal(from.begin(), from.end(),
                                  got.begin() + static_cast<std::ptrdiff_t>(epoch * from.size()));
        }
        CHECK(right);
      }
    }
  }
}

TEST_CASE("a part of a batch that fails leaves no gap in any column") {
  std::vector<std::uint32_t> got;
  bool right = true;
  auto pipeline =
      ps::Reader{count_up<std::uint32_t>(3000)} |
      ps::Decoder{
          [](ps::Batch<const std::uint32_t, ps::Pageable> in, ps::Batch<Length, ps::Pageable> out) {
            const auto lengths = ps::get<"length">(out);
            const auto halves = ps::get<"half">(out);
            for (std::size_t i = 0; i < in.size(); ++i) {
              lengths[i] = in.data()[i];
              halves[i] = static_cast<float>(in.data()[i]) / 2;
            }
            const std::uint32_t end = in.data()[0] + std::uint32_t(in.size());
            if (in.data()[0] / 100 != end / 100) {
              throw ps::Error{"holds a multiple of a hundred, or nearly"};
            }
          },
          {.workers = 4, .on_error = {.skips = 3000}}} |
      ps::Consumer{[&](ps::Batch<const Length, ps::Pageable> batch) {
        const auto lengths = ps::get<"length">(batch);
        const auto halves = ps::get<"half">(batch);
        right = right && batch.index() == got.size() && batch.source_index() == lengths[0];
        for (std::size_t i = 0; i < batch.size(); ++i) {
          right = right && halves[i] == static_cast<float>(lengths[i]) / 2;
          got.push_back(lengths[i]);
        }
      }};
  const ps::Report& report = pipeline.run();
  CHECK(right);
  CHECK(report.skipped > 0);
  CHECK(got.size() > 100);
  CHECK(got.size() + report.skipped == 3000);
  CHECK(std::is_sorted(got.begin(), got.end()));
  CHECK(std::adjacent_find(got.begin(), got.end()) == got.end());
}

namespace {

struct Two : ps::Columns<ps::Field<"text", ps::Ragged<char>>, ps::Field<"id", std::uint32_t>,
                         ps::Field<"tags", ps::Ragged<std::uint16_t>>> {};
/// Records whose lengths are known: record i has i % 7 characters and i % 3 tags.
struct Known {
  using schema = Two;
  std::uint64_t count;
  Meeting* meeting{};
  std::uint64_t wrong{~std::uint64_t{0}}; // the record of which lengths() lies
  std::uint64_t size() const { return count; }
  void lengths(std::uint64_t first, std::span<std::uint64_t> into) const {
    for (std::size_t i = 0; i < into.size() / 2; ++i) {
      into[2 * i] = (first + i) % 7 + (first + i == wrong ? 1 : 0);
      into[2 * i + 1] = (first + i) % 3;
    }
  }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Two, Where> into) const {
    if (meeting) {
      meeting->come();
    }
    for (std::size_t i = 0; i < into.size(); ++i) {
      const std::uint64_t record = into.index() + i;
      std::fill_n(ps::get<"text">(into).put(i, record % 7), record % 7, static_cast<char>(record));
      ps::get<"id">(into)[i] = static_cast<std::uint32_t>(record);
      std::fill_n(ps::get<"tags">(into).put(i, record % 3), record % 3,
                  static_cast<std::uint16_t>(record));
    }
    return into.size();
  }
};

/// Returns whether a batch has the records from its source_index() on.
bool is_right(ps::Batch<const Two, ps::Pageable> batch) {
  bool right = true;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::uint64_t record = batch.source_index() + i;
    const auto text = ps::get<"text">(batch)[i];
    const auto tags = ps::get<"tags">(batch)[i];
    right = right && text.size() == record % 7 && tags.size() == record % 3 &&
            ps::get<"id">(batch)[i] == record;
    right = right && std::count(text.data(), text.data() + text.size(),
                                static_cast<char>(record)) == std::ptrdiff_t(record % 7);
    right = right && std::count(tags.data(), tags.data() + tags.size(),
                                static_cast<std::uint16_t>(record)) == std::ptrdiff_t(record % 3);
  }
  return right;
}

} // namespace

TEST_CASE("several workers of a Reader fill one Ragged slot if the lengths are known") {
  for (const std::uint64_t count : {0, 1, 7, 64, 1000}) {
    for (const std::size_t batch : {1, 10, 64, 5000}) {
      CAPTURE(count, batch);
      bool right = true;
      std::uint64_t got = 0;
      auto pipeline = ps::Reader{Known{count}, {.workers = workers, .epochs = 2, .batch = batch}} |
                      ps::Consumer{[&](ps::Batch<const Two, ps::Pageable> two) {
                        right = right && is_right(two) && two.index() == got;
                        got += two.size();
                      }};
      for (int run = 0; run < 2; ++run) {
        got = 0;
        pipeline.run();
        CHECK(right);
        CHECK(got == 2 * count);
      }
    }
  }
  Meeting meeting;
  bool right = true;
  auto pipeline = ps::Reader{Known{64, &meeting}, {.workers = workers, .batch = 64}} |
                  ps::Consumer{[&](ps::Batch<const Two, ps::Pageable> batch) {
                    right = right && is_right(batch) && batch.size() == 64;
                  }};
  pipeline.run();
  CHECK(right);
  CHECK(meeting.most() == workers);
}

TEST_CASE("lengths that lie, or that no slot can hold, end the run by name") {
  const auto text_of = [](Known source, std::size_t value_bytes) {
    auto pipeline = ps::Reader{source, {.workers = 4, .batch = 64, .value_bytes = value_bytes}} |
                    ps::Consumer{[](ps::Batch<const Two, ps::Pageable>) {}};
    try {
      pipeline.run();
    } catch (const ps::StageError& error) {
      return std::string{error.what()};
    }
    return std::string{"no error"};
  };
  CHECK(text_of({1000}, 0) == "no error");
  CHECK(text_of({1000, nullptr, 500}, 0)
            .find("record 500 has 4 values in a Ragged column by the source's lengths()") !=
        std::string::npos);
  CHECK(text_of({1000}, 100).find("have more than the 100 values that a slot holds") !=
        std::string::npos);
}

namespace {

/// Records of one Ragged column; each call of lengths() tells another length.
struct Changing {
  using schema = Word;
  std::shared_ptr<std::atomic<std::uint64_t>> calls =
      std::make_shared<std::atomic<std::uint64_t>>();
  std::shared_ptr<Meeting> meeting = std::make_shared<Meeting>();
  std::uint64_t size() const { return 64; }
  static std::uint64_t& told() {
    thread_local std::uint64_t length = 0;
    return length;
  }
  void lengths(std::uint64_t, std::span<std::uint64_t> into) const {
    told() = 1 + calls->fetch_add(1);
    std::fill(into.begin(), into.end(), told());
  }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Word, Where> into) const {
    meeting->come();
    for (std::size_t i = 0; i < into.size(); ++i) {
      // Not filled: where the workers' lengths differ they would write to the same places.
      ps::get<"bytes">(into).put(i, told());
    }
    return into.size();
  }
};

/// Says that it read one record more than it was asked for.
struct TooMany {
  using schema = int;
  std::uint64_t size() const { return 100; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<int, Where> into) const {
    std::fill_n(into.data(), into.size(), 0);
    return into.size() + 1;
  }
};

template <class P> std::string text_of_error(P pipeline) {
  try {
    pipeline.run();
  } catch (const ps::StageError& error) {
    return error.what();
  }
  return "no error";
}

} // namespace

TEST_CASE("a source that changes under its readers, or gives too much, ends the run") {
  CHECK(text_of_error(ps::Reader{Changing{}, {.workers = workers, .batch = 64}} |
                      ps::Consumer{[](ps::Batch<const Word, ps::Pageable>) {}})
            .find("lengths() told two things") != std::string::npos);
  CHECK(text_of_error(ps::Reader{TooMany{}} | ps::Consumer{[](In) {}})
            .find("its size() and its read() disagree") != std::string::npos);
}

TEST_CASE("a pipeline whose slots grow tells how many batches it gives") {
  for (const std::uint64_t epochs : {1, 3}) {
    auto plain = ps::Reader{count_up<int>(100'000), {.epochs = epochs}} |
                 ps::Decoder{[](const int& in, int& out) { out = in; }, {.workers = 2}};
    auto ragged =
        ps::Reader{Words{700}, {.epochs = epochs}} |
        ps::Decoder{[](ps::Batch<const Word, ps::Pageable>, ps::Batch<Length, ps::Pageable>) {},
                    {.workers = 2}};
    const auto check = [](auto& pipeline) {
      std::uint64_t given = 0;
      for (auto batch : pipeline.batches()) {
        given += batch.size() != 0 ? 1 : 0;
      }
      CHECK(given > 5);
      CHECK(pipeline.batches_a_run() == given);
    };
    check(plain);
    check(ragged);
  }
}

TEST_CASE("batches behind a Decoder that skips know their numbers, and all are aligned alike") {
  const std::uint64_t records = 100'000;
  std::atomic<bool> right{true};
  std::atomic<std::size_t> alignment{0};
  auto pipeline = ps::Reader{count_up<std::uint64_t>(records), {.epochs = 2}} |
                  ps::Decoder{[](const std::uint64_t& in, std::uint64_t& out) {
                                if (in % 10 == 3) {
                                  throw ps::Error{"left out"};
                                }
                                out = in;
                              },
                              {.workers = 3, .on_error = {.skips = records}}} |
                  ps::Decoder{[&](ps::Batch<const std::uint64_t, ps::Pageable> in,
                                  ps::Batch<std::uint64_t, ps::Pageable> out) {
                                const std::uint64_t first = in.data()[0];
                                right = right && in.index() % records == first &&
                                        in.source_index() == first && out.index() == in.index();
                                std::size_t none = 0;
                                alignment.compare_exchange_strong(none, in.alignment());
                                right = right && in.alignment() == alignment;
                                std::copy_n(in.data(), in.size(), out.data());
                              },
                              {.workers = 3}} |
                  ps::Consumer{[](ps::Batch<const std::uint64_t, ps::Pageable>) {}};
  CHECK(pipeline.run().skipped == records / 5);
  CHECK(right);
  CHECK(alignment >= alignof(std::uint64_t));
}
