// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Schemas of named columns. The including file defines TestDevice and for_each_device(f), which
// calls f with each device to try.

#include "suite/kept.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"

#include <penstock/sources/zip.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

namespace suite {

using D = TestDevice;
using tests::caught;
using tests::has;

struct Two
    : ps::Columns<ps::Field<"image", std::uint8_t, 3, 5, 7>, ps::Field<"label", std::int32_t>> {};
struct Seven : ps::Columns<ps::Field<"a", std::uint8_t>, ps::Field<"b", std::uint16_t>,
                           ps::Field<"c", std::int32_t>, ps::Field<"d", float, 2>,
                           ps::Field<"e", std::uint64_t, 3>, ps::Field<"f", std::uint8_t, 3, 2>,
                           ps::Field<"g", double>> {};
struct OneDynamic : ps::Columns<ps::Field<"tokens", std::uint16_t, ps::dynamic>,
                                ps::Field<"label", std::int32_t>> {};
struct TwoDynamic
    : ps::Columns<ps::Field<"tokens", std::uint16_t, ps::dynamic>, ps::Field<"label", std::int64_t>,
                  ps::Field<"mask", std::uint8_t, 3, ps::dynamic>> {};

/// Returns the bytes of a record in array number `part`: one of 65521 pieces of random bytes.
inline const std::byte* bytes_of(std::uint64_t record, std::size_t part) {
  constexpr std::size_t most = 4096;
  static const std::vector<std::byte> table = some_bytes(65'521 + most);
  return table.data() + (record * 40'503 + part * 9'973) % 65'521;
}

/// Calls f(part, record, its place, bytes) for each array and record of a batch.
template <class S, class F> void each_record(const ps::detail::BatchView<S>& view, F f) {
  const std::vector<std::size_t> bytes = bytes_of_parts(view);
  for (std::size_t part = 0; part < bytes.size(); ++part) {
    const std::size_t each = bytes[part] / view.size;
    for (std::size_t i = 0; i < view.size; ++i) {
      f(part, view.source_index + i, static_cast<std::byte*>(view.parts[part]) + i * each, each);
    }
  }
}

/// A source of any schema without Ragged columns.
template <class S> struct Filled {
  using schema = S;
  std::uint64_t records;
  std::vector<std::size_t> given{};

  std::uint64_t size() const { return records; }
  const std::vector<std::size_t>& extents() const { return given; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<S, Where> into) const {
    each_record(into.view(),
                [](std::size_t part, std::uint64_t record, std::byte* to, std::size_t bytes) {
                  std::memcpy(to, bytes_of(record, part), bytes);
                });
    return into.size();
  }
};
template <class S, class Where> bool as_filled(const ps::Batch<const S, Where>& batch) {
  bool same = true;
  each_record(batch.view(),
              [&](std::size_t part, std::uint64_t record, const std::byte* at, std::size_t bytes) {
                same = same && std::memcmp(at, bytes_of(record, part), bytes) == 0;
              });
  return same;
}
template <class S> bool all_as_filled(const Kept<S>& kept) {
  return std::all_of(kept.batches.begin(), kept.batches.end(),
                     [](const auto& batch) { return as_filled(batch); });
}

/// Runs columns through both ways to the device, in slots and batches of several sizes.
template <class S> void check_columns(std::vector<std::size_t> extents = {}) {
  constexpr std::size_t records = 2503, epochs = 2;
  const std::size_t each = ps::detail::fixed_bytes<S>(extents, "test");
  const Filled<S> source{records, extents};
  for (const auto& [slot, batch] :
       {std::pair<std::size_t, std::size_t>{0, 256}, {97, 1000}, {1000, 97}, {64, 64}, {311, 0}}) {
    CAPTURE(slot, batch);
    const ps::ReaderOptions reading{.workers = 3, .depth = 3, .epochs = epochs, .batch = slot};
    // About 4 MiB, the default.
    const std::size_t expected = batch != 0 ? batch : (std::size_t{4} << 20) / each;
    for_each_device([&](D& device) {
      Keeper<S, D> kept{device, epochs * (records * each + 256 * 8 * (records / expected + 1))};
      const auto check = [&](auto pinned) {
        kept.clear();
        auto pipeline = std::move(pinned) | ps::AsyncCopier{device, {.batch = batch, .depth = 2}} |
                        ps::Consumer{std::ref(kept)};
        pipeline.run();
        CHECK(kept.out_of_turn(expected, records, epochs) == "");
        CHECK(kept.misaligned == "");
        CHECK(all_as_filled(kept));
        CHECK((batch != 256 || kept.batches[0].alignment() == 256));
      };
      check(ps::Reader{source, reading} | ps::PinnedStager{{.workers = 2, .depth = 2}});
      check(ps::Reader{source, ps::to_pinned, reading});
    });
  }
}

TEST_CASE("two columns reach the device as they were read") {
  check_columns<Two>();
}
TEST_CASE("seven columns reach the device as they were read") {
  check_columns<Seven>();
}
TEST_CASE("a dynamic extent is the source's") {
  check_columns<OneDynamic>({29});
}
TEST_CASE("two dynamic extents are the source's, in order") {
  check_columns<TwoDynamic>({29, 5});
}

TEST_CASE("columns stay apart when the places of a ring are used again") {
  // More than the device ring has room for, which is three full copies.
  constexpr std::size_t records = 360'000, batch = 5000;
  static_assert(records * 109 > std::size_t{36} << 20);
  for_each_device([&](D& device) {
    Keeper<Two, D> kept{device, records * 109 + 2 * 256 * records / batch};
    auto pipeline = ps::Reader{Filled<Two>{records}, ps::to_pinned, {.workers = 2, .depth = 3}} |
                    ps::AsyncCopier{device, {.batch = batch, .depth = 2}} |
                    ps::Consumer{std::ref(kept)};
    pipeline.run();
    CHECK(kept.out_of_turn(batch, records, 1) == "");
    CHECK(kept.misaligned == "");
    CHECK(all_as_filled(kept));
    CHECK(std::count_if(kept.batches.begin(), kept.batches.end(), [](const auto& b) {
            return b.alignment() == 8; // of 5000 labels, and of 5000 * 105 bytes
          }) == std::ptrdiff_t{records / batch});
  });
}

// Makes each column of one schema from columns of another.
template <class Where> struct TwoToSeven {
  void operator()(ps::Batch<const Two, ps::Pageable> in, ps::Batch<Seven, Where> out) const {
    const auto image = ps::get<"image">(in);
    const auto label = ps::get<"label">(in);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto sum = [&](std::size_t c) {
        unsigned all = 0;
        for (const auto& row : image[i][c]) {
          for (const unsigned x : row) {
            all += x;
          }
        }
        return all;
      };
      const auto bits = static_cast<std::uint32_t>(label[i]);
      ps::get<"a">(out)[i] = image[i][2][4][6];
      ps::get<"b">(out)[i] = static_cast<std::uint16_t>(bits >> 7);
      ps::get<"c">(out)[i] = ~label[i];
      ps::get<"d">(out)[i][0] = static_cast<float>(sum(0));
      ps::get<"d">(out)[i][1] = static_cast<float>(sum(1));
      for (std::size_t k = 0; k < 3; ++k) {
        ps::get<"e">(out)[i][k] = std::uint64_t{bits} * (k + 1) + sum(k);
        ps::get<"f">(out)[i][k][0] = image[i][k][0][0];
        ps::get<"f">(out)[i][k][1] = image[i][k][4][0];
      }
      ps::get<"g">(out)[i] = static_cast<double>(label[i]) / 4;
    }
  }
};
// A schema whose extents the Decoder's options give: 7 and 4.
template <class Where> struct SevenToDynamic {
  void operator()(ps::Batch<const Seven, ps::Pageable> in, ps::Batch<TwoDynamic, Where> out) const {
    const auto tokens = ps::get<"tokens">(out);
    const auto mask = ps::get<"mask">(out);
    for (std::size_t i = 0; i < in.size(); ++i) {
      for (std::size_t k = 0; k < tokens.extent(0); ++k) {
        tokens[i][k] = static_cast<std::uint16_t>(ps::get<"b">(in)[i] + k);
      }
      for (std::size_t k = 0; k < mask.elements(); ++k) {
        mask[i][k] = static_cast<std::uint8_t>(ps::get<"a">(in)[i] ^ k);
      }
      ps::get<"label">(out)[i] = ps::get<"c">(in)[i];
    }
  }
};

/// One batch with all records as a plain loop makes them, in memory of its own.
template <class S> struct OneBatch {
  OneBatch(std::size_t records, std::vector<std::size_t> extents)
      : places{ps::detail::RingMemory::in<ps::Pageable, ps::HostDevice>(
            nullptr, 1, ps::detail::layout_of<S>(records, extents, 0, "test"), "test")} {}
  ps::Batch<S, ps::Pageable> batch(std::size_t records) const {
    return ps::Batch<S, ps::Pageable>{places.view<S>(0, records, 0, 0)};
  }
  ps::detail::RingMemory places;
};

/// Returns whether a kept batch has the same records as `all`, from its source_index() on.
template <class S>
bool part_of(const ps::detail::BatchView<S>& batch, const ps::detail::BatchView<S>& all) {
  bool same = true;
  each_record(batch, [&](std::size_t part, std::uint64_t record, const std::byte* at,
                         std::size_t bytes) {
    same = same &&
           std::memcmp(at, static_cast<std::byte*>(all.parts[part]) + record * bytes, bytes) == 0;
  });
  return same;
}

TEST_CASE("a Decoder turns columns into others, with extents of its own") {
  constexpr std::size_t records = 7001, batch = 450, epochs = 2;
  const OneBatch<Two> two{records, {}};
  const OneBatch<Seven> seven{records, {}};
  const OneBatch<TwoDynamic> dynamic{records, {7, 4}};
  Filled<Two>{records}.read(two.batch(records));
  TwoToSeven<ps::Pageable>{}(two.batch(records), seven.batch(records));
  SevenToDynamic<ps::Pageable>{}(seven.batch(records), dynamic.batch(records));

  const ps::ReaderOptions reading{.workers = 2, .depth = 3, .epochs = epochs, .batch = 333};
  const ps::DecoderOptions decoding{.workers = 3, .depth = 2};
  ps::DecoderOptions with_extents = decoding;
  with_extents.extents = {7, 4};
  for_each_device([&](D& device) {
    const auto check = [&]<class S>(auto pinned, const OneBatch<S>& expected) {
      Keeper<S, D> kept{device, epochs * (records * 80 + 256 * 8 * (records / batch + 1))};
      auto pipeline = std::move(pinned) | ps::AsyncCopier{device, {.batch = batch, .depth = 2}} |
                      ps::Consumer{std::ref(kept)};
      CHECK(pipeline.run().records == records * epochs);
      CHECK(kept.out_of_turn(batch, records, epochs) == "");
      CHECK(kept.misaligned == "");
      CHECK(std::all_of(kept.batches.begin(), kept.batches.end(), [&](const auto& b) {
        return part_of(b.view(), expected.batch(records).view());
      }));
    };
    const auto read = [&] { return ps::Reader{Filled<Two>{records}, reading}; };
    check(read() | ps::Decoder{TwoToSeven<ps::Pinned>{}, decoding}, seven);
    check(read() | ps::Decoder{TwoToSeven<ps::Pageable>{}, decoding} | ps::PinnedStager{}, seven);
    check(read() | ps::Decoder{TwoToSeven<ps::Pageable>{}, decoding} |
              ps::Decoder{SevenToDynamic<ps::Pinned>{}, with_extents},
          dynamic);
  });

  // The chain without a device.
  HostKeeper<TwoDynamic, ps::Pageable> kept{epochs * records * 80};
  auto pipeline = ps::Reader{Filled<Two>{records}, reading} |
                  ps::Decoder{TwoToSeven<ps::Pageable>{}, decoding} |
                  ps::Decoder{SevenToDynamic<ps::Pageable>{}, with_extents} |
                  ps::Consumer{std::ref(kept)};
  pipeline.run();
  CHECK(kept.out_of_turn(333, records, epochs) == "");
  CHECK(std::all_of(kept.batches.begin(), kept.batches.end(), [&](const auto& b) {
    return part_of(b.view(), dynamic.batch(records).view());
  }));
  REQUIRE_FALSE(kept.batches.empty());
  CHECK(ps::get<"tokens">(kept.batches[1]).extent(0) == 7);
  CHECK(ps::get<"mask">(kept.batches[1]).extent(0) == 3);
  CHECK(ps::get<"mask">(kept.batches[1]).extent(1) == 4);
}

TEST_CASE("plain records become columns, and columns plain records") {
  constexpr std::size_t records = 40'009;
  std::vector<std::int32_t> in(records);
  for (std::size_t i = 0; i < records; ++i) {
    in[i] = static_cast<std::int32_t>(i * 7);
  }
  const auto spread = [](ps::Batch<const std::int32_t, ps::Pageable> from,
                         ps::Batch<OneDynamic, ps::Pageable> to) {
    const auto tokens = ps::get<"tokens">(to);
    for (std::size_t i = 0; i < from.size(); ++i) {
      ps::get<"label">(to)[i] = from.data()[i];
      for (std::size_t k = 0; k < tokens.elements(); ++k) {
        tokens[i][k] = static_cast<std::uint16_t>(static_cast<std::size_t>(from.data()[i]) + k);
      }
    }
  };
  const auto gather = [](ps::Batch<const OneDynamic, ps::Pageable> from,
                         ps::Batch<std::int32_t, ps::Pinned> to) {
    const auto tokens = ps::get<"tokens">(from);
    for (std::size_t i = 0; i < from.size(); ++i) {
      bool good = true;
      for (std::size_t k = 0; k < tokens.elements(); ++k) {
        good = good && tokens[i][k] == static_cast<std::uint16_t>(
                                           static_cast<std::size_t>(ps::get<"label">(from)[i]) + k);
      }
      to.data()[i] = good ? ps::get<"label">(from)[i] : -1;
    }
  };
  for_each_device([&](D& device) {
    Keeper<std::int32_t, D> kept{device, records * 8};
    auto pipeline = ps::Reader{ps::memory(in), {.workers = 2, .batch = 1234}} |
                    ps::Decoder{spread, {.workers = 2, .extents = {11}}} |
                    ps::Decoder{gather, {.workers = 3}} | ps::AsyncCopier{device, {.batch = 1000}} |
                    ps::Consumer{std::ref(kept)};
    pipeline.run();
    CHECK(kept.out_of_turn(1000, records, 1) == "");
    CHECK(hold(kept.batches, in));
  });
}

TEST_CASE("columns are zipped from sources of their own, extents and all") {
  constexpr std::size_t records = 9001, batch = 700, epochs = 2;
  const auto column = [](std::size_t part, std::size_t bytes) {
    std::vector<std::byte> all(records * bytes);
    for (std::size_t i = 0; i < records; ++i) {
      std::memcpy(all.data() + i * bytes, bytes_of(i, part), bytes);
    }
    return all;
  };
  const auto tokens = column(0, 2 * 31);
  const auto label = column(1, 4);
  const auto wide_label = column(1, 8);
  const auto mask = column(2, 3 * 9);
  const auto image = column(0, 105);
  const tests::TempDir dir;
  const auto files = in_files(dir, image, 105, 3);
  const auto bytes = [](const std::vector<std::byte>& of, std::size_t record) {
    return ps::memory(of, {.record_bytes = record});
  };
  const ps::ReaderOptions reading{.workers = 3, .depth = 3, .epochs = epochs, .batch = 512};
  for_each_device([&](D& device) {
    const auto check = [&]<class S>(std::type_identity<S>, auto source) {
      Keeper<S, D> kept{device, epochs * (records * 128 + 256 * 4 * (records / batch + 1))};
      auto pipeline = ps::Reader{std::move(source), reading} |
                      ps::PinnedStager{{.workers = 2, .depth = 2}} |
                      ps::AsyncCopier{device, {.batch = batch}} | ps::Consumer{std::ref(kept)};
      pipeline.run();
      CHECK(kept.out_of_turn(batch, records, epochs) == "");
      CHECK(kept.misaligned == "");
      CHECK(all_as_filled(kept));
      return ps::Batch<const S, ps::Pinned>{kept.batches.at(0)};
    };
    check(std::type_identity<Two>{},
          ps::zip<Two>(ps::records<std::byte>(files, {.record_bytes = 105}), bytes(label, 4)));
    const auto one = check(std::type_identity<OneDynamic>{},
                           ps::zip<OneDynamic>(bytes(tokens, 62), bytes(label, 4)));
    CHECK(ps::get<"tokens">(one).extent(0) == 31);
    const auto two =
        check(std::type_identity<TwoDynamic>{},
              ps::zip<TwoDynamic>(bytes(tokens, 62), bytes(wide_label, 8), bytes(mask, 27)));
    CHECK(ps::get<"tokens">(two).extent(0) == 31);
    CHECK(ps::get<"mask">(two).extent(1) == 9);
  });
}

TEST_CASE("the application's own loop sees columns by name") {
  constexpr std::size_t records = 3001;
  for_each_device([&](D& device) {
    auto stream = device.stream();
    Keeper<Two, D> kept{device, records * 109 + 2 * 256 * 10};
    auto pipeline = ps::Reader{Filled<Two>{records}, ps::to_pinned, {.batch = 100}} |
                    ps::AsyncCopier{device, {.batch = 350}};
    for (auto batch : pipeline.on(stream)) {
      CHECK(ps::get<"label">(batch).size() == batch.size());
      kept(batch, stream);
    }
    device.sync(stream);
    CHECK(kept.out_of_turn(350, records, 1) == "");
    CHECK(all_as_filled(kept));
  });
  auto on_host = ps::Reader{Filled<OneDynamic>{records, {13}}, {.workers = 2, .batch = 100}};
  auto pipeline =
      std::move(on_host) | ps::Decoder{[](ps::Batch<const OneDynamic, ps::Pageable> in,
                                          ps::Batch<OneDynamic, ps::Pageable> out) {
                                         std::copy_n(ps::get<"tokens">(in).data(), in.size() * 13,
                                                     ps::get<"tokens">(out).data());
                                         std::copy_n(ps::get<"label">(in).data(), in.size(),
                                                     ps::get<"label">(out).data());
                                       },
                                       {.workers = 2, .extents = {13}}};
  std::uint64_t seen = 0;
  for (auto batch : pipeline.batches()) {
    CHECK(batch.index() == seen);
    CHECK(ps::get<"tokens">(batch).extent(0) == 13);
    CHECK(as_filled<OneDynamic, ps::Pageable>(batch));
    seen += batch.size();
  }
  CHECK(seen == records);
}

TEST_CASE("extents that are missing, 0 or too many are refused with the stage's name") {
  const auto refused = [](std::vector<std::size_t> extents) {
    HostKeeper<OneDynamic, ps::Pageable> kept{0};
    auto pipeline =
        ps::Reader{Filled<OneDynamic>{10, std::move(extents)}} | ps::Consumer{std::ref(kept)};
    return caught<ps::OptionError>([&] { pipeline.prepare(); });
  };
  CHECK(has(refused({}), "Reader: the schema has an extent number 0"));
  CHECK(has(refused({}), "not given"));
  CHECK(has(refused({0}), "it is 0"));
  CHECK(has(refused({4, 5}), "2 extents are given, but the schema has 1"));
  CHECK(has(refused({~std::size_t{0} / 2}), "Reader"));

  HostKeeper<TwoDynamic, ps::Pageable> kept{0};
  auto decoded = ps::Reader{Filled<Seven>{10}} |
                 ps::Decoder{SevenToDynamic<ps::Pageable>{}, {.extents = {7}}} |
                 ps::Consumer{std::ref(kept)};
  CHECK(has(caught<ps::OptionError>([&] { decoded.prepare(); }),
            "Decoder: the schema has an extent number 1"));
}

TEST_CASE(
    "a Decoder may give records of bytes of any size, and no other plain record has extents") {
  std::vector<std::uint32_t> numbers(10'000);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<std::uint32_t>(i);
  }
  std::uint64_t right = 0;
  auto pipeline =
      ps::Reader{ps::memory(numbers)} |
      ps::Decoder{[](ps::Batch<const std::uint32_t, ps::Pageable> in,
                     ps::Batch<std::byte, ps::Pageable> out) {
                    for (std::size_t i = 0; i < in.size(); ++i) {
                      std::memset(out.data() + i * out.record_bytes(),
                                  static_cast<int>(in.data()[i] % 251), out.record_bytes());
                    }
                  },
                  {.extents = {77}}} |
      ps::Consumer{[&](ps::Batch<const std::byte, ps::Pageable> batch) {
        for (std::size_t i = 0; i < batch.size(); ++i) {
          right += batch.record_bytes() == 77 &&
                           batch.data()[i * 77 + 76] == std::byte((batch.index() + i) % 251)
                       ? 1
                       : 0;
        }
      }};
  pipeline.run();
  CHECK(right == numbers.size());

  auto refused =
      ps::Reader{ps::memory(numbers)} |
      ps::Decoder{[](const std::uint32_t& in, std::uint64_t& out) { out = in; }, {.extents = {8}}} |
      ps::Consumer{[](ps::Batch<const std::uint64_t, ps::Pageable>) {}};
  CHECK(has(caught<ps::OptionError>([&] { refused.prepare(); }), "Decoder: extents are given"));
}

} // namespace suite
