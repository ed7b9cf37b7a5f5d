// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Scratch memory for callables, on every device. The including file defines TestDevice and
// for_each_device(f).

#include "suite/through.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/callables/scratch.hpp>
#include <penstock/device/device_array.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace suite {

using D = TestDevice;
using Number = std::uint32_t;
using Address = std::uintptr_t;

inline Address address(const void* at) {
  return reinterpret_cast<Address>(at);
}

/// at[i] = first + i.
struct Count {
  Number* at;
  Number first;
  PENSTOCK_HD void operator()(std::size_t i) const { at[i] = first + static_cast<Number>(i); }
};
/// Counts in wrong[i] how often at[i] is not first + i.
struct Verify {
  const Number* at;
  Number first;
  Number* wrong;
  PENSTOCK_HD void operator()(std::size_t i) const {
    wrong[i] += at[i] == first + static_cast<Number>(i) ? 0 : 1;
  }
};
struct Triple {
  const Number* in;
  Number* out;
  PENSTOCK_HD void operator()(std::size_t i) const { out[i] = 3 * in[i] + 1; }
};
/// Adds the number at the mirror place to out[in[i]]: all numbers must be there before.
struct AddMirrored {
  const Number* in;
  const Number* from;
  std::size_t n;
  Number* out;
  PENSTOCK_HD void operator()(std::size_t i) const { out[in[i]] += from[n - 1 - i]; }
};
struct Mirror {
  const Number* from;
  std::size_t n;
  Number* out;
  PENSTOCK_HD void operator()(std::size_t i) const { out[i] = from[n - 1 - i]; }
};
struct AddTo {
  Number* out;
  const Number* from;
  PENSTOCK_HD void operator()(std::size_t i) const { out[i] += from[i]; }
};
struct Plus {
  PENSTOCK_HD std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
};

inline std::vector<Number> numbers(std::size_t n) {
  std::vector<Number> all(n);
  std::iota(all.begin(), all.end(), Number{0});
  return all;
}
template <class Device>
std::vector<Number> read(const ps::DeviceArray<Number, Device>& array, Device& device) {
  auto stream = device.stream();
  return array.read(stream);
}
/// Returns what AddMirrored gives for whole batches and a short one.
inline std::vector<Number> mirrored(std::size_t records, std::size_t batch, Number runs) {
  std::vector<Number> all(records);
  for (std::size_t i = 0; i < records; ++i) {
    const std::size_t first = i / batch * batch;
    const std::size_t n = std::min(batch, records - first);
    all[i] = runs * static_cast<Number>(3 * (first + n - 1 - (i - first)) + 1);
  }
  return all;
}
/// Returns the budget that a refusal asks for.
inline std::size_t cure(const std::exception& e) {
  const std::string text = e.what();
  const std::string before = "make it Scratch{device, ";
  REQUIRE(text.find(before) != std::string::npos);
  return std::stoull(text.substr(text.find(before) + before.size()));
}

TEST_CASE("scratch memory is aligned, and each piece lies behind the last") {
  for_each_device([](D& device) {
    ps::Scratch scratch{device, 10'000};
    auto stream = device.stream();
    auto frame = scratch.on(stream);
    CHECK(frame.left() == 10'240); // whole pieces of 256
    const Address first = address(frame.template take<std::byte>(1));
    CHECK(first % 256 == 0);
    CHECK(address(frame.template take<std::uint64_t>(33)) == first + 256);
    CHECK(address(frame.template take<Number>(0)) == first + 768);
    CHECK(address(frame.template take<Number>(64)) == first + 768);
    CHECK(frame.left() == 9216);
    CHECK(address(frame.template take<std::byte>(9216)) == first + 1024);
    CHECK(frame.left() == 0);
    CHECK(address(frame.template take<Number>(0)) == first + 10'240);
  });
}

TEST_CASE("scratch memory of a frame that died is taken again, and frames nest") {
  for_each_device([](D& device) {
    ps::Scratch scratch{device, 4096};
    auto stream = device.stream();
    std::set<Address> firsts;
    for (int call = 0; call < 3; ++call) {
      auto outer = scratch.on(stream);
      const Address first = address(outer.template take<std::byte>(1000));
      firsts.insert(first);
      for (int inner_call = 0; inner_call < 3; ++inner_call) {
        auto inner = scratch.on(stream);
        CHECK(address(inner.template take<std::byte>(3000)) == first + 1024);
        auto innermost = scratch.on(stream);
        CHECK(innermost.left() == 0);
      }
      CHECK(outer.left() == 3072);
      CHECK(address(outer.template take<std::byte>(1)) == first + 1024);
    }
    CHECK(firsts.size() == 1);
    CHECK(scratch.counts().frames == 3 * (1 + 3 * 2));
    CHECK(scratch.counts().most_bytes == 4096);
    CHECK(scratch.counts().refusals == 0);
  });
}

TEST_CASE("a frame gives no memory while a later one of its stream lives") {
  for_each_device([](D& device) {
    ps::Scratch scratch{device, 4096, {.streams = 2}};
    auto stream = device.stream();
    auto other = device.stream();
    auto outer = scratch.on(stream);
    {
      auto elsewhere = scratch.on(other); // a frame of another stream is not later
      CHECK(outer.template take<Number>(1) != nullptr);
      auto inner = scratch.on(stream);
      const auto e = tests::caught<ps::Error>([&] { outer.template take<Number>(1); });
      CHECK(tests::has(e, "while a later one of its stream lives"));
      CHECK_THROWS_AS(outer.workspace(1), ps::Error);
      CHECK(inner.template take<Number>(1) != nullptr);
    }
    CHECK(outer.template take<Number>(1) != nullptr);
    CHECK(scratch.counts().refusals == 2);
  });
}

TEST_CASE("more than the scratch budget is refused, and the budget that is asked for will do") {
  for_each_device([](D& device) {
    auto stream = device.stream();
    for (const unsigned streams : {1U, 3U}) {
      CAPTURE(streams);
      const auto use = [&](std::size_t bytes) {
        ps::Scratch scratch{device, bytes, {.streams = streams}};
        auto frame = scratch.on(stream);
        frame.template take<Number>(100);
        return frame.template take<std::uint64_t>(1000) != nullptr;
      };
      const auto e = tests::caught<ps::Error>([&] { use(streams * 1024); });
      CHECK(tests::has(e, "1000 times 8 bytes"));
      CHECK(tests::has(e, "the stream's 1024 bytes 512 are left"));
      CHECK(cure(e) == streams * (512 + 8192));
      CHECK(tests::has(e, ".streams = 3") == (streams == 3));
      CHECK(use(cure(e)));
      CHECK_THROWS_AS(use(cure(e) - streams * 256), ps::Error);
    }
  });
}

TEST_CASE("what is refused takes no scratch memory, and is counted") {
  for_each_device([](D& device) {
    ps::Scratch scratch{device, 1024};
    auto stream = device.stream();
    auto frame = scratch.on(stream);
    CHECK_THROWS_AS(frame.template take<std::byte>(1025), ps::Error);
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    for (const std::size_t n : {most, most / 8 + 1, most / 8 + 2, std::size_t{1} << 60}) {
      CAPTURE(n);
      const auto e = tests::caught<ps::Error>([&] { frame.template take<std::uint64_t>(n); });
      CHECK(tests::has(e, std::to_string(n) + " times 8 bytes"));
      CHECK(tests::has(e, "no device has so much"));
    }
    CHECK_THROWS_AS(frame.workspace(1025), ps::Error);
    CHECK(frame.left() == 1024);
    CHECK(frame.template take<std::byte>(1024) != nullptr);
    CHECK(scratch.counts().refusals == 6);
    CHECK(scratch.counts().most_bytes == 1024);
  });
}

TEST_CASE("each stream has its own part of the scratch memory, and one too many is refused") {
  for_each_device([](D& device) {
    ps::Scratch scratch{device, 1000, {.streams = 2}};
    auto streams = std::array{device.stream(), device.stream(), device.stream()};
    std::array<Address, 2> parts;
    for (int call = 0; call < 2; ++call) {
      for (std::size_t k = 0; k < 2; ++k) {
        auto frame = scratch.on(streams[k]);
        CHECK(frame.left() == 512);
        const Address at = address(frame.template take<std::byte>(512));
        CHECK((call == 0 || at == parts[k]));
        parts[k] = at;
      }
    }
    CHECK(parts[1] - parts[0] == 512);
    const auto e = tests::caught<ps::Error>([&] { (void)scratch.on(streams[2]); });
    CHECK(tests::has(e, "parts for 2 streams"));
    CHECK(tests::has(e, "{.streams = 3}"));
    CHECK(cure(e) == 3 * 512);
    CHECK(scratch.counts().refusals == 1);
    CHECK(scratch.counts().frames == 4);

    scratch.unbind();
    auto frame = scratch.on(streams[2]);
    CHECK(address(frame.template take<std::byte>(1)) == parts[0]);
  });
}

TEST_CASE("scratch memory for no streams, or more than there can be, is refused when it is made") {
  for_each_device([](D& device) {
    const auto make = [&](std::size_t bytes, unsigned streams) {
      return tests::caught<ps::OptionError>(
          [&] { ps::Scratch scratch{device, bytes, {.streams = streams}}; });
    };
    CHECK(tests::has(make(1024, 0), "streams is 0"));
    CHECK(tests::has(make(std::numeric_limits<std::size_t>::max(), 1), "Scratch"));
    CHECK(tests::has(make(std::numeric_limits<std::ptrdiff_t>::max() - 4096, 4096), "Scratch"));
    auto stream = device.stream();
    ps::Scratch none{device, 0};
    auto frame = none.on(stream);
    CHECK(frame.left() == 0);
    CHECK_THROWS_AS(frame.template take<std::byte>(1), ps::Error);
  });
}

TEST_CASE("streams use their scratch memory from several threads at once") {
  constexpr unsigned streams = 4;
  constexpr std::size_t n = 2000;
  constexpr Number calls = 100;
  for_each_device([&](D& device) {
    ps::Scratch scratch{device, streams * 4 * n * sizeof(Number), {.streams = streams}};
    std::vector<ps::DeviceArray<Number, D>> wrong;
    for (unsigned k = 0; k < streams; ++k) {
      wrong.emplace_back(device, n);
    }
    std::atomic<unsigned> waiting{streams}; // all bind their streams at once
    std::atomic<Number> seen{0};
    const auto work = [&](Number k) {
      const auto attached = device.attach();
      auto stream = device.stream();
      --waiting;
      while (waiting != 0) {
        std::this_thread::yield();
      }
      for (Number call = 0; call < calls; ++call) {
        const Number value = (k * calls + call) * 10'000;
        auto outer = scratch.on(stream);
        auto* const a = outer.template take<Number>(n);
        ps::for_each(stream, n, Count{a, value});
        for (Number nested = 1; nested <= 2; ++nested) { // one after the other, in the same memory
          auto inner = scratch.on(stream);
          auto* const b = inner.template take<Number>(n);
          ps::for_each(stream, n, Count{b, value + nested});
          ps::for_each(stream, n, Verify{b, value + nested, wrong[k].data()});
        }
        ps::for_each(stream, n, Verify{a, value, wrong[k].data()});
        seen += scratch.counts().frames != 0; // while other streams make their frames
      }
      device.sync(stream);
    };
    std::vector<std::thread> threads;
    for (Number k = 0; k < streams; ++k) {
      threads.emplace_back(work, k);
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const auto& each : wrong) {
      CHECK(read(each, device) == std::vector<Number>(n, 0));
    }
    CHECK(seen == streams * calls);
    CHECK(scratch.counts().frames == streams * calls * 3);
    CHECK(scratch.counts().most_bytes == 2 * 8192);
  });
}

TEST_CASE("algorithms take their workspace from scratch memory") {
  for_each_device([](D& device) {
    auto stream = device.stream();
    const std::size_t n = 100'003;
    const ps::DeviceArray<std::uint64_t, D> counts{device, 256};
    const ps::DeviceArray<std::uint64_t, D> sum{device, 1};
    ps::Scratch scratch{device, std::size_t{4} << 20};
    {
      auto frame = scratch.on(stream);
      auto* const values = frame.template take<Number>(n);
      auto usual = frame.workspace();
      CHECK(usual.size() == std::size_t{1} << 20);
      CHECK(address(usual.data()) % 256 == 0);
      CHECK(address(usual.data()) >= address(values + n));
      auto rest = frame.workspace(frame.left());
      CHECK(address(rest.data()) == address(usual.data()) + usual.size());
      CHECK(frame.left() == 0);
      ps::for_each(stream, n, Count{values, 0});
      ps::reduce(stream, static_cast<const Number*>(values), n, sum.data(), std::uint64_t{0},
                 Plus{}, usual);
      ps::histogram(stream, reinterpret_cast<const std::uint8_t*>(values), n * sizeof(Number),
                    counts.data(), rest);
    }
    std::vector<std::uint64_t> expected(256);
    for (Number i = 0; i < n; ++i) {
      for (const int shift : {0, 8, 16, 24}) {
        ++expected[(i >> shift) & 0xFF];
      }
    }
    CHECK(sum.read(stream)[0] == std::uint64_t{n} * (n - 1) / 2);
    CHECK(counts.read(stream) == expected);

    auto frame = scratch.on(stream);
    auto little = frame.workspace(1);
    const auto e =
        tests::caught<ps::Error>([&] { ps::histogram(stream, nullptr, 1, counts.data(), little); });
    CHECK(tests::has(e, "was given 1:"));
    CHECK(tests::has(e, ", or by workspace("));
  });
}

TEST_CASE("a pipeline's callable uses scratch memory for every batch") {
  constexpr std::size_t records = 300'050;
  constexpr std::size_t batch = 1000;
  const std::vector<Number> all = numbers(records);
  for_each_device([&](D& device) {
    const ps::DeviceArray<Number, D> out{device, records};
    ps::Scratch scratch{device, 2 * 4096};
    auto pipeline = ps::Reader{ps::memory(all), {.workers = 2}} | ps::PinnedStager{} |
                    ps::AsyncCopier{device, {.batch = batch}} |
                    ps::Consumer{[&, to = out.data()](ps::Batch<const Number, ps::Device> in,
                                                      ps::Stream<D> stream) {
                      auto frame = scratch.on(stream);
                      auto* const tmp = frame.template take<Number>(in.size());
                      ps::for_each(stream, in.size(), Triple{in.data(), tmp});
                      ps::for_each(stream, in.size(), AddMirrored{in.data(), tmp, in.size(), to});
                    }};
    for (Number runs = 1; runs <= 2; ++runs) {
      CHECK(pipeline.run().records == records);
      const bool equal = read(out, device) == mirrored(records, batch, runs); // too many to print
      CHECK(equal);
      CHECK(scratch.counts().frames == runs * 301);
    }
    CHECK(scratch.counts().most_bytes == 4096);
  });
}

TEST_CASE("a scratch budget that is too small ends the run and says what would do") {
  const std::vector<Number> all = numbers(10'000);
  for_each_device([&](D& device) {
    const auto use = [&](std::size_t bytes) {
      ps::Scratch scratch{device, bytes};
      auto pipeline =
          ps::Reader{ps::memory(all), ps::to_pinned} | ps::AsyncCopier{device, {.batch = 1000}} |
          ps::Consumer{[&](ps::Batch<const Number, ps::Device> in, ps::Stream<D> stream) {
            auto frame = scratch.on(stream);
            auto* const tmp = frame.template take<Number>(in.size());
            ps::for_each(stream, in.size(), Triple{in.data(), tmp});
          }};
      return pipeline.run().records;
    };
    const auto e = tests::caught<ps::StageError>([&] { use(2048); });
    CHECK(e.stage() == "Consumer");
    CHECK(use(cure(e)) == 10'000);
  });
}

TEST_CASE("replayed callables use scratch memory, which is where it was when they were captured") {
  constexpr std::size_t records = 100'050;
  constexpr std::size_t batch = 100;
  constexpr unsigned lanes = 3;
  const std::vector<Number> all = numbers(records);
  for_each_device([&](D& device) {
    const ps::DeviceArray<Number, D> out{device, records};
    ps::Scratch scratch{device, (lanes + 1) * 1024, {.streams = lanes + 1}};
    std::set<Address> seen;
    auto pipeline =
        ps::Reader{ps::memory(all), ps::to_pinned} | ps::AsyncCopier{device, {.batch = batch}} |
        ps::Consumer{ps::replayed(
            [&, to = out.data()](ps::FrozenBatch<const Number> in, ps::Stream<D> stream) {
              auto frame = scratch.on(stream);
              auto* const tmp = frame.template take<Number>(in.size());
              seen.insert(address(tmp));
              ps::for_each(stream, in.size(), Triple{in.data(), tmp});
              ps::for_each(stream, in.size(), AddMirrored{in.data(), tmp, in.size(), to});
            },
            {.lanes = lanes})};
    pipeline.prepare();
    CHECK(seen.size() == lanes);
    const std::uint64_t captured = scratch.counts().frames;
    auto other = device.stream();
    for (Number runs = 1; runs <= 3; ++runs) {
      CHECK(pipeline.run().records == records);
      const bool equal = read(out, device) == mirrored(records, batch, runs); // too many to print
      CHECK(equal);
      CHECK(scratch.counts().frames == captured + 2 * runs - 1); // the short batch makes a frame
      // Another stream gets memory that no captured work has.
      auto frame = scratch.on(other);
      auto* const at = frame.template take<Number>(256);
      CHECK(seen.count(address(at)) == 0);
      ps::for_each(other, 256, Count{at, 0});
      device.sync(other);
    }
    CHECK(seen.size() == lanes);
    CHECK(pipeline.report().stages.back().note.empty());
  });
}

TEST_CASE("kernels on several streams and the consumer after them share scratch memory") {
  constexpr std::size_t records = 200'050;
  constexpr std::size_t batch = 1000;
  const std::vector<Number> all = numbers(records);
  std::vector<Number> expected = mirrored(records, batch, 1);
  for (Number& each : expected) {
    each = 3 * each + 1;
  }
  // On 3 streams and the Consumer's; replayed in 2 lanes, the first of which gets the short batch.
  const auto check = [&](D& device, auto kernel) {
    const ps::DeviceArray<Number, D> out{device, records};
    ps::Scratch scratch{device, 4 * 4096, {.streams = 4}};
    auto pipeline = ps::Reader{ps::memory(all), ps::to_pinned} |
                    ps::AsyncCopier{device, {.batch = batch}} | kernel(scratch) |
                    ps::Consumer{[&, to = out.data()](ps::Batch<const Number, ps::Device> in,
                                                      ps::Stream<D> stream) {
                      auto frame = scratch.on(stream);
                      auto* const tmp = frame.template take<Number>(in.size());
                      ps::for_each(stream, in.size(), Triple{in.data(), tmp});
                      ps::for_each(stream, in.size(), AddTo{to + in.index(), tmp});
                    }};
    CHECK(pipeline.run().records == records);
    const bool equal = read(out, device) == expected; // too many to print
    CHECK(equal);
    CHECK(scratch.counts().refusals == 0);
    CHECK(scratch.counts().most_bytes == 4096);
  };
  const auto mirror = [](auto& scratch, auto in, auto out, ps::Stream<D> stream) {
    auto frame = scratch.on(stream);
    auto* const tmp = frame.template take<Number>(in.size());
    ps::for_each(stream, in.size(), Triple{in.data(), tmp});
    ps::for_each(stream, in.size(), Mirror{tmp, in.size(), out.data()});
  };
  for_each_device([&](D& device) {
    check(device, [&](auto& scratch) {
      return ps::Kernel{[&](ps::Batch<const Number, ps::Device> in,
                            ps::Batch<Number, ps::Device> out,
                            ps::Stream<D> stream) { mirror(scratch, in, out, stream); },
                        {.streams = 3}};
    });
    check(device, [&](auto& scratch) {
      return ps::Kernel{
          ps::replayed([&](ps::FrozenBatch<const Number> in, ps::FrozenBatch<Number> out,
                           ps::Stream<D> stream) { mirror(scratch, in, out, stream); },
                       {.lanes = 2})};
    });
  });
}

} // namespace suite
