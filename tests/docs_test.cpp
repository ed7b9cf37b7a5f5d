// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// The code of docs/, word for word, and checks that it does what the pages say. Code that needs a
// GPU is in cuda/docs_test.cu; tools/check_docs.py compares both with the pages.

#include <penstock/callables/deferred.hpp>
#include <penstock/callables/scratch.hpp>
#include <penstock/detail/workers/part_by_part.hpp>
#include <penstock/diagnose/verdict.hpp>
#include <penstock/formats/mnist.hpp>
#include <penstock/formats/npy.hpp>
#include <penstock/formats/npz.hpp>
#include <penstock/formats/packed.hpp>
#include <penstock/formats/packed/packed_writer.hpp>
#include <penstock/formats/tokens.hpp>
#include <penstock/host/algorithm.hpp>
#include <penstock/io/uring.hpp>
#include <penstock/order/permutation.hpp>
#include <penstock/penstock.hpp>
#include <penstock/sources/any_source.hpp>
#include <penstock/sources/concat.hpp>
#include <penstock/sources/mix.hpp>
#include <penstock/sources/slice.hpp>
#include <penstock/sources/where.hpp>
#include <penstock/sources/windows.hpp>

#include "support/catch.hpp"
#include "support/format_files.hpp"
#include "support/temp_dir.hpp"
#include "support/zip_files.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <pthread.h>
#include <unistd.h>

namespace ps = penstock;

namespace {

struct MyError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Sample
    : ps::Columns<ps::Field<"image", std::uint8_t, 3, 224, 224>, ps::Field<"label", std::int32_t>> {
};

struct Digit
    : ps::Columns<ps::Field<"pixels", std::uint8_t, 28, 28>, ps::Field<"label", std::uint8_t>> {};

struct Trainer {
  ps::AnyBatches<ps::Batch<const Sample, ps::Device>> data;
  std::size_t samples = 0;

  void epoch() {
    for (auto batch : data.batches()) {
      samples += batch.size();
    }
  }
};

struct Text : ps::Columns<ps::Field<"text", ps::Ragged<char>>, ps::Field<"label", std::int32_t>> {};

struct Counts {
  void operator()(ps::Batch<const std::uint8_t, ps::Pageable> bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      ++of[bytes.data()[i]];
    }
  }
  std::array<std::uint64_t, 256> of{};
};

class FlipNode final : public ps::detail::Node {
 public:
  FlipNode(ps::detail::NodeSetup setup, ps::detail::Shared<ps::detail::HostLink> in,
           ps::detail::Shared<ps::detail::HostLink> out)
      : Node{std::move(setup)}, in_{std::move(in)}, out_{std::move(out)} {}

 private:
  void reset() override { out_->reset(); }
  void work(unsigned /*worker*/, ps::detail::Meter& meter) override {
    ps::detail::slot_by_slot(*in_, *out_, meter, [this](const auto& from, auto& to) {
      const std::byte* bytes = in_->memory.data(from.place());
      std::transform(bytes, bytes + in_->memory.used(from.place(), from.slot().units),
                     out_->memory.data(to.place()), [](std::byte byte) { return ~byte; });
      to.slot().source.take(from.slot().source);
      return true;
    });
  }

  const ps::detail::Shared<ps::detail::HostLink> in_;
  const ps::detail::Shared<ps::detail::HostLink> out_;
};

class Flip : public ps::StageBase {
 public:
  template <class Given> using takes = ps::detail::moved_t<Given, ps::Pageable>;
  template <class Given> using gives = takes<Given>;

  template <class Given, class D> void build(ps::detail::Build<D>& build) const {
    const auto in = build.host_input();
    const auto out =
        build.template host_output<ps::Pageable>("Flip", 4, in->layout(), ps::Side::many);
    build.template add<FlipNode>(build.setup("Flip", 2), in, out);
  }
};

/// Catches the text of a stream while it lives.
class Captured {
 public:
  explicit Captured(std::ostream& stream) : stream_{stream}, before_{stream.rdbuf(text_.rdbuf())} {}
  ~Captured() { stream_.rdbuf(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::ostream& stream_;
  std::streambuf* before_;
};

// A pipeline of sixteen batches, with 50 ms of work on each.
auto slow_pipeline() {
  const auto numbers = [](std::span<int> out, std::uint64_t) { std::ranges::fill(out, 1); };
  return ps::Reader{ps::generate<int>(16, numbers), {.batch = 1}} |
         ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {
           std::this_thread::sleep_for(std::chrono::milliseconds{50});
         }};
}

struct IsOdd {
  PENSTOCK_HD bool operator()(int number) const { return number % 2 != 0; }
};

struct Photo {
  std::uint64_t number;
};
auto photos_from(std::uint64_t first, std::uint64_t count) {
  return ps::generate<Photo>(count, [first](std::span<Photo> out, std::uint64_t index) {
    for (Photo& photo : out) {
      photo.number = first + index++;
    }
  });
}
template <class S> std::vector<std::uint64_t> numbers_of(const S& source) {
  std::vector<std::uint64_t> numbers;
  auto pipeline =
      ps::Reader{source} | ps::Consumer{[&](ps::Batch<const Photo, ps::Pageable> some) {
                                          for (std::size_t i = 0; i < some.size(); ++i) {
                                            numbers.push_back(some.data()[i].number);
                                          }
                                        },
                                        {.workers = 1}};
  pipeline.run();
  return numbers;
}

int total(ps::Batch<const int, ps::Pinned> numbers) {
  return std::accumulate(numbers.data(), numbers.data() + numbers.size(), 0);
}

void add_up(ps::Batch<const int, ps::Device> numbers, int* sum, ps::HostStream& stream) {
  stream.enqueue(
      [=] { *sum = std::accumulate(numbers.data(), numbers.data() + numbers.size(), 0); });
}

std::vector<int> one_to(int last) {
  std::vector<int> numbers(static_cast<std::size_t>(last));
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

} // namespace

TEST_CASE("errors: a run's error has the cause's text, and the cause nested") {
  const auto fails = [](std::span<int>, std::uint64_t) { throw MyError{"no such class: 7"}; };
  auto pipeline = ps::Reader{ps::generate<int>(1000, fails), {.workers = 1}} |
                  ps::Consumer{[](ps::Batch<const int, ps::Pageable>) {}};
  const Captured said{std::cerr};
  std::string caught;
  try {
    pipeline.run();
  } catch (const ps::StageError& error) {
    std::cerr << error.what() << '\n'; // the cause's text is part of it
    try {
      std::rethrow_if_nested(error);
    } catch (const MyError& cause) {
      caught = cause.what();
    }
  }
  CHECK(caught == "no such class: 7");
  CHECK(said.text() == "penstock: Reader failed at record 0: no such class: 7\n");
}

TEST_CASE("errors: Ctrl-C stops a run") {
  std::uint64_t batches = 0;
  const auto ones = [](std::span<int> out, std::uint64_t) -> std::size_t {
    std::ranges::fill(out, 1);
    return out.size();
  };
  auto pipeline = ps::Reader{ps::generate<int>(ones), {.workers = 1, .batch = 64}} |
                  ps::Consumer{[&](ps::Batch<const int, ps::Pageable>) {
                    if (++batches == 3) {
                      kill(getpid(), SIGINT); // the whole program is sent it, as by Ctrl-C
                    }
                  }};
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr); // in main(): threads started later take it over

  std::stop_source stop;
  std::thread{[ends, stop] {
    int signal = 0;
    sigwait(&ends, &signal);
    stop.request_stop();
  }}.detach();
  const ps::Report& report = pipeline.run({.stop = stop.get_token()});
  CHECK(report.stopped);
  CHECK(batches >= 3);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_CASE("stages: some records of a source, and those of several, are a source") {
  const auto photos = photos_from(0, 1010);
  const auto held_out = ps::take(photos, 1000);      // records 0 to 999
  const auto others = ps::drop(photos, 1000);        // record 0 of these is record 1000 of photos
  const auto hard = ps::where(others, {7, 3, 7});    // three records
  const auto train = ps::concat(others, hard, hard); // all of others, then the three twice
  CHECK(numbers_of(held_out).size() == 1000);
  CHECK(numbers_of(train) == std::vector<std::uint64_t>{1000, 1001, 1002, 1003, 1004, 1005, 1006,
                                                        1007, 1008, 1009, 1007, 1003, 1007, 1007,
                                                        1003, 1007});
}

TEST_CASE("stages: a list of sources of any types is a source") {
  const auto photos = photos_from(0, 100);
  const ps::tests::TempDir dir;
  std::vector<std::string> paths;
  for (const std::uint64_t number : {500U, 600U}) {
    paths.push_back(dir.write(std::to_string(number), std::as_bytes(std::span{&number, 1})));
  }
  std::vector<ps::AnySource<Photo>> days;
  for (const std::string& path : paths) {
    days.push_back(ps::records<Photo>(path));
  }
  days.push_back(ps::take(photos, 10));
  const auto week = ps::concat(days);
  CHECK(numbers_of(week) == std::vector<std::uint64_t>{500, 600, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("stages: a mix takes of each source as its weight says, and a mix of mixes, too") {
  const auto web = photos_from(0, 100);
  const auto books = photos_from(0, 50);
  const auto photos = photos_from(0, 10);
  auto mixed = ps::mix<Photo>({{web, 7}, {books, 3}});
  std::vector<ps::Share<Photo>> shares{{mixed, 9}};
  shares.push_back({.source = photos, .weight = 1});
  auto both = ps::mix<Photo>(shares);
  both.open();
  std::array<int, 3> came{};
  for (std::uint64_t visit = 0; visit < 1000; ++visit) {
    const std::uint64_t record = both.record_of(visit, 1337);
    ++came[record < 100 ? 0 : record < 150 ? 1 : 2];
  }
  CHECK(came == std::array<int, 3>{630, 270, 100});
}

TEST_CASE("stages: a Decoder cuts texts at random, alike for any number of workers") {
  const auto cut = [](ps::Row<const Text> in, ps::Row<Text> out, ps::Visit visit) {
    const auto text = ps::get<"text">(in);
    if (text.size() == 0) {
      throw MyError{"an empty text"}; // with .on_error this record alone is left out
    }
    std::seed_seq seed{std::uint64_t{1337}, visit.record, visit.epoch};
    std::minstd_rand random{seed};
    const std::size_t first = random() % text.size();
    const std::size_t count = text.size() - first;
    std::copy_n(text.data() + first, count, ps::put<"text">(out, count));
    ps::get<"label">(out) = ps::get<"label">(in);
  };
  const auto spell = [](const int& in, ps::Row<Text> out) {
    std::fill_n(ps::put<"text">(out, in % 10), in % 10, 'a');
    ps::get<"label">(out) = in;
  };
  std::vector<int> numbers(200);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<std::vector<std::size_t>> lengths;
  for (const unsigned workers : {1U, 4U}) {
    auto& of_run = lengths.emplace_back();
    auto pipeline = ps::Reader{ps::memory(numbers), {.epochs = 2}} | ps::Decoder{spell} |
                    ps::Decoder{cut, {.workers = workers, .on_error = {.skips = 40}}} |
                    ps::Consumer{[&](ps::Batch<const Text, ps::Pageable> batch) {
                      for (std::size_t i = 0; i < batch.size(); ++i) {
                        of_run.push_back(ps::get<"text">(batch)[i].size());
                      }
                    }};
    CHECK(pipeline.run().skipped == 40);
    CHECK(of_run.size() == 360);
    CHECK(!std::equal(of_run.begin(), of_run.begin() + 180, of_run.begin() + 180));
  }
  CHECK(lengths[0] == lengths[1]);
}

TEST_CASE("stages: workers count bytes by themselves, and hand in what they have") {
  std::vector<std::uint8_t> bytes(100'000);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  std::array<std::uint64_t, 256> all{};
  auto pipeline = ps::Reader{ps::memory(bytes)} |
                  ps::Consumer{ps::each_worker([] { return Counts{}; },
                                               [&](Counts& part) { // no lock: one after the other
                                                 for (std::size_t i = 0; i < all.size(); ++i) {
                                                   all[i] += std::exchange(part.of[i], 0);
                                                 }
                                               }),
                               {.workers = 4}};
  for (int run = 0; run < 2; ++run) {
    all = {};
    pipeline.run();
    bool right = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      right = right && all[i] == 390 + (i < 160 ? 1U : 0U);
    }
    CHECK(right);
  }
}

TEST_CASE("stages: a class can be handed its data as AnyBatches") {
  ps::HostDevice device;
  auto stream = device.stream();
  const auto black = [](ps::Batch<const std::uint8_t, ps::Pageable> in,
                        ps::Batch<Sample, ps::Pinned> out) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      std::memset(ps::get<"image">(out)[i], in.data()[i], 3 * 224 * 224);
      ps::get<"label">(out)[i] = 0;
    }
  };
  const auto zeros = [](std::span<std::uint8_t> out, std::uint64_t) { std::ranges::fill(out, 0); };
  auto pipeline = ps::Reader{ps::generate<std::uint8_t>(20, zeros)} | ps::Decoder{black} |
                  ps::AsyncCopier{device, {.batch = 6}};

  Trainer trainer{ps::AnyBatches<ps::Batch<const Sample, ps::Device>>{std::move(pipeline), stream}};
  trainer.epoch();
  CHECK(trainer.samples == 20);
  trainer.epoch();
  CHECK(trainer.samples == 40);
  using Image = decltype(ps::get<"image">(std::declval<ps::Batch<const Sample, ps::Device>>())[0]);
  CHECK(std::is_same_v<Image, const std::uint8_t(&)[3][224][224]>);
}

TEST_CASE("stages: a run shows its progress, and would stop if nothing moved") {
  const Captured said{std::cerr};
  auto pipeline = slow_pipeline();
  pipeline.run({.progress = [](const ps::Report& so_far) { std::cerr << so_far; },
                .stalled =
                    [&](const ps::Stall& stall) {
                      std::cerr << stall.stage << ' ' << stall.reason << '\n';
                      pipeline.stop();
                    }});
  CHECK(said.text().find("held back by: Consumer") != std::string::npos);
  CHECK(pipeline.report().records == 16);
  CHECK(!pipeline.report().stopped);
}

TEST_CASE("stages: prepare tells how many files it has opened") {
  const ps::tests::TempDir dir;
  dir.write("a", "abc");
  dir.write("b", "def");
  const Captured said{std::cerr};
  auto pipeline = ps::Reader{ps::records<char>(dir.path())} |
                  ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  pipeline.prepare({.progress = [](const ps::Preparation& so_far) {
    std::cerr << so_far.files << " of " << so_far.files_in_all << " files\r";
  }});
  CHECK(said.text().ends_with("2 of 2 files\r"));
  CHECK(pipeline.run().records == 6);
}

TEST_CASE("stages: few records are on their way, and none waits for others") {
  using namespace std::chrono_literals;
  const auto source = ps::generate<int>(5000, [](std::span<int> out, std::uint64_t first) {
    std::iota(out.begin(), out.end(), static_cast<int>(first));
  });
  std::size_t largest = 0;
  const auto react = [&](ps::Batch<const int, ps::Pageable> batch) {
    largest = std::max(largest, batch.size());
  };
  auto live = ps::Reader{source, {.ahead = 1000, .flush = 10ms}} | ps::Consumer{react};
  CHECK(live.run().records == 5000);
  CHECK(largest <= 1000);
}

TEST_CASE("stages: options may follow from what of the machine may be used") {
  const std::uint64_t data_bytes = 1'000'000;
  const unsigned decoders = std::max(ps::usable_processors() / 4, 1U);
  const bool fits = data_bytes <= ps::usable_memory() / 2;
  CHECK(decoders >= 1);
  CHECK(decoders <= std::max(std::thread::hardware_concurrency(), 4U) / 4);
  CHECK(fits);
}

TEST_CASE("stages: what a Kernel selects in scratch memory comes home, as much as there is") {
  ps::HostDevice device;
  const auto numbers = one_to(1000);
  int sum = 0;
  ps::Scratch scratch{device, 1 << 20};
  auto pipeline =
      ps::Reader{ps::memory(numbers), ps::to_pinned} | ps::AsyncCopier{device} |
      ps::Kernel{[&](ps::Batch<const int, ps::Device> in,
                     ps::Batch<ps::Counted<int>, ps::Device> out,
                     ps::Stream<ps::HostDevice> stream) {
        auto frame = scratch.on(stream);
        auto workspace = frame.workspace();
        ps::select(stream, in.data(), in.size(), IsOdd{}, out.data(), out.count(), workspace);
      }} |
      ps::AsyncCopier{ps::to_host} |
      ps::Consumer{[&](ps::Batch<const int, ps::Pinned> odd) { sum += total(odd); }};
  CHECK(pipeline.run().records == 500);
  CHECK(sum == 500 * 500);
}

TEST_CASE("stages: a loop's results are read when it is over") {
  ps::HostDevice device;
  auto stream = device.stream();
  const auto sum = ps::device_array<int>(device, 1);
  const auto numbers = one_to(9);
  const Captured said{std::cout};
  auto data =
      ps::Reader{ps::memory(numbers), ps::to_pinned} | ps::AsyncCopier{device, {.batch = 4}};
  auto sums = ps::deferred<int>(device, {.results = data.batches_a_run()});
  for (auto batch : data.on(stream)) {
    add_up(batch, sum.data(), stream); // leaves its result in device memory
    sums.put(sum.data(), stream);      // and would wait here, if it were read here
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    std::cout << sums[i].get() << '\n';
  }
  CHECK(said.text() == "10\n26\n9\n");
}

TEST_CASE("order: a source reads in the order of a permutation") {
  std::vector<float> data(5000);
  std::iota(data.begin(), data.end(), 0.0F);
  std::vector<std::vector<float>> epochs;
  for (const std::uint64_t epoch : {0U, 1U}) {
    const ps::Permutation order{data.size(), 1337, epoch}; // how many, a seed, which epoch
    const auto shuffled =
        ps::generate<float>(order.size(), [&](std::span<float> out, std::uint64_t first) {
          for (std::size_t i = 0; i < out.size(); ++i) {
            out[i] = data[order(first + i)];
          }
        });
    auto& seen = epochs.emplace_back();
    auto pipeline =
        ps::Reader{shuffled} | ps::Consumer{[&](ps::Batch<const float, ps::Pageable> batch) {
          seen.insert(seen.end(), batch.data(), batch.data() + batch.size());
        }};
    pipeline.run();
    CHECK(seen[order.inverse(17)] == 17);
  }
  const bool same = epochs[0] == data || epochs[0] == epochs[1];
  CHECK_FALSE(same);
  std::ranges::sort(epochs[0]);
  const bool all = epochs[0] == data;
  CHECK(all);
}

TEST_CASE("overview: a machine that a HostDevice pretends to be") {
  const std::vector<std::int32_t> numbers(5'000'000, 1);
  ps::HostDevice gpu{{.to_device_bytes_per_s = 50e6, // a bus, which all streams share
                      .to_host_bytes_per_s = 100e6,  // another one, for the way back
                      .launch_s = 5e-6,              // a launch keeps its caller
                      .kernel_s = 0.002,             // and its kernel the device
                      .memory_bytes = std::uint64_t{1} << 30}};
  int batches = 0;
  auto pipeline =
      ps::Reader{ps::memory(numbers), ps::to_pinned} | ps::AsyncCopier{gpu, {.batch = 100'000}} |
      ps::Consumer{[&](ps::Batch<const std::int32_t, ps::Device> in, ps::HostStream& stream) {
        stream.enqueue([in, &batches] { batches += in.data()[0]; });
      }};
  const ps::Report report = pipeline.run();
  CHECK(report.limiting_stage == "AsyncCopier");
  CHECK(report.seconds >= 0.4);
  CHECK(batches == 50);
}

TEST_CASE("lifetimes: a batch is used on a second stream") {
  std::vector<int> numbers(4000);
  std::iota(numbers.begin(), numbers.end(), 1);
  ps::HostDevice device{{.late_seed = 3}};
  auto data = ps::Reader{ps::memory(numbers), ps::to_pinned} |
              ps::AsyncCopier{device, {.batch = 10, .depth = 2}};
  auto stream = device.stream();
  auto other = device.stream();
  std::int64_t sum = 0;
  const auto use = [&sum](const auto& batch, ps::HostStream& on) {
    on.enqueue([first = batch.data(), n = batch.size(), &sum] {
      std::this_thread::sleep_for(std::chrono::microseconds{50});
      sum = std::accumulate(first, first + n, sum);
    });
  };

  auto event = device.event();
  for (auto batch : data.on(stream)) {
    device.record(event, stream);
    device.wait(other, event); // else `other` may come before the batch
    use(batch, other);
    batch.used_on(other); // else the next batch may overwrite this one
  }

  other.sync();
  CHECK(sum == 4000 * 4001 / 2);
}

TEST_CASE("order: a loop over epochs, and what comes behind each") {
  const std::vector<int> numbers(1000, 1);
  ps::HostDevice device;
  auto stream = device.stream();
  auto data =
      ps::Reader{ps::memory(numbers), ps::to_pinned, {.epochs = 3, .order = {.shuffle = 1}}} |
      ps::AsyncCopier{device, {.batch = 64}};
  std::size_t records = 0;
  std::vector<std::uint64_t> validated;
  const auto step = [&](const auto& batch, ps::HostStream&) { records += batch.size(); };
  const auto validate = [&](std::uint64_t epoch) {
    validated.push_back(epoch);
    CHECK(records == 1000 * validated.size());
  };

  for (auto epoch : data.epochs(stream)) {
    for (auto batch : epoch) {
      step(batch, stream);
    }
    validate(epoch.number()); // from 0
  }

  CHECK(validated == std::vector<std::uint64_t>{0, 1, 2});
}

TEST_CASE("stages: what Feeds says of a Reader and an AsyncCopier, with and without a stager") {
  using Pageable = decltype(ps::Reader{ps::records<float>("x")});
  using Pinned = decltype(ps::Reader{ps::records<float>("x"), ps::to_pinned});
  using Copier = ps::AsyncCopier<ps::HostDevice>;
  CHECK(!ps::Feeds<Pageable, Copier>);
  CHECK(ps::Feeds<Pageable, ps::PinnedStager<>>);
  CHECK(ps::Feeds<Pinned, Copier>);
}

TEST_CASE("docs/order.md: a shuffle, its quality, ranks, positions") {
  const penstock::tests::TempDir dir;
  std::vector<std::uint32_t> all(1000);
  std::iota(all.begin(), all.end(), 0U);
  const std::string path = dir.write("numbers", std::as_bytes(std::span{all}));

  auto pipeline =
      ps::Reader{ps::records<std::uint32_t>(path), {.epochs = 3, .order = {.shuffle = 1337}}} |
      ps::Decoder{[](const std::uint32_t& in, float& out) { out = 0.5F * in; }};

  const ps::Order order{.shuffle = 1337, .block = 1000, .window = 64};
  const double variance = order.batch_variance(256, 1'281'167); // 4.8
  CHECK(variance > 4.75);
  CHECK(variance < 4.85);

  ps::Reader reader{ps::records<std::uint32_t>(path),
                    {.order = {.shuffle = 1337, .ranks = {.rank = 2, .world = 8}}}};
  auto second =
      std::move(reader) | ps::Decoder{[](const std::uint32_t& in, float& out) { out = 0.5F * in; }};
  std::size_t share = 0;
  for (auto batch : second.batches()) {
    share += batch.size();
  }
  CHECK(share == 125);

  ps::Reader small{ps::records<std::uint32_t>(path, {}, ps::UringIo{}),
                   {.order = {.shuffle = 1337}}};
  std::uint64_t sum = 0;
  auto by_uring =
      std::move(small) | ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Pageable> batch) {
        sum = std::accumulate(batch.data(), batch.data() + batch.size(), sum);
      }};
  by_uring.run();
  CHECK(sum == 499'500);

  std::size_t rest = 0;
  std::string saved;
  for (auto batch : pipeline.batches()) {
    saved = batch.position().text(); // where the run stands when this batch is used up
    if (batch.index() >= 500) {
      break;
    }
  }
  for (auto batch : pipeline.batches({.from = ps::Position{saved}})) {
    rest += batch.size();
  }
  const ps::Position at{saved};
  CHECK(rest == 3000 - 1000 * at.epoch() - at.step());

  std::array<double, 3> sums{};
  ps::Position from;
  for (std::uint64_t epoch = 0; epoch != 3; ++epoch) {
    for (auto batch : pipeline.batches({.from = from})) {
      if (batch.epoch() != epoch) {
        break; // it comes again in the next loop
      }
      sums[epoch] += std::accumulate(batch.data(), batch.data() + batch.size(), 0.0);
      from = batch.position();
    }
  }
  CHECK(sums == std::array<double, 3>{249'750, 249'750, 249'750});
}

TEST_CASE("ranks with unevenly many records have the same position after batches that all have") {
  std::vector<std::uint32_t> all(1003);
  const std::uint64_t records = all.size();
  constexpr std::uint64_t batch_size = 16;
  const auto positions = [&](const ps::Ranks& me, const ps::Position& from) {
    auto pipeline = ps::Reader{ps::memory(all),
                               {.epochs = 2,
                                .order = {.shuffle = 7, .ranks = me, .uneven = ps::Uneven::keep},
                                .batch = batch_size}} |
                    ps::Decoder{[](const std::uint32_t& in, std::uint32_t& out) { out = in; }};
    std::vector<std::string> saved;
    std::uint64_t epoch = ~std::uint64_t{0};
    std::uint64_t batches = 0;
    for (auto batch : pipeline.batches({.from = from})) {
      batches = batch.epoch() == epoch ? batches + 1 : 1;
      epoch = batch.epoch();
      const std::uint64_t begun_at = epoch == from.epoch() ? from.step() : 0;
      const bool all_have_it = batches <= (records - begun_at) / me.world / batch_size;
      if (all_have_it) {
        saved.push_back(batch.position().text());
      }
    }
    return saved;
  };
  ps::Position from;
  for (const std::uint32_t world : {3U, 2U, 5U}) {
    const auto of_first = positions({.rank = 0, .world = world}, from);
    REQUIRE(of_first.size() > 10);
    for (std::uint32_t rank = 1; rank != world; ++rank) {
      CHECK(positions({.rank = rank, .world = world}, from) == of_first);
    }
    from = ps::Position{of_first[3]};
  }
}

TEST_CASE("a stage of the library's own kind is built, run and reported") {
  std::vector<std::uint32_t> all(100'000);
  std::iota(all.begin(), all.end(), 0U);
  std::uint64_t wrong = 0;
  std::uint64_t at = 0;
  auto pipeline = ps::Reader{ps::memory(all), {.batch = 1000}} | Flip{} |
                  ps::Consumer{[&](ps::Batch<const std::uint32_t, ps::Pageable> in) {
                    for (std::size_t i = 0; i < in.size(); ++i, ++at) {
                      wrong += in.data()[i] != ~all[at] ? 1 : 0;
                    }
                  }};
  for (int runs = 0; runs < 2; ++runs) {
    at = 0;
    const ps::Report& report = pipeline.run();
    CHECK(at == all.size());
    CHECK(wrong == 0);
    CHECK(report.stages[1].name == "Flip");
    CHECK(report.stages[1].workers == 2);
    CHECK(report.stages[1].records == all.size());
  }
}

TEST_CASE("files of arrays and tokens say what is in them") {
  using namespace ps::tests;
  const TempDir dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  dir.write("prices.npy", npy_file(npy_text("<f8", "(10,)"), std::string(80, '\0')));
  dir.write("a.npy", npy_file(npy_text("<i4", "(2, 3)"), std::string(24, '\0')));
  dir.write("b.npy", npy_file(npy_text("<i4", "(1, 3)"), std::string(12, '\0')));
  const std::vector<ZipPart> arrays{
      {.name = "label.npy", .packed = npy_file(npy_text("|u1", "(3,)"), "123")},
      {.name = "pixels.npy",
       .packed = npy_file(npy_text("|u1", "(3, 28, 28)"), std::string(2352, '\0'))}};
  dir.write("digits_0.npz", zip_file(arrays).bytes);
  dir.write("digits_1.npz", zip_file(arrays).bytes);
  dir.write("images-idx3-ubyte", idx_file(8, {3, 28, 28}, std::string(2352, '\0')));
  dir.write("labels-idx1-ubyte", idx_file(8, {3}, "123"));
  dir.write("train_0.bin", std::string(2000, '\0'));
  dir.write("train_1.bin", std::string(2200, '\0'));

  auto prices = ps::npy<double>("prices.npy");                   // a double a record
  auto rows = ps::npy<std::byte>({"a.npy", "b.npy"});            // rows as they lie, of any type
  auto saved = ps::npz<Digit>({"digits_0.npz", "digits_1.npz"}); // arrays "pixels" and "label"
  auto digits = ps::mnist<Digit>("images-idx3-ubyte", "labels-idx1-ubyte");
  auto tokens = ps::tokens<std::uint16_t>({"train_0.bin", "train_1.bin"});
  auto windows = ps::windows(tokens, {.length = 1025, .seed = 1337});

  prices.open();
  rows.open();
  saved.open();
  digits.open();
  windows.open();
  std::filesystem::current_path(before);
  CHECK(prices.size() == 10);
  CHECK(rows.size() == 3);
  CHECK(rows.record_bytes() == 12);
  CHECK(saved.size() == 6);
  CHECK(digits.size() == 3);
  CHECK(windows.size() == 1);
}

TEST_CASE("a verdict says what held a run back") {
  std::vector<int> numbers(10000);
  std::int64_t sum = 0;
  auto pipeline =
      ps::Reader{ps::memory(numbers)} | ps::Consumer{[&](ps::Batch<const int, ps::Pageable> batch) {
        sum += std::accumulate(batch.data(), batch.data() + batch.size(), 0);
      }};
  std::string text;
  {
    const Captured out{std::cout};
    const Captured err{std::cerr};
    const ps::Report report = pipeline.run();
    std::cout << report << ps::judge(report);
    if (const ps::Verdict verdict = ps::judge(report); verdict.worth_it) {
      std::cerr << verdict.stage << ": " << ps::name_of(verdict.cause) << '\n';
      for (const ps::Advice& advice : verdict.advice) {
        std::cerr << advice.change << " gains " << advice.gain << '\n';
      }
    }
    text = out.text();
  }
  CHECK(sum == 0);
  CHECK(text.find("held back by: ") != std::string::npos);
  CHECK(text.ends_with('\n'));
}

TEST_CASE("docs/sources.md: a packed file is written and read") {
  const ps::tests::TempDir dir;
  const std::string path = dir / "tokens.packed";
  const std::vector<std::uint16_t> tokens(100'000, 7);
  ps::PackedWriter writer{path, {ps::packed_column<std::uint16_t>("tokens")}};
  writer.add(0, std::as_bytes(std::span{tokens}));
  for (const ps::PackedColumnInfo& column : writer.finish()) {
    std::cout << column.name << ": " << ps::name_of(column.codec) << '\n';
  }
  auto source = ps::unpacked<std::uint16_t>(path);
  source.open();
  CHECK(source.size() == tokens.size());
}
