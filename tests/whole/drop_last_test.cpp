// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// ReaderOptions::drop_last in whole chains: which batches there are, and what the Report says of
// those that are left out. detail/device_side/copier_test.cpp has the copier by itself.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/temp_dir.hpp"

#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ps = penstock;
namespace tests = penstock::tests;

namespace {

using Number = std::uint64_t;
template <class Where> using Numbers = ps::Batch<const Number, Where>;
using OnDevice = Numbers<ps::Device>;

// Each number is its place in the source.
auto numbers(std::uint64_t count) {
  return ps::generate<Number>(count, [](std::span<Number> out, std::uint64_t first) {
    std::iota(out.begin(), out.end(), first);
  });
}
auto numbers_of_unknown_size(std::uint64_t count) {
  return ps::generate<Number>([count](std::span<Number> out, std::uint64_t first) {
    const std::uint64_t left = count - std::min(first, count);
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), left));
    std::iota(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(some), first);
    return some;
  });
}

// What the batches of a run are, in order.
struct Run {
  struct One {
    std::uint64_t index, epoch;
    std::vector<Number> numbers;
  };
  std::vector<One> batches;

  std::vector<Number> all() const {
    std::vector<Number> all;
    for (const One& batch : batches) {
      all.insert(all.end(), batch.numbers.begin(), batch.numbers.end());
    }
    return all;
  }
  // Whether every batch is of `size` records, and begins where the one before it ends.
  bool is_of(std::size_t size) const {
    std::uint64_t index = 0;
    return std::ranges::all_of(batches, [&](const One& batch) {
      return batch.numbers.size() == size && batch.index == std::exchange(index, index + size);
    });
  }
};

template <class B> Run::One one(const ps::Lease<B>& batch) {
  return {batch.index(), batch.epoch(), {batch.data(), batch.data() + batch.size()}};
}
template <class P> Run host_run(P& pipeline) {
  Run run;
  for (auto batch : pipeline.batches()) {
    run.batches.push_back(one(batch));
  }
  return run;
}
// The HostDevice's memory may be read when the stream has come as far.
template <class P> Run device_run(P& pipeline, ps::HostStream& stream) {
  Run run;
  for (auto batch : pipeline.on(stream)) {
    stream.sync();
    run.batches.push_back(one(batch));
  }
  return run;
}

// The numbers that `epochs` epochs over `count` give in batches of `batch`.
std::vector<Number> whole_batches(std::uint64_t count, std::size_t batch, std::uint64_t epochs) {
  std::vector<Number> all(count / batch * batch * epochs);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = i % (count / batch * batch);
  }
  return all;
}

void check_report(const ps::Report& report, std::uint64_t in_all, std::uint64_t kept) {
  CHECK(report.records_in_all == in_all);
  CHECK(report.stages.front().records == in_all);
  CHECK(report.records == kept);
  CHECK(report.bytes == kept * sizeof(Number));
  CHECK(report.dropped == in_all - kept);
  CHECK(report.skipped == 0);
  CHECK_FALSE(report.stopped);
}

void copy(const Number& in, Number& out) {
  out = in;
}

} // namespace

TEST_CASE("on the host an epoch's short last slot is left out, in each epoch") {
  for (const std::uint64_t count : {1000, 1007, 100, 0}) {
    for (const unsigned workers : {1U, 3U}) {
      CAPTURE(count, workers);
      const ps::ReaderOptions reading{
          .workers = workers, .depth = 3, .epochs = 3, .batch = 100, .drop_last = true};
      const std::uint64_t kept = count / 100 * 100 * 3;
      auto read = ps::Pipeline{std::tuple{ps::Reader{numbers(count), reading}}};
      auto decoded = ps::Reader{numbers(count), reading} | ps::Decoder{copy, {.workers = workers}};
      CHECK(read.batches_a_run() == kept / 100);
      CHECK(decoded.batches_a_run() == kept / 100);
      for (int times = 0; times < 2; ++times) {
        for (const Run& run : {host_run(read), host_run(decoded)}) {
          CHECK(run.all() == whole_batches(count, 100, 3));
          CHECK(run.is_of(100));
          CHECK(std::ranges::all_of(run.batches, [&](const Run::One& batch) {
            return batch.epoch == batch.index / (count / 100 * 100);
          }));
        }
        check_report(read.report(), 3 * count, kept);
        check_report(decoded.report(), 3 * count, kept);
      }
    }
  }
}

TEST_CASE("an epoch of which every record would be left out is refused") {
  const auto refused = [](auto pipeline) {
    return std::string{ps::tests::caught<ps::OptionError>([&] { pipeline.prepare(); }).what()};
  };
  const std::string text =
      "penstock: Reader: an epoch has 99 records, fewer than the 100 of a batch, and drop_last "
      "would leave out all of them: make the batch smaller.";
  CHECK(refused(ps::Reader{numbers(99), {.batch = 100, .drop_last = true}} | ps::Decoder{copy}) ==
        text);
  ps::HostDevice device;
  CHECK(refused(ps::Reader{numbers(99), ps::to_pinned, {.batch = 10, .drop_last = true}} |
                ps::AsyncCopier{device, {.batch = 100}}) == text);
  auto none = ps::Reader{numbers(0), {.batch = 100, .drop_last = true}} | ps::Decoder{copy};
  CHECK(host_run(none).batches.empty());
}

TEST_CASE("on the host a Consumer and a Writer see whole batches alone") {
  const tests::TempDir dir;
  const ps::ReaderOptions reading{.workers = 2, .epochs = 2, .batch = 64, .drop_last = true};
  std::mutex mutex;
  std::vector<std::size_t> sizes;
  auto consumed =
      ps::Reader{numbers(1000), reading} | ps::Consumer{[&](Numbers<ps::Pageable> batch) {
                                                          const std::scoped_lock lock{mutex};
                                                          sizes.push_back(batch.size());
                                                        },
                                                        {.workers = 3}};
  check_report(consumed.run(), 2000, 1920);
  CHECK(sizes == std::vector<std::size_t>(30, 64));

  auto written = ps::Reader{numbers(1000), reading} | ps::Writer{dir / "out"};
  check_report(written.run(), 2000, 1920);
  auto again = ps::Pipeline{std::tuple{ps::Reader{ps::records<Number>(dir / "out")}}};
  CHECK(host_run(again).all() == whole_batches(1000, 64, 2));
}

TEST_CASE("of a source of unknown size what is too little for a batch at its end is left out") {
  ps::HostDevice device;
  auto stream = device.stream();
  for (const std::uint64_t count : {1000, 999, 1001, 5}) {
    CAPTURE(count);
    const ps::ReaderOptions reading{.workers = 2, .batch = 100, .drop_last = true};
    auto host = ps::Pipeline{std::tuple{ps::Reader{numbers_of_unknown_size(count), reading}}};
    CHECK(host_run(host).all() == whole_batches(count, 100, 1));
    CHECK(host.report().dropped == count % 100);
    CHECK(host.batches_a_run() == ps::unknown_size);

    auto copied = ps::Reader{numbers_of_unknown_size(count), ps::to_pinned, reading} |
                  ps::AsyncCopier{device, {.batch = 300}};
    const Run run = device_run(copied, stream);
    CHECK(run.all() == whole_batches(count, 300, 1));
    CHECK(run.is_of(300));
    CHECK(copied.report().dropped == count % 300);
  }
}

TEST_CASE("on a device every batch is a whole one, whatever a slot holds") {
  for (const std::uint64_t seed : {1, 2}) {
    ps::HostDevice device{{.late_seed = seed}};
    auto stream = device.stream();
    for (const std::size_t slot : {0, 7, 100, 333}) {
      for (const std::size_t batch : {1, 50, 300, 1003}) {
        CAPTURE(seed, slot, batch);
        auto pipeline =
            ps::Reader{numbers(1003),
                       ps::to_pinned,
                       {.workers = 2, .depth = 3, .epochs = 3, .batch = slot, .drop_last = true}} |
            ps::AsyncCopier{device, {.batch = batch, .depth = 2}};
        const std::uint64_t kept = 1003 / batch * batch * 3;
        CHECK(pipeline.batches_a_run() == kept / batch);
        for (int times = 0; times < 2; ++times) {
          const Run run = device_run(pipeline, stream);
          CHECK(run.all() == whole_batches(1003, batch, 3));
          CHECK(run.is_of(batch));
          check_report(pipeline.report(), 3009, kept);
        }
      }
    }
  }
}

TEST_CASE("records that were skipped are filled up on a device, and only an epoch's end counts") {
  // Of 1000 records 100 are bad, the epoch's last among them.
  const auto bad = [](const Number& in, Number& out) {
    out = in;
    if (in % 10 == 9) {
      throw std::runtime_error{"bad"};
    }
  };
  std::vector<Number> good;
  for (Number i = 0; i < 1000; ++i) {
    if (i % 10 != 9) {
      good.push_back(i);
    }
  }
  ps::HostDevice device{{.late_seed = 3}};
  auto stream = device.stream();
  for (const std::size_t batch : {64, 90, 400, 899, 901}) {
    CAPTURE(batch);
    auto read = [&](auto... to) {
      return ps::Reader{numbers(1000),
                        {.workers = 2, .epochs = 4, .batch = 10, .drop_last = true}} |
             ps::Decoder{bad, to..., {.workers = 3, .on_error = {.skips = 1000}}};
    };
    auto pipeline = read(ps::to_pinned) | ps::AsyncCopier{device, {.batch = batch}};
    std::vector<Number> expected;
    for (int epoch = 0; epoch < 4; ++epoch) {
      expected.insert(expected.end(), good.begin(),
                      good.begin() + static_cast<std::ptrdiff_t>(900 / batch * batch));
    }
    const Run run = device_run(pipeline, stream);
    CHECK(run.all() == expected);
    CHECK(run.is_of(batch));
    CHECK(pipeline.report().skipped == 400);
    CHECK(pipeline.report().dropped == 4 * 900 - expected.size());
    CHECK(pipeline.report().records == expected.size());

    // The numbers in the source stay right behind what was left out.
    std::vector<Number> sources;
    auto back = read(ps::to_pinned) | ps::AsyncCopier{device, {.batch = batch}} |
                ps::AsyncCopier{ps::to_host, {.batch = 70}} |
                ps::Decoder{[](const Number& in, Number& out) {
                              out = in;
                              if (in % 10 == 8) {
                                throw std::runtime_error{"bad too"};
                              }
                            },
                            {.workers = 1, .on_error = {.skips = 1000}}};
    for (auto one : back.batches()) {
      CHECK(one.source_index() == one.data()[0]);
      sources.insert(sources.end(), one.data(), one.data() + one.size());
    }
    for (const ps::SkippedItem& item : back.report().skips) {
      CHECK(item.record % 10 == (item.stage == "Decoder" ? 9 : 8));
    }
    std::erase_if(expected, [](Number i) { return i % 10 == 8; });
    CHECK(sources == expected);
    CHECK(back.report().skipped == 400 + back.report().stages[4].skipped);
  }
  // A slot that a record was left out of is a batch like any other, also at an epoch's end.
  auto host = ps::Reader{numbers(1000), {.batch = 100, .drop_last = true}} |
              ps::Decoder{bad, {.on_error = {.skips = 1000}}};
  CHECK(host_run(host).all() == good);
}

namespace {

using Twice = ps::Batch<Number, ps::Device>;
void twice(OnDevice in, Twice out, ps::HostStream& stream) {
  stream.enqueue([in, out] {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out.data()[i] = in.data()[i * in.size() / out.size()];
    }
  });
}

} // namespace

TEST_CASE("Kernels get whole batches alone, and what comes back spans no two epochs") {
  ps::HostDevice device{{.late_seed = 4}};
  const auto read = [&](std::size_t batch) {
    return ps::Reader{numbers(1000),
                      ps::to_pinned,
                      {.workers = 2, .epochs = 3, .batch = 40, .drop_last = true}} |
           ps::AsyncCopier{device, {.batch = batch}};
  };
  for (const std::size_t batch : {30, 64, 300}) {
    for (const std::size_t landing : {16, 64, 170}) {
      CAPTURE(batch, landing);
      auto same =
          read(batch) | ps::Kernel{twice} | ps::AsyncCopier{ps::to_host, {.batch = landing}};
      auto half = read(batch) | ps::Kernel{twice, {.gives = 1, .per = 2}} |
                  ps::AsyncCopier{ps::to_host, {.batch = landing}};
      const std::uint64_t kept = 1000 / batch * batch;
      const Run whole = host_run(same);
      CHECK(whole.all() == whole_batches(1000, batch, 3));
      CHECK(whole.batches.size() == 3 * ((kept + landing - 1) / landing));
      CHECK(whole.batches.size() <= same.batches_a_run());
      for (const Run::One& one : whole.batches) {
        CHECK(one.epoch == one.index / kept);
        CHECK(one.epoch == (one.index + one.numbers.size() - 1) / kept);
      }
      check_report(same.report(), 3000, 3 * kept);
      const Run run = host_run(half);
      CHECK(run.all().size() == 3 * kept / 2);
      CHECK(run.batches.size() == 3 * ((kept / 2 + landing - 1) / landing));
      CHECK(run.batches.size() <= half.batches_a_run());
      CHECK(half.report().dropped == 3 * (1000 - kept));
      CHECK(half.report().records == 3 * kept / 2);
    }
  }
}

TEST_CASE("a replayed Consumer never gets a short batch") {
  ps::HostDevice device;
  for (const bool drop_last : {true, false}) {
    CAPTURE(drop_last);
    std::mutex mutex;
    std::vector<std::size_t> sizes;
    auto pipeline =
        ps::Reader{numbers(1000), ps::to_pinned, {.epochs = 4, .drop_last = drop_last}} |
        ps::AsyncCopier{device, {.batch = 30}} |
        ps::Consumer{ps::replayed(
            [&](ps::FrozenBatch<const Number, ps::Device> batch, ps::HostStream& stream) {
              stream.enqueue([&, size = batch.size()] {
                const std::scoped_lock lock{mutex};
                sizes.push_back(size);
              });
            })};
    const ps::Report& report = pipeline.run();
    CHECK(report.records == (drop_last ? 3960 : 4000));
    CHECK(report.dropped == (drop_last ? 40 : 0));
    CHECK(sizes.size() == (drop_last ? 132 : 136));
    CHECK(std::ranges::count(sizes, 10) == (drop_last ? 0 : 4));
  }
}

TEST_CASE("two ways to the device, one after the other: each leaves out its short batches") {
  ps::HostDevice device{{.late_seed = 5}};
  auto stream = device.stream();
  for (const std::size_t landing : {16, 50, 170}) {
    CAPTURE(landing);
    auto pipeline =
        ps::Reader{numbers(1000), ps::to_pinned, {.workers = 2, .epochs = 3, .drop_last = true}} |
        ps::AsyncCopier{device, {.batch = 300}} | ps::AsyncCopier{ps::to_host, {.batch = landing}} |
        ps::AsyncCopier{device, {.batch = 70}};
    const Run run = device_run(pipeline, stream);
    CHECK(run.is_of(70));
    std::vector<Number> expected(3 * (900 / 70 * 70));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = i % (900 / 70 * 70);
    }
    CHECK(run.all() == expected);
    CHECK(pipeline.report().dropped == 3000 - expected.size());
    CHECK(pipeline.batches_a_run() == run.batches.size());
  }
}

namespace {

struct Text : ps::Columns<ps::Field<"id", Number>, ps::Field<"text", ps::Ragged<char>>> {};

// Record i has i % 5 letters. With lengths() several workers fill a slot.
template <bool Lengths> struct Texts {
  using schema = Text;
  std::uint64_t records;

  std::uint64_t size() const { return records; }
  void lengths(std::uint64_t first, std::span<std::uint64_t> to) const
    requires(Lengths)
  {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = (first + i) % 5;
    }
  }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Text, Where> into) const {
    for (std::size_t i = 0; i < into.size(); ++i) {
      ps::get<"id">(into)[i] = into.index() + i;
      const std::size_t length = (into.index() + i) % 5;
      std::fill_n(ps::get<"text">(into).put(i, length), length, 'x');
    }
    return into.size();
  }
};

void ids_of(ps::Batch<const Text, ps::Pageable> in, ps::Batch<Number, ps::Pinned> out) {
  std::copy_n(ps::get<"id">(in).data(), in.size(), out.data());
}

template <class Source> void check_ragged(ps::HostDevice& device, const Source& source) {
  auto stream = device.stream();
  const ps::ReaderOptions reading{.workers = 3, .epochs = 2, .batch = 50, .drop_last = true};
  auto on_host = ps::Pipeline{std::tuple{ps::Reader{source, reading}}};
  auto copied = ps::Reader{source, ps::to_pinned, reading} | ps::AsyncCopier{device};
  auto by_the_copier =
      ps::Reader{source, ps::to_pinned, {.workers = 3, .epochs = 2, .drop_last = true}} |
      ps::AsyncCopier{device, {.batch = 50}};
  std::vector<std::vector<Number>> ids(3);
  const auto keep = [](std::vector<Number>& to, const auto& batch, std::uint64_t index) {
    CHECK(batch.size() == 50);
    CHECK(batch.index() == index);
    const auto id = ps::get<"id">(batch);
    to.insert(to.end(), id.data(), id.data() + id.size());
  };
  for (auto batch : on_host.batches()) {
    keep(ids[0], batch, ids[0].size());
  }
  for (auto batch : copied.on(stream)) {
    stream.sync();
    keep(ids[1], batch, ids[1].size());
  }
  for (auto batch : by_the_copier.on(stream)) {
    stream.sync();
    keep(ids[2], batch, ids[2].size());
  }
  CHECK(ids == std::vector<std::vector<Number>>(3, whole_batches(333, 50, 2)));
  for (const ps::Report& report : {on_host.report(), copied.report(), by_the_copier.report()}) {
    CHECK(report.dropped == 66);
    CHECK(report.records == 600);
    CHECK(report.stages.front().records == 666);
  }
  for (const std::uint64_t batches :
       {on_host.batches_a_run(), copied.batches_a_run(), by_the_copier.batches_a_run()}) {
    CHECK(batches == 12);
  }
}

} // namespace

TEST_CASE("with a Ragged column a slot is the batch that is left out") {
  ps::HostDevice device;
  check_ragged(device, Texts<false>{333});
  check_ragged(device, Texts<true>{333});
}

TEST_CASE("Ragged columns that a Decoder makes fixed ones of: the copier's batches count") {
  ps::HostDevice device;
  auto stream = device.stream();
  for (const bool drop_last : {true, false}) {
    for (const std::size_t batch : {20, 64}) {
      CAPTURE(drop_last, batch);
      auto pipeline =
          ps::Reader{Texts<true>{333}, {.epochs = 2, .batch = 50, .drop_last = drop_last}} |
          ps::Decoder{ids_of, {.workers = 2}} | ps::AsyncCopier{device, {.batch = batch}};
      const Run run = device_run(pipeline, stream);
      CHECK(run.all() == (drop_last ? whole_batches(333, batch, 2) : whole_batches(333, 1, 2)));
      CHECK(pipeline.batches_a_run() == run.batches.size());
    }
  }
}

TEST_CASE("where a batch is a slot, drop_last wants to know its size") {
  ps::HostDevice device;
  const auto refused = [](auto pipeline) {
    const auto error = tests::caught<ps::OptionError>([&] { pipeline.prepare(); });
    CHECK(tests::has(error, "Reader: drop_last"));
    CHECK(tests::has(error, "give the Reader a .batch"));
  };
  const ps::ReaderOptions reading{.drop_last = true};
  refused(ps::Pipeline{std::tuple{ps::Reader{numbers(100), reading}}});
  refused(ps::Reader{numbers(100), reading} | ps::Decoder{copy});
  refused(ps::Reader{Texts<true>{100}, ps::to_pinned, reading} | ps::AsyncCopier{device});
  auto fills_up = ps::Reader{numbers(100), ps::to_pinned, reading} | ps::AsyncCopier{device};
  fills_up.prepare();
  CHECK(fills_up.batches_a_run() == 0); // a batch of 4 MiB has more
}

TEST_CASE("a run that is stopped counts what it drops at its end and at an epoch's together") {
  ps::HostDevice device;
  auto stream = device.stream();
  auto pipeline =
      ps::Reader{numbers(1000),
                 ps::to_pinned,
                 {.workers = 2, .depth = 2, .epochs = 100, .batch = 10, .drop_last = true}} |
      ps::AsyncCopier{device, {.batch = 300}};
  auto run = pipeline.on(stream);
  for (int batch = 0; batch < 5; ++batch) {
    CHECK(run.next().size() == 300);
  }
  run = {};
  const ps::Report report = pipeline.report();
  CHECK(report.stopped);
  CHECK(report.records == 1500);
  CHECK(report.dropped == report.stages.front().records - 1500);
  CHECK(report.dropped >= 100);
}
