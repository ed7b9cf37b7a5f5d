// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Columns of variable length. The including file defines TestDevice and for_each_device(f), which
// calls f with each device to try.

#include "suite/kept.hpp"
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/outcome.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace suite {

using D = TestDevice;
using tests::Came;
using tests::caught;
using tests::has;

struct Text : ps::Columns<ps::Field<"text", ps::Ragged<char>>, ps::Field<"id", std::int64_t>> {};
struct Tokens
    : ps::Columns<ps::Field<"half", std::uint8_t>, ps::Field<"tokens", ps::Ragged<std::uint32_t>>,
                  ps::Field<"odd", ps::Ragged<std::uint8_t>>> {};
struct Sum : ps::Columns<ps::Field<"sum", std::uint64_t>, ps::Field<"count", std::uint32_t>> {};

/// Tells how long a record's text is (many are empty), and its letters.
inline std::size_t length_of(std::uint64_t record) {
  return record % 3 == 1 ? 0 : (record * 2'654'435'761U >> 7) % 61;
}
inline char letter_of(std::uint64_t record, std::size_t at) {
  return static_cast<char>(record * 31 + at * 7);
}

/// A source of texts. `length` tells how long each is.
struct Texts {
  using schema = Text;
  std::uint64_t records;
  std::size_t (*length)(std::uint64_t) = length_of;

  std::uint64_t size() const { return records; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Text, Where> into) const {
    const auto text = ps::get<"text">(into);
    for (std::size_t i = 0; i < into.size(); ++i) {
      const std::uint64_t record = into.index() + i;
      const std::size_t count = length(record);
      char* to = text.put(i, count);
      for (std::size_t k = 0; k < count; ++k) {
        to[k] = letter_of(record, k);
      }
      ps::get<"id">(into)[i] = static_cast<std::int64_t>(record);
    }
    return into.size();
  }
};

/// Ragged into Ragged: a token for each letter, and each second letter by itself.
template <class Where> struct Tokenise {
  void operator()(ps::Batch<const Text, ps::Pageable> in, ps::Batch<Tokens, Where> out) const {
    const auto text = ps::get<"text">(in);
    const auto tokens = ps::get<"tokens">(out);
    const auto odd = ps::get<"odd">(out);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto letters = text[i];
      std::uint32_t* to = tokens.put(i, letters.size());
      std::uint8_t* to_odd = odd.put(i, letters.size() / 2);
      for (std::size_t k = 0; k < letters.size(); ++k) {
        to[k] = static_cast<unsigned char>(letters[k]) + 1000U;
        if (k % 2 == 1) {
          to_odd[k / 2] = static_cast<std::uint8_t>(letters[k]);
        }
      }
      ps::get<"half">(out)[i] = static_cast<std::uint8_t>(ps::get<"id">(in)[i] / 2);
    }
  }
};
/// Ragged into fixed.
template <class Where> struct Add {
  void operator()(ps::Batch<const Text, ps::Pageable> in, ps::Batch<Sum, Where> out) const {
    for (std::size_t i = 0; i < in.size(); ++i) {
      std::uint64_t sum = static_cast<std::uint64_t>(ps::get<"id">(in)[i]);
      const auto letters = ps::get<"text">(in)[i];
      for (std::size_t k = 0; k < letters.size(); ++k) {
        sum = sum * 31 + static_cast<unsigned char>(letters[k]);
      }
      ps::get<"sum">(out)[i] = sum;
      ps::get<"count">(out)[i] = static_cast<std::uint32_t>(letters.size());
    }
  }
};
/// Fixed into Ragged: a record number into its text.
template <class Where> struct Spell {
  void operator()(ps::Batch<const std::uint64_t, ps::Pageable> in,
                  ps::Batch<Text, Where> out) const {
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::uint64_t record = in.data()[i];
      const std::size_t count = length_of(record);
      char* to = ps::get<"text">(out).put(i, count);
      for (std::size_t k = 0; k < count; ++k) {
        to[k] = letter_of(record, k);
      }
      ps::get<"id">(out)[i] = static_cast<std::int64_t>(record);
    }
  }
};

template <class Where> bool right(const ps::Batch<const Text, Where>& batch) {
  const auto text = ps::get<"text">(batch);
  bool good = text.offsets()[0] == 0;
  for (std::size_t i = 0; good && i < batch.size(); ++i) {
    const std::uint64_t record = batch.source_index() + i;
    good = text[i].size() == length_of(record) &&
           ps::get<"id">(batch)[i] == static_cast<std::int64_t>(record);
    for (std::size_t k = 0; good && k < text[i].size(); ++k) {
      good = text[i][k] == letter_of(record, k);
    }
  }
  return good;
}
template <class Where> bool right(const ps::Batch<const Tokens, Where>& batch) {
  const auto tokens = ps::get<"tokens">(batch);
  const auto odd = ps::get<"odd">(batch);
  bool good = tokens.offsets()[0] == 0 && odd.offsets()[0] == 0;
  for (std::size_t i = 0; good && i < batch.size(); ++i) {
    const std::uint64_t record = batch.source_index() + i;
    const std::size_t count = length_of(record);
    good = tokens[i].size() == count && odd[i].size() == count / 2 &&
           ps::get<"half">(batch)[i] == static_cast<std::uint8_t>(record / 2);
    for (std::size_t k = 0; good && k < count; ++k) {
      const auto letter = static_cast<unsigned char>(letter_of(record, k));
      good = tokens[i][k] == letter + 1000U && (k % 2 == 0 || odd[i][k / 2] == letter);
    }
  }
  return good;
}
template <class Where> bool right(const ps::Batch<const Sum, Where>& batch) {
  bool good = true;
  for (std::size_t i = 0; good && i < batch.size(); ++i) {
    const std::uint64_t record = batch.source_index() + i;
    std::uint64_t sum = record;
    for (std::size_t k = 0; k < length_of(record); ++k) {
      sum = sum * 31 + static_cast<unsigned char>(letter_of(record, k));
    }
    good = ps::get<"sum">(batch)[i] == sum && ps::get<"count">(batch)[i] == length_of(record);
  }
  return good;
}
template <class S> bool all_right(const Kept<S>& kept) {
  return std::all_of(kept.batches.begin(), kept.batches.end(),
                     [](const auto& batch) { return right(batch); });
}

// The longest text has 60 letters.
inline constexpr std::size_t ragged_records = 1003, ragged_epochs = 2, ragged_batch = 50;
inline constexpr std::size_t text_bytes = ragged_batch * 60, token_bytes = text_bytes * 4;
inline constexpr ps::ReaderOptions reading_texts{.workers = 2,
                                                 .depth = 3,
                                                 .epochs = ragged_epochs,
                                                 .batch = ragged_batch,
                                                 .value_bytes = text_bytes};

inline ps::DecoderOptions decoding_texts(std::size_t value_bytes = token_bytes) {
  return {.workers = 3, .depth = 2, .value_bytes = value_bytes};
}

/// Runs a chain that ends in pinned memory through the device and looks at what arrives.
template <class S, class Host> void check_ragged(D& device, Host host,
                                                 std::size_t batch = ragged_batch) {
  // A kept batch takes all the room that it could fill.
  const std::size_t batches = (ragged_records / batch + 1) * ragged_epochs;
  Keeper<S, D> kept{device, batches * (2 * token_bytes + batch * 32 + 2048)};
  auto pipeline = std::move(host) | ps::AsyncCopier{device, {.batch = batch, .depth = 2}} |
                  ps::Consumer{std::ref(kept)};
  for (int run = 0; run < 2; ++run) {
    kept.clear();
    CHECK(pipeline.run().records == ragged_records * ragged_epochs);
    CHECK(kept.out_of_turn(batch, ragged_records, ragged_epochs) == "");
    CHECK(kept.misaligned == "");
    CHECK(all_right(kept));
  }
}

TEST_CASE("records of any length reach the device as they were put") {
  for_each_device([](D& device) {
    check_ragged<Text>(device, ps::Reader{Texts{ragged_records}, ps::to_pinned, reading_texts});
    check_ragged<Text>(device, ps::Reader{Texts{ragged_records}, reading_texts} |
                                   ps::PinnedStager{{.workers = 2, .depth = 2}});
  });
}

TEST_CASE("Ragged records become others of another length") {
  for_each_device([](D& device) {
    const auto read = [] { return ps::Reader{Texts{ragged_records}, reading_texts}; };
    check_ragged<Tokens>(device, read() | ps::Decoder{Tokenise<ps::Pinned>{}, decoding_texts()});
    check_ragged<Tokens>(device, read() | ps::Decoder{Tokenise<ps::Pageable>{}, decoding_texts()} |
                                     ps::PinnedStager{{.workers = 2, .depth = 3}});
  });
}

TEST_CASE("Ragged records become fixed ones, whose batches are again of any size") {
  for_each_device([](D& device) {
    for (const std::size_t batch : {13, 50, 400}) {
      CAPTURE(batch);
      check_ragged<Sum>(device,
                        ps::Reader{Texts{ragged_records}, reading_texts} |
                            ps::Decoder{Add<ps::Pinned>{}, decoding_texts()},
                        batch);
    }
  });
}

TEST_CASE("fixed records become Ragged ones, and these fixed ones again") {
  std::vector<std::uint64_t> numbers(ragged_records);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = i;
  }
  // A slot is as large as the copier's batch if the Reader is not told a size.
  const ps::ReaderOptions reading{.workers = 2, .depth = 3, .epochs = ragged_epochs};
  for_each_device([&](D& device) {
    const auto read = [&] { return ps::Reader{ps::memory(numbers), reading}; };
    check_ragged<Text>(device,
                       read() | ps::Decoder{Spell<ps::Pinned>{}, decoding_texts(text_bytes)});
    check_ragged<Text>(device, read() |
                                   ps::Decoder{Spell<ps::Pageable>{}, decoding_texts(text_bytes)} |
                                   ps::PinnedStager{{.workers = 2, .depth = 2}});
    check_ragged<Sum>(device, read() |
                                  ps::Decoder{Spell<ps::Pageable>{}, decoding_texts(text_bytes)} |
                                  ps::Decoder{Add<ps::Pinned>{}, decoding_texts()});
  });
}

TEST_CASE("Ragged places of a ring are used again, each with its own values") {
  // Each place has a megabyte of room, so that the ring has few.
  constexpr std::size_t records = 2000, batch = 20;
  for_each_device([&](D& device) {
    std::uint64_t seen = 0;
    bool good = true;
    auto stream = device.stream();
    auto pipeline = ps::Reader{Texts{records}, ps::to_pinned, {.workers = 2, .depth = 2}} |
                    ps::AsyncCopier{device, {.batch = batch, .depth = 2}};
    const std::size_t room = (std::size_t{1} << 20) + 4096;
    PinnedRoom<D> back{device, room};
    for (auto batch_here : pipeline.on(stream)) {
      auto view = batch_here.view();
      const std::size_t parts[]{21 * 8, 20 * 60, 20 * 8};
      for (std::size_t part = 0, at = 0; part < 3; at += parts[part++]) {
        device.copy_to_host(back.data + at, view.parts[part], parts[part], stream);
        view.parts[part] = back.data + at;
      }
      device.sync(stream);
      good = good && batch_here.index() == seen && right(ps::Batch<const Text, ps::Pinned>{view});
      seen += batch_here.size();
    }
    CHECK(good);
    CHECK(seen == records);
  });
}

TEST_CASE("Ragged batches reach consumers and loops on the host") {
  HostKeeper<Tokens, ps::Pageable> kept{ragged_epochs * 21 * (2 * token_bytes + 2048)};
  auto consumed = ps::Reader{Texts{ragged_records}, reading_texts} |
                  ps::Decoder{Tokenise<ps::Pageable>{}, decoding_texts()} |
                  ps::Consumer{std::ref(kept)};
  CHECK(consumed.run().records == ragged_records * ragged_epochs);
  CHECK(kept.out_of_turn(ragged_batch, ragged_records, ragged_epochs) == "");
  CHECK(all_right(kept));

  // Without a .batch slots begin with one record and grow to 256.
  std::vector<std::size_t> sizes;
  bool good = true;
  auto looped = ps::Reader{Texts{5000}, {.workers = 2}} |
                ps::Decoder{Tokenise<ps::Pageable>{}, {.workers = 2}};
  for (auto batch : looped.batches()) {
    sizes.push_back(batch.size());
    good = good && right<ps::Pageable>(batch);
  }
  CHECK(good);
  CHECK(sizes.front() == 1);
  CHECK(std::is_sorted(sizes.begin(), sizes.end() - 1));
  CHECK(*std::max_element(sizes.begin(), sizes.end()) == 256);
  CHECK(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) == 5000);
}

TEST_CASE("batches in which every record is empty, and sources without any") {
  const auto nothing = [](std::uint64_t) -> std::size_t { return 0; };
  for_each_device([&](D& device) {
    for (const std::uint64_t records : {0, 1, 130}) {
      CAPTURE(records);
      Keeper<Text, D> kept{device, 3 * (text_bytes + 4096)};
      auto pipeline = ps::Reader{Texts{records, nothing},
                                 {.workers = 2, .batch = 50, .value_bytes = text_bytes}} |
                      ps::PinnedStager{} | ps::AsyncCopier{device} | ps::Consumer{std::ref(kept)};
      CHECK(pipeline.run().records == records);
      if (records != 0) {
        CHECK(kept.out_of_turn(50, records, 1) == "");
      }
      CHECK(kept.batches.size() == (records + 49) / 50);
      for (const auto& batch : kept.batches) {
        const std::int64_t* offsets = ps::get<"text">(batch).offsets();
        CHECK(std::count(offsets, offsets + batch.size() + 1, 0) ==
              static_cast<std::ptrdiff_t>(batch.size() + 1));
      }
    }
  });
}

struct EndsSomewhere : Texts {
  std::uint64_t size() const { return ps::unknown_size; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Text, Where> into) const {
    const std::uint64_t left = records - std::min(records, into.index());
    auto view = into.view();
    view.size = std::min<std::size_t>(into.size(), static_cast<std::size_t>(left));
    return Texts::read(ps::Batch<Text, Where>{view});
  }
};

TEST_CASE("a source of unknown size may end within a Ragged slot, or before it") {
  for_each_device([&](D& device) {
    for (const std::uint64_t records : {0, 100, 130}) {
      CAPTURE(records);
      Keeper<Text, D> kept{device, 3 * (text_bytes + 4096)};
      auto pipeline = ps::Reader{EndsSomewhere{{records}},
                                 ps::to_pinned,
                                 {.workers = 3, .batch = 50, .value_bytes = text_bytes}} |
                      ps::AsyncCopier{device} | ps::Consumer{std::ref(kept)};
      CHECK(pipeline.run().records == records);
      CHECK(kept.batches.size() == (records + 49) / 50);
      CHECK(all_right(kept));
    }
  });
}

TEST_CASE(
    "a record may fill all the room for values, and one value more is an error with its name") {
  // This text is alone in its slot, the second one.
  const auto long_one = [](std::uint64_t record) -> std::size_t { return record == 17 ? 64 : 0; };
  const ps::ReaderOptions reading{.workers = 2, .epochs = 2, .batch = 10, .value_bytes = 64};
  for_each_device([&](D& device) {
    const auto run = [&](std::size_t room) {
      Keeper<Text, D> kept{device, 6 * 1024};
      ps::ReaderOptions options = reading;
      options.value_bytes = room;
      auto pipeline = ps::Reader{Texts{25, long_one}, ps::to_pinned, options} |
                      ps::AsyncCopier{device} | ps::Consumer{std::ref(kept)};
      pipeline.run();
      const auto text = ps::get<"text">(kept.batches.at(4));
      return std::count_if(
          text[7].data(), text[7].data() + text[7].size(),
          [k = std::size_t{0}](char c) mutable { return c == letter_of(17, k++); });
    };
    CHECK(run(64) == 64);
    const auto failed = tests::outcome_of([&] { run(63); });
    CAPTURE(failed);
    CHECK(failed.came == Came::stage_error);
    CHECK(failed.cause == Came::error);
    CHECK(failed.stage == "Reader");
    CHECK(failed.says("record 17 has 64 values"));
    CHECK(failed.says("63 are left"));
  });
}

TEST_CASE("values that do not fit what a Decoder gives are an error with the record's name") {
  // Eight tokens of four bytes each, all of record 31, in the epoch's second slot.
  const auto long_one = [](std::uint64_t record) -> std::size_t { return record == 31 ? 8 : 0; };
  const auto run = [&](std::size_t room) {
    HostKeeper<Tokens, ps::Pageable> kept{1 << 16};
    auto pipeline = ps::Reader{Texts{40, long_one}, {.workers = 2, .epochs = 3, .batch = 20}} |
                    ps::Decoder{Tokenise<ps::Pageable>{}, {.workers = 2, .value_bytes = room}} |
                    ps::Consumer{std::ref(kept)};
    return tests::outcome_of([&] { pipeline.run(); });
  };
  CHECK(run(32).came == Came::nothing);
  const auto failed = run(31);
  CAPTURE(failed);
  CHECK(failed.came == Came::stage_error);
  CHECK(failed.stage == "Decoder");
  CHECK(failed.says("record 31 has 8 values"));
  CHECK(failed.says("of the 7"));
}

struct Forgetful : Texts {
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Text, Where> into) const {
    auto view = into.view();
    // Puts all records of a batch but those after record 76.
    view.size = into.index() <= 77 && 77 < into.index() + into.size()
                    ? static_cast<std::size_t>(77 - into.index())
                    : into.size();
    Texts::read(ps::Batch<Text, Where>{view});
    return into.size();
  }
};

TEST_CASE("a record that was not put is an error with its name") {
  HostKeeper<Text, ps::Pageable> texts{1 << 20};
  auto reader = ps::Reader{Forgetful{{100}}, {.workers = 1, .batch = 10, .value_bytes = 1000}} |
                ps::Consumer{std::ref(texts)};
  const auto unread = tests::outcome_of([&] { reader.run(); });
  CAPTURE(unread);
  CHECK(unread.came == Came::stage_error);
  CHECK(unread.stage == "Reader");
  CHECK(unread.says("record 77 of a Ragged column was not put"));

  const auto forget_odd = [](ps::Batch<const Text, ps::Pageable> in,
                             ps::Batch<Tokens, ps::Pageable> out) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      ps::get<"tokens">(out).put(i, 0);
      // Leaves out the second Ragged column of record 55 and of those after it in its slot.
      if (in.source_index() + i < 55 || in.source_index() > 55) {
        ps::get<"odd">(out).put(i, 0);
      }
    }
  };
  HostKeeper<Tokens, ps::Pageable> tokens{1 << 20};
  auto decoder =
      ps::Reader{Texts{100}, {.workers = 1, .epochs = 2, .batch = 10, .value_bytes = 1000}} |
      ps::Decoder{forget_odd, {.workers = 1, .value_bytes = 1000}} | ps::Consumer{std::ref(tokens)};
  const auto undecoded = tests::outcome_of([&] { decoder.run(); });
  CAPTURE(undecoded);
  CHECK(undecoded.stage == "Decoder");
  CHECK(undecoded.record == 50);
  CHECK(undecoded.says("record 55 of a Ragged column was not put"));
  CHECK(tokens.batches.size() <= 5);
}

TEST_CASE("a copier's batch that is not a Ragged slot is refused before anything runs") {
  for_each_device([](D& device) {
    Keeper<Text, D> kept{device, 4096};
    auto pipeline = ps::Reader{Texts{100}, ps::to_pinned, {.batch = 10}} |
                    ps::AsyncCopier{device, {.batch = 20}} | ps::Consumer{std::ref(kept)};
    const auto refused = caught<ps::OptionError>([&] { pipeline.prepare(); });
    CHECK(has(refused, "AsyncCopier: batch is 20"));
    CHECK(has(refused, "has 10 records"));
    CHECK_THROWS_AS(pipeline.run(), ps::OptionError);
    CHECK(kept.batches.empty());
  });
}

} // namespace suite
