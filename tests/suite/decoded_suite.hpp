// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Chains with Decoders, whose output must be that of a plain loop. The including file defines
// TestDevice and for_each_device(f), which calls f with each device to try.

#include "suite/kept.hpp"
#include "support/all_pairs.hpp"
#include "support/catch.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <thread>

namespace suite {

using D = TestDevice;

inline constexpr std::size_t fewer_under_tsan = tests::under_tsan ? 4 : 1;

// What a Decoder does: its input type, its output type, how one becomes the other, and how many
// records.
struct Narrowed {
  using In = std::uint32_t;
  using Out = std::uint8_t;
  static constexpr std::size_t records = 1'500'007 / fewer_under_tsan;
  static void convert(const In& in, Out& out) {
    out = static_cast<Out>((in * 2'654'435'761U) >> 24);
  }
};
struct Widened {
  using In = std::uint8_t;
  using Out = std::uint64_t;
  static constexpr std::size_t records = 500'003 / fewer_under_tsan;
  static void convert(const In& in, Out& out) { out = (in + 1U) * 0x9E3779B97F4A7C15U; }
};
struct Enlarged {
  using In = std::array<std::uint32_t, 1024>;
  using Out = std::array<std::uint32_t, 37'632>;
  static constexpr std::size_t records = 29;
  static void convert(const In& in, Out& out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = in[i % in.size()] + static_cast<std::uint32_t>(i);
    }
  }
};
struct Same {
  using In = std::uint32_t;
  using Out = std::uint32_t;
  static constexpr std::size_t records = 1'000'003 / fewer_under_tsan;
  static void convert(const In& in, Out& out) { out = in * 3 + 1; }
};

// The kinds as callables: of whole batches, which know where they are, and of single records.
template <class Kind, class Where> struct OfBatches {
  const typename Kind::In* source;
  void operator()(ps::Batch<const typename Kind::In, ps::Pageable> in,
                  ps::Batch<typename Kind::Out, Where> out) const {
    if (in.size() != out.size() || in.index() != out.index() ||
        in.source_index() != out.source_index() ||
        in.index() % Kind::records != in.source_index() ||
        in.data()[0] != source[in.source_index()]) {
      throw std::runtime_error{"a batch to decode that is not what it says"};
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      Kind::convert(in.data()[i], out.data()[i]);
    }
  }
};
template <class Kind> struct OfRecords {
  void operator()(const typename Kind::In& in, typename Kind::Out& out) const {
    Kind::convert(in, out);
  }
};
// The callable of a second Decoder.
template <class T, class Where> struct Inverts {
  void operator()(ps::Batch<const T, ps::Pageable> in, ps::Batch<T, Where> out) const {
    const auto* from = reinterpret_cast<const unsigned char*>(in.data());
    auto* to = reinterpret_cast<unsigned char*>(out.data());
    for (std::size_t i = 0; i < in.size_bytes(); ++i) {
      to[i] = static_cast<unsigned char>(~from[i]);
    }
  }
};

template <class Kind> std::vector<typename Kind::In> to_decode() {
  const auto bytes = some_bytes(Kind::records * sizeof(typename Kind::In));
  std::vector<typename Kind::In> in(Kind::records);
  std::memcpy(in.data(), bytes.data(), bytes.size());
  return in;
}
template <class Kind>
std::vector<typename Kind::Out> plain_loop(const std::vector<typename Kind::In>& in, bool twice) {
  std::vector<typename Kind::Out> out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    Kind::convert(in[i], out[i]);
  }
  if (twice) {
    for (std::byte& b : std::as_writable_bytes(std::span{out})) {
      b = ~b;
    }
  }
  return out;
}

struct DecodedRow {
  bool pinned, twice, small_slots;
  std::size_t files, batch_of_slot, epochs;
  unsigned workers;
  std::size_t depth;
};

/// The first Decoder's callable takes records or batches.
template <class Kind, bool Records> void check_decoded(const DecodedRow& row) {
  using In = typename Kind::In;
  using Out = typename Kind::Out;
  const auto in = to_decode<Kind>();
  const auto expected = plain_loop<Kind>(in, row.twice);
  const std::size_t slot = row.small_slots
                               ? Kind::records / 27
                               : ps::detail::slot_records(std::max(sizeof(In), sizeof(Out)));
  // A third of a slot, or three and a bit.
  const std::size_t batch = row.batch_of_slot == 0 ? slot / 3 + 1 : 3 * slot + slot / 2;
  const tests::TempDir dir;
  const auto paths = in_files(dir, std::as_bytes(std::span{in}), sizeof(In), row.files);
  for_each_device([&](D& device) {
    const std::size_t batches = (Kind::records / batch + 1) * row.epochs;
    Keeper<Out, D> kept{device, row.epochs * Kind::records * sizeof(Out) + 256 * batches};
    const ps::DecoderOptions decoding{.workers = row.workers, .depth = row.depth};
    const auto run = [&](auto host) {
      auto pipeline = std::move(host) |
                      ps::AsyncCopier{device, {.batch = batch, .depth = row.depth}} |
                      ps::Consumer{std::ref(kept)};
      const ps::Report& report = pipeline.run();
      CHECK(report.records == Kind::records * row.epochs);
      CHECK(kept.out_of_turn(batch, Kind::records, row.epochs) == "");
      CHECK(kept.misaligned == "");
      CHECK(hold(kept.batches, expected));
    };
    const auto then = [&](auto host, auto first, auto pinned) {
      const ps::PinnedStager stager{{.workers = 2, .depth = row.depth}};
      if (row.twice && row.pinned) {
        run(std::move(host) | std::move(first) | ps::Decoder{Inverts<Out, ps::Pinned>{}, decoding});
      } else if (row.twice) {
        run(std::move(host) | std::move(first) |
            ps::Decoder{Inverts<Out, ps::Pageable>{}, decoding} | stager);
      } else if (row.pinned) {
        run(std::move(host) | std::move(pinned));
      } else {
        run(std::move(host) | std::move(first) | stager);
      }
    };
    auto reader = ps::Reader{ps::records<In>(paths),
                             {.workers = 2,
                              .depth = row.depth,
                              .epochs = row.epochs,
                              .batch = row.small_slots ? slot : 0}};
    if constexpr (Records) {
      then(std::move(reader), ps::Decoder{OfRecords<Kind>{}, decoding},
           ps::Decoder{OfRecords<Kind>{}, ps::to_pinned, decoding});
    } else {
      then(std::move(reader), ps::Decoder{OfBatches<Kind, ps::Pageable>{in.data()}, decoding},
           ps::Decoder{OfBatches<Kind, ps::Pinned>{in.data()}, decoding});
    }
  });
}

TEST_CASE("what is decoded is what a plain loop makes, for all pairs of settings") {
  const std::array<std::size_t, 2> file_counts{1, 3};
  const std::array<unsigned, 4> workers{1, 2, 3, 7};
  const std::array<std::size_t, 3> depths{2, 3, 8};
  const auto rows =
      tests::all_pairs<9>({5, 2, 2, 2, file_counts.size(), 2, 2, workers.size(), depths.size()});
  std::printf("all pairs: %zu combinations\n", rows.size());
  for (const auto& r : rows) {
    const DecodedRow row{.pinned = r[1] == 1,
                         .twice = r[2] == 1,
                         .small_slots = r[3] == 1,
                         .files = file_counts[r[4]],
                         .batch_of_slot = r[5],
                         .epochs = r[6] + 1,
                         .workers = workers[r[7]],
                         .depth = depths[r[8]]};
    CAPTURE(r[0], row.pinned, row.twice, row.small_slots, row.files, row.batch_of_slot, row.epochs,
            row.workers, row.depth);
    switch (r[0]) {
    case 0:
      check_decoded<Narrowed, false>(row);
      break;
    case 1:
      check_decoded<Narrowed, true>(row);
      break;
    case 2:
      check_decoded<Widened, false>(row);
      break;
    case 3:
      check_decoded<Enlarged, true>(row);
      break;
    default:
      check_decoded<Same, false>(row);
    }
  }
}

// A size that is no multiple of anything.
struct Odd {
  std::array<std::uint8_t, 150'529> bytes;
};

TEST_CASE("records of 150529 bytes come out whole, decoded or not") {
  constexpr std::size_t records = 40, batch = 11;
  const auto bytes = some_bytes(records * sizeof(Odd));
  std::vector<Odd> in(records);
  std::memcpy(in.data(), bytes.data(), bytes.size());
  std::vector<Odd> inverted = in;
  for (std::byte& b : std::as_writable_bytes(std::span{inverted})) {
    b = ~b;
  }
  const tests::TempDir dir;
  const auto paths = in_files(dir, bytes, sizeof(Odd), 3);
  for_each_device([&](D& device) {
    Keeper<Odd, D> kept{device, bytes.size() + 256 * records};
    const auto check = [&](auto host, const std::vector<Odd>& expected) {
      kept.clear();
      auto pipeline = std::move(host) | ps::AsyncCopier{device, {.batch = batch}} |
                      ps::Consumer{std::ref(kept)};
      pipeline.run();
      CHECK(kept.out_of_turn(batch, records, 1) == "");
      CHECK(kept.misaligned == "");
      CHECK(hold(kept.batches, expected));
    };
    check(ps::Reader{ps::records<Odd>(paths), ps::to_pinned, {.workers = 3, .depth = 2}}, in);
    check(ps::Reader{ps::records<Odd>(paths), {.workers = 3}} |
              ps::Decoder{Inverts<Odd, ps::Pinned>{}, {.workers = 3, .depth = 2}},
          inverted);
    // A record of a run-time size is passed as its first byte.
    const auto whole = [](const std::byte& from, Odd& to) { std::memcpy(&to, &from, sizeof to); };
    check(ps::Reader{ps::records<std::byte>(paths, {.record_bytes = sizeof(Odd)})} |
              ps::Decoder{whole, {.workers = 2}} | ps::PinnedStager{{.workers = 2, .depth = 3}},
          in);
  });
}

TEST_CASE("what is appended to a file while it is read is for the next pipeline") {
  constexpr std::size_t record = 8, records = 1000, more = 250;
  const auto bytes = some_bytes((records + more + 1) * record);
  std::vector<std::uint64_t> all(records + more + 1);
  std::memcpy(all.data(), bytes.data(), bytes.size());
  const ps::ReaderOptions reading{.workers = 2, .depth = 2, .batch = 10};
  for_each_device([&](D& device) {
    const tests::TempDir dir;
    const std::string path = dir.write("growing", std::span{bytes}.first(records * record));
    bool grown = false;
    // The file grows while the first of many slots is decoded.
    const auto grow = [&](const std::uint64_t& in, std::uint64_t& out) {
      if (!grown) {
        grown = true;
        std::ofstream{path, std::ios::binary | std::ios::app}.write(
            reinterpret_cast<const char*>(bytes.data() + records * record), more * record + 3);
      }
      out = in;
    };
    Keeper<std::uint64_t, D> kept{device, bytes.size() + 256 * 20};
    {
      auto pipeline = ps::Reader{ps::records<std::uint64_t>(path), reading} |
                      ps::Decoder{grow, ps::to_pinned, {.workers = 1, .depth = 2}} |
                      ps::AsyncCopier{device, {.batch = 100}} | ps::Consumer{std::ref(kept)};
      // The second run uses the files that the first has opened.
      for (int run = 0; run < 2; ++run) {
        kept.clear();
        CHECK(pipeline.run().records == records);
        CHECK(kept.out_of_turn(100, records, 1) == "");
        CHECK(hold(kept.batches, all));
      }
    }
    REQUIRE(grown);
    const auto again = [&](ps::RecordsOptions options) {
      kept.clear();
      auto pipeline =
          ps::Reader{ps::records<std::uint64_t>(path, options), ps::to_pinned, reading} |
          ps::AsyncCopier{device, {.batch = 100}} | ps::Consumer{std::ref(kept)};
      pipeline.run();
    };
    // The file now has three bytes of a next record.
    CHECK_THROWS_AS(again({}), ps::SourceError);
    CHECK(kept.batches.empty());
    again({.drop_partial = true});
    CHECK(kept.out_of_turn(100, records + more, 1) == "");
    CHECK(hold(kept.batches, all));
  });
}

TEST_CASE("records that take very different times to decode keep their order") {
  constexpr std::size_t records = 1200 / fewer_under_tsan;
  constexpr std::size_t epochs = 2;
  std::vector<std::uint32_t> in(records);
  std::vector<std::uint64_t> expected(records);
  for (std::size_t i = 0; i < records; ++i) {
    in[i] = static_cast<std::uint32_t>(i);
    expected[i] = i * i + 1;
  }
  for (const std::size_t slot : {1, 7}) {
    CAPTURE(slot);
    for_each_device([&](D& device) {
      std::vector<std::atomic<unsigned>> times(records);
      const auto square = [&](const std::uint32_t& from, std::uint64_t& to) {
        if (from * 2'654'435'761U >> 26 == 7) {
          std::this_thread::sleep_for(std::chrono::milliseconds{5});
        }
        times[from].fetch_add(1, std::memory_order_relaxed);
        to = std::uint64_t{from} * from + 1;
      };
      Keeper<std::uint64_t, D> kept{device, epochs * records * (8 + 256)};
      auto pipeline =
          ps::Reader{ps::memory(in), {.workers = 3, .depth = 16, .epochs = epochs, .batch = slot}} |
          ps::Decoder{square, ps::to_pinned, {.workers = 7, .depth = 16}} |
          ps::AsyncCopier{device, {.batch = 13, .depth = 3}} | ps::Consumer{std::ref(kept)};
      pipeline.run();
      CHECK(kept.out_of_turn(13, records, epochs) == "");
      CHECK(hold(kept.batches, expected));
      CHECK(std::all_of(times.begin(), times.end(), [&](const auto& n) { return n == epochs; }));

      HostKeeper<std::uint64_t, ps::Pageable> on_host{epochs * records * (8 + 256)};
      auto without_device =
          ps::Reader{ps::memory(in), {.workers = 3, .depth = 16, .epochs = epochs, .batch = slot}} |
          ps::Decoder{square, {.workers = 7, .depth = 16}} | ps::Consumer{std::ref(on_host)};
      without_device.run();
      CHECK(on_host.out_of_turn(slot, records, epochs) == "");
      CHECK(hold(on_host.batches, expected));
      CHECK(
          std::all_of(times.begin(), times.end(), [&](const auto& n) { return n == 2 * epochs; }));
    });
  }
}

} // namespace suite
